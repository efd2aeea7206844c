"""Makes many writes at the same time, in one thread: each goes on when its answer has come."""

from collections import Counter, deque
from collections.abc import Collection, Iterator
from copy import copy
from dataclasses import dataclass, field
from enum import StrEnum
from heapq import heappop, heappush
from itertools import count
from math import inf
from typing import Any

from tenacity import RetryCallState, Retrying

from lib.kube.errors import ApiError, NotLeadingError, UnreachableError
from lib.kube.in_flight import InFlight
from lib.kube.write import Request, Write
from lib.scheduling.framework.runtime import Clock
from lib.service.shutdown import Shutdown


class Sort(StrEnum):
    """The sorts of writes, the most urgent first."""

    BINDING = "binding"
    LOOK_UP = "look-up of a pod that may be bound"
    EVICTION = "eviction of a victim"
    EVENT = "event of a bound pod"
    RECORD = "record of a pod that was not scheduled"


FEWER = 4
"""Bindings have the most places, and so have evictions. Each other sort has a fourth of that number."""

EVENTS_BESIDE_BINDINGS = 2
"""As long as pods wait to be bound, at most this many events are in flight, because those pods come first."""


@dataclass(eq=False, slots=True)
class _Lane:
    """The writes of one sort for the pods of one namespace."""

    sort: Sort
    namespace: str
    open: int = 0
    """How many haven't ended."""
    in_flight: int = 0
    """How many of these wait for an answer."""
    due: "deque[_Running]" = field(default_factory=deque)
    """Those that can go on: first those that have begun, then those that haven't, the oldest first."""


@dataclass(eq=False, slots=True)
class _Running:
    """A write that has begun, or is about to."""

    write: Write[Any]
    lane: _Lane
    request: Request | None = None
    """The request that is in flight, or is to be sent next."""
    failures: int = 0
    """How often that request has failed."""
    lost: bool = False
    """Whether that request may have been carried out when it failed."""
    pauses: int = 0
    """How many pauses the write has asked for."""
    began: float = 0.0
    """When the write first sent something."""


