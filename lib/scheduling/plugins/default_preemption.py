"""DefaultPreemption: pods of lower priority are evicted from a node for a pod that fits nowhere.

Source: pkg/scheduler/framework/plugins/defaultpreemption/default_preemption.go and framework/preemption
"""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

from lib.kube.objects import Pod
from lib.scheduling.cache import Cache
from lib.scheduling.extender import Extenders
from lib.scheduling.framework.interface import (
    ALIKE,
    Code,
    CycleState,
    PluginError,
    PostFilterResult,
    Status,
    unschedulable,
)
from lib.scheduling.kept_victims import KeptVictims
from lib.scheduling.preemption import Victims, WhyNot, less_important, pick_one, victims_on

NOT_HELPFUL = "Preemption is not helpful for scheduling"
NO_VICTIMS = "No preemption victims found for incoming pod"
NEVER = "preemption: not eligible due to preemptionPolicy=Never."
ON_THEIR_WAY = "preemption: not eligible due to a terminating pod on the nominated node."

NO_CANDIDATE = "no candidate node for preemption"
"""Extenders left no candidate."""

UNSEEN = "preemption: not possible as disruption budgets can't be seen."


@dataclass(frozen=True)
class DefaultPreemption:
    """Finds the node with the fewest and least important victims, among those that extenders agree to.

    min_candidate_nodes_percentage, min_candidate_nodes_absolute: the best of so many candidate nodes is
    picked; the larger of both counts. More are tried only while every candidate would violate a disruption
    budget.
    """

    extenders: Extenders = field(default_factory=Extenders)
    min_candidate_nodes_percentage: int = 10
    min_candidate_nodes_absolute: int = 100
    name: str = "DefaultPreemption"
    _kept: KeptVictims[Victims | Status] = field(
        default_factory=KeptVictims, init=False, repr=False, compare=False
    )

    def post_filter(
        self, state: CycleState, pod: Pod, cache: Cache, rejected: Mapping[str, Status], why_not: WhyNot
    ) -> PostFilterResult | Status:
        """Try nodes in the cache; returns the victims of the best, or why there is none."""
        if pod.spec.preemption_policy == "Never":
            return unschedulable(NEVER)
        if cache.budgets is None:
            return unschedulable(UNSEEN)
        if cache.budgets_error:
            raise PluginError(f'running PostFilter plugin "{self.name}": {cache.budgets_error}')
        if _victims_are_leaving(pod, cache, rejected):
            return unschedulable(ON_THEIR_WAY)

        hopeful = [name for name in cache.nodes if _might_help(rejected.get(name))]
        reasons = Counter({NOT_HELPFUL: len(cache.nodes) - len(hopeful)})
        found: dict[str, Victims] = {}
        enough = max(
            self.min_candidate_nodes_absolute, len(hopeful) * self.min_candidate_nodes_percentage // 100
        )
        kept = self._kept.of_kind(state.get(ALIKE), pod, cache)
        for name in hopeful:
            if len(found) >= enough and any(not each.violations for each in found.values()):
                break
            answer = kept.get(name)
            if answer is None:
                answer = _try(pod, name, cache, why_not)
                kept.put(name, answer)
            if isinstance(answer, Victims):
                found[name] = answer
            else:
                reasons.update(answer.reasons)
        if found:
            agreed = self.extenders.process_preemption(pod, found, cache)
            if not agreed:
                return unschedulable(NO_CANDIDATE)
            best = pick_one(agreed.values())
            return PostFilterResult(best.node_name, best.pods)
        counted = ", ".join(sorted(f"{count} {reason}" for reason, count in reasons.items() if count))
        return unschedulable(f"preemption: 0/{len(cache.nodes)} nodes are available: {counted}.")


def _try(pod: Pod, node_name: str, cache: Cache, why_not: WhyNot) -> Victims | Status:
    """The victims on a node with which the pod would fit there, or why it would not fit."""
    if not less_important(pod, node_name, cache):
        return unschedulable(NO_VICTIMS)
    return victims_on(pod, node_name, cache, why_not)


def _might_help(status: Status | None) -> bool:
    """Whether evictions could help: the node's rejection isn't unresolvable."""
    return status is not None and status.code != Code.UNSCHEDULABLE_AND_UNRESOLVABLE


def _victims_are_leaving(pod: Pod, cache: Cache, rejected: Mapping[str, Status]) -> bool:
    """Whether victims for the pod are leaving already, on a node where it may fit."""
    name = cache.nominator.node_of(pod) or ""
    if name not in cache.nodes or (name in rejected and not _might_help(rejected[name])):
        return False
    return any(cache.is_leaving(each) for each in less_important(pod, name, cache))
