"""Records what came of pods in the cluster: events, conditions, nominations, evictions.

Source: pkg/scheduler/schedule_one.go, handleSchedulingFailure; client-go's tools/record
"""

from collections import deque
from collections.abc import Callable, Collection, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cached_property, partial
from typing import TypeVar

from lib.kube.errors import ApiError, LostAnswerError, NotLeadingError, UnreachableError
from lib.kube.in_flight import InFlight, PendingResponse
from lib.kube.objects import Event, Pod
from lib.kube.writer import Writer
from lib.scheduling.cache import Cache
from lib.scheduling.decision import Decision, Outcome
from lib.service.telemetry.report import Report
from lib.service.write_gate import MAX_THREADS, WriteGate

CONDITION_REASONS = {Outcome.UNSCHEDULABLE: "Unschedulable", Outcome.ERROR: "SchedulerError"}
"""Reasons of a pod's condition PodScheduled."""

Given = TypeVar("Given")
Found = TypeVar("Found")


@dataclass
class PendingWrite:
    """Something to be written of a pod, besides its binding and the event of that."""

    pod: Pod
    what: str
    write: Callable[[], None]


@dataclass
class ScheduledEvent:
    """That a pod was bound, and when; to be written. failed: how an earlier try ended."""

    pod: Pod
    message: str
    when: datetime
    failed: ApiError | None = None


class Recorder:
    """Keeps what is to be written of pods, and writes it at `flush`.

    workers: how many writes are in flight at most. dry_run: write nothing.
    """

    def __init__(
        self,
        writer: Writer,
        cache: Cache,
        report: Report,
        gate: WriteGate,
        *,
        workers: int,
        dry_run: bool,
    ) -> None:
        self._writer = writer
        self._cache = cache
        self._report = report
        self._gate = gate
        self._workers = workers
        self._dry_run = dry_run
        self._events: deque[ScheduledEvent] = deque()
        self._pending: list[list[PendingWrite]] = []  # by pod

    # --- what is to be written --------------------------------------------------------------------------

    def scheduled(self, decision: Decision) -> None:
        """A pod was bound: an event says so."""
        self._events.append(ScheduledEvent(decision.pod, decision.message, _now()))

    def failed_scheduling(self, decision: Decision) -> None:
        """A pod was not placed: a condition and an event say why. Pods that must make room are evicted."""
        if self._dry_run:
            return
        now, pod, message, writer = _now(), decision.pod, decision.message, self._writer
        reason = CONDITION_REASONS[decision.outcome]
        pending = [
            PendingWrite(pod, "condition", partial(writer.mark_unscheduled, pod, reason, message, now)),
            PendingWrite(pod, "event", partial(writer.record_failed, pod, message, now)),
        ]
        if where := decision.nominated:
            pending.append(PendingWrite(pod, "nomination", partial(writer.nominate, pod, where)))
            pending += [
                PendingWrite(victim, "preemption", partial(writer.evict, victim, pod, where, now))
                for victim in decision.victims
            ]
        self._pending.append(pending)

    # --- writing it -------------------------------------------------------------------------------------

    def flush(self, unassigned: Collection[str]) -> None:
        """Write what is to be written; what can't be, as nobody is there, is kept for the next time.

        unassigned: the uids of the pods in the queue; what was written of others is forgotten.
        During shutdown only events of bound pods are written; the next run does the rest.
        """
        self._writer.forget_all_but(unassigned)
        if self._gate.impatient:
            return
        self._write_events()
        try:
            for failures in self._at_once(self._write_in_turn, self._pending):
                for record, error in failures:
                    self._cache.leaving.discard(record.pod.metadata.uid)  # nobody has told it to leave
                    self._report.failed(record.pod, record.what, error)
        finally:
            self._pending = [records for records in self._pending if records]

    def _write_events(self) -> None:
        """Write the events of bound pods, the way bindings are written."""
        tried_again: list[tuple[ScheduledEvent, Future[ApiError | None]]] = []

        def go_on(event: ScheduledEvent, error: ApiError | None) -> None:
            if error and self._gives_up(error):
                self._report.failed(event.pod, "event", error)
            elif error:
                tried_again.append((event, self._pool.submit(self._write_event, event, error)))

        in_flight = InFlight(self._workers, go_on)
        for _ in range(len(self._events)):  # those only: threads put back what can't be written now
            in_flight.make_room()
            if self._gate.error or self._gate.impatient:
                break
            event = self._events.popleft()
            if event.failed:
                go_on(event, event.failed)
            else:
                in_flight.send(partial(self._begin_event, event), event)
        in_flight.drain()
        for event, tried in tried_again:
            if error := tried.result():
                self._report.failed(event.pod, "event", error)

    def _gives_up(self, error: ApiError) -> bool:
        """Write no more if poller was told to end and nothing answers: the others would take as long."""
        in_vain = self._gate.stopping and isinstance(error, LostAnswerError)
        if in_vain:
            self._gate.error = error
        return in_vain

    def _begin_event(self, event: ScheduledEvent) -> PendingResponse[Event]:
        return self._writer.begin_scheduled(event.pod, event.message, event.when)

    def _write_event(self, event: ScheduledEvent, failed: ApiError) -> ApiError | None:
        """Write a bound pod's event after a first try has failed; the last error, unless it is kept."""
        try:
            if not (self._gate.error or self._gate.impatient):
                self._writer.record_scheduled(event.pod, event.message, event.when, failed)
                return None
        except (UnreachableError, NotLeadingError) as error:
            self._gate.error = failed = error
        except ApiError as error:
            self._gives_up(error)
            return error
        event.failed = failed if failed.unsettled else None
        self._events.append(event)
        return None

    def _write_in_turn(self, records: list[PendingWrite]) -> list[tuple[PendingWrite, ApiError]]:
        """Write one pod's records, and take those that are done off the list; which failed, and why."""
        failures = []
        while records and not self._gate.closed:
            try:
                records[0].write()
            except (UnreachableError, NotLeadingError) as error:
                self._gate.error = error
                break
            except ApiError as error:
                failures.append((records[0], error))
            records.pop(0)
        return failures

    def _at_once(self, work: Callable[[Given], Found], items: Sequence[Given]) -> Iterator[Found]:
        """What comes of each piece of work, in order; several are done at a time."""
        return self._pool.map(work, items) if len(items) > 1 and self._workers > 1 else map(work, items)

    @cached_property
    def _pool(self) -> ThreadPoolExecutor:
        return ThreadPoolExecutor(min(self._workers, MAX_THREADS))


def _now() -> datetime:
    return datetime.now(UTC).replace(microsecond=0)