class Pipeline:
    """Sends the requests of many writes, those of one write in order, without blocking in between.

    A request has a place from when it is sent until its answer comes. Each sort has places of its own. A
    namespace gets at most as many of them as are still free. So some places are always left for other
    namespaces, even if the requests of one never end.

    retrying: which failures of a write are worth another try, and after which pause.

    Source: A. Choudhury and E. Hahne, Dynamic queue length thresholds for shared-memory packet switches
    (IEEE/ACM Transactions on Networking 6, 1998)
    """

    def __init__(
        self, in_flight: InFlight, retrying: Retrying, shutdown: Shutdown, window: int, clock: Clock
    ) -> None:
        self._in_flight, self._retrying, self._shutdown, self._clock = in_flight, retrying, shutdown, clock
        self.window = window
        """The most bindings in flight."""
        self.most_events = window
        """The most events in flight, for now."""
        self.error: ApiError | None = None
        """Why writing ended in this tick: an UnreachableError when the API server isn't there, or a
        NotLeadingError; None if it didn't end. The other writes get this error in place of their next
        answer."""
        self.open: Counter[Sort] = Counter()
        """How many writes of each sort haven't ended."""
        self._lanes: dict[Sort, dict[str, _Lane]] = {sort: {} for sort in Sort}
        """The lanes with open writes, by sort and namespace."""
        self._due: dict[Sort, dict[str, _Lane]] = {sort: {} for sort in Sort}
        """The lanes with writes that can go on; the next one to be served comes first."""
        self._taken: Counter[Sort] = Counter()
        """How many places of each sort are taken."""
        self._paused: list[tuple[float, int, _Running]] = []
        """A heap of writes by the time of their next try."""
        self._numbers = count()
        """Numbers of pauses: those that end at the same time end in the order in which they began."""

    @property
    def stopping(self) -> bool:
        """Whether poller was told to stop."""
        return self._shutdown.stopping.is_set()

    @property
    def closed(self) -> bool:
        """Whether nothing new is to be written."""
        return self.error is not None or self.stopping

    @property
    def waits_until(self) -> float:
        """When there is something to do next, in the clock's seconds; -inf if an answer may come at once."""
        if self._in_flight or any(self._due.values()):
            return -inf
        return self._paused[0][0] if self._paused else inf

    def start(self, write: Write[Any], sort: Sort, namespace: str) -> None:
        """Take a write about a pod of this namespace. It begins in `run`, when a place is free.

        It must handle all its errors.
        """
        lane = self._lanes[sort].get(namespace)
        if not lane:
            lane = self._lanes[sort][namespace] = _Lane(sort, namespace)
        self.open[sort] += 1
        lane.open += 1
        lane.due.append(_Running(write, lane))
        self._due[sort].setdefault(namespace, lane)

    def run(self, until: float, sorts: Collection[Sort] = tuple(Sort)) -> Iterator[Any]:
        """Send requests and read answers; yields the results of writes as they come, other than None.

        Handle each result before you take the next one: no other write goes on before that.

        `run` ends at this time of the clock, or when no write of these sorts is open. Writes of all sorts go
        on meanwhile. Before `run` ends, it does what can be done without waiting. When poller is told twice
        to stop, nothing more is sent.
        """
        ends = False
        while not (ends or self._shutdown.impatient):
            yield from self._send()
            ends = self._clock() >= until or not any(self.open[sort] for sort in sorts)
            for running, answer in self._answers(0.0 if ends else until):
                if (result := self._advance(running, answer)) is not None:
                    yield result
                elif running.request:
                    self._make_due(running)
        yield from self._send()

    def drop_oldest(self, sort: Sort) -> None:
        """Drop the oldest write of a sort that hasn't begun, of the namespace that has most of them."""
        lane = max(self._due[sort].values(), key=lambda lane: len(lane.due), default=None)
        waiting = next((running for running in lane.due if not running.request), None) if lane else None
        if lane and waiting:
            lane.due.remove(waiting)
            waiting.write.close()
            self._ended(lane)
            if not lane.due:
                del self._due[sort][lane.namespace]

    def _send(self) -> Iterator[Any]:
        """Begin writes and send requests, as long as there are places; yields results of writes that end."""
        while not self._shutdown.impatient and (lane := self._next()):
            running, due = lane.due.popleft(), self._due[lane.sort]
            del due[lane.namespace]
            if lane.due:
                due[lane.namespace] = lane  # it comes last now
            result = None if running.request else self._advance(running, None)
            while running.request and self.error:
                error = copy(self.error)
                error.may_be_written = running.lost
                result = self._advance(running, error)
            if running.request:
                running.began = running.began or self._clock()
                lane.in_flight += 1
                self._taken[lane.sort] += 1
                self._in_flight.send(running.request, running)
            if result is not None:
                yield result

    def _next(self) -> _Lane | None:
        """The lane whose first due write is to go on now."""
        for sort, due in self._due.items():
            if not due:
                continue
            many = sort in (Sort.BINDING, Sort.EVICTION)  # for each pod that preempts, several may be evicted
            places = self.window if many else max(1, self.window // FEWER)
            if sort is Sort.EVENT:
                beside = EVENTS_BESIDE_BINDINGS if self._due[Sort.BINDING] else places
                places = min(places, self.most_events, beside)
            free = inf if self.error else places - self._taken[sort]
            if free > 0:  # else all lanes may have places
                for lane in due.values():
                    if lane.in_flight < free:
                        return lane
        return None

    def _answers(self, until: float) -> Iterator[tuple[_Running, Any]]:
        """Read answers; wait for the first, or for the end of the first pause.

        After an error that may pass, a request is sent again later, and there is no answer yet.
        """
        until = min(until, self._paused[0][0] if self._paused else inf)
        if self._in_flight:
            for running, answer in self._in_flight.answers(until):
                running.lane.in_flight -= 1
                self._taken[running.lane.sort] -= 1
                if isinstance(answer, NotLeadingError):
                    self.error = copy(answer)
                if isinstance(answer, ApiError):
                    running.failures += 1
                    running.lost = answer.may_be_written = running.lost or answer.may_be_written
                    may_pass = answer.transient and running.request and running.request.repeatable
                    if may_pass and self._pause(running, answer, running.failures):
                        continue
                yield running, answer
        elif self._paused:
            self._shutdown.stopping.wait(max(0.0, until - self._clock()))
        now = self._clock()
        while self._paused and (self._paused[0][0] <= now or self.closed):
            self._make_due(heappop(self._paused)[2])

    def _make_due(self, running: _Running) -> None:
        """Let a write that has begun go on as soon as there is a place."""
        lane = running.lane
        lane.due.appendleft(running)
        self._due[lane.sort].setdefault(lane.namespace, lane)

    def _pause(self, running: _Running, error: ApiError, tries: int) -> bool:
        """Pause a write before its next try, if another try is worth it; returns whether it was paused.

        If no other try is worth it, and the API server isn't there, writing ends.
        """
        state = RetryCallState(self._retrying, None, (), {})
        state.attempt_number = tries
        state.set_exception((type(error), error, error.__traceback__))
        state.start_time, state.outcome_timestamp = running.began, self._clock()
        if self._retrying.stop(state):
            self.error = copy(error) if isinstance(error, UnreachableError) else self.error
            return False
        state.upcoming_sleep = self._retrying.wait(state)
        if self._retrying.before_sleep:
            self._retrying.before_sleep(state)
        heappush(self._paused, (self._clock() + state.upcoming_sleep, next(self._numbers), running))
        return True

    def _advance(self, running: _Running, answer: Any) -> Any:
        """Let a write take its next step; returns its result, if it ends with one.

        answer: the answer to the last step; an ApiError is thrown into the write. If the next step is a
        request, it is noted in `running`, and is to be sent.
        """
        write, running.request, running.failures, running.lost = running.write, None, 0, False
        try:
            step = write.throw(answer) if isinstance(answer, ApiError) else write.send(answer)
        except StopIteration as end:
            self._ended(running.lane)
            return end.value
        except BaseException:
            self._ended(running.lane)
            raise
        if isinstance(step, Request):
            running.request = step
            return None
        running.pauses += 1
        if self._pause(running, step.after, running.pauses):
            return None
        return self._advance(running, step.after)

    def _ended(self, lane: _Lane) -> None:
        self.open[lane.sort] -= 1
        lane.open -= 1
        if not lane.open:
            del self._lanes[lane.sort][lane.namespace]
