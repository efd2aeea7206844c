"""Prints, for people, why a pod has no node, or why it is on its node; and why pods wait, by cause."""

from collections.abc import Iterator, Sequence

from lib.questions.events import Said
from lib.questions.leaving import leaving_text
from lib.questions.pending import Cause, Pending, Uncreated, missing_text
from lib.questions.printing import Printer
from lib.questions.volumes import ToProvision
from lib.questions.why import RejectedNodes, Why
from lib.scheduling.decision import Outcome
from lib.scheduling.pod_groups import HOLDING
from lib.scheduling.text import count, sentence, verb

LINES = 4
"""The most lines about the nodes of one reason, unless -o wide."""

FIRST = 3
"""So many changes that help are shown, unless -o wide."""

BEST = 5
"""At most so many of the nodes that fit are shown, unless -o wide."""


def show_why(answer: Why, out: Printer) -> None:
    """Why a pod waits, or why it is on its node."""
    decision = answer.decision
    out.heading(_headline(answer))
    out.line(_who(answer))
    if answer.rule and not answer.waits_for_group:
        out.line(f"Its group {answer.group} is placed {answer.rule}.")
    for claim in answer.to_provision:
        out.line(f"{claim.text}.{_last_word(claim, answer)}")
    if answer.gated:
        out.line(sentence(f"No scheduler may place it yet: {answer.gated}"))
    as_a_whole = decision.rejecting_plugin or decision.outcome == Outcome.WAITING
    if decision.outcome == Outcome.ERROR or (as_a_whole and not decision.rejected):
        out.line(decision.message)
    if answer.waits_for:
        out.line(f"{answer.waits_for.pod} of its group has no node:", gap=True)
        show_nowhere(answer.waits_for, out)
        return
    if decision.totals or answer.bound_to:
        _show_feasible(answer, out)
    if decision.rejected:
        many = len(decision.rejected)
        nodes = count(decision.all_nodes, "node")
        out.line(f"{many:,} of {nodes} {verb(many, 'was', 'were')} ruled out:", gap=True)
        out.pairs(_group_rows(answer.groups, out), numbers=True)
    _show_leaving(answer, out)
    if decision.victims and decision.nominated not in answer.leaving:
        who = out.names(decision.victims, 5)
        out.line(
            f"Preemption: {who} would have to leave {decision.nominated}, and then it fits there.", gap=True
        )
    elif decision.post_filter_message and out.wide:
        out.line(decision.post_filter_message)
    if answer.suggestions:
        out.gap()
        _show_suggestions(answer, out)
    elif not (answer.yes or decision.victims or answer.waits_for_group or answer.to_provision):
        out.line("No single change, and no two together, was found with which it would fit.", gap=True)


def _headline(answer: Why) -> str:
    pod, decision = answer.pod, answer.decision
    nodes = count(decision.all_nodes, "node")
    if answer.bound_to:
        return f"{pod} is on {answer.bound_to}"
    if pod.metadata.deletion_timestamp:
        return f"{pod} waits, but is being deleted"
    if answer.gated:
        return f"{pod} waits for its scheduling gates"
    if answer.waits_for_group:
        rule = f", which is placed {answer.rule}" if answer.rule else ""
        return f"{pod} waits for its group {answer.group}{rule}"
    if answer.to_provision:
        return f"{pod} waits for its {verb(len(answer.to_provision), 'volume', 'volumes')}"
    if decision.outcome == Outcome.WAITING:
        return f"{pod} waits: {decision.node_name} would be held for it, {decision.message}"
    if decision.outcome == Outcome.SCHEDULED:
        together = f" together with its group {answer.group}" if answer.group else ""
        return f"{pod} waits, and {decision.node_name} would be its node now{together}"
    if decision.outcome == Outcome.ERROR:
        return f"{pod} waits: it can't be decided on"
    if not decision.all_nodes:
        return f"{pod} waits: there are no nodes"
    return f"{pod} waits: it fits on none of {nodes}"


