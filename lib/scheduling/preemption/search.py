"""Searches for the node where preemption does the least harm.

Source: pkg/scheduler/framework/plugins/defaultpreemption/default_preemption.go and framework/preemption
"""

from collections import Counter
from collections.abc import Hashable, Mapping
from functools import cached_property

from lib.kube.objects import Pod
from lib.scheduling.cache import Cache
from lib.scheduling.framework.interface import PostFilterResult
from lib.scheduling.preemption.kept_victims import KeptVictims
from lib.scheduling.preemption.nodes_by_harm import NodesByHarm, Rank
from lib.scheduling.preemption.victims import NO_VICTIMS, Victims, WhyNot, less_important, victims_on
from lib.scheduling.resources import NATIVE
from lib.scheduling.status import Code, NodeError, Rejection

NOT_HELPFUL = "Preemption is not helpful for scheduling"
FIRST_TRIES = 10
"""At most this many nodes, those with the lowest bounds of NodesByHarm, are tried before the others."""


class VictimSearch:
    """Searches for the node where preemption does the least harm."""

    def __init__(
        self,
        pod: Pod,
        cache: Cache,
        rejected: Mapping[str, Rejection],
        why_not: WhyNot,
        kept: KeptVictims,
        alike: Hashable | None,
    ) -> None:
        self._pod, self._cache, self._rejected = pod, cache, rejected
        self._why_not, self._kept = why_not, kept.of_kind(alike, pod, cache)
        # Devices may serve other resources.
        lacks = frozenset().union(*(why.status.lacks for why in {*rejected.values()})).intersection(NATIVE)
        self._least_harm = kept.least_harm(pod, lacks, cache) if lacks else None
        self._best: Victims | None = None
        self._best_rank: Rank | None = None
        self.failed = Counter[Rejection]()
        """The reasons why preemption doesn't help on nodes that were tried, each with the number of nodes."""
        self.errors: dict[str, None] = {}
        """The errors of filters on nodes that were tried, each text once."""
        self._disruptions_left = cache.disruptions_left()
        self._nominated = cache.nominator.nominated_before(pod)

    @cached_property
    def _by_harm(self) -> NodesByHarm:
        return NodesByHarm.of(self._cache)

    @cached_property
    def potential_nodes(self) -> list[int]:
        """The indexes in `Cache.node_list` of the nodes where evictions could help."""
        return [
            i for i, node in enumerate(self._cache.node_list) if might_help(self._rejected.get(node.name))
        ]

    def likely_best(self) -> Victims | None:
        """Try a few nodes that may be the best. None if another node may still be better.

        `best` then compares the other nodes with the best of these.
        """
        tries = 0
        for rank in self._by_harm.below(self._pod.spec.priority):
            if self._best_rank and self._best_rank < rank:
                return self._best  # all others have higher bounds
            _, i = rank
            if self._may_be_best(i) and might_help(self._rejected.get(self._cache.node_list[i].name)):
                if tries == FIRST_TRIES:
                    return None
                tries += 1
                self._answer_of(i)
        return self._best

    def _may_be_best(self, i: int) -> bool:
        """Whether enough room can be made on the node with this index, with less harm than on the best."""
        if not self._least_harm:
            return True
        node = self._cache.node_list[i]
        bound = self._least_harm.on(node, self._nominated.get(node.name, ()))
        return bound is not None and not (self._best_rank and self._best_rank < (bound, i))

    def best(self, enough: int) -> Victims | None:
        """Try nodes in the cache's order; returns the best candidate of all tries, None if there is none."""
        self.candidates(enough, better_only=True)
        return self._best

    def candidates(self, enough: int, *, better_only: bool = False) -> dict[str, Victims]:
        """Try nodes in the cache's order until there are enough candidates; returns these, by node name.

        better_only: leave out nodes that can't be better than the best so far.
        """
        candidates: dict[str, Victims] = {}
        for i in self.potential_nodes:
            if len(candidates) >= enough and any(not victims.violations for victims in candidates.values()):
                break
            if (
                better_only
                and self._best_rank
                and not (self._by_harm.may_beat(self._best_rank, i) and self._may_be_best(i))
            ):
                continue
            answer = self._answer_of(i)
            if isinstance(answer, Victims):
                candidates[answer.node_name] = answer
            elif answer:
                self.failed[answer] += 1
        return candidates

    def _answer_of(self, i: int) -> Victims | Rejection | None:
        """The victims on the node with this index, or why the pod would not fit there without them.

        None if a filter fails.
        """
        name = self._cache.node_list[i].name
        try:
            answer = self._kept.answer(name, self._nominated.get(name, ()), self._try)
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


def potential(rejected: Mapping[str, Rejection]) -> int:
    """On how many nodes evictions could help."""
    return sum(count for rejection, count in Counter(rejected.values()).items() if might_help(rejection))


def no_candidate(cache: Cache, failed: Counter[Rejection], potential: int) -> PostFilterResult:
    """The result if no node is a candidate.

    failed: why the nodes were rejected that were tried, each with their number. potential: on how many nodes
    evictions could help.
    """
    reasons = Counter({NOT_HELPFUL: len(cache.nodes) - potential})
    for rejection, count in failed.items():
        for reason in rejection.status.reasons:
            reasons[reason] += count
    counted = ", ".join(sorted(f"{count} {reason}" for reason, count in reasons.items() if count))
    why = f"preemption: 0/{len(cache.nodes)} nodes are available: {counted}."
    plugins = frozenset(rejection.plugin for rejection in failed) - {NO_VICTIMS.plugin}
    return PostFilterResult("", reasons=(why,), rejected_by=plugins)


def might_help(rejection: Rejection | None) -> bool:
    """Whether evictions could help: the node's rejection isn't unresolvable."""
    return rejection is not None and rejection.status.code != Code.UNSCHEDULABLE_AND_UNRESOLVABLE


def victims_are_leaving(pod: Pod, cache: Cache, rejected: Mapping[str, Rejection]) -> bool:
    """Whether victims for the pod are leaving already, on a node where it may fit."""
    name = cache.nominator.node_of(pod) or ""
    if name not in cache.nodes or (name in rejected and not might_help(rejected[name])):
        return False
    return any(cache.is_leaving(other) for other in less_important(pod, name, cache))
