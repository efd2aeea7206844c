"""Objects as they were seen last, to find changes.

Counterpart: k8s.io/client-go, tools/cache/store.go
"""

from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from datetime import UTC, datetime
from typing import Any, Generic

from lib.kube.changes import Change, Changed, Kind
from lib.kube.decoding import called
from lib.kube.objects import Names
from lib.kube.paths import is_listed_at

_NEVER = datetime.max.replace(tzinfo=UTC)


class Store(Generic[Changed]):
    """Objects as they were seen last. Its methods return the changes.

    keeps_unreadable: keep the last version of an object that can't be decoded any more. oldest_first: whether
    the objects of a list come in the order of their creation, not of their names.
    """

    def __init__(self, *, keeps_unreadable: bool = False, oldest_first: bool = False) -> None:
        self.keeps_unreadable, self._oldest_first = keeps_unreadable, oldest_first
        self._objects: dict[str, Changed] = {}

    def __contains__(self, key: str) -> bool:
        return key in self._objects

    def __len__(self) -> int:
        return len(self._objects)

    def __iter__(self) -> Iterator[Changed]:
        return iter(self._objects.values())

    def replace(
        self, objects: Iterable[Changed], unreadable: Container[str] = (), path: str = ""
    ) -> Iterator[Change[Changed]]:
        """Replace all objects at a path by those of its list; returns the changes.

        unreadable: names of objects in the list that can't be decoded. path: "" for all objects.
        """
        if self._oldest_first:
            objects = sorted(objects, key=lambda item: item.metadata.creation_timestamp or _NEVER)
        new = {key_of(item.metadata): item for item in objects}
        gone = [key for key in self._objects if key not in new]
        for key in gone:
            metadata = self._objects[key].metadata
            is_kept = self.keeps_unreadable and called(metadata) in unreadable
            if not is_kept and is_listed_at(path, metadata.namespace):
                yield from self.update(key, None)
        for key, item in new.items():
            yield from self.update(key, item)

    def keep(self, namespaces: Container[str]) -> Iterator[Change[Changed]]:
        """Forget the objects of other namespaces; returns the changes."""
        return self.replace([item for item in self if item.metadata.namespace in namespaces])

    def update(self, key: str, new: Changed | None) -> Iterator[Change[Changed]]:
        """Update one object, or delete it; returns the change.

        With the same resource version nothing changes, and the known object is kept, so that all share it.
        """
        old = self._objects.get(key)
        if new is None:
            if old is not None:
                yield Change(Kind.DELETED, self._objects.pop(key), old)
        elif old is None:
            self._objects[key] = new
            yield Change(Kind.ADDED, new)
        elif old.metadata.resource_version != new.metadata.resource_version:
            self._objects[key] = new
            yield Change(Kind.MODIFIED, new, old)


def key_of(metadata: Names) -> str:
    """An object's key: different from that of an earlier object of the same name."""
    return metadata.uid or metadata.name


Stores = Sequence[tuple[Store[Changed], Callable[[Changed], bool]]]
"""Stores, each with a predicate for the objects that belong there."""


def one_store() -> Stores[Any]:
    """A store for all objects."""
    return [(Store[Any](), lambda _: True)]
