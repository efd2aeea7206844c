"""The nodes by a lower bound of the harm that preemption does there, so that few of them are tried.

kube-scheduler has no counterpart: it tries nodes from a random one on, in parallel.
"""

from bisect import bisect_left, insort
from collections.abc import Iterator
from itertools import takewhile

from lib.scheduling.cache import Cache
from lib.scheduling.kept import OfEachNode
from lib.scheduling.preemption.victims import Harm, least_harm

Rank = tuple[Harm, int]
"""The harm of preemption on a node, or a lower bound of it, and the node's index in `Cache.node_list`.

The lower, the better: of nodes where the harm is the same, the first in the list is picked.
"""


class NodesByHarm(OfEachNode[Harm | None]):
    """The nodes with pods, by a lower bound of the harm: that of evicting the least important pod alone.

    The harm is more if that pod is not enough, may not be evicted, or is protected by a disruption budget.
    """

    def __init__(self, cache: Cache) -> None:
        super().__init__(cache, lambda node: least_harm(node.pods))
        self._ranks = sorted((bound, i) for i, bound in enumerate(self.values) if bound)

    @classmethod
    def of(cls, cache: Cache) -> "NodesByHarm":
        """The nodes of a cluster. They are kept: only nodes whose pods have changed get new bounds."""
        return cache.kept.get("nodes by harm", cls, cache)

    def _put(self, i: int, value: Harm | None) -> None:
        before, self.values[i] = self.values[i], value
        if before:
            del self._ranks[bisect_left(self._ranks, (before, i))]
        if value:
            insort(self._ranks, (value, i))

    def below(self, priority: int) -> Iterator[Rank]:
        """The nodes that have a pod of a lower priority, and their bounds; the lowest bound first."""
        return takewhile(lambda rank: rank[0].highest < priority, self._ranks)

    def may_beat(self, best: Rank, i: int) -> bool:
        """Whether the node with this index may be better than the best one so far."""
        bound = self.values[i]
        return bound is not None and (bound, i) < best
