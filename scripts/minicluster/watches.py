"""Watches: the changes of a resource from a version on, as lines of JSON."""

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from typing import Any

import msgspec

from .defaults import blank
from .errors import ApiError
from .resources import Resource
from .selectors import Matches
from .store import Object, Store, Stored, WatchEvent

BOOKMARK_EVERY = 60.0
Show = Callable[[Stored], bytes]  # the form in which the client wants objects


class Watch:
    def __init__(
        self, store: Store, resource: Resource, namespace: str, matches: Matches | None, show: Show
    ) -> None:
        self._store = store
        self._resource = resource
        self._namespace = namespace
        self._matches = matches
        self._show = show

    async def lines(
        self, version: int, from_now: bool, initial_events_end: bool, bookmarks: bool, timeout: float
    ) -> AsyncIterator[bytes]:
        """The events after `version`; or, `from_now`, first one ADDED event for each existing object."""
        queue = self._store.subscribe(self._resource)
        try:
            if from_now:
                past = self._as_added()
                if initial_events_end:
                    past += self._bookmark({"annotations": {"k8s.io/initial-events-end": "true"}})
            else:
                past = b"".join(map(self._line, self._store.events_since(self._resource, version)))
            yield past  # later events are in the queue: there were none since it was made
            async for events in _batches(queue, timeout):
                yield b"".join(map(self._line, events))
                if bookmarks and not events:
                    yield self._bookmark({})
        except ApiError as error:
            yield _line("ERROR", msgspec.json.encode(error.status))
        finally:
            self._store.unsubscribe(self._resource, queue)

    def _as_added(self) -> bytes:
        there = self._store.every(self._resource, self._namespace)
        return b"".join(_line("ADDED", self._show(stored)) for stored in there if self._is_in(stored))

    def _line(self, event: WatchEvent) -> bytes:
        """With a selector, an object that now matches is ADDED; one that no longer matches is DELETED."""
        was = bool(event.old) and self._is_in(event.old)
        is_in = event.kind != "DELETED" and self._is_in(event.new)
        if was and is_in:
            return _line("MODIFIED", self._show(event.new))
        if is_in:
            return _line("ADDED", self._show(event.new))
        return _line("DELETED", self._show(self._last_seen(event))) if was else b""

    def _last_seen(self, event: WatchEvent) -> Stored:
        if event.kind == "DELETED" or not event.old:
            return event.new
        content = event.old.copy()
        content["metadata"]["resourceVersion"] = str(event.version)
        return Stored(self._resource, content)

    def _is_in(self, stored: Stored | None) -> bool:
        if not stored or (self._namespace and stored.key[0] != self._namespace):
            return False
        return not self._matches or self._matches(stored.content)

    def _bookmark(self, metadata: Object) -> bytes:
        content = {
            "metadata": {"resourceVersion": str(self._store.version), **metadata},
            **blank(self._resource),
        }
        return _line("BOOKMARK", Stored(self._resource, content).full_json)


async def _batches(
    queue: "asyncio.Queue[WatchEvent | None]", timeout: float
) -> AsyncIterator[list[WatchEvent]]:
    """The events in the queue, as soon as there are any; an empty list after a long time without any."""
    end = time.monotonic() + timeout
    while (left := end - time.monotonic()) > 0:
        try:
            batch: list[Any] = [await asyncio.wait_for(queue.get(), min(left, BOOKMARK_EVERY))]
        except TimeoutError:
            if left > BOOKMARK_EVERY:
                yield []
            continue
        while not queue.empty():
            batch.append(queue.get_nowait())
        if None in batch:
            return
        yield batch


def _line(kind: str, content: bytes) -> bytes:
    return b'{"type":"%s","object":%s}\n' % (kind.encode(), content)
