"""Lists and watches one resource of the API.

Counterpart: k8s.io/client-go, tools/cache/reflector.go
"""

import logging
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from queue import SimpleQueue
from typing import Any, Generic

from lib.kube.api import Api, Watch
from lib.kube.changes import Change, Changed
from lib.kube.decoding import WatchEvent
from lib.kube.errors import ApiError, GoneError, LostAnswerError
from lib.kube.pager import ListPager
from lib.kube.store import Store, key_of

log = logging.getLogger(__name__)

SHORTEST_WATCH = 0.3
"""Seconds from one opening of a watch to the next: one that is cut off at once must not keep us busy."""

WatchLine = tuple["Reflector[Any]", Watch[Any], bytes | ApiError | None]
"""A reflector, its watch, and a line of it; or why there are no more: None when the watch's time was up."""


class Reflector(Generic[Changed]):
    """A resource that is listed once, and then watched by a thread that puts the watch's lines into a queue.

    stores: where its objects are kept, each with what tells which objects belong there. lines: the queue.
    unreadable: a line for each object that can't be read, by name. trouble: why the server doesn't go on,
    until someone was told.
    """

    def __init__(
        self,
        api: Api,
        path: str,
        kind: type[Changed],
        stores: Sequence[tuple[Store[Changed], Callable[[Changed], bool]]],
        lines: "SimpleQueue[WatchLine]",
        **selectors: str,
    ) -> None:
        self.unreadable: dict[str, str] = {}
        self.trouble: ApiError | None = None
        self.stores: Sequence[tuple[Store[Changed], Callable[[Changed], bool]]] = stores
        self._api = api
        self.path = path
        self._kind: type[Changed] = kind
        self._lines = lines
        self._selectors = selectors
        self._version = ""  # that was seen last; "" when a list must be made before going on
        self._watch: Watch[Changed] | None = None
        self._pager: ListPager[Changed] | None = None  # a list that was begun
        self._not_before = 0.0  # when the next watch may be opened

    @property
    def pause(self) -> float | None:
        """The seconds until a watch is to be opened; None while one is open."""
        return None if self._watch else max(0.0, self._not_before - time.monotonic())

    def retry_in(self, seconds: float) -> None:
        """Have the next watch opened so much later."""
        self._not_before = time.monotonic() + seconds

    def pager(self) -> ListPager[Changed] | None:
        """The list that is to be made before going on, to be read at once with others; None if none is."""
        if self._watch or self._version or self.pause or self.trouble:
            return None
        self._pager = self._api.pager(self.path, self._kind, **self._selectors)
        return self._pager

    def list(self) -> Sequence[Change[Changed]]:
        """List all objects, and watch no longer; what is different."""
        self.close()
        pager, self._pager = self._pager, None
        listing = (pager or self._api.pager(self.path, self._kind, **self._selectors)).answer()
        self._version = listing.resource_version
        self.unreadable = listing.malformed
        changes: list[Change[Changed]] = []
        for store, belongs in self.stores:
            changes += store.replace(filter(belongs, listing.items), listing.malformed)
        return changes

    def close(self) -> None:
        """Watch no longer; a list must be made before going on."""
        if self._watch:
            self._watch.close()
        self._watch = None
        self._version = ""

    def resume(self, relist: Callable[[], object]) -> None:
        """Watch from the version that was seen last. relist: called if a list must be made before."""
        if not self._version:
            relist()
        try:
            self._open()
        except GoneError:
            relist()
            self._open()

    def forget(self) -> Iterator[Change[Changed]]:
        """What is different when none of the objects is known any more."""
        for store, _ in self.stores:
            yield from store.replace(())

    def _open(self) -> None:
        """Open the watch. GoneError when a list must be made before."""
        try:
            watch = self._api.watch(self.path, self._kind, self._version, **self._selectors)
        except GoneError:
            self._version = ""
            raise
        self._watch = watch
        self._not_before = time.monotonic() + SHORTEST_WATCH
        name = f"WATCH {self.path}"
        threading.Thread(target=self._listen, args=(watch,), name=name, daemon=True).start()

    def _listen(self, watch: Watch[Changed]) -> None:
        """What the thread does; it touches nothing but the watch and the queue.

        It leaves it to the main thread to read what the lines say: that may have more urgent things to do.
        """
        end = None
        try:
            for line in watch:
                self._lines.put((self, watch, line))
        except ApiError as error:
            end = error
        finally:
            self._lines.put((self, watch, end))

    def handle_event(self, watch: Watch[Any], line: bytes | ApiError | None) -> Sequence[Change[Changed]]:
        """What is different after a line."""
        if watch is not self._watch:  # the last words of one that was closed
            return []
        if not isinstance(line, bytes):
            self._end(line)
            return []
        try:
            event: WatchEvent[Changed] = watch.read(line)
        except ApiError as error:
            watch.close()
            self._end(error)
            return []
        self._version = event.metadata.resource_version
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
            # What became of one that could be read until now, a complete list alone tells.
            watch.close()
            self._end(GoneError(event.malformed))
        return changes

    def _end(self, why: ApiError | None) -> None:
        """The watch is over; the next one goes on where it was, or, if that can't be, after a list."""
        log.debug("WATCH %s ended: %s", self.path, why or "its time was up")
        self._watch = None
        if why is None or isinstance(why, LostAnswerError):
            return
        self._version = ""
        if not isinstance(why, GoneError):
            self.trouble = why
