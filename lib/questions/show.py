"""Prints answers for people."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from lib.questions.admission import ServerSaid
from lib.questions.compare import BALANCED, Comparison, differing
from lib.questions.deciding import Placed
from lib.questions.printing import Printer
from lib.questions.rollout import Rollout
from lib.questions.room import Room
from lib.questions.show_why import show_nowhere
from lib.questions.trial import Trial
from lib.scheduling.text import count, names, verb


def show_trial(trial: Trial, out: Printer, *, all_nodes: int, rollouts: bool) -> None:
    """Where new pods would go. rollouts: show each step of rollouts."""
    total, placed = len(trial.placed), sum(bool(placed.node_name) for placed in trial.placed)
    where = (
        f"on {count(len(trial.after), 'node')} of {all_nodes:,}"
        if placed
        else f"; there {verb(all_nodes, 'is', 'are')} {count(all_nodes, 'node')}"
    )
    out.heading(f"{placed:,} of {count(total, 'pod')} would have a node{', ' if placed else ''}{where}")
    rows = []
    for workload, pods in trial.workloads.items():
        have = [placed.node_name for placed in pods if placed.node_name]
        text = f"{len(have):,} of {len(pods):,}"
        rows.append((text, f"{workload}{f': {_spread(have, out)}' if have else ''}"))
    out.pairs(rows, numbers=True)
    for rollout in trial.rollouts:
        _show_rollout(rollout, out, steps=rollouts)
    _show_refused(trial, out)
    if victims := trial.victims:
        out.line(f"{count(len(victims), 'pod')} of lower priority would have to leave:", gap=True)
        for_them = out.first([placed for placed in trial.placed if placed.victims])
        out.items(
            f"{out.names(new.victims, 5)} for {new.pod} on {new.node_name}{in_spite_of(new.unprotected)}"
            for new in for_them
        )
    for workload, why in trial.why.items():
        missing = [
            placed for placed in trial.workloads[workload] if not placed.node_name and not placed.is_refused
        ]
        without = f"{count(len(missing), 'pod')} without a node"
        out.heading(f"{workload}: {without}; the first is {why.pod}", gap=True)
        show_nowhere(why, out)
        _show_others(missing, out)
    if trial.after:
        _show_usage(trial, out)
    _show_unknown(trial.said, out)


def _show_rollout(rollout: Rollout, out: Printer, *, steps: bool) -> None:
    """How the pods of a workload that is there already are replaced."""
    there = f"{rollout.workload} is there already with {count(rollout.old, 'pod')}"
    many = count(len(rollout.steps), "step")
    out.gap()
    if rollout.stuck:
        new = sum(len(step.added) for step in rollout.steps)
        old = f"{count(len(rollout.left), 'old pod')} {verb(len(rollout.left), 'stays', 'stay')}"
        ends = rollout.max_unavailable
        with_more = f" It would end with maxUnavailable: {ends}." if ends else ""
        out.line(
            f"{there}: its rollout gets stuck after {many}: {count(new, 'new pod')}, and {old}.{with_more}"
        )
    elif not rollout.workload.replicas:
        out.line(f"{there}: it is scaled to none, and they leave.")
    elif not rollout.changed or len(rollout.kept) == rollout.old:
        out.line(
            f"{there}, and its pods stay as they are{'; only their number changes' if rollout.steps else ''}."
        )
    else:
        replaced = f"{rollout.old - len(rollout.kept)} of them" if rollout.kept else "them"
        out.line(f"{there}: its rollout replaces {replaced} in {many}.")
    for i, step in enumerate(rollout.steps if steps else (), 1):
        parts = [f"+ {name} on {node}" for name, node in step.added.items()]
        parts += [f"+ {name} waits" for name in step.waiting]
        parts += [f"- {name}" for name in step.removed]
        out.line(f"step {i}: {out.names(parts, 8)}", indent=2)


def _show_refused(trial: Trial, out: Printer) -> None:
    """What isn't even created, in the API server's words."""
    words = dict(trial.said.refused)
    for workload, pods in trial.workloads.items():
        refused = [placed for placed in pods if placed.is_refused]
        if refused:
            many = f"{len(refused):,} of {count(len(pods), 'pod')} of " if len(pods) > 1 else ""
            words[str(workload)] = f"{many}{workload}: {refused[0].message}"
    if words:
        out.line("The API server refuses:", gap=True)
        out.items(text if name in text else f"{name}: {text}" for name, text in words.items())


def _show_unknown(said: ServerSaid, out: Printer) -> None:
    if said.unknown:
        out.line("Not known:", gap=True)
        out.items(said.unknown)


def in_spite_of(unprotected: Mapping[str, Sequence[str]]) -> str:
    """The budgets that preemption doesn't heed: it prefers other victims, but may have none."""
    budgets = dict.fromkeys(budget for budgets in unprotected.values() for budget in budgets)
    if not budgets:
        return ""
    return f", though {verb(len(budgets), 'budget', 'budgets')} {names([*budgets])} would not allow it"


