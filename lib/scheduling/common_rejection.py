"""One rejection for most nodes, as a mapping that needs no memory for each of them."""

from collections.abc import Iterator, Mapping, Set

from lib.scheduling.framework.interface import Rejection


class CommonRejection(Mapping[str, Rejection]):
    """A mapping from node names to one rejection, for all nodes except some.

    node_names: of all nodes, in order; it must not change. exempt: the names of the nodes without this
    rejection; unknown names do no harm.
    """

    def __init__(self, rejection: Rejection, node_names: Mapping[str, object], exempt: Set[str]) -> None:
        self._rejection, self._node_names, self._exempt = rejection, node_names, exempt

    def __getitem__(self, node_name: str) -> Rejection:
        if node_name in self._exempt or node_name not in self._node_names:
            raise KeyError(node_name)
        return self._rejection

    def __iter__(self) -> Iterator[str]:
        return (name for name in self._node_names if name not in self._exempt)

    def __len__(self) -> int:
        return len(self._node_names) - sum(name in self._node_names for name in self._exempt)
