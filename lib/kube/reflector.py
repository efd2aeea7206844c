"""What the cluster looks like, as changes that are heard of when they happen."""

import logging
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from queue import Empty, SimpleQueue
from typing import Any, Generic

from lib.kube.api import Api, Watch, paths_of
from lib.kube.changes import Change, Changed
from lib.kube.decoding import Listing, WatchEvent
from lib.kube.errors import ApiError, ForbiddenError, GoneError, LostAnswerError
from lib.kube.objects import Node, Pod, Service
from lib.kube.source import ALL_PODS, UNCOUNTED, ClusterSource, Delta, Store, key_of

log = logging.getLogger(__name__)

SHORTEST_WATCH = 0.3
"""Seconds from one opening of a watch to the next: one that is cut off at once must not keep us busy."""

LONGEST_DOZE = 0.5
"""Seconds to wait at a stretch: a signal that comes when the wait is about to begin, as another thread runs,
is heard when it ends."""

FORBIDDEN_PAUSE = 5.0
"""Seconds until services that may not be watched are tried again: the right may be granted at any time."""

_Heard = tuple["Reflector[Any]", Watch[Any], bytes | ApiError | None]
"""A line of a watch, or why there are no more; None when its time was up."""


class Reflector(Generic[Changed]):
    """A resource that is listed once, and then watched by a thread that puts what it hears into a queue.

    parts: what is to be known of it, and which objects belong there. unreadable: a line for each object that
    can't be read, by name. trouble: what the server had against going on, until someone was told.
    """

    def __init__(
        self,
        api: Api,
        path: str,
        kind: type[Changed],
        parts: Sequence[tuple[Store[Changed], Callable[[Changed], bool]]],
        heard: "SimpleQueue[_Heard]",
        **selectors: str,
    ) -> None:
        self.unreadable: dict[str, str] = {}
        self.trouble: ApiError | None = None
        self._api = api
        self.parts: Sequence[tuple[Store[Changed], Callable[[Changed], bool]]] = parts
        self._path = path
        self._kind: type[Changed] = kind
        self._heard = heard
        self._selectors = selectors
        self._version = ""  # that was seen last; "" when a list must be made before going on
        self._watch: Watch[Changed] | None = None
        self._not_before = 0.0  # when the next watch may be opened

    @property
    def is_listed(self) -> bool:
        """Whether there is a version to watch from."""
        return bool(self._version)

    @property
    def pause(self) -> float | None:
        """The seconds until a watch is to be opened; None while one is open."""
        return None if self._watch else max(0.0, self._not_before - time.monotonic())

    def put_off(self, seconds: float) -> None:
        """Have the next watch opened so much later."""
        self._not_before = time.monotonic() + seconds

    def look(self) -> Iterator[Change[Changed]]:
        """Look at all objects; what is different."""
        listing = self._api.list(self._path, self._kind, **self._selectors)
        self._version = listing.resource_version
        self.unreadable = listing.malformed
        for known, belongs in self.parts:
            yield from known.replace(filter(belongs, listing.items))

    def close(self) -> None:
        """Watch no longer; a list must be made before going on."""
        if self._watch:
            self._watch.close()
        self._watch = None
        self._version = ""

    def forget(self) -> Iterator[Change[Changed]]:
        """What is different when none of the objects is known any more."""
        for known, _ in self.parts:
            yield from known.replace(())

    def open(self) -> None:
        """Watch from the version that was seen last. GoneError when a list must be made before."""
        try:
            watch = self._api.watch(self._path, self._kind, self._version, **self._selectors)
        except GoneError:
            self._version = ""
            raise
        self._watch = watch
        self._not_before = time.monotonic() + SHORTEST_WATCH
        name = f"WATCH {self._path}"
        threading.Thread(target=self._listen, args=(watch,), name=name, daemon=True).start()

    def _listen(self, watch: Watch[Changed]) -> None:
        """What the thread does; it touches nothing but the watch and the queue.

        It leaves it to the main thread to read what the lines say: that may have more urgent things to do.
        """
        end = None
        try:
            for line in watch:
                self._heard.put((self, watch, line))
        except ApiError as error:
            end = error
        finally:
            self._heard.put((self, watch, end))

    def hear(self, watch: Watch[Any], line: bytes | ApiError | None) -> list[Change[Changed]]:
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
        for known, belongs in self.parts:
            changes += known.update(key_of(event.metadata), now if now and belongs(now) else None)
        if event.malformed and event.type != "DELETED" and changes:
            # What became of one that could be read until now, a complete list alone tells.
            watch.close()
            self._end(GoneError(event.malformed))
        return changes

    def _end(self, why: ApiError | None) -> None:
        """The watch is over; the next one goes on where it was, or, if that can't be, after a list."""
        log.debug("WATCH %s ended: %s", self._path, why or "its time was up")
        self._watch = None
        if why is None or isinstance(why, LostAnswerError):
            return
        self._version = ""
        if not isinstance(why, GoneError):
            self.trouble = why


