"""What is asked of many nodes at once: a call for each node is saved by reading it from a column.

A column is kept from pod to pod; what it says of a node is found again when pods have come there, or gone.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Generic, TypeVar

from lib.scheduling.cache import Cache, ChangedNodes, NodeInfo

T = TypeVar("T")


class NodeSlice:
    """Some nodes of a cluster, by their places in its order."""

    def __init__(self, cache: Cache, places: Sequence[int]) -> None:
        self._cache, self._places = cache, places

    def __len__(self) -> int:
        return len(self._places)

    def __iter__(self) -> Iterator[NodeInfo]:
        order = self._cache.node_list
        return (order[i] for i in self._places)

    def some(self, which: Sequence[int]) -> "NodeSlice":
        """Those that stand at these places among them."""
        if len(which) == len(self):
            return self
        return NodeSlice(self._cache, [self._places[i] for i in which])

    def column(self, find: Callable[..., T], *about: str) -> list[T]:
        """For each node what `find(node, *about)` says, which must depend on the node and its pods alone."""
        kept: _Column[T] = self._cache.remember(
            (find, about), lambda: _Column(self._cache, lambda node: find(node, *about))
        )
        values = kept.values()
        return [values[i] for i in self._places]


class _Column(Generic[T]):
    """Something of each node of a cluster, in its order."""

    def __init__(self, cache: Cache, find: Callable[[NodeInfo], T]) -> None:
        self._cache, self._find = cache, find
        self._values = [find(node) for node in cache.node_list]
        self._touched = ChangedNodes(cache)

    def values(self) -> list[T]:
        """As it is now."""
        for i in self._touched.places():
            self._values[i] = self._find(self._cache.node_list[i])
        return self._values
