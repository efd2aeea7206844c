"""Watches nodes and pods, and lets a recording have what happens to them."""

from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from functools import partial
from itertools import chain
from queue import Empty, Queue
from typing import Any

from lib.kube.api import Api
from lib.kube.changes import AnyChange
from lib.kube.errors import ApiError, ForbiddenError
from lib.kube.objects import Node, Pod
from lib.kube.reflector import Reflector, WatchLine
from lib.kube.resources import NODES, PODS
from lib.kube.store import Store
from lib.kube.system import MACHINE
from lib.questions.recording.lines import LATE
from lib.questions.recording.writer import Recording

FLUSHED_EACH = 1.0
"""After so many seconds the file has what was seen."""

RETRY = 2.0
"""Seconds until a watch that couldn't be opened is tried again."""


class Watching:
    """Records what happens. complain: is told of each outage, in a line."""

    def __init__(self, api: Api, complain: Callable[[str], object]) -> None:
        lines: Queue[WatchLine] = api.system.queue()
        self._lines, self._complain = lines, complain
        self._nodes, self._pods = Store[Node](), Store[Pod]()
        of_nodes = Reflector(api, NODES, NODES.path, [(self._nodes, lambda _: True)], lines)
        # A pod that has finished uses nothing: for a recording, it is gone.
        of_pods = Reflector(api, PODS, PODS.path, [(self._pods, lambda pod: not pod.has_finished)], lines)
        self._watched = [_Watched(of_nodes, "nodes"), _Watched(of_pods, "pods")]
        self._recording: Recording | None = None

    def begin(self, recording: Recording) -> None:
        """Record what there is, and what happens from now on. ApiError when it can't be listed or watched."""
        is_first, self._recording = self._recording is None, recording
        for watched in self._watched if is_first else ():
            watched.reflector.resume(partial(self._list, watched))
            watched.seen()
        for known in chain[Node | Pod](self._nodes, self._pods) if not is_first else ():
            recording.add(known)
        recording.begin()

    def seconds(self, length: float) -> Iterator[float]:
        """Record for so many seconds. Yields about once a second how many have passed."""
        flushed, recording = MACHINE.monotonic(), self._recording
        assert recording
        while recording.seconds < length:
            for watched in self._watched:
                self._open(watched)
            left = min(FLUSHED_EACH, max(0.0, length - recording.seconds))
            with suppress(Empty):
                self._take(*self._lines.get(timeout=left))
            if MACHINE.monotonic() - flushed >= FLUSHED_EACH:
                recording.flush()
                flushed = MACHINE.monotonic()
                yield recording.seconds

    def _take(self, reflector: Reflector[Any], watch: Any, line: Any) -> None:
        self._record(reflector.handle_event(watch, line))
        for watched in self._watched:
            if watched.reflector is reflector:
                if reflector.pause is None:
                    watched.seen()
                else:
                    watched.lose(line if isinstance(line, ApiError) else reflector.trouble)

    def _open(self, watched: "_Watched") -> None:
        """Open a watch that is due. If that fails, it is tried again later."""
        watched.reflector.trouble = None
        if watched.reflector.pause != 0:
            return
        try:
            watched.reflector.resume(partial(self._list, watched))
        except ApiError as error:
            if not watched.is_told:
                self._complain(
                    f"{watched.what} can't be watched, and are watched again as soon as they can be: {error}"
                )
                watched.is_told = True
            watched.lose(error)
            watched.reflector.retry_in(RETRY)
            if isinstance(error, ForbiddenError):
                raise
            return
        away, why = watched.found_again()
        if away > LATE or watched.was_listed:
            assert self._recording
            self._recording.gap(away, f"{watched.what}: {why}" if why else "")
            self._complain(f"there is a gap of {away:.0f} s: meanwhile, {watched.what} were not watched")
        watched.seen()

    def _list(self, watched: "_Watched") -> None:
        watched.was_listed = True
        self._record(watched.reflector.list())

    def _record(self, changes: Iterable[AnyChange]) -> None:
        assert self._recording
        for change in changes:
            self._recording.change(change)


class _Watched:
    """What is watched, and since when it can't be."""

    def __init__(self, reflector: Reflector[Any], what: str) -> None:
        self.reflector, self.what = reflector, what
        self.was_listed = self.is_told = False
        self._seen_at = MACHINE.steady()
        self._lost_at: float | None = None
        self._why = ""

    def seen(self) -> None:
        """All up to now is known."""
        self._seen_at = MACHINE.steady()
        self._lost_at, self._why = None, ""
        self.was_listed = self.is_told = False

    def lose(self, error: ApiError | None) -> None:
        """The watch has ended, because its time was up or because of an error."""
        if self._lost_at is None:
            self._lost_at = MACHINE.steady()
        self._why = str(error or self._why)

    def found_again(self) -> tuple[float, str]:
        """How many seconds it was away, and why. A list says nothing of what came since the last event."""
        since = self._seen_at if self.was_listed or self._lost_at is None else self._lost_at
        return MACHINE.steady() - since, self._why
