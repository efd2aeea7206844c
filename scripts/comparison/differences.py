"""Where poller's answer to an ask isn't kube-scheduler's."""

from collections.abc import Iterator
from typing import Any, NamedTuple

from lib.kube.changes import Change, Kind
from lib.kube.objects import Pod
from lib.scheduling.decision import Decision, Outcome
from lib.scheduling.hints import changes_anything
from lib.scheduling.status import PluginError, Status

from .asked import KINDS, Asked, read
from .kube_scheduler import Json

ERROR, SUCCESS = "Error", "Success"

BY_PRE_FILTER = "node(s) didn't satisfy plugin(s)"
"""A node that PreFilter left out: the framework's own words."""


class Difference(NamedTuple):
    """What differs, and both answers."""

    what: str
    kube_scheduler: Any
    poller: Any


def differences(ask: Json, answer: Json) -> list[Difference]:
    """All of them; none if both say the same."""
    asked = Asked(ask)
    if "hint" in ask["want"]:
        return [*_of_hints(ask, answer, asked)]
    if "preEnqueue" in ask["want"]:
        return [*_of_gate(answer, asked)]
    return [*of_decision(answer, asked.scheduler.schedule_one(asked.pod, asked.cache))]


# --- a scheduling cycle -----------------------------------------------------------------------------------


def of_decision(answer: Json, decision: Decision) -> Iterator[Difference]:
    """Where a decision differs: what PreFilter says, reasons by node, scores, and who is preempted."""
    pre_filter, filtered = answer["preFilter"], answer.get("filter", {})
    fails = ERROR in (pre_filter["code"], *(each["code"] for each in filtered.values()))
    feasible = [name for name, each in filtered.items() if each["code"] == SUCCESS]
    if len(feasible) > 1:  # else nothing is scored
        fails = fails or ERROR in (
            answer.get("preScore", {}).get("code"),
            answer.get("score", {}).get("code"),
        )
    if fails or decision.outcome == Outcome.ERROR:
        if not (fails and decision.outcome == Outcome.ERROR):
            yield Difference("error", answer, f"{decision.outcome} {decision.message}")
    elif pre_filter["code"] not in (SUCCESS, "Skip"):
        said = sorted({reason for each in decision.rejected.values() for reason in each.status.reasons})
        theirs = sorted({*pre_filter.get("reasons", ())})
        if decision.node_name or (said != theirs and (filtered or decision.rejected)):
            yield Difference("PreFilter", theirs, said)
    else:
        different = [*_of_filters(filtered, decision)]
        yield from different
        if not different and len(feasible) > 1 and "scores" in answer:
            yield from _of_scores(answer["scores"], feasible, decision)
        if not different and not feasible and "postFilter" in answer:
            yield from _of_preemption(answer, decision)


def _of_filters(filtered: Json, decision: Decision) -> Iterator[Difference]:
    for name, each in filtered.items():
        theirs = each["code"], sorted(each.get("reasons", ()))
        rejection = decision.rejected.get(name)
        ours = (rejection.status.code.value, sorted(rejection.status.reasons)) if rejection else (SUCCESS, [])
        if theirs != ours and not (BY_PRE_FILTER in str(theirs) and BY_PRE_FILTER in str(ours)):
            yield Difference(f"filter {name}", theirs, ours)


def _of_scores(scores: Json, feasible: list[str], decision: Decision) -> Iterator[Difference]:
    for name in feasible:
        for plugin, theirs in scores[name].items():
            ours = decision.scores.get(name, {}).get(plugin)
            is_equal_for_all = len({scores[each][plugin] for each in feasible}) == 1
            if ours != theirs and not (ours is None and is_equal_for_all):
                yield Difference(f"score {name} {plugin}", theirs, ours)


def _of_preemption(answer: Json, decision: Decision) -> Iterator[Difference]:
    to_delete = [each for each in decision.victims if not each.metadata.deletion_timestamp]
    victims = sorted(each.metadata.name for each in to_delete)
    words = ", ".join(answer["postFilter"].get("reasons", ()))
    if answer.get("nominated", "") != decision.nominated:
        yield Difference(
            "nominated", (answer.get("nominated"), answer.get("deleted")), (decision.nominated, victims)
        )
    elif decision.nominated and sorted(answer.get("deleted") or ()) != victims:
        yield Difference("victims", answer.get("deleted"), victims)
    elif not decision.nominated and words != decision.post_filter_message:
        yield Difference("PostFilter", words, decision.post_filter_message)


