"""A slice of the nodes, for plugins that look at many nodes at once: values are read from a list.

A list is kept from pod to pod. A node's value is computed again when the node's pods have changed.
"""

from collections.abc import Callable, Iterator, Sequence
from itertools import repeat
from typing import Generic, TypeVar

from lib.scheduling.cache import Cache, ChangedNodes
from lib.scheduling.node_info import NodeInfo

T = TypeVar("T")


class NodeSlice:
    """Some nodes of a cluster, by their indexes in `Cache.node_list`."""

    def __init__(self, cache: Cache, indexes: Sequence[int]) -> None:
        self._cache, self.indexes = cache, indexes

    def __len__(self) -> int:
        return len(self.indexes)

    def __iter__(self) -> Iterator[NodeInfo]:
        node_list = self._cache.node_list
        return (node_list[i] for i in self.indexes)

    def some(self, which: Sequence[int]) -> "NodeSlice":
        """The nodes at these positions of the slice."""
        if len(which) == len(self):
            return self
        return NodeSlice(self._cache, [self.indexes[i] for i in which])

    def values(self, find: Callable[..., T], *arguments: str) -> list[T]:
        """For each node `find(node, *arguments)`. The result must depend on the node and its pods only."""
        kept: _KeptValues[T] = self._cache.remember(
            (find, arguments), lambda: _KeptValues(self._cache, find, arguments), catches_up=True
        )
        return self.pick(kept.current())

    def pick(self, values: Sequence[T]) -> list[T]:
        """The values of these nodes. values: of all nodes, in the order of `Cache.node_list`."""
        return [values[i] for i in self.indexes]


class _KeptValues(Generic[T]):
    """A value of each node of a cluster, in the order of `Cache.node_list`."""

    def __init__(self, cache: Cache, find: Callable[..., T], arguments: tuple[str, ...]) -> None:
        self._cache, self._find, self._arguments = cache, find, arguments
        self._values = [*map(find, cache.node_list, *map(repeat, arguments))]
        self._changed = ChangedNodes(cache)

    def current(self) -> list[T]:
        """The values, up to date."""
        for i in self._changed.indexes():
            self._values[i] = self._find(self._cache.node_list[i], *self._arguments)
        return self._values