class Informer(ClusterSource):
    """Lists nodes and pods once, and then hears of what happens to them."""

    def __init__(self, api: Api, scheduler_names: Sequence[str], namespaces: Sequence[str] = ()) -> None:
        super().__init__(api, scheduler_names, namespaces)
        self._news = Delta()  # what was heard, and is yet to be told
        self._heard: SimpleQueue[_Heard] = SimpleQueue()
        self._watched_nodes = self._nodes_watched()
        self._watched_pods = [self._pods_watched(ALL_PODS)]
        self._watched_services = [self._services_watched(path) for path in paths_of("services", namespaces)]
        self._why_listed = ""

    def _nodes_watched(self) -> Reflector[Node]:
        return Reflector(self._api, "/api/v1/nodes", Node, [(Store[Node](), _any)], self._heard)

    def _pods_watched(self, path: str) -> Reflector[Pod]:
        # What a pod becomes part of comes before what it leaves, as when polling.
        by_node = [(Store[Pod](), _has_node), (Store[Pod](), self._waits_for_us)]
        # Pods that have finished use nothing any more, whoever placed them.
        unfinished = "status.phase!=Succeeded,status.phase!=Failed"
        return Reflector(self._api, path, Pod, by_node, self._heard, fieldSelector=unfinished)

    def _services_watched(self, path: str) -> Reflector[Service]:
        return Reflector(self._api, path, Service, [(Store[Service](), _any)], self._heard)

    @property
    def _all(self) -> "list[Reflector[Any]]":
        """What news are of."""
        return [self._watched_nodes, *self._watched_pods]

    def poll(self) -> Delta:
        """What has changed since the last poll; no request is made, unless a watch is to be opened.

        The news are complete when the pods were listed: from events alone it can't be told that there are no
        more to come of what was done before. ApiError when a watch can't be opened.
        """
        self._verify_namespaces()
        while not self._heard.empty():
            self._take(*self._heard.get())
        self._go_on([self._watched_nodes])
        try:
            self._go_on(self._watched_pods)
        except ForbiddenError as error:
            self._forgo(ALL_PODS, error, UNCOUNTED)
            self._watch_pods_of_our_namespaces()
            self._go_on(self._watched_pods)
        delta, self._news = self._news, Delta()
        delta.unreadable = [line for each in self._all for line in each.unreadable.values()]
        return delta

    def wait(self, seconds: float) -> None:
        """Return at the first change, or when a watch is to be opened, or after so many seconds."""
        until = time.monotonic() + seconds
        while not self._news.changes:
            pauses = [each.pause for each in self._all if each.pause is not None]
            left = min([until - time.monotonic(), *pauses])
            if left <= 0:
                return
            with suppress(Empty):
                self._take(*self._heard.get(timeout=min(left, LONGEST_DOZE)))

    def _go_on(self, watched: Iterable[Reflector[Any]]) -> None:
        """Open those that are to be opened. ApiError when one can't be."""
        for each in watched:
            if trouble := each.trouble:
                each.trouble = None
                raise trouble
            if each.pause == 0:
                self._resume(each)

    def _watch_pods_of_our_namespaces(self) -> None:
        (everywhere,) = self._watched_pods
        self._news.changes += everywhere.forget()
        self._watched_pods = [self._pods_watched(path) for path in paths_of("pods", self._namespaces)]

    def _take(self, watched: Reflector[Any], watch: Watch[Any], line: bytes | ApiError | None) -> None:
        changes = watched.hear(watch, line)
        if watched in self._all:
            self._news.changes += changes

    def _resume(self, watched: Reflector[Any]) -> None:
        if not watched.is_listed:
            self._list(watched)
        try:
            watched.open()
        except GoneError:
            self._list(watched)
            watched.open()

    def _list(self, watched: Reflector[Any]) -> None:
        """List again: pods of all our namespaces together, as only then the news are complete."""
        together = self._watched_pods if watched in self._watched_pods else [watched]
        for each in together:
            each.close()
            changes = [*each.look()]
            if each in self._all:
                self._news.changes += changes
        self._news.complete |= watched in self._watched_pods

    def services(self, namespaces: Iterable[str]) -> Listing[Service]:
        """The services of some namespaces; from the first time that they are asked for, they are watched."""
        try:
            for watched in self._watched_services:
                if watched.pause == 0:
                    self._resume(watched)
        except ForbiddenError as error:  # to watch all of them; to list some may be allowed
            watched.put_off(FORBIDDEN_PAUSE)
            if str(error) != self._why_listed:
                self._why_listed = str(error)
                log.warning("services are listed whenever they matter, as they can't be watched: %s", error)
        if any(watched.pause is not None for watched in self._watched_services):
            return super().services(namespaces)
        wanted = set(namespaces)
        found: Listing[Service] = Listing()
        for watched in self._watched_services:
            ((known, _),) = watched.parts
            found.items += [each for each in known if each.metadata.namespace in wanted]
            found.malformed |= watched.unreadable
        return found


def _any(_: object) -> bool:
    return True


def _has_node(pod: Pod) -> bool:
    return bool(pod.spec.node_name)
