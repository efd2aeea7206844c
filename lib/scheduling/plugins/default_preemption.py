"""DefaultPreemption: pods of lower priority are evicted from a node for a pod that fits nowhere.

Source: pkg/scheduler/framework/plugins/defaultpreemption/default_preemption.go and framework/preemption
"""

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import islice
from typing import ClassVar

from lib.kube.label_syntax import together
from lib.kube.objects import Pod
from lib.scheduling.cache import Cache
from lib.scheduling.framework.arguments import Args, Handle, not_between
from lib.scheduling.framework.interface import ALIKE, PostFilterResult
from lib.scheduling.looked_up import BUDGETS_UNSEEN
from lib.scheduling.preemption.kept_victims import KeptForKind, KeptVictims
from lib.scheduling.preemption.nodes_by_harm import NodesByHarm, Rank
from lib.scheduling.preemption.victims import (
    NO_VICTIMS,
    Victims,
    WhyNot,
    less_important,
    pick_one,
    victims_on,
)
from lib.scheduling.status import Code, CycleState, NodeError, PluginError, Rejection, Status, unschedulable

NOT_HELPFUL = "Preemption is not helpful for scheduling"
NEVER = "preemption: not eligible due to preemptionPolicy=Never."
ON_THEIR_WAY = "preemption: not eligible due to a terminating pod on the nominated node."

NO_CANDIDATE = "no candidate node for preemption"
"""Extenders left no candidate."""

UNSEEN = "preemption: not possible as disruption budgets can't be seen."

FIRST_TRIES = 10
"""At most this many nodes, those with the lowest bounds of NodesByHarm, are tried before the others."""


class DefaultPreemptionArgs(Args):
    """Among how many candidate nodes the best is picked."""

    min_candidate_nodes_percentage: int = 10
    min_candidate_nodes_absolute: int = 100

    def problems(self, path: str) -> Iterator[str]:
        """A line for each invalid field: `PATH: why`."""
        percentage, absolute = self.min_candidate_nodes_percentage, self.min_candidate_nodes_absolute
        yield from not_between(f"{path}.minCandidateNodesPercentage", percentage, 0, 100)
        if absolute < 0:
            yield f"{path}.minCandidateNodesAbsolute: {absolute} is less than 0"
        if percentage == absolute == 0:
            yield f"{path}: minCandidateNodesPercentage and minCandidateNodesAbsolute can't both be 0"


@dataclass(frozen=True)
class DefaultPreemption:
    """Finds the node with the fewest and least important victims, among those that extenders agree to.

    First some nodes are tried that may be the best, by NodesByHarm. If none of the other nodes can be better
    than the best of these, it is picked. Else nodes are tried in the cache's order, without those that can't
    be better. So the pick is the same as if no node had been left out, or a better one. With extenders no
    node is left out: they choose among all candidates.

    min_candidate_nodes_percentage, min_candidate_nodes_absolute: in the cache's order, nodes are tried until
    there are so many candidates; the larger of both counts. More are tried only while every candidate would
    violate a disruption budget.
    """

    handle: Handle = field(default_factory=Handle, repr=False, compare=False)
    min_candidate_nodes_percentage: int = 10
    min_candidate_nodes_absolute: int = 100
    name: str = "DefaultPreemption"
    args: ClassVar = DefaultPreemptionArgs
    _kept: KeptVictims = field(default_factory=KeptVictims, init=False, repr=False, compare=False)

    def post_filter(
        self, state: CycleState, pod: Pod, cache: Cache, rejected: Mapping[str, Rejection], why_not: WhyNot
    ) -> PostFilterResult | Status:
        """Try nodes in the cache; returns the victims of the best, or why there is none.

        A pod keeps its nomination if it isn't eligible, if extenders refuse its candidates, and as long as
        budgets can't be listed. NodeError if a filter fails on some nodes, and no other node is a candidate.
        """
        if pod.spec.preemption_policy == "Never":
            return unschedulable(NEVER)
        if victims_are_leaving(pod, cache, rejected):
            return unschedulable(ON_THEIR_WAY)
        if cache.lowest_priority is None or cache.lowest_priority >= pod.spec.priority:
            potential = _potential(rejected)
            return _none(cache, Counter({NO_VICTIMS: potential}), potential)
        if not any(map(_might_help, rejected.values())):
            return _none(cache, Counter(), 0)
        if cache.looked_up.budgets is None:
            return PostFilterResult(None, reasons=(UNSEEN,), rejected_by=frozenset([BUDGETS_UNSEEN]))
        if cache.looked_up.budgets_error:
            raise PluginError(f'running PostFilter plugin "{self.name}": {cache.looked_up.budgets_error}')

        search = _Search(pod, cache, rejected, why_not, self._kept.of_kind(state.get(ALIKE), pod, cache))
        if extenders := self.handle.extenders:
            candidates = search.candidates(self._enough(search))
            agreed = extenders.process_preemption(pod, candidates, cache) if candidates else {}
            if candidates and not agreed:
                return unschedulable(NO_CANDIDATE)
            best = pick_one(agreed.values()) if agreed else None
        else:
            best = search.likely_best() or search.best(self._enough(search))
        if not best and search.errors:
            raise NodeError(f"preemption: {together([*search.errors])}")
        if not best:
            found = _none(cache, search.failed, len(search.potential_nodes))
            # A budget that can't be decoded may protect a pod that would help.
            unread = {BUDGETS_UNSEEN} if cache.looked_up.budgets_unread else set()
            return replace(found, rejected_by=found.rejected_by | unread)
        return PostFilterResult(best.node_name, best.pods)

    def _enough(self, search: "_Search") -> int:
        share = len(search.potential_nodes) * self.min_candidate_nodes_percentage // 100
        return max(self.min_candidate_nodes_absolute, share)