# --- the queue ----------------------------------------------------------------------------------------------


def _of_gate(answer: Json, asked: Asked) -> Iterator[Difference]:
    theirs = answer.get("preEnqueue", {})
    for plugin in asked.plugins:
        if hasattr(plugin, "pre_enqueue"):
            status: Status | None = plugin.pre_enqueue(asked.pod)
            ours = (status.code.value, list(status.reasons)) if status else (SUCCESS, [])
            if ours != (theirs.get("code", SUCCESS), theirs.get("reasons") or []):
                yield Difference("PreEnqueue", theirs, ours)


def _of_hints(ask: Json, answer: Json, asked: Asked) -> Iterator[Difference]:
    """Changes after which a node may fit, and that wake a pod in kube-scheduler alone.

    poller's hints may be wider: the pod is tried in vain then. They may be narrower if no node fits then.
    """
    for change, hints in zip(ask["changes"], answer["hints"], strict=True):
        for plugin in asked.plugins:
            if plugin.name in hints and hasattr(plugin, "queueing_hint") and change["kind"] in KINDS:
                read_change = _change(change)
                target = read_change.object
                itself = isinstance(target, Pod) and target.metadata.uid == asked.pod.metadata.uid
                hint = plugin.queueing_hint(target if itself else asked.pod, read_change)
                wakes = bool(hint) and (
                    change["kind"] not in ("Pod", "Node") or changes_anything(read_change)
                )
                if hints[plugin.name]["queue"] and not wakes and helps(ask, change):
                    yield Difference(
                        f"hint {read_change.kind.value} {change['kind']}", hints[plugin.name], wakes
                    )


def _change(change: Json) -> Any:
    kind = KINDS[change["kind"]]
    old, new = (read(kind, change[name]) if change.get(name) else None for name in ("old", "new"))
    sort = Kind.ADDED if old is None else Kind.DELETED if new is None else Kind.MODIFIED
    return Change(sort, new or old, old)


def helps(ask: Json, change: Json) -> bool:
    """Whether a node fits after a change that didn't before, by poller's own filters.

    If all nodes fitted before, the plugin has not rejected the pod.
    """
    earlier = _with(ask, change, "old")
    before, after = _accepted(earlier), _accepted(_with(ask, change, "new"))
    return bool(after - before) and len(before) < len(earlier["nodes"])


def _accepted(ask: Json) -> set[str]:
    asked = Asked(ask)
    try:
        decision = asked.scheduler.schedule_one(asked.pod, asked.cache)
    except PluginError:
        return set()
    fits = decision.outcome not in (Outcome.ERROR, Outcome.UNSCHEDULABLE)
    nodes = {each["node"]["metadata"]["name"] for each in ask["nodes"]}
    return nodes - decision.rejected.keys() if fits else set()


def _with(ask: Json, change: Json, which: str) -> Json:
    """The ask with one of a change's objects, in place of that of its name."""
    kind, thing = change["kind"], change.get(which)
    about = (change.get("new") or change["old"])["metadata"]
    nodes, there = ask["nodes"], ask.get("objects", {})
    if kind == "Node":
        pods: list[Json] = next(
            (each["pods"] for each in nodes if each["node"]["metadata"]["name"] == about["name"]), []
        )
        nodes = [each for each in nodes if each["node"]["metadata"]["name"] != about["name"]]
        return {**ask, "nodes": [*nodes, {"node": thing, "pods": pods}] if thing else nodes}
    if kind == "Pod" and about["uid"] == ask["pod"]["metadata"]["uid"]:
        return {**ask, "pod": thing} if thing else ask
    if kind == "Pod":
        on = thing["spec"].get("nodeName") if thing else None
        more = [
            {**each, "pods": [*each["pods"], *([thing] if each["node"]["metadata"]["name"] == on else ())]}
            for each in nodes
        ]
        return {**ask, "nodes": more}
    key = about.get("namespace"), about["name"]
    others = [
        each
        for each in there.get(kind, ())
        if (each["metadata"].get("namespace"), each["metadata"]["name"]) != key
    ]
    return {**ask, "objects": {**there, kind: [*others, thing] if thing else others}}
