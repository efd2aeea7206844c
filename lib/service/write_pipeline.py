"""Makes many writes of several requests at the same time: each goes on when its last answer has come."""

import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from functools import cached_property
from math import inf

from lib.kube.errors import ApiError, NotLeadingError, UnreachableError, as_api_error
from lib.kube.in_flight import InFlight
from lib.kube.objects import Pod
from lib.kube.write import Write, Writes, next_write
from lib.service.write_gate import MAX_THREADS, WriteGate

SLICE = 0.05
"""Seconds to wait for answers before the retries in threads are checked."""


@dataclass(eq=False)
class PendingWrite:
    """A write about a pod, besides its binding and that event. what: a word for it."""

    pod: Pod
    what: str
    writes: Writes


class WritePipeline:
    """Sends the requests of many writes, those of one write in order, without blocking in between.

    workers: the most requests in flight. ended: called with a write, its error or None, and whether it is
    settled: it isn't if the API server wasn't there. A thread retries a request whose first try failed,
    because retries must wait.
    """

    def __init__(
        self, gate: WriteGate, workers: int, ended: Callable[[PendingWrite, ApiError | None, bool], None]
    ) -> None:
        self._gate, self._ended = gate, ended
        self._workers = min(workers, MAX_THREADS)
        self._unsent: deque[tuple[PendingWrite, Write]] = deque()
        self._in_flight = InFlight(workers, self._answered)
        self._retried: list[tuple[PendingWrite, Write, Future[ApiError | None]]] = []

    def __len__(self) -> int:
        return len(self._unsent) + len(self._in_flight) + len(self._retried)

    def start(self, pending: PendingWrite) -> None:
        """Begin a write. Its first request is sent at the next `run`."""
        self._go_on(pending, None)

    def run(self, until: float) -> None:
        """Send requests and read answers until all is written, or until the time is over.

        until: in `time.monotonic`'s seconds; with 0 it doesn't wait at all.
        """
        self._send()
        while self and not self._gate.impatient:
            now = time.monotonic()
            if self._in_flight:
                self._in_flight.poll(min(until, now + SLICE) if self._retried else until)
            elif self._retried:
                futures = [future for _, _, future in self._retried]
                wait(futures, None if until == inf else max(0.0, until - now), FIRST_COMPLETED)
            self._collect()
            self._send()
            if now >= until:
                break

    def _go_on(self, pending: PendingWrite, failed: ApiError | None) -> None:
        """Queue the next request of a write. failed: the error of the one before."""
        try:
            write = next_write(pending.writes, failed)
        except (UnreachableError, NotLeadingError) as error:
            self._gate.error = error
            self._ended(pending, None, False)
        except Exception as error:
            self._ended(pending, as_api_error(error), True)
        else:
            if write:
                self._unsent.append((pending, write))
            else:
                self._ended(pending, None, True)

    def _send(self) -> None:
        while self._unsent and not self._in_flight.is_full:
            pending, write = self._unsent.popleft()
            if self._gate.error:
                self._ended(pending, None, False)
                continue
            try:
                self._in_flight.send(write.begin, (pending, write))
            except Exception as error:
                self._go_on(pending, as_api_error(error))

    def _answered(self, about: tuple[PendingWrite, Write], error: ApiError | None) -> None:
        pending, write = about
        if error and (error.transient or error.unsettled):
            self._retried.append((pending, write, self._threads.submit(self._retry, write, error)))
        else:
            self._go_on(pending, error)

    def _retry(self, write: Write, failed: ApiError) -> ApiError | None:
        """Retry a request after a failed first try; returns the last error, or None."""
        if self._gate.error or self._gate.impatient:
            return failed
        try:
            write.go_on(failed)
        except Exception as error:
            return as_api_error(error)
        return None

    def _collect(self) -> None:
        """Go on with the writes whose retry in a thread has ended."""
        done = [each for each in self._retried if each[2].done()]
        self._retried = [each for each in self._retried if each not in done]
        for pending, _, future in done:
            self._go_on(pending, future.result())

    @cached_property
    def _threads(self) -> ThreadPoolExecutor:
        return ThreadPoolExecutor(self._workers)
