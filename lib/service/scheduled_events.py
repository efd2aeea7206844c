"""Writes the events of bound pods, many at the same time, as bindings are written.

Counterpart: client-go's tools/record
"""

import time
from collections import deque
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property, partial
from math import inf

from lib.kube.errors import ApiError, LostAnswerError, NotLeadingError, UnreachableError, as_api_error
from lib.kube.in_flight import InFlight, PendingResponse
from lib.kube.objects import Event, Pod
from lib.kube.writer import Writer
from lib.service.telemetry.report import Report
from lib.service.write_gate import MAX_THREADS, WriteGate


@dataclass
class ScheduledEvent:
    """An event to be written: a pod was bound, and when. failed: the error of an earlier try."""

    pod: Pod
    message: str
    when: datetime
    failed: ApiError | None = None


class ScheduledEvents:
    """The events of bound pods that are still to be written.

    workers: the most events in flight.
    """

    def __init__(self, writer: Writer, report: Report, gate: WriteGate, workers: int) -> None:
        self._writer, self._report, self._gate = writer, report, gate
        self._workers = min(workers, MAX_THREADS)
        self._events: deque[ScheduledEvent] = deque()
        self._in_flight = InFlight(workers, self._answered)
        self._retried: list[tuple[ScheduledEvent, Future[ApiError | None]]] = []

    def add(self, pod: Pod, message: str, when: datetime) -> None:
        """Collect the event of a bound pod."""
        self._events.append(ScheduledEvent(pod, message, when))

    def write(self, until: float) -> None:
        """Write the events, and wait until the time is over. The next call writes what is left.

        until: in `time.monotonic`'s seconds. During shutdown there is no time limit.
        """
        if self._gate.stopping:
            until = inf  # there is no next tick
        for _ in range(len(self._events)):  # only these: an event that can't be written now is put back
            while self._in_flight.is_full and time.monotonic() < until:
                self._in_flight.poll(until)
            if self._in_flight.is_full or self._gate.error or self._gate.impatient:
                break
            event = self._events.popleft()
            if event.failed:
                self._answered(event, event.failed)
            else:
                try:
                    self._in_flight.send(partial(self._begin_event, event), event)
                except Exception as error:
                    self._report.failed(event.pod, "event", as_api_error(error))
        while self._in_flight and time.monotonic() < until:
            self._in_flight.poll(until)
        done, _ = wait([retried for _, retried in self._retried], _seconds_until(until))
        for event, retried in self._retried:
            if retried in done and (failed := retried.result()):
                self._not_written(event, failed)
        self._retried = [each for each in self._retried if each[1] not in done]

    def _begin_event(self, event: ScheduledEvent) -> PendingResponse[Event]:
        return self._writer.begin_scheduled(event.pod, event.message, event.when)

    def _answered(self, event: ScheduledEvent, error: ApiError | None) -> None:
        """Handle the answer to a first try. If it failed, a thread goes on, because retries must wait."""
        if error and self._gives_up(error):
            self._report.failed(event.pod, "event", error)
        elif error:
            self._retried.append((event, self._threads.submit(self._retry, event, error)))

    def _retry(self, event: ScheduledEvent, failed: ApiError) -> ApiError | None:
        """Retry an event after a failed first try; returns the last error, or None."""
        if self._gate.error or self._gate.impatient:
            return failed
        try:
            self._writer.record_scheduled(event.pod, event.message, event.when, failed)
        except Exception as error:
            return as_api_error(error)
        return None

    def _not_written(self, event: ScheduledEvent, error: ApiError) -> None:
        """Keep an event if the API server wasn't there."""
        gave_up = self._gate.error is not None
        if isinstance(error, UnreachableError | NotLeadingError):
            self._gate.error = error
        elif not gave_up:
            self._gives_up(error)
            self._report.failed(event.pod, "event", error)
            return
        event.failed = error if error.unsettled else None
        self._events.append(event)

    def _gives_up(self, error: ApiError) -> bool:
        """Stop writing if poller was told to stop and nothing answers: the other writes would hang, too."""
        in_vain = self._gate.stopping and isinstance(error, LostAnswerError)
        if in_vain:
            self._gate.error = error
        return in_vain

    @cached_property
    def _threads(self) -> ThreadPoolExecutor:
        return ThreadPoolExecutor(self._workers)


def _seconds_until(when: float) -> float | None:
    return None if when == inf else max(0.0, when - time.monotonic())