def _show_others(missing: Sequence[Placed], out: Printer) -> None:
    """The pods that have no node for another reason than the first one."""
    others: dict[str, list[str]] = {}
    for placed in missing:
        if placed.message != missing[0].message:
            others.setdefault(placed.message, []).append(str(placed.pod))
    for message, pods in out.first([*others.items()]):
        out.line(f"{out.names(pods, 3)}: {message}")


def show_room(room: Room, out: Printer) -> None:
    """How many more pods fit."""
    more = " at least" if room.at_least else ""
    if len(room.fit) > 1:
        least = min(counts.total() for counts in room.fit.values())
        out.heading(f"{least:,} more of each{more} would fit, placed in turn, one of each")
    for workload, counts in room.fit.items():
        out.heading(f"{workload}: {count(counts.total(), 'more pod')}{more} would fit")
        if counts:
            out.line(_spread(counts.elements(), out), indent=2)
    for workload, words in room.refused.items():
        out.heading(f"the API server refuses the next of {workload}", gap=True)
        out.line(words)
    for workload, why in room.stopped.items():
        out.heading(f"what stops the next of {workload}", gap=True)
        show_nowhere(why, out)
    _show_unknown(room.said, out)


LONGEST_NAME = 28
"""The longest file name, in characters, that fits into a table of 80 columns beside the figures."""


def show_compare(comparison: Comparison, out: Printer) -> None:
    """What differs between configurations."""
    results = comparison.results
    first, *others = results
    if first.left_out:
        out.line(f"{count(first.left_out, 'pod')} of DaemonSets, or static ones, stay where they are.")
    for other in others:
        moved = differing(first, other)
        out.heading(f"{other.name} puts {count(len(moved), 'pod')} elsewhere than {first.name}")
    header = ["", "placed", "pending", "nodes used", *(f"{name}, mean ± deviation" for name in BALANCED)]
    ends = [Path(result.name).name for result in results]
    short = ends if len(set(ends)) == len(ends) else [result.name for result in results]
    if max(map(len, short)) > LONGEST_NAME:  # there would be no room for the figures
        short = [f"({i})" for i, _ in enumerate(results, 1)]
        out.pairs(zip(short, (result.name for result in results), strict=True), numbers=False)
    figures = [
        [
            name,
            f"{len(result.nodes):,}",
            f"{len(result.pending):,}",
            f"{result.nodes_used:,}",
            *(f"{result.mean[name]:.0%} ± {result.imbalance[name]:.0%}" for name in BALANCED),
        ]
        for name, result in zip(short, results, strict=True)
    ]
    out.table(header, figures, right=range(1, len(header)))
    for other in others:
        moved = differing(first, other)
        rows = [
            (name, f"{first.nodes.get(name, 'nowhere')} → {other.nodes.get(name, 'nowhere')}")
            for name in moved
        ]
        out.pairs(out.first(rows), numbers=False)
        out.more(len(rows) - len(out.first(rows)), "more pod")


def _show_usage(trial: Trial, out: Printer) -> None:
    """The usage of the nodes that got pods, the fullest first."""
    fullest = sorted(trial.after.items(), key=lambda with_usage: -with_usage[1].fullest)
    resources = list(
        dict.fromkeys(name for _, usage in fullest for name in usage.capacity if usage.capacity[name])
    )
    got = Counter(placed.node_name for placed in trial.placed)
    rows = [
        [name, str(got[name]), *(usage.text_after(trial.before[name], resource) for resource in resources)]
        for name, usage in out.first(fullest)
    ]
    out.table(["node", "new", *resources], rows, right=[1])
    out.more(len(fullest) - len(rows), "node", " that get less full")


def _spread(nodes: Iterable[str], out: Printer) -> str:
    """On which nodes pods are, and how many on each."""
    counted = Counter(nodes).most_common()
    return out.names([name if many == 1 else f"{many} on {name}" for name, many in counted], 6)
