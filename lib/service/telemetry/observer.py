"""Hears what poller does, for metrics, for health, and for how long things take."""

import time
from collections.abc import Callable
from typing import NamedTuple

from lib.kube.in_flight import RequestObserver
from lib.scheduling.cache import Cache
from lib.scheduling.decision import Decision
from lib.scheduling.framework.runtime import Record
from lib.scheduling.queue import SchedulingQueue


class Address(NamedTuple):
    """Where to listen; port 0 is any that is free."""

    host: str
    port: int


class ListenError(Exception):
    """An address can't be listened at; the text says which, and why."""


class Observer(RequestObserver):
    """Is told what happens. This one keeps one thing only.

    last_answer: when the API server last answered well, in `time.monotonic`'s seconds; None before.
    """

    last_answer: float | None = None

    def answered(self, _method: str, _host: str, code: int | None, _seconds: float) -> None:
        """A request was answered after so many seconds; without a code, it wasn't."""
        if code is not None and 200 <= code < 300:
            self.last_answer = time.monotonic()

    def probes(self, probe: Callable[[], object]) -> None:
        """What to call to see whether the API server answers: ApiError if it doesn't."""

    def record_for(self, _profile: str) -> Record:
        """A function that is called with the time of each extension point of a profile."""
        return lambda _point, _status, _seconds: None

    def elects(self, lease: str, leads: Callable[[], bool]) -> None:
        """There is an election; whether we lead can be asked at any time."""

    def queued(self, where: str, event: str) -> None:
        """A pod comes to be in a part of the queue."""

    def idle_for(self, seconds: float) -> None:
        """Nothing is to happen for so long."""

    def tick_began(self) -> None:
        """A tick begins."""

    def synced(self, queue: SchedulingQueue, cache: Cache) -> None:
        """The changes of a poll are in the queue and the cache."""

    def decided(self, decision: Decision) -> None:
        """A decision was made."""

    def rejected(self, decision: Decision) -> None:
        """A plugin rejected what was decided, before it was written."""

    def settled(self, decision: Decision, *, bound: bool) -> None:
        """A pod was bound; or something else happened to it before it could be, or the binding failed."""

    def tick_ended(self, queue: SchedulingQueue, cache: Cache) -> None:
        """A tick went through."""

    def tick_failed(self, error: Exception) -> None:
        """A tick could not be done."""