class _Search:
    """Searches for the node where preemption does the least harm."""

    def __init__(
        self,
        pod: Pod,
        cache: Cache,
        rejected: Mapping[str, Rejection],
        why_not: WhyNot,
        kept: KeptForKind,
    ) -> None:
        self._pod, self._cache, self._rejected = pod, cache, rejected
        self._why_not, self._kept = why_not, kept
        self._best: Victims | None = None
        self._best_rank: Rank | None = None
        self.failed = Counter[Rejection]()
        """Why preemption doesn't help: on how many of the nodes that were tried."""
        self.errors: dict[str, None] = {}
        """How filters failed on nodes that were tried, each text once."""
        self._disruptions_left = cache.disruptions_left()

    @cached_property
    def _by_harm(self) -> NodesByHarm:
        return NodesByHarm.of(self._cache)

    @cached_property
    def potential_nodes(self) -> list[int]:
        """The indexes in `Cache.node_list` of the nodes where evictions could help."""
        return [
            i for i, node in enumerate(self._cache.node_list) if _might_help(self._rejected.get(node.name))
        ]

    def likely_best(self) -> Victims | None:
        """Try a few nodes that may be the best; None if another node may still be better.

        `best` then compares the other nodes with these.
        """
        likely = (
            (bound, i)
            for bound, i in self._by_harm.below(self._pod.spec.priority)
            if _might_help(self._rejected.get(self._cache.node_list[i].name))
        )
        for rank in islice(likely, FIRST_TRIES):
            if self._best_rank and self._best_rank < rank:
                return self._best  # all others have higher bounds
            self._answer_of(rank[1])
        return None

    def best(self, enough: int) -> Victims | None:
        """Try nodes in the cache's order; returns the best candidate of all tries, None if there is none."""
        self.candidates(enough, better_only=True)
        return self._best

    def candidates(self, enough: int, *, better_only: bool = False) -> dict[str, Victims]:
        """Try nodes in the cache's order until there are enough candidates; returns these, by node name.

        better_only: leave out nodes that can't be better than the best so far.
        """
        found: dict[str, Victims] = {}
        for i in self.potential_nodes:
            if len(found) >= enough and any(not each.violations for each in found.values()):
                break
            if better_only and not self._by_harm.may_beat(self._best_rank, i):
                continue
            answer = self._answer_of(i)
            if isinstance(answer, Victims):
                found[answer.node_name] = answer
            elif answer:
                self.failed[answer] += 1
        return found

    def _answer_of(self, i: int) -> Victims | Rejection | None:
        """The victims on the node with this index, or why the pod would not fit there without them.

        None if a filter fails.
        """
        name = self._cache.node_list[i].name
        nominated = self._cache.nominator.nominated_before_on(name, self._pod)
        try:
            answer = self._kept.answer(name, nominated, self._try)
        except NodeError as error:
            self.errors[str(error)] = None
            return None
        if isinstance(answer, Victims) and not (self._best_rank and self._best_rank < (answer.harm, i)):
            self._best, self._best_rank = answer, (answer.harm, i)
        return answer

    def _try(self, node_name: str) -> Victims | Rejection:
        """The victims on a node with which the pod would fit there, or why it would not fit."""
        if not less_important(self._pod, node_name, self._cache):
            return NO_VICTIMS
        return victims_on(self._pod, node_name, self._cache, self._why_not, self._disruptions_left)


def _potential(rejected: Mapping[str, Rejection]) -> int:
    """On how many nodes evictions could help."""
    return sum(count for rejection, count in Counter(rejected.values()).items() if _might_help(rejection))


def _none(cache: Cache, failed: Counter[Rejection], potential: int) -> PostFilterResult:
    """The result if no node is a candidate. failed: how often the potential nodes are rejected, and why."""
    reasons = Counter({NOT_HELPFUL: len(cache.nodes) - potential})
    for rejection, count in failed.items():
        for reason in rejection.status.reasons:
            reasons[reason] += count
    counted = ", ".join(sorted(f"{count} {reason}" for reason, count in reasons.items() if count))
    why = f"preemption: 0/{len(cache.nodes)} nodes are available: {counted}."
    by = frozenset(each.plugin for each in failed) - {NO_VICTIMS.plugin}
    return PostFilterResult("", reasons=(why,), rejected_by=by)


def _might_help(rejection: Rejection | None) -> bool:
    """Whether evictions could help: the node's rejection isn't unresolvable."""
    return rejection is not None and rejection.status.code != Code.UNSCHEDULABLE_AND_UNRESOLVABLE


def victims_are_leaving(pod: Pod, cache: Cache, rejected: Mapping[str, Rejection]) -> bool:
    """Whether victims for the pod are leaving already, on a node where it may fit."""
    name = cache.nominator.node_of(pod) or ""
    if name not in cache.nodes or (name in rejected and not _might_help(rejected[name])):
        return False
    return any(cache.is_leaving(each) for each in less_important(pod, name, cache))
