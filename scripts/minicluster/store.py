"""In place of etcd and the watch cache: keeps objects, numbers writes, keeps recent events for watches."""

import asyncio
from collections import defaultdict, deque
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

import msgspec

from .errors import expired
from .resources import Resource

Object = dict[str, Any]
Key = tuple[str, str]  # namespace (empty for objects that have none) and name
Kind = Literal["ADDED", "MODIFIED", "DELETED"]


class Stored:
    """One version of an object. It is never changed: a write stores another one. So its JSON is made once."""

    def __init__(self, resource: Resource, content: Object) -> None:
        self.resource = resource
        self.content = content

    @cached_property
    def json(self) -> bytes:
        """The JSON as an item of a list, without kind and apiVersion."""
        return msgspec.json.encode(self.content)

    @property
    def full_json(self) -> bytes:
        start = f'{{"kind":"{self.resource.kind}","apiVersion":"{self.resource.group_version}",'
        return start.encode() + self.json[1:]

    @property
    def metadata(self) -> Object:
        metadata: Object = self.content["metadata"]
        return metadata

    @property
    def key(self) -> Key:
        return self.metadata.get("namespace", ""), self.metadata["name"]

    @property
    def version(self) -> int:
        return int(self.metadata["resourceVersion"])

    def copy(self) -> Object:
        """A copy of its content, to be changed for a write."""
        content: Object = msgspec.json.decode(self.json)
        return content


@dataclass(frozen=True)
class WatchEvent:
    kind: Kind
    version: int
    resource: Resource
    new: Stored  # for DELETED: the last state, with the resource version of the deletion
    old: Stored | None


class Store:
    def __init__(self, history: int) -> None:
        self.version = 0
        self.closed = False
        self._objects: dict[Resource, dict[Key, Stored]] = defaultdict(dict)
        self._history: dict[Resource, deque[WatchEvent]] = defaultdict(lambda: deque(maxlen=history))
        self._forgotten: dict[Resource, int] = defaultdict(int)  # the newest version no longer in the history
        self._owned: dict[str, set[tuple[Resource, Key]]] = defaultdict(set)  # by the owner's uid
        self._watches: dict[Resource, set[asyncio.Queue[WatchEvent | None]]] = defaultdict(set)
        self._listeners: list[Callable[[WatchEvent], None]] = []

    def get(self, resource: Resource, key: Key) -> Stored | None:
        return self._objects[resource].get(key)

    def every(self, resource: Resource, namespace: str = "") -> list[Stored]:
        """The objects in the order of their keys, as in etcd."""
        return _in_order(self._objects[resource], namespace)

    def every_at(self, resource: Resource, namespace: str, version: int) -> list[Stored]:
        """The list as it was at an earlier version: the current one, with later writes undone."""
        if version < self._forgotten[resource]:
            raise expired(
                "The provided continue parameter is too old to display a consistent list result. "
                "You can start a new list without the continue parameter."
            )
        objects = dict(self._objects[resource])
        for event in reversed(self._history[resource]):
            if event.version <= version:
                break
            if event.old:
                objects[event.old.key] = event.old
            else:
                objects.pop(event.new.key, None)
        return _in_order(objects, namespace)

    def owned_by(self, uid: str) -> list[Stored]:
        found = (self.get(resource, key) for resource, key in sorted(self._owned[uid], key=_by_key))
        return [stored for stored in found if stored]

    def put(self, resource: Resource, content: Object) -> Stored:
        """Store an object, new or changed, under the next resource version."""
        new = self._numbered(resource, content)
        old = self.get(resource, new.key)
        self._objects[resource][new.key] = new
        self._own(old, set.discard)
        self._own(new, set.add)
        self._happened(WatchEvent("MODIFIED" if old else "ADDED", self.version, resource, new, old))
        return new

    def remove(self, stored: Stored) -> Stored:
        """Remove an object; its last state gets the resource version of the deletion."""
        resource = stored.resource
        old = self._objects[resource].pop(stored.key)
        self._own(old, set.discard)
        last = self._numbered(resource, stored.content)
        self._happened(WatchEvent("DELETED", self.version, resource, last, old))
        return last

    def listen(self, listener: Callable[[WatchEvent], None]) -> None:
        """Call `listener` with every event of every resource."""
        self._listeners.append(listener)

    def events_since(self, resource: Resource, version: int) -> list[WatchEvent]:
        if version < self._forgotten[resource]:
            raise expired(f"too old resource version: {version} ({self._forgotten[resource] + 1})")
        return [event for event in self._history[resource] if event.version > version]

    def subscribe(self, resource: Resource) -> "asyncio.Queue[WatchEvent | None]":
        """A queue that gets each later event, and None when the server ends."""
        queue: asyncio.Queue[WatchEvent | None] = asyncio.Queue()
        self._watches[resource].add(queue)
        if self.closed:
            queue.put_nowait(None)
        return queue

    def unsubscribe(self, resource: Resource, queue: "asyncio.Queue[WatchEvent | None]") -> None:
        self._watches[resource].discard(queue)

    def close(self) -> None:
        """End all watches."""
        self.closed = True
        for queues in self._watches.values():
            for queue in queues:
                queue.put_nowait(None)

    def _numbered(self, resource: Resource, content: Object) -> Stored:
        self.version += 1
        metadata = {**content["metadata"], "resourceVersion": str(self.version)}
        return Stored(resource, {**content, "metadata": metadata})

    def _own(self, stored: Stored | None, change: Callable[[set[Any], Any], None]) -> None:
        if stored:
            for owner in stored.metadata.get("ownerReferences", ()):
                change(self._owned[owner["uid"]], (stored.resource, stored.key))

    def _happened(self, event: WatchEvent) -> None:
        history = self._history[event.resource]
        if len(history) == history.maxlen:
            self._forgotten[event.resource] = history[0].version if history else event.version
        history.append(event)
        for queue in self._watches[event.resource]:
            queue.put_nowait(event)
        for listener in self._listeners:
            listener(event)


def _in_order(objects: dict[Key, Stored], namespace: str) -> "list[Stored]":
    return [objects[key] for key in sorted(objects) if not namespace or key[0] == namespace]


def _by_key(owned: tuple[Resource, Key]) -> Key:
    return owned[1]
