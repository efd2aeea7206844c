"""Groups of pods: all pods of a group are placed in one tick, or none is.

A label names a pod's group, and an annotation says how many pods the group has. Or the label is that of the
coscheduling plugin, and a PodGroup says how many pods are needed.

Counterpart: pkg/coscheduling in sigs.k8s.io/scheduler-plugins
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from reprlib import repr as short
from typing import TYPE_CHECKING

from lib.kube.objects import Pod
from lib.scheduling.decision import Decision, Outcome

if TYPE_CHECKING:
    from lib.scheduling.cache import Cache
    from lib.scheduling.scheduling_cycle import Scheduler

GROUP, SIZE = "poller/group", "poller/group-size"
POD_GROUP = "scheduling.x-k8s.io/pod-group"
REJECTING = "PodGroup"
"""Stands where a plugin's name would, if a pod waits for other pods of its group."""

UNKNOWN_SIZE = "PodGroupSize"
"""Stands where a plugin's name would, if a group's size isn't known."""

MAX_DIGITS = 9
"""A size with more digits isn't read: no cluster has that many pods."""


@dataclass(frozen=True)
class Group:
    """A group: its namespace, its name, and the label that names it."""

    namespace: str
    name: str
    label: str


def group_of(pod: Pod) -> Group | None:
    """The group of a pod; None if it is in none."""
    for label in (GROUP, POD_GROUP):
        if name := pod.metadata.labels.get(label):
            return Group(pod.metadata.namespace, name, label)
    return None


def present_in(pod: Pod) -> Group | None:
    """The group in which a pod counts as present: one that is being deleted doesn't."""
    return None if pod.metadata.deletion_timestamp else group_of(pod)


def batches(pods: Iterable[Pod]) -> Iterator[list[Pod]]:
    """The pods in order, one by one, but all pods of a group together, at the place of the first."""
    together: dict[object, list[Pod]] = {}
    for pod in pods:
        together.setdefault(group_of(pod) or pod.metadata.uid, []).append(pod)
    yield from together.values()


def schedule_pod_group(
    pods: Sequence[Pod], cache: Cache, schedulers: Mapping[str, Scheduler]
) -> list[Decision]:
    """Schedule one of `batches`: a single pod, or a group, of which all pods get a node or none does.

    If one pod of a group doesn't fit, the others are unreserved. Pods are evicted for a group only where
    that makes room for all of it.
    """
    group = group_of(pods[0])
    needed = _needed(pods, group, cache) if group else None
    if group is None or needed is None:
        return _decide_each(pods, cache, schedulers)
    if isinstance(needed, str):
        return [_rejected(pod, cache, needed, UNKNOWN_SIZE) for pod in pods]
    present = len(pods) + cache.count_members(group)
    if present < needed:
        missing = f"waiting for {needed - present} more of {needed}"
        return [_rejected(pod, cache, missing, REJECTING) for pod in pods]

    decisions = _decide_each(pods, cache, schedulers)
    failed = [each for each in decisions if each.outcome not in (Outcome.SCHEDULED, Outcome.WAITING)]
    if not failed:
        return decisions
    if not all(each.nominated for each in failed):
        for decision in failed:
            schedulers[decision.pod.spec.scheduler_name].undo_preemption(decision, cache)
    why = f"group {group.name} needs {failed[0].pod}: {failed[0].message}"
    for decision in decisions:
        if decision not in failed:
            schedulers[decision.pod.spec.scheduler_name].unreserve_and_forget(decision, cache)
            decision.outcome, decision.reason, decision.rejecting_plugin = (
                Outcome.UNSCHEDULABLE,
                why,
                REJECTING,
            )
    return decisions


def _decide_each(pods: Sequence[Pod], cache: Cache, schedulers: Mapping[str, Scheduler]) -> list[Decision]:
    return [schedulers[pod.spec.scheduler_name].schedule_one(pod, cache) for pod in pods]


def _needed(pods: Sequence[Pod], group: Group, cache: Cache) -> int | str | None:
    """How many pods a group needs, or why that isn't known; None if there is no PodGroup."""
    if group.label == POD_GROUP:
        return cache.group_sizes.get((group.namespace, group.name))
    sizes = {pod.metadata.annotations.get(SIZE, "") for pod in pods}
    if len(sizes) > 1:
        different = ", ".join(size if len(size) <= MAX_DIGITS else short(size) for size in sorted(sizes))
        return f"annotation {SIZE} differs within group {group.name}: {different}"
    (size,) = sizes
    if not (size.isascii() and size.isdecimal() and len(size) <= MAX_DIGITS and int(size)):
        return f"annotation {SIZE} must say how many pods group {group.name} has, not {short(size)}"
    return int(size)


def _rejected(pod: Pod, cache: Cache, reason: str, rejecting: str) -> Decision:
    all_nodes = len(cache.nodes)
    return Decision(
        pod, Outcome.UNSCHEDULABLE, all_nodes=all_nodes, reason=reason, rejecting_plugin=rejecting
    )
