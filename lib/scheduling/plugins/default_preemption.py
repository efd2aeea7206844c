"""DefaultPreemption: pods of lower priority are evicted from a node for a pod that fits nowhere.

Source: pkg/scheduler/framework/plugins/defaultpreemption/default_preemption.go and framework/preemption
"""

from collections import Counter
from collections.abc import Hashable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, ClassVar

from lib.kube.objects import Pod
from lib.kube.resources import ALL, PREEMPTION, Need
from lib.lazily import Lazy
from lib.scheduling.cache import Cache
from lib.scheduling.framework.interface import ALIKE, PostFilterResult
from lib.scheduling.handle import Handle
from lib.scheduling.looked_up import BUDGETS_UNSEEN
from lib.scheduling.status import CycleState, NodeError, PluginError, Rejection, Status, unschedulable

if TYPE_CHECKING:
    from lib.kube import label_syntax
    from lib.scheduling.preemption import kept_victims, search, victims
else:
    label_syntax, search = Lazy("lib.kube.label_syntax"), Lazy("lib.scheduling.preemption.search")
    kept_victims = Lazy("lib.scheduling.preemption.kept_victims")
    victims = Lazy("lib.scheduling.preemption.victims")

NEVER = "preemption: not eligible due to preemptionPolicy=Never."
ON_THEIR_WAY = "preemption: not eligible due to a terminating pod on the nominated node."

NO_CANDIDATE = "no candidate node for preemption"
"""The reason if extenders have left no candidate."""

UNSEEN = "preemption: not possible as disruption budgets can't be seen."


@dataclass(frozen=True)
class DefaultPreemption:
    """Finds the node with the fewest and least important victims, among those that extenders agree to.

    First some nodes are tried that may be the best, by NodesByHarm. If no other node can be better than the
    best of these, that one is picked. Else nodes are tried in the cache's order, without those that can't be
    better. So the picked node is at least as good as if no node had been left out. With extenders no node is
    left out, because they choose among all candidates.
    """

    handle: Handle = field(default_factory=Handle, repr=False, compare=False)
    min_candidate_nodes_percentage: int = 10
    """Nodes are tried in the cache's order until there are so many candidates, in percent of the nodes where
    evictions could help. More are tried only while every candidate would violate a disruption budget."""
    min_candidate_nodes_absolute: int = 100
    """The same, as a number of candidates. The larger of both numbers counts."""
    name: str = "DefaultPreemption"
    needs: ClassVar = (PREEMPTION,)

    def needed_for(self, pod: Pod, cache: Cache, scores: bool) -> Iterator[tuple[Need, Hashable]]:
        """Disruption budgets, if there is a pod that this one may evict."""
        lowest, spec = cache.lowest_priority, pod.spec
        if lowest is not None and spec.priority > lowest and spec.preemption_policy != "Never":
            yield PREEMPTION, ALL

    @cached_property
    def _kept(self) -> "kept_victims.KeptVictims":
        return kept_victims.KeptVictims()

    def post_filter(
        self,
        state: CycleState,
        pod: Pod,
        cache: Cache,
        rejected: Mapping[str, Rejection],
        why_not: "victims.WhyNot",
    ) -> PostFilterResult | Status:
        """Search for the best node. Returns it with its victims, or why there is none.

        A pod keeps its nomination if it isn't eligible, if extenders refuse its candidates, and as long as
        budgets can't be listed. NodeError if a filter fails on some nodes, and no other node is a candidate.
        """
        if pod.spec.preemption_policy == "Never":
            return unschedulable(NEVER)
        if search.victims_are_leaving(pod, cache, rejected):
            return unschedulable(ON_THEIR_WAY)
        if cache.lowest_priority is None or cache.lowest_priority >= pod.spec.priority:
            potential = search.potential(rejected)
            return search.no_candidate(cache, Counter({victims.NO_VICTIMS: potential}), potential)
        if not any(map(search.might_help, rejected.values())):
            return search.no_candidate(cache, Counter(), 0)
        if cache.looked_up.budgets is None:
            return PostFilterResult(None, reasons=(UNSEEN,), rejected_by=frozenset([BUDGETS_UNSEEN]))
        if cache.looked_up.budgets_error:
            raise PluginError(f'running PostFilter plugin "{self.name}": {cache.looked_up.budgets_error}')

        tries = search.VictimSearch(pod, cache, rejected, why_not, self._kept, state.get(ALIKE))
        if extenders := self.handle.extenders:
            candidates = tries.candidates(self._enough(tries))
            agreed = extenders.process_preemption(pod, candidates, cache) if candidates else {}
            if candidates and not agreed:
                return unschedulable(NO_CANDIDATE)
            best = victims.pick_one(agreed.values()) if agreed else None
        else:
            best = tries.likely_best() or tries.best(self._enough(tries))
        if not best and tries.errors:
            raise NodeError(f"preemption: {label_syntax.together([*tries.errors])}")
        if not best:
            result = search.no_candidate(cache, tries.failed, len(tries.potential_nodes))
            # A budget that can't be decoded may protect a pod that would help.
            unread = {BUDGETS_UNSEEN} if cache.looked_up.budgets_unread else set()
            return replace(result, rejected_by=result.rejected_by | unread)
        return PostFilterResult(best.node_name, best.pods)

    def _enough(self, tries: "search.VictimSearch") -> int:
        share = len(tries.potential_nodes) * self.min_candidate_nodes_percentage // 100
        return max(self.min_candidate_nodes_absolute, share)