def _who(answer: Why) -> str:
    scheduler = answer.pod.spec.scheduler_name or "default-scheduler"
    verb = "placed it, if nobody else did" if answer.bound_to else "is to place it"
    said = f" {_said(answer.said)}" if answer.said else ""
    is_silent = answer.events_known and not (answer.said or answer.bound_to or answer.to_provision)
    if is_silent and answer.decision.rejecting_plugin != HOLDING:
        said = " It has written no event about it: is it running?"
    other = answer.profile not in ("", scheduler)
    as_whom = f" Decided here as {answer.profile} would." if other else ""
    return f"{scheduler} {verb}.{said}{as_whom}"


def _last_word(waits: ToProvision, answer: Why) -> str:
    """The last event of a claim; if there is none, the provisioner may not run."""
    if waits.said:
        return f" {_said(waits.said)}"
    return (
        f" {waits.provisioner} has written no event about it: is it running?" if answer.events_known else ""
    )


def _said(said: Said) -> str:
    when = f"{said.ago} " if said.at else ""
    often = f", {said.times} times" if said.times > 1 else ""
    by = said.by or "somebody"
    return sentence(f"{when}{by} said ({said.reason}{often}): {said.message}")


def _show_feasible(answer: Why, out: Printer) -> None:
    """The nodes that fit, best first; for a bound pod whether it would go there again."""
    decision = answer.decision
    totals = decision.totals
    best = sorted(totals, key=lambda name: (name != decision.node_name, -totals[name], name))
    if answer.bound_to:
        out.line(_again(answer, best))
    if not best:
        return
    shown = best if out.wide else best[:BEST]
    shown += [answer.bound_to] if answer.bound_to in totals and answer.bound_to not in shown else []
    plugins = list(next(iter(decision.scores.values())))
    if not plugins:
        out.line(f"{best[0]} is the only node that would do.")
        return
    header = ["node", "total", *(plugins if out.wide or len(plugins) <= 4 else ()), ""]
    rows = []
    for name in shown:
        scores = [str(decision.scores[name].get(plugin, 0)) for plugin in header[2:-1]]
        said = {"the pick": name == decision.node_name, "here now": name == answer.bound_to}
        marks = [mark for mark, holds in said.items() if holds]
        rows.append([name, str(totals[name]), *scores, ", ".join(marks)])
    out.table(header, rows, right=range(1, len(header) - 1))
    out.more(len(best) - len(shown), "more node", " that would do")


def _again(answer: Why, best: Sequence[str]) -> str:
    """Whether a bound pod would go to its node again."""
    decision, here = answer.decision, answer.bound_to
    totals = decision.totals
    if here in decision.rejected:
        details = "; ".join(answer.details.get(here, ())) or decision.rejected[here].reason
        return sentence(f"It wouldn't go there again: {details}")
    if here not in totals:
        return sentence(f"It wouldn't go there again: there is no node {here}, or {decision.message}")
    runner_up = next((name for name in best if name != here), None)
    if runner_up is None:
        return "It would go there again: no other node would do."
    if totals[runner_up] > totals[here]:
        return f"It would rather go to {best[0]} now: {totals[best[0]]} points, {here} has {totals[here]}."
    if totals[runner_up] == totals[here]:
        return f"It might go there again, by chance: {totals[here]} points, and {runner_up} has as many."
    points = f"{totals[here]} points; the runner-up {runner_up} has {totals[runner_up]}"
    return f"It would go there again: {points}."


def show_nowhere(why: Why, out: Printer) -> None:
    """Why a pod has no node, and what would help."""
    if why.gated or not why.decision.rejected:
        out.line(f"{why.gated or why.decision.message}")
    out.pairs(_group_rows(why.groups, out), numbers=True)
    _show_leaving(why, out)
    _show_suggestions(why, out)


