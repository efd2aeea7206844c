"""Finds the victims for a pod that fits nowhere: the fewest and least important pods of one node.

Source: pkg/scheduler/framework/plugins/defaultpreemption/default_preemption.go and framework/preemption
"""

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cached_property
from itertools import accumulate
from typing import NamedTuple

from lib.kube.objects import Pod
from lib.scheduling.cache import Cache
from lib.scheduling.disruption_budgets import by_budget
from lib.scheduling.node_info import NodeInfo, amount_left
from lib.scheduling.resources import pod_requests
from lib.scheduling.status import NodeError, Rejection, unschedulable

WhyNot = Callable[[str], Rejection | None]
"""Runs the filters for a node, with the cache as it is at that moment; None if the pod fits."""

NO_VICTIMS = Rejection("", unschedulable("No preemption victims found for incoming pod"))

_NOW = datetime.max.replace(tzinfo=UTC)


class Harm(NamedTuple):
    """The harm of preemption on a node. It is compared in the order of the fields; the lower, the better."""

    violations: int
    """How many victims disruption budgets protect."""
    highest: int
    """The victims' highest priority."""
    total: int
    """The sum of their priorities."""
    number: int
    """How many victims there are."""
    age: float
    """It is lower if the victims of the highest priority started later."""


@dataclass(frozen=True)
class Victims:
    """The victims on a node."""

    node_name: str
    pods: tuple[Pod, ...]
    """The most important pod is first."""
    violations: int
    """How many of them disruption budgets protect."""

    @cached_property
    def harm(self) -> Harm:
        """What the nodes are compared by."""
        priorities = [pod.spec.priority for pod in self.pods]
        highest = max(priorities, default=-(2**31))
        most_important = (pod for pod in self.pods if pod.spec.priority == highest)
        earliest = min(map(_started, most_important), default=_NOW)
        # Raised above zero, so that more victims never make a smaller sum.
        total = sum(priority + 2**31 for priority in priorities)
        return Harm(self.violations, highest, total, len(priorities), -_at(earliest))


def least_harm(pods: Collection[Pod]) -> Harm | None:
    """The least harm that preemption can do among these pods; None if there are no pods.

    That is the harm of evicting one pod: of those with the lowest priority, the one that started last.
    """
    if not pods:
        return None
    lowest = min(pod.spec.priority for pod in pods)
    latest = max(_started(pod) for pod in pods if pod.spec.priority == lowest)
    return Harm(0, lowest, lowest + 2**31, 1, -_at(latest))


def least_harm_for_room(
    node: NodeInfo, wanted: Iterable[tuple[str, int]], priority: int, nominated: Collection[Pod]
) -> Harm | None:
    """The least harm that preemption can do on a node if it must make this much room; None if it can't.

    wanted: by resource. priority: of the pod that wants it. nominated: the pods for which room is kept, too.
    """
    potential = [pod for pod in node.pods if pod.spec.priority < priority]
    needed = 1
    for name, amount in wanted:
        kept = sum(pod_requests(pod).get(name, 0) for pod in nominated)
        lack = amount + kept - amount_left(node, name)
        freed = accumulate(sorted((pod_requests(pod).get(name, 0) for pod in potential), reverse=True))
        needed = max(needed, next((n for n, sum_ in enumerate(freed, 1) if sum_ >= lack), len(potential) + 1))
    if needed > len(potential):
        return None
    fewest = sorted(pod.spec.priority for pod in potential)[:needed]
    highest, times = fewest[-1], sorted(_started(pod) for pod in potential if pod.spec.priority == fewest[-1])
    total = sum(priority + 2**31 for priority in fewest)
    return Harm(0, highest, total, needed, -_at(times[-fewest.count(highest)]))


def victims_on(
    pod: Pod, node_name: str, cache: Cache, why_not: WhyNot, disruptions_left: Sequence[int]
) -> Victims | Rejection:
    """The pods that must leave a node so that a pod fits there; or why it doesn't fit even then.

    First all pods of lower priority are removed. Then as many of them as possible are put back: first those
    that a disruption budget protects, then the others, in each case the most important first. If all can be
    put back, no eviction helps: an extender refused the node, for example.

    disruptions_left: for each budget. NodeError if a filter fails while all these pods are removed.
    """
    potential = sorted(less_important(pod, node_name, cache), key=_least_important_last)
    with cache.without(potential) as removed:
        if rejection := why_not(node_name):
            return rejection
        protected, others = by_budget(potential, cache.looked_up.budgets or (), disruptions_left)
        victims: list[Pod] = []
        violations = 0
        for candidate in [*protected, *others]:
            removed.give_back(candidate)
            if not _fits(node_name, why_not):
                removed.take(candidate)
                victims.append(candidate)
                violations += candidate in protected
    if not victims:
        return NO_VICTIMS
    return Victims(node_name, tuple(sorted(victims, key=_least_important_last)), violations)


def _fits(node_name: str, why_not: WhyNot) -> bool:
    """Whether the pod fits now; it doesn't if a filter fails."""
    try:
        return why_not(node_name) is None
    except NodeError:
        return False


def less_important(pod: Pod, node_name: str, cache: Cache) -> list[Pod]:
    """The pods of a node that have a lower priority and may be evicted."""
    priority, others = pod.spec.priority, cache.nodes[node_name].pods
    return [other for other in others if other.spec.priority < priority and cache.may_evict(other)]


def pick_one(candidates: Iterable[Victims]) -> Victims:
    """The node where preemption does the least harm (preemption.go, pickOneNodeForPreemption)."""
    return min(candidates, key=lambda victims: victims.harm)


def _least_important_last(pod: Pod) -> tuple[int, float]:
    """A sort key: by priority, then by the time since the start (util/utils.go, MoreImportantPod)."""
    return -pod.spec.priority, _at(_started(pod))


def _started(pod: Pod) -> datetime:
    return pod.status.start_time or _NOW


def _at(moment: datetime) -> float:
    return (moment - datetime.min.replace(tzinfo=UTC)).total_seconds()
