"""A slice of the nodes, for plugins that look at many nodes at once: values are read from a list.

A list is kept from pod to pod. A node's value is computed again when the node's pods have changed.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

from lib.scheduling.cache import Cache
from lib.scheduling.kept import OfEachNode
from lib.scheduling.node_info import NodeInfo

T = TypeVar("T")


class NodeSlice:
    """Some nodes of a cluster, by their indexes in `Cache.node_list`.

    A range of indexes that goes beyond the end of the list continues at its beginning.
    """

    def __init__(self, cache: Cache, indexes: Sequence[int]) -> None:
        count = len(cache.node_list)
        if isinstance(indexes, range) and indexes.start >= count:
            indexes = range(indexes.start - count, indexes.stop - count)
        self._cache, self._indexes = cache, indexes
        # Most slices are of the one node that a pod was placed on: its values are found without lists.
        self._only = cache.node_list[indexes[0]] if len(indexes) == 1 else None

    def __len__(self) -> int:
        return len(self._indexes)

    def __iter__(self) -> Iterator[NodeInfo]:
        return iter((self._only,) if self._only is not None else self.pick(self._cache.node_list))

    @property
    def indexes(self) -> Sequence[int]:
        """The nodes' indexes in `Cache.node_list`."""
        count = len(self._cache.node_list)
        if isinstance(self._indexes, range) and self._indexes.stop > count:
            return [i % count for i in self._indexes]
        return self._indexes

    def some(self, which: Sequence[int]) -> "NodeSlice":
        """The nodes at these positions of the slice."""
        if len(which) == len(self):
            return self
        indexes = self.indexes
        return NodeSlice(self._cache, [indexes[i] for i in which])

    def values(self, find: Callable[..., T], *arguments: str) -> list[T]:
        """For each node `find(node, *arguments)`. The result must depend on the node and its pods only."""
        if self._only is not None:
            return [find(self._only, *arguments)]
        kept = self._cache.kept.get((find, arguments), OfEachNode, self._cache, find, *arguments)
        return self.pick(kept.values)

    def pick(self, values: list[T]) -> list[T]:
        """The values of these nodes. values: of all nodes, in the order of `Cache.node_list`."""
        if self._only is not None:
            return [values[self._indexes[0]]]
        if not isinstance(self._indexes, range):
            return [values[i] for i in self._indexes]
        start, end = self._indexes.start, self._indexes.stop
        run = values[start:end]  # much faster than one value after the other
        return run + values[: end - len(values)] if end > len(values) else run

    def index_at(self, i: int) -> int:
        """The index in `Cache.node_list` of the node at this position of the slice."""
        return self._indexes[i] % len(self._cache.node_list)
