"""Groups of pods that are placed all or none, in one tick.

A pod says which group it is of by a label, and how many they are by an annotation; or by the label of the
coscheduling plugin, whose PodGroup says how many are needed (sigs.k8s.io/scheduler-plugins, coscheduling).
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from lib.kube.objects import Pod
from lib.scheduling.cache import Cache
from lib.scheduling.decision import Decision, Outcome
from lib.scheduling.scheduling_cycle import Scheduler

GROUP, SIZE = "poller/group", "poller/group-size"
POD_GROUP = "scheduling.x-k8s.io/pod-group"
REJECTING = "PodGroup"


@dataclass(frozen=True)
class Group:
    """A group's namespace, its name, and by which label it is told."""

    namespace: str
    name: str
    label: str


def group_of(pod: Pod) -> Group | None:
    """The group that a pod belongs to."""
    for label in (GROUP, POD_GROUP):
        if name := pod.metadata.labels.get(label):
            return Group(pod.metadata.namespace, name, label)
    return None


def batches(pods: Iterable[Pod]) -> Iterator[list[Pod]]:
    """Pods in their order, with all of a group where its first member is."""
    together: dict[object, list[Pod]] = {}
    for pod in pods:
        together.setdefault(group_of(pod) or pod.metadata.uid, []).append(pod)
    yield from together.values()


def schedule_pod_group(
    pods: Sequence[Pod], cache: Cache, schedulers: Mapping[str, Scheduler]
) -> list[Decision]:
    """Decide for a batch: for a pod alone as ever; for a group, so that all of it has a place or none."""
    group = group_of(pods[0])
    needed = _needed(pods, group, cache) if group else None
    if group is None or needed is None:
        return _decide_each(pods, cache, schedulers)
    if isinstance(needed, str):
        return [_rejected(pod, cache, needed) for pod in pods]
    present = len(pods) + _placed(group, cache)
    if present < needed:
        return [_rejected(pod, cache, f"waiting for {needed - present} more of {needed}") for pod in pods]

    decisions = _decide_each(pods, cache, schedulers)
    failed = [each for each in decisions if each.outcome not in (Outcome.SCHEDULED, Outcome.WAITING)]
    if not failed:
        return decisions
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
    """How many a group needs, or what is wrong with what it says; None if it isn't said at all."""
    if group.label == POD_GROUP:
        return cache.group_sizes.get((group.namespace, group.name))
    sizes = {pod.metadata.annotations.get(SIZE, "") for pod in pods}
    if len(sizes) > 1:
        return f"annotation {SIZE} differs within group {group.name}: {', '.join(sorted(sizes))}"
    (size,) = sizes
    if not size.isascii() or not size.isdecimal() or int(size) < 1:
        return f"annotation {SIZE} must say how many pods group {group.name} has, not {size!r}"
    return int(size)


def _placed(group: Group, cache: Cache) -> int:
    """How many of a group have a node already."""
    return sum(group_of(pod) == group for node in cache.nodes.values() for pod in node.pods)


def _rejected(pod: Pod, cache: Cache, reason: str) -> Decision:
    all_nodes = len(cache.nodes)
    return Decision(
        pod, Outcome.UNSCHEDULABLE, all_nodes=all_nodes, reason=reason, rejecting_plugin=REJECTING
    )
