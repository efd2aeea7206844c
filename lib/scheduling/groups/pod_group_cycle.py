"""The scheduling cycle of a group of pods: all of them get a node, or none does.

Counterpart in kube-scheduler: pkg/scheduler/schedule_one_podgroup.go
"""

from collections.abc import Mapping, Sequence
from reprlib import repr as short

from msgspec.structs import replace

from lib.kube.objects import Pod
from lib.scheduling.attempt import Attempt
from lib.scheduling.cache import Cache
from lib.scheduling.decision import PLACED, Decision, Outcome
from lib.scheduling.groups.pod_groups import POD_GROUP, REJECTING, SIZE, Group, group_of
from lib.scheduling.preemption.nomination import undo_preemption
from lib.scheduling.scheduling_cycle import Scheduler

UNKNOWN_SIZE = "PodGroupSize"
"""Used instead of a plugin's name if a group's size isn't known."""

MAX_DIGITS = 9
"""A size with more digits is invalid: no cluster has that many pods."""


def schedule_pod_group(
    pods: Sequence[Pod], cache: Cache, schedulers: Mapping[str, Scheduler]
) -> list[Decision]:
    """Schedule one of `batches`: a single pod, or a group. In a group all pods get a node, or none does.

    If one pod of a group doesn't fit, the others are unreserved. Pods are evicted for a group only where
    that makes room for all of it, and never one of the group itself. After an unexpected error, the decisions
    for the pods before are undone.
    """
    group = group_of(pods[0])
    needed = _needed(pods, group, cache) if group else None
    if isinstance(needed, str):
        return [_rejected(pod, cache, needed, UNKNOWN_SIZE) for pod in pods]
    if group and needed and (missing := needed - len(pods) - cache.count_members(group)) > 0:
        why = f"waiting for {missing} more of {needed}"
        return [_rejected(pod, cache, why, REJECTING) for pod in pods]

    decisions: list[Decision] = []
    try:
        decisions.extend(schedulers[pod.spec.scheduler_name].schedule_one(pod, cache) for pod in pods)
    except Exception:
        for each in decisions:
            schedulers[each.pod.spec.scheduler_name].undo(each, cache)
        raise
    failed = [each for each in decisions if each.outcome not in PLACED]
    if not (group and needed and failed):
        return decisions
    why = f"group {group.name} needs {failed[0].pod}: {failed[0].message}"
    own = {pod.metadata.uid for pod in pods}
    victims = {pod.metadata.uid for each in failed for pod in (*each.victims, *each.preempted_held)}
    helps = not victims & own and all(each.nominated for each in failed)
    for i, decision in enumerate(decisions):
        if decision.outcome in PLACED:
            undone = schedulers[decision.pod.spec.scheduler_name].unreserve_and_forget(decision, cache)
            decisions[i] = replace(
                undone, outcome=Outcome.UNSCHEDULABLE, message=why, rejecting_plugin=REJECTING
            )
        elif not helps:
            decisions[i] = undo_preemption(decision, cache)
    return decisions


def _needed(pods: Sequence[Pod], group: Group, cache: Cache) -> int | str | None:
    """The number of pods that a group needs, or why it isn't known; None if there is no PodGroup."""
    if group.label == POD_GROUP:
        return cache.looked_up.group_sizes.get((group.namespace, group.name))
    sizes = {pod.metadata.annotations.get(SIZE, "") for pod in pods}
    if len(sizes) > 1:
        different = ", ".join(size if len(size) <= MAX_DIGITS else short(size) for size in sorted(sizes))
        return f"annotation {SIZE} differs within group {group.name}: {different}"
    (size,) = sizes
    if not (size.isascii() and size.isdecimal() and len(size) <= MAX_DIGITS and int(size)):
        return f"annotation {SIZE} must say how many pods group {group.name} has, not {short(size)}"
    return int(size)


def _rejected(pod: Pod, cache: Cache, message: str, rejecting: str) -> Decision:
    return Attempt(pod, cache).decide(Outcome.UNSCHEDULABLE, message, rejecting_plugin=rejecting)