def _show_leaving(why: Why, out: Printer) -> None:
    """Who is being deleted, and makes room."""
    for node, pods in out.first([*why.leaving.items()], FIRST):
        out.line(
            f"It fits on {node} when {out.names(pods, 5)} {verb(len(pods), 'is', 'are')} gone:", gap=True
        )
        out.items(f"{pod}: {leaving_text(pod, why.now)}" for pod in out.first(pods))
        if why.pod.status.nominated_node_name == node:
            out.line(f"{why.pod} is nominated to {node}, and waits for that.")


def _show_suggestions(why: Why, out: Printer) -> None:
    if why.suggestions:
        out.line("What would help:")
        out.items(suggestion.sentence for suggestion in why.suggestions)


def _group_rows(groups: Sequence[RejectedNodes], out: Printer) -> Iterator[tuple[str, str]]:
    for group in groups:
        yield f"{len(group.nodes):,}", f"{', '.join(group.reasons)} ({group.plugin})"
        said = sorted(group.details.items(), key=lambda group: -len(group[1]))
        shown = said if out.wide or len(said) <= LINES else said[: LINES - 1]
        for lines, nodes in shown:
            who = out.names(nodes, 3)
            yield "", f"{who}: {'; '.join(lines)}" if lines else who
        if rest := sum(len(nodes) for _, nodes in said[len(shown) :]):
            yield "", f"and {count(rest, 'more node')} (-o wide shows all)"


# --- all pods that wait -----------------------------------------------------------------------------------


def show_pending(pending: Pending, out: Printer) -> None:
    """How many pods wait, what helps most, and each cause."""
    out.heading(_headline_of_all(pending))
    if pending.would_be_placed:
        many = count(len(pending.would_be_placed), "pod")
        out.line(f"{many} would get a node now: {out.names(pending.would_be_placed, 3)}.")
    for scheduler, unheeded in pending.unheeded.items():
        out.line(f"{scheduler} has said nothing of {len(unheeded):,} of these: is it running?")
    alike: dict[object, list[Uncreated]] = {}
    for creator in pending.uncreated:
        alike.setdefault(creator.cause, []).append(creator)
    for creators in out.first([*alike.values()]):
        last = max(creators, key=lambda cause: str(cause.said.at))
        ago = f"{last.said.ago}: " if last.said.at else ""
        out.line(f"{missing_text(creators)}. {ago}{last.reason}.")
    if helps := pending.helps if out.wide else pending.best:
        out.line("What would help most:", gap=True)
        out.items(
            f"{help_.suggestion.words}: {help_.pods:,} of {count(pending.waiting, 'pod')} would have a node"
            for help_ in out.first(helps, FIRST)
            if help_.pods
        )
    for cause in pending.causes:
        _show_cause(cause, out)


def _show_cause(cause: Cause, out: Printer) -> None:
    many = len(cause.pods)
    what = f" for {verb(many, 'its', 'their')} volumes" if cause.why.to_provision else ""
    waits = f"{count(many, 'pod')} {verb(many, 'waits', 'wait')}{what}"
    out.heading(f"{waits}: {out.names(cause.pods, 4)}", gap=True)
    if not cause.why.to_provision:
        show_nowhere(cause.why, out)
    for claim in cause.why.to_provision:
        out.line(f"{claim.text}.", indent=2)


def _headline_of_all(pending: Pending) -> str:
    reasons = len(pending.causes) + len({uncreated.cause for uncreated in pending.uncreated})
    have, where = (
        f"{count(pending.placed, 'pod')} {verb(pending.placed, 'has', 'have')} a node",
        pending.where,
    )
    if not pending.waiting and not pending.uncreated:
        return f"No pod{where} waits in vain; {have}"
    if not pending.waiting:
        return f"{count(len(pending.uncreated), 'controller')}{where} can't create pods; {have}"
    waits = f"{count(pending.waiting, 'pod')}{where} {verb(pending.waiting, 'waits', 'wait')}"
    return f"{waits}, for {count(reasons, 'reason')}; {have}"
