"""Makes many writes at the same time, in one thread: each goes on when its answer has come."""

from collections import Counter, deque
from collections.abc import Iterator
from copy import copy
from dataclasses import dataclass
from enum import Enum
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


class Sort(Enum):
    """The sorts of writes, the most urgent first."""

    BINDING, EVENT, RECORD = "binding", "event of a bound pod", "record of a pod that was not scheduled"


@dataclass(eq=False, slots=True)
class _Running:
    """A write that has begun, or is about to.

    request: the one to be sent next, or in flight; failures: how often it has failed; lost: whether it may
    have been carried out then. pauses: how many the write has asked for. began: when it first sent something.
    """

    write: Write[Any]
    sort: Sort
    request: Request | None = None
    failures: int = 0
    lost: bool = False
    pauses: int = 0
    began: float = 0.0


class Pipeline:
    """Sends the requests of many writes, those of one write in order, without blocking in between.

    retrying: which failures of a write are worth another try, and after which pause. window: the most
    requests in flight. open: how many writes of each sort haven't ended.
    error: why writing ended in this tick: an UnreachableError when the API server isn't there, or a
    NotLeadingError; None if it didn't. The other writes get it in place of their next answer.
    """

    def __init__(
        self, in_flight: InFlight, retrying: Retrying, shutdown: Shutdown, window: int, clock: Clock
    ) -> None:
        self._in_flight, self._retrying, self._shutdown, self._clock = in_flight, retrying, shutdown, clock
        self.window = window
        self.error: ApiError | None = None
        self.open: Counter[Sort] = Counter()
        self._due: dict[Sort, deque[_Running]] = {sort: deque() for sort in Sort}
        self._paused: list[tuple[float, int, _Running]] = []  # a heap, by the time of the next try
        self._numbers = count()  # of pauses: those that end at the same time end in their order
        self._results: list[Any] = []

    @property
    def stopping(self) -> bool:
        """Whether poller was told to stop."""
        return self._shutdown.stopping.is_set()

    @property
    def closed(self) -> bool:
        """Whether nothing new is to be written."""
        return self.error is not None or self.stopping

    def start(self, write: Write[Any], sort: Sort) -> None:
        """Take a write. It begins in `run`, when there is room in flight. It must handle all its errors."""
        self.open[sort] += 1
        self._due[sort].append(_Running(write, sort))

    def run(self, sort: Sort, until: float, left: int = 0) -> Iterator[Any]:
        """Send requests and read answers; yields the results of writes as they come, other than None.

        It ends when no more than `left` writes of this sort are open, and at this time of the clock. What can
        be done without waiting is done for all sorts, unless poller was told twice to stop.
        """
        ends = False
        while not (ends or self._shutdown.impatient):
            self._send()
            ends = self.open[sort] <= left or self._clock() >= until
            for running, answer in self._answers(0.0 if ends else until):
                self._advance(running, answer)
            results, self._results = self._results, []
            yield from results
        self._send()

    def _send(self) -> None:
        """Begin writes and send requests, as long as there is room in flight."""
        while len(self._in_flight) < self.window and not self._shutdown.impatient:
            due = next(filter(None, self._due.values()), None)
            if not due:
                break
            running = due.popleft()
            if not running.request:
                self._advance(running, None)
            elif self.error:
                error = copy(self.error)
                error.may_be_written = running.lost
                self._advance(running, error)
            else:
                running.began = running.began or self._clock()
                self._in_flight.send(running.request, running)

    def _answers(self, until: float) -> Iterator[tuple[_Running, Any]]:
        """Read answers; wait for the first, or for the end of the first pause.

        After an error that may pass, a request is sent again later, and there is no answer yet.
        """
        until = min(until, self._paused[0][0] if self._paused else inf)
        if self._in_flight:
            for running, answer in self._in_flight.answers(until):
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
            running = heappop(self._paused)[2]
            self._due[running.sort].appendleft(running)

    def _pause(self, running: _Running, error: ApiError, tries: int) -> bool:
        """Pause a write before its next try, if another try is worth it. If not, writing may end."""
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

    def _advance(self, running: _Running, answer: Any) -> None:
        """Let a write take its next step. answer: to the last one; an ApiError is thrown."""
        write, running.request, running.failures, running.lost = running.write, None, 0, False
        try:
            step = write.throw(answer) if isinstance(answer, ApiError) else write.send(answer)
        except StopIteration as end:
            self.open[running.sort] -= 1
            self._results += [end.value] if end.value is not None else []
        except BaseException:
            self.open[running.sort] -= 1
            raise
        else:
            if isinstance(step, Request):
                running.request = step
                self._due[running.sort].appendleft(running)
                return
            running.pauses += 1
            if not self._pause(running, step.after, running.pauses):
                self._advance(running, step.after)
