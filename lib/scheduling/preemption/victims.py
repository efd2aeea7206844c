"""Finds the victims for a pod that fits nowhere: the fewest and least important pods of one node.

Source: pkg/scheduler/framework/plugins/defaultpreemption/default_preemption.go and framework/preemption
"""

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cached_property
from typing import NamedTuple

from lib.kube.objects import Pod
from lib.scheduling.cache import Cache
from lib.scheduling.disruption_budgets import by_budget
from lib.scheduling.status import NodeError, Rejection, unschedulable

WhyNot = Callable[[str], Rejection | None]
"""Runs the filters for a node, with the cache as it is at that moment; None if the pod fits."""

NO_VICTIMS = Rejection("", unschedulable("No preemption victims found for incoming pod"))

_NOW = datetime.max.replace(tzinfo=UTC)


class Harm(NamedTuple):
    """The harm of preemption on a node. It is compared in the order of the fields; the lower, the better.

    violations: victims that budgets protect. highest, total: the victims' highest priority, and the sum of
    their priorities. number: of victims. age: at equal priority, victims that started later are preferred.
    """

    violations: int
    highest: int
    total: int
    number: int
    age: float


@dataclass(frozen=True)
class Victims:
    """The victims on a node, the most important first. violations: how many of them budgets protect."""

    node_name: str
    pods: tuple[Pod, ...]
    violations: int

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

    It is that of evicting the one of the lowest priority that started last.
    """
    if not pods:
        return None
    lowest = min(pod.spec.priority for pod in pods)
    latest = max(_started(pod) for pod in pods if pod.spec.priority == lowest)
    return Harm(0, lowest, lowest + 2**31, 1, -_at(latest))


def victims_on(
    pod: Pod, node_name: str, cache: Cache, why_not: WhyNot, disruptions_left: Sequence[int]
) -> Victims | Rejection:
    """The victims with which a pod fits on a node; or why it doesn't fit even without all possible victims.

    First all pods of lower priority are removed. Then as many as possible are put back: first those that a
    disruption budget protects, in each case the most important first. disruptions_left: for each budget.
    If that is all of them, no eviction helps: it was an extender, say, that refused the node. NodeError if a
    filter fails without them.
    """
    potential = sorted(less_important(pod, node_name, cache), key=_least_important_last)
    with cache.without(potential) as away:
        if rejection := why_not(node_name):
            return rejection
        protected, others = by_budget(potential, cache.looked_up.budgets or (), disruptions_left)
        victims: list[Pod] = []
        violations = 0
        for each in [*protected, *others]:
            away.give_back(each)
            if _fits(node_name, why_not):
                continue
            away.take(each)
            victims.append(each)
            violations += each in protected
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
    on_node = cache.nodes[node_name].pods
    return [each for each in on_node if each.spec.priority < pod.spec.priority and cache.may_evict(each)]


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
