"""Callbacks for everything that poller does: for metrics, health checks and times."""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, NamedTuple

from lib.kube.attempt import RequestObserver
from lib.kube.changes import AnyChange
from lib.kube.objects import Pod
from lib.kube.system import MACHINE, System
from lib.scheduling.cache import Cache
from lib.scheduling.decision import Decision
from lib.scheduling.framework.runtime import Record
from lib.scheduling.queue import SchedulingQueue

if TYPE_CHECKING:
    from lib.scheduling.queueing_hints import Hinted

LOOPBACK = "127.0.0.1"


class Address(NamedTuple):
    """Where to listen; port 0 is any that is free."""

    host: str
    port: int

    @property
    def shown(self) -> str:
        """The address as it is in a URL."""
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


class ListenError(Exception):
    """poller can't listen at an address. The text says which, and why."""


class Observer(RequestObserver):
    """Callbacks for what happens. This base class only keeps two times, in `System.monotonic`'s seconds."""

    last_answer: float | None = None
    """When the API server gave its last good answer; None before the first."""
    failing_since: float | None = None
    """When the first request was sent that has failed since that answer; None if none has failed."""

    def __init__(self, system: System = MACHINE) -> None:
        self.system = system

    def answered(self, _method: str, _host: str, code: int | None, seconds: float) -> None:
        """A request ended after so many seconds. code: the HTTP status; None if no answer came."""
        now = self.system.monotonic()
        if code is not None and 200 <= code < 300:
            self.last_answer, self.failing_since = now, None
        else:  # an earlier request may end later
            self.failing_since = min(now - seconds, self.failing_since or now)

    def probes(self, probe: Callable[[], object]) -> None:
        """The function that checks whether the API server answers: ApiError if it doesn't."""

    def record_for(self, _profile: str) -> Record:
        """A function that is called with the time of each extension point of a profile."""
        return lambda _point, _status, _seconds: None

    def shows(self, pods: Callable[[], list[tuple[Pod, str]]], leads: Callable[[], bool]) -> None:
        """A function that returns all pods, each with its node's name or "", and whether we lead."""

    def elects(self, lease: str, leads: Callable[[], bool]) -> None:
        """There is leader election; the function says at any time whether we lead."""

    @property
    def hinted(self) -> "Hinted | None":
        """A function that is called after each queueing hint; None if nobody asks."""
        return None

    def evaluates(self, profile: str, evaluations: Mapping[str, Mapping[str, int]]) -> None:
        """A profile counts its plugins' evaluations there, by extension point and plugin."""

    def handled(self, change: AnyChange, seconds: float) -> None:
        """A change was applied to the cache and the queue."""

    def queued(self, where: str, event: str) -> None:
        """A pod enters a part of the queue."""

    def idle_for(self, seconds: float) -> None:
        """Nothing is due for so many seconds."""

    def tick_began(self) -> None:
        """A tick begins."""

    def synced(self, queue: SchedulingQueue, cache: Cache) -> None:
        """The changes of a poll are in the queue and the cache."""

    def decided(self, decision: Decision) -> None:
        """A decision was made; or a plugin rejected one before its binding was written."""

    def finished(self, decision: Decision, *, bound: bool) -> None:
        """A pod was bound, or its binding failed, or something else happened to the pod before."""

    def write_failed(self, write: str) -> None:
        """A write failed for good: of a binding, an event, a condition, ..."""

    def event_dropped(self) -> None:
        """The event of a bound pod was dropped: too many wait to be written."""

    def tick_ended(self, queue: SchedulingQueue, cache: Cache) -> None:
        """A tick succeeded."""

    def tick_failed(self, error: Exception) -> None:
        """A tick failed."""
