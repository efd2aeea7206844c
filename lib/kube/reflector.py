"""Lists and watches one resource of the API.

Counterpart: k8s.io/client-go, tools/cache/reflector.go
"""

import logging
from collections.abc import Callable, Sequence
from functools import partial
from queue import Queue
from typing import Any, Generic

from lib.kube.api import Api, Watch
from lib.kube.changes import Change, Changed
from lib.kube.decoding import Listing, decode_event
from lib.kube.errors import ApiError, GoneError, LostAnswerError
from lib.kube.pager import ListPager
from lib.kube.resources import Resource
from lib.kube.store import Stores, key_of

log = logging.getLogger(__name__)

SHORTEST_WATCH = 0.3
"""The shortest time between two openings of a watch, in seconds. A watch may end at once, again and again."""

WatchLine = tuple["Reflector[Any]", Watch | None, bytes | ApiError | Listing[Any] | None]
"""A reflector, its watch, and a line. At the watch's end, an error comes in place of a line, or None if the
watch's time was up. From `open_beside` come None in place of a watch, and a list in place of a line."""


class Reflector(Generic[Changed]):
    """Lists a resource once, then watches it: a thread puts the watch's lines into a queue.

    stores: where its objects are kept; other reflectors may keep those of other namespaces there. lines: the
    queue. unreadable: by name, a line for each object that can't be decoded. trouble: why the watch failed;
    it is reset when it has been reported. failed: why it can't be watched, as `WatchedClaims` found. version:
    the resource version that was seen last; "" if a list must come first.
    """

    def __init__(
        self,
        api: Api,
        resource: Resource,
        path: str,
        stores: Stores[Changed],
        lines: "Queue[WatchLine]",
        **selectors: str,
    ) -> None:
        self.unreadable: dict[str, str] = {}
        self.trouble: ApiError | None = None
        self.failed: ApiError | None = None
        self.stores = stores
        self._api, self._resource = api, resource
        self.path = path
        self._lines = lines
        self._selectors = selectors
        self.version = ""
        self._watch: Watch | None = None
        self._pager: ListPager[Changed] | None = None  # of a list that was begun
        self._listed = ""  # the version of the list that goes through the queue
        self._not_before = 0.0  # when the next watch may be opened

    @property
    def pause(self) -> float | None:
        """The seconds until a watch must be opened; None while one is open."""
        return None if self._watch else max(0.0, self._not_before - self._api.system.monotonic())

    def retry_in(self, seconds: float) -> None:
        """Open the next watch after so many seconds."""
        self._not_before = self._api.system.monotonic() + seconds

    def pager(self) -> ListPager[Changed] | None:
        """The list that must come before the next watch, to be read with others; None if there is none."""
        if self._watch or self.version or self.pause or self.trouble:
            return None
        self._pager = self._api.pager(self.path, self._resource.kind, **self._selectors)
        return self._pager

    def list(self) -> Sequence[Change[Changed]]:
        """Stop watching, and list all objects; returns the changes."""
        return self._replace(self._read())

    def _read(self) -> Listing[Changed]:
        self.close()
        pager, self._pager = self._pager, None
        listing = (pager or self._api.pager(self.path, self._resource.kind, **self._selectors)).answer()
        self.version = listing.resource_version
        return listing

    def _replace(self, listing: Listing[Changed]) -> Sequence[Change[Changed]]:
        self.unreadable = listing.malformed
        changes: list[Change[Changed]] = []
        for store, belongs in self.stores:
            changes += store.replace(filter(belongs, listing.items), listing.malformed, self.path)
        return changes

    def close(self) -> None:
        """Stop watching. The next watch needs a list first."""
        if self._watch:
            self._watch.close()
        self._watch, self._listed = None, ""
        self._forget_version()

    def go_on_from(self, listing: Listing[Changed]) -> None:
        """Let the next watch begin at a list whose objects are in the stores."""
        self.version, self.unreadable = listing.resource_version, listing.malformed

    def suspend(self) -> None:
        """Stop watching. The next watch goes on from the last event."""
        if self._watch:
            self._watch.close()
        self._watch = None
        self._api.freshness.note(self.path, self.version)

    def resume(self, relist: Callable[[], object]) -> None:
        """Watch from the version that was seen last. relist: called if a list must come first."""
        if not self.version:
            relist()
        try:
            self.open()
        except GoneError:
            relist()
            self.open()

    def open_beside(self) -> None:
        """Open the watch, in a thread beside the loop. The list goes into the queue, too."""
        self.resume(self._list_beside)

    def _list_beside(self) -> None:
        listing = self._read()
        self._listed = listing.resource_version
        self._lines.put((self, None, listing))

    @property
    def is_listed(self) -> bool:
        """Whether its objects are known, perhaps not the latest changes."""
        return bool(self._watch or self.version)

    def open(self) -> None:
        """Open the watch. GoneError when a list must come first."""
        try:
            watch = self._api.watch(self.path, self.version, **self._selectors)
        except GoneError:
            self._forget_version()
            raise
        self._watch = watch
        self._not_before = self._api.system.monotonic() + SHORTEST_WATCH
        self._api.system.start_thread(partial(self._listen, watch), f"WATCH {self.path}")

    def _listen(self, watch: Watch) -> None:
        """The thread's function: it uses only the watch and the queue.

        The main thread decodes the lines, when it has time for that.
        """
        end = None
        try:
            for line in watch:
                self._lines.put((self, watch, line))
        except ApiError as error:
            end = error
        finally:
            self._lines.put((self, watch, end))

    def handle_event(
        self, watch: Watch | None, line: bytes | ApiError | Listing[Changed] | None
    ) -> Sequence[Change[Changed]]:
        """Decode a line; returns the changes."""
        if isinstance(line, Listing):
            return self._replace(line) if line.resource_version == self._listed else []
        if watch is None or watch is not self._watch:  # a late line of a watch that was closed
            return []
        if not isinstance(line, bytes):
            self._end(line)
            return []
        try:
            event = decode_event(line, self._resource.kind, watch.where)
        except ApiError as error:
            watch.close()
            self._end(error)
            return []
        self.version = event.metadata.resource_version
        if event.type == "BOOKMARK":
            return []
        self.unreadable.pop(event.name, None)
        now = event.object
        if event.type == "DELETED":
            now = None
        elif event.malformed:
            self.unreadable[event.name] = event.malformed
        changes: list[Change[Changed]] = []
        for store, belongs in self.stores:
            key = key_of(event.metadata)
            if event.malformed and event.type != "DELETED" and store.keeps_unreadable and key in store:
                continue
            changes += store.update(key, now if now and belongs(now) else None)
        if event.malformed and event.type != "DELETED" and changes:
            # If it could be decoded before, only a complete list can tell what has become of it.
            watch.close()
            self._end(GoneError(event.malformed))
        return changes

    def _end(self, why: ApiError | None) -> None:
        """The watch has ended. The next one continues from there or, if it can't, after a list."""
        log.debug("WATCH %s ended: %s", self.path, why or "its time was up")
        self._watch = None
        if why is None or isinstance(why, LostAnswerError):
            return
        self._forget_version()
        if not isinstance(why, GoneError):
            self.trouble = why

    def _forget_version(self) -> None:
        """A list must come next. A list that is older than what was seen is refused from now on."""
        self._api.freshness.note(self.path, self.version)
        self.version = ""
