"""Makes many writes at the same time, in one thread: each goes on when its answer has come."""

import time
from collections import deque
from collections.abc import Callable
from copy import copy
from dataclasses import dataclass, field
from heapq import heappop, heappush
from itertools import count
from math import inf
from typing import Any

from tenacity import Future as Attempted
from tenacity import RetryCallState, Retrying

from lib.kube.errors import ApiError, NotLeadingError, UnreachableError, as_api_error
from lib.kube.in_flight import InFlight, PendingResponse
from lib.kube.write import Pause, Request, Step, Write
from lib.service.writes.gate import WriteGate


@dataclass(eq=False)
class _Running:
    """A write that has begun.

    request: the one to be sent next, or in flight. tries: how often it was sent; began: when for the first
    time. pauses, paused_since: the same of the write's own repetitions. parent: the write that waits for this
    one, and for others, to end; place: this one's among them. children: the results of those it waits for.
    """

    write: Write[Any]
    parent: "_Running | None" = None
    place: int = 0
    request: Request | None = None
    tries: int = 0
    began: float = 0.0
    pauses: int = 0
    paused_since: float = 0.0
    children: list[Any] = field(default_factory=list)
    missing: int = 0


class Pipeline:
    """Sends the requests of many writes, those of one write in order, without blocking in between.

    begin: sends a request. retrying: when it is worth another try, and after which pause. window: the most
    requests in flight. When the API server isn't there, or we don't lead any more, the gate closes, and the
    other writes get its error in place of their next answer.
    """

    def __init__(
        self,
        begin: Callable[[Request], PendingResponse[Any]],
        retrying: Retrying,
        gate: WriteGate,
        window: int,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._begin, self._retrying, self._gate, self._window = begin, retrying, gate, window
        self._clock = clock
        self._unsent: deque[_Running] = deque()
        self._in_flight: InFlight[_Running] = InFlight()
        self._paused: list[tuple[float, int, _Running]] = []  # a heap, by the time of the next try
        self._numbers = count()
        self._ended: list[Any] = []

    def __len__(self) -> int:
        """How many writes have begun and haven't ended, or a few more."""
        return len(self._unsent) + len(self._in_flight) + len(self._paused)

    @property
    def is_full(self) -> bool:
        """Whether no more requests may be in flight."""
        return len(self._in_flight) >= self._window

    @property
    def has_ended(self) -> bool:
        """Whether a write has ended since the last call of `ended`."""
        return bool(self._ended)

    def start(self, write: Write[Any]) -> None:
        """Begin a write. If there is room in flight, its first request is sent now."""
        self._go_on(_Running(write), None)
        self._send()

    def ended(self) -> list[Any]:
        """The results of the writes that have ended since the last call."""
        ended, self._ended = self._ended, []
        return ended

    def run(self, until: float = 0.0, done: Callable[[], bool] = lambda: False) -> None:
        """Send requests and read answers until all writes have ended, or until the time is over.

        until: in `clock`'s seconds; with 0 it doesn't wait at all. done: end when it returns True.
        """
        self._send()
        while self and not (done() or self._gate.impatient):
            now = self._clock()
            self._wait(min(until, self._paused[0][0] if self._paused else inf), now)
            self._resume()
            self._send()
            if now >= until:
                break

    def _wait(self, until: float, now: float) -> None:
        """Read answers; wait for the first."""
        if self._in_flight:
            for running, answer in self._in_flight.answers(until):
                self._answered(running, answer)
        elif until > now:
            self._gate.sleep(until - now)

    def _resume(self) -> None:
        """Go on with the writes whose pause is over; with all of them when the gate has closed."""
        now = self._clock()
        while self._paused and (self._paused[0][0] <= now or self._gate.closed):
            running = heappop(self._paused)[2]
            if running.request:
                self._unsent.append(running)
            else:
                self._go_on(running, None)

    def _send(self) -> None:
        while self._unsent and not self.is_full:
            running = self._unsent.popleft()
            request = running.request
            assert request
            if self._gate.error:
                self._go_on(running, copy(self._gate.error))  # a write may change its error
                continue
            running.tries += 1
            running.began = running.began or self._clock()
            try:
                pending = self._begin(request)
            except ApiError as error:
                self._answered(running, error)
            else:
                self._in_flight.add(pending, running)

    def _answered(self, running: _Running, answer: Any) -> None:
        """Hand an answer, or an error, to its write; or try again."""
        assert running.request
        if isinstance(answer, ApiError) and running.request.method != "POST" and answer.transient:
            if self._tries_again(running, answer, running.tries, running.began):
                return
            self._note_outage(answer)
        if isinstance(answer, NotLeadingError):
            self._note_outage(answer)
        self._go_on(running, answer)

    def _tries_again(self, running: _Running, error: ApiError, tries: int, since: float) -> bool:
        """Pause a write before its next try, if another try is worth it."""
        state = RetryCallState(self._retrying, None, (), {})
        state.start_time, state.outcome_timestamp, state.attempt_number = since, self._clock(), tries
        state.outcome = Attempted.construct(tries, error, has_exception=True)
        if self._retrying.stop(state):
            return False
        state.upcoming_sleep = self._retrying.wait(state)
        if self._retrying.before_sleep:
            self._retrying.before_sleep(state)
        heappush(self._paused, (self._clock() + state.upcoming_sleep, next(self._numbers), running))
        return True

    def _note_outage(self, error: ApiError) -> None:
        """Close the gate, if nothing more can be written now."""
        if isinstance(error, UnreachableError | NotLeadingError):
            self._gate.error = copy(error)

    def _go_on(self, running: _Running, answer: Any) -> None:
        """Let a write take its next step. answer: to the last one; an ApiError is thrown."""
        running.request, running.tries, running.began = None, 0, 0.0
        try:
            write, failed = running.write, isinstance(answer, ApiError)
            step = write.throw(answer) if failed else write.send(answer)
        except StopIteration as end:
            self._end(running, end.value)
        except Exception as error:
            if not running.parent:
                raise  # a write that was started handles all errors
            self._end(running, as_api_error(error))
        else:
            self._take(running, step)

    def _take(self, running: _Running, step: Step) -> None:
        """Begin a step of a write."""
        if isinstance(step, Request):
            running.request = step
            self._unsent.append(running)
        elif isinstance(step, Pause):
            running.pauses += 1
            running.paused_since = running.paused_since or self._clock()
            if not self._tries_again(running, step.after, running.pauses, running.paused_since):
                self._note_outage(step.after)
                self._go_on(running, step.after)
        else:
            running.children, running.missing = [None] * len(step.writes), len(step.writes)
            for place, write in enumerate(step.writes):
                self._go_on(_Running(write, running, place), None)
            if not step.writes:
                self._go_on(running, [])

    def _end(self, running: _Running, result: Any) -> None:
        """A write has ended. The one that waits for it goes on, if it was the last."""
        parent = running.parent
        if not parent:
            self._ended.append(result)
            return
        parent.children[running.place] = result
        parent.missing -= 1
        if not parent.missing:
            self._go_on(parent, parent.children)
