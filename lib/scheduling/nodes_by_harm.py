"""The nodes by a lower bound of the harm that preemption does there, so that few of them are tried.

kube-scheduler has no counterpart: it tries nodes from a random one on, in parallel.
"""

from bisect import bisect_left, insort
from collections.abc import Iterator
from itertools import takewhile

from lib.scheduling.cache import Cache, ChangedNodes
from lib.scheduling.preemption import Harm, least_harm

Rank = tuple[Harm, int]
"""The harm of preemption on a node, or a lower bound of it, and the node's index in `Cache.node_list`.

The lower, the better: of nodes where the harm is the same, the first in the list is picked.
"""


class NodesByHarm:
    """The nodes with pods by their bounds: the harm of evicting the least important pod alone.

    The harm is more if that pod is not enough, may not be evicted, or is protected by a disruption budget.
    """

    def __init__(self, cache: Cache) -> None:
        self._cache = cache
        self._bounds = [least_harm(node.pods) for node in cache.node_list]
        self._ranks = sorted((bound, i) for i, bound in enumerate(self._bounds) if bound)
        self._changed = ChangedNodes(cache)

    @classmethod
    def of(cls, cache: Cache) -> "NodesByHarm":
        """The nodes of a cluster. The result is kept; only nodes whose pods have changed get new bounds."""
        kept = cache.remember("nodes by harm", lambda: cls(cache), catches_up=True)
        kept._catch_up()
        return kept

    def _catch_up(self) -> None:
        for i in self._changed.indexes():
            before, now = self._bounds[i], least_harm(self._cache.node_list[i].pods)
            if now == before:
                continue
            if before:
                del self._ranks[bisect_left(self._ranks, (before, i))]
            if now:
                insort(self._ranks, (now, i))
            self._bounds[i] = now

    def below(self, priority: int) -> Iterator[Rank]:
        """The nodes that have a pod of a lower priority, and their bounds; the lowest bound first."""
        return takewhile(lambda rank: rank[0].highest < priority, self._ranks)

    def may_beat(self, best: Rank | None, i: int) -> bool:
        """Whether the node with this index may be better than the best candidate; None: there is none."""
        bound = self._bounds[i]
        return best is None or (bound is not None and (bound, i) < best)
