"""What is asked of many nodes at once: a call for each node is saved by reading it from a column.

A column is kept from pod to pod; what it says of a node is found again when pods have come there, or gone.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Generic, TypeVar

from lib.scheduling.cluster import Cluster, NodeInfo, Touched

T = TypeVar("T")


class Nodes:
    """Some nodes of a cluster, by their places in its order."""

    def __init__(self, cluster: Cluster, places: Sequence[int]) -> None:
        self._cluster, self._places = cluster, places

    def __len__(self) -> int:
        return len(self._places)

    def __iter__(self) -> Iterator[NodeInfo]:
        order = self._cluster.order
        return (order[i] for i in self._places)

    def some(self, which: Sequence[int]) -> "Nodes":
        """Those that stand at these places among them."""
        if len(which) == len(self):
            return self
        return Nodes(self._cluster, [self._places[i] for i in which])

    def column(self, find: Callable[..., T], *about: str) -> list[T]:
        """For each node what `find(node, *about)` says, which must depend on the node and its pods alone."""
        kept: _Column[T] = self._cluster.remember(
            (find, about), lambda: _Column(self._cluster, lambda node: find(node, *about))
        )
        values = kept.values()
        return [values[i] for i in self._places]


class _Column(Generic[T]):
    """Something of each node of a cluster, in its order."""

    def __init__(self, cluster: Cluster, find: Callable[[NodeInfo], T]) -> None:
        self._cluster, self._find = cluster, find
        self._values = [find(node) for node in cluster.order]
        self._touched = Touched(cluster)

    def values(self) -> list[T]:
        """As it is now."""
        for i in self._touched.places():
            self._values[i] = self._find(self._cluster.order[i])
        return self._values
