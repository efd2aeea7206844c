"""Values that are kept while a cluster changes, and catch up with its changes when they are asked for.

A journal has the changes in order. Each kept value has a token: the number of the changes that it has
followed. There are values for each node, which are found again for the nodes that changed; counts, which
follow pods as they come and go; and results about all nodes, which hold until a node is updated.
"""

from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterator, Sequence
from contextlib import contextmanager
from itertools import repeat
from typing import Any, Generic, Protocol, TypeVar

from lib.kube.objects import Pod

Entry = TypeVar("Entry")
T = TypeVar("T")

NodeChange = tuple[Any, Pod | None, int]
"""A NodeInfo, a pod, and 1 if the pod came to the node, or -1 if it went; or no pod: the node was updated."""


class Follower:
    """A value that can catch up with changes."""

    token = 0
    """How many changes it has followed. Its journal sets that."""

    def follow(self, changes: Sequence[Any]) -> bool:
        """Take some more changes into account. False if the value must be found anew instead."""
        raise NotImplementedError


Value = TypeVar("Value", bound=Follower)


class Journal(Generic[Entry]):
    """The changes, in order."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        """With more changes than this, the journal starts over."""
        self.start = 0
        """The token from which a value can catch up. It grows when the journal starts over."""
        self._changes: list[Entry] = []
        self._tried: dict[Follower, None] | None = None
        """In a trial, the values that may have followed its changes."""

    @property
    def token(self) -> int:
        """The number of changes so far."""
        return self.start + len(self._changes)

    def add(self, change: Entry) -> None:
        """Add a change."""
        self._changes.append(change)
        if len(self._changes) > self.limit and self._tried is None:
            self.start_over()

    def start_over(self) -> None:
        """Forget the changes, so that all kept values must be found anew."""
        self.start = self.token + 1
        self._changes = []

    def since(self, token: int) -> Sequence[Entry] | None:
        """The changes after a token; None if they are no longer known."""
        return self._changes[token - self.start :] if token >= self.start else None

    def begin(self, value: Follower) -> None:
        """A value was found: from now on, it follows the changes."""
        value.token = self.start + len(self._changes)
        if self._tried is not None:
            self._tried[value] = None

    def catch_up(self, value: Follower) -> bool:
        """Have a value follow the changes since the last time. False if it must be found anew."""
        read = value.token - self.start
        if read == len(self._changes):
            return True
        if read < 0 or not value.follow(self._changes[read:]):
            return False
        self.begin(value)
        return True

    @contextmanager
    def trial(self) -> Iterator[None]:
        """A block whose changes are undone by other changes when it ends; then both are forgotten.

        Values that have followed the first follow the others, too, so that all are as they were.
        """
        if self._tried is not None:
            yield  # this is part of a longer trial
            return
        before, self._tried = self.token, {}
        try:
            yield
        finally:
            tried, self._tried = self._tried, None
            for value in tried:
                value.token = before if self.catch_up(value) else -1
            del self._changes[before - self.start :]


class Kept:
    """Values by key that follow a journal: at most `limit`; the least recently used are dropped."""

    def __init__(self, journal: Journal[Any], limit: int) -> None:
        self.journal, self.limit = journal, limit
        self._start = journal.start
        self._values: OrderedDict[Hashable, Any] = OrderedDict()

    def get(self, key: Hashable, find: Callable[..., Value], *arguments: Any) -> Value:
        """The value with this key, up to date. Don't keep what it holds: it changes.

        find: finds it anew; called with the arguments.
        """
        if self._start != self.journal.start:
            self._start = self.journal.start
            self.clear()
        value: Value | None = self._values.pop(key, None)
        if value is None or not self.journal.catch_up(value):
            value = find(*arguments)
            self.journal.begin(value)
        self._values[key] = value  # now the most recently used
        while len(self._values) > self.limit:
            self._values.popitem(last=False)
        return value

    def clear(self) -> None:
        """Drop all values."""
        self._values.clear()


class OfAllNodes(Follower, Generic[T]):
    """A value that depends on the nodes, but not on their pods."""

    def __init__(self, value: T) -> None:
        self.value = value

    def follow(self, changes: Sequence[NodeChange]) -> bool:
        """A node that was updated ends the value."""
        return all(pod is not None for _, pod, _ in changes)


class HasNodes(Protocol):
    """A cache, as far as kept values read it."""

    @property
    def node_list(self) -> list[Any]:
        """The nodes in the order in which they are filtered."""

    @property
    def node_index(self) -> dict[str, int]:
        """Each node's index in `node_list`, by its name."""


class OfEachNode(Follower, Generic[T]):
    """A value of each node, which depends on the node and its pods; in the order of `Cache.node_list`.

    find: called with a node and the arguments.
    """

    def __init__(self, cache: "HasNodes", find: Callable[..., T], *arguments: str) -> None:
        self._cache, self._find, self._arguments = cache, find, arguments
        self.values = [*map(find, cache.node_list, *map(repeat, arguments))]

    def follow(self, changes: Sequence[NodeChange]) -> bool:
        """Find the values of the nodes that have changed again."""
        for i in changed_nodes(changes, self._cache):
            self._put(i, self._find(self._cache.node_list[i], *self._arguments))
        return True

    def _put(self, i: int, value: T) -> None:
        self.values[i] = value


def changed_nodes(changes: Sequence[NodeChange], cache: "HasNodes") -> list[int]:
    """The indexes in `Cache.node_list` of the nodes that have changed, each once."""
    index = cache.node_index
    return list(dict.fromkeys([index[node.name] for node, _, _ in changes]))


class CountOfPods(Follower):
    """A count that follows pods as they come and go."""

    def _begin(self, cache: "HasNodes") -> None:
        for node in cache.node_list:
            for pod in node.pods:
                self._count(node, pod, 1)

    def follow(self, changes: Sequence[NodeChange]) -> bool:
        """Count the pods that came and went."""
        for node, pod, sign in changes:
            if pod is not None:
                self._count(node, pod, sign)
        return True

    def _count(self, node: Any, pod: Pod, sign: int) -> None:
        """Count a pod that came to a node (sign 1), or went from it (sign -1)."""
        raise NotImplementedError
