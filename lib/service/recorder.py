"""Records what came of pods in the cluster: events, conditions, nominations, evictions.

Source: pkg/scheduler/schedule_one.go, handleSchedulingFailure; client-go's tools/record
"""

import time
from collections import deque
from collections.abc import Callable, Collection, Iterator
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cached_property, partial
from math import inf

from lib.kube.errors import ApiError, LostAnswerError, NotLeadingError, UnreachableError, as_api_error
from lib.kube.in_flight import InFlight, PendingResponse
from lib.kube.objects import Event, Pod
from lib.kube.writer import Writer
from lib.scheduling.cache import Cache
from lib.scheduling.decision import Decision, Outcome
from lib.service.binding_cycle import Completed, Result
from lib.service.telemetry.report import Report
from lib.service.write_gate import MAX_THREADS, WriteGate

CONDITION_REASONS = {Outcome.UNSCHEDULABLE: "Unschedulable", Outcome.ERROR: "SchedulerError"}
"""Reasons of a pod's condition PodScheduled."""

MAX_FLUSH_SECONDS = 2.0
"""A tick of a loop waits no longer for these writes: no binding is held up by them."""


@dataclass
class PendingWrite:
    """Something to be written of a pod, besides its binding and the event of that."""

    pod: Pod
    what: str
    write: Callable[[], None]


@dataclass
class FailureRecords:
    """What is to be written of a pod that was not placed, in this order.

    failures: what could not be written, and why. outdated: it holds no longer, and is not to be written.
    """

    decision: Decision
    writes: list[PendingWrite]
    failures: list[tuple[PendingWrite, ApiError]] = field(default_factory=list)
    outdated: bool = False


@dataclass
class ScheduledEvent:
    """That a pod was bound, and when; to be written. failed: how an earlier try ended."""

    pod: Pod
    message: str
    when: datetime
    failed: ApiError | None = None


class Recorder:
    """Keeps what is to be written of pods, and writes it at `flush`.

    workers: how many writes are in flight at most. max_seconds: how long a flush may take. dry_run: write
    nothing.
    """

    def __init__(
        self,
        writer: Writer,
        cache: Cache,
        report: Report,
        gate: WriteGate,
        *,
        workers: int,
        max_seconds: float,
        dry_run: bool,
    ) -> None:
        self._writer = writer
        self._cache = cache
        self._report = report
        self._gate = gate
        self._workers = min(workers, MAX_THREADS)
        self._max_seconds = max_seconds
        self._dry_run = dry_run
        self._events: deque[ScheduledEvent] = deque()
        self._in_flight = InFlight(workers, self._answered)
        self._retried: list[tuple[ScheduledEvent, Future[ApiError | None]]] = []
        self._failed: dict[str, FailureRecords] = {}  # by the pod's uid
        self._writing: dict[str, tuple[FailureRecords, Future[None]]] = {}  # by the pod's uid

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
        writes = [PendingWrite(pod, "condition", partial(writer.mark_unscheduled, pod, reason, message, now))]
        if decision.waits_for_pre_bind:  # it was nominated for that time
            writes.append(PendingWrite(pod, "nomination", partial(writer.nominate, pod, "")))
        if where := decision.nominated:
            writes.append(PendingWrite(pod, "nomination", partial(writer.nominate, pod, where)))
            writes += [
                PendingWrite(victim, "preemption", partial(writer.evict, victim, pod, where, now))
                for victim in decision.victims
            ]
            writes += [
                PendingWrite(other, "nomination", partial(writer.nominate, other, ""))
                for other in decision.lost_nomination
            ]
        event = decision.event_message
        writes.append(PendingWrite(pod, "event", partial(writer.record_failed, pod, event, now)))
        self._failed[pod.metadata.uid] = FailureRecords(decision, writes)

    def is_preempting(self, uid: str) -> bool:
        """Whether pods that are to make room for a pod are still to be evicted."""
        kept = [self._failed[uid]] if uid in self._failed else []
        writing = [self._writing[uid][0]] if uid in self._writing else []
        return any(each.what == "preemption" for records in kept + writing for each in [*records.writes])

    # --- writing it -------------------------------------------------------------------------------------

    def flush(self, unassigned: Collection[str]) -> list[Completed]:
        """Write what is to be written, and wait for it, but not too long: the next flush goes on with it.

        unassigned: the uids of the pods in the queue. What was to be written of others holds no longer, and
        is not written. Returned are the pods of which something wasn't written as nobody was there: they are
        to be decided on again. Events of bound pods are kept and written later: they hold for ever.
        During shutdown only these events are written; the next run does the rest.
        """
        if self._gate.impatient:
            return []
        until = time.monotonic() + self._max_seconds
        self._writer.forget_all_but(unassigned)
        self._start_failed(unassigned)
        self._write_events(until)
        wait([writing for _, writing in self._writing.values()], _seconds_until(until))
        return list(self._written())

    def close(self) -> None:
        """Write the events of bound pods that are still due, however long that takes."""
        if not (self._gate.error or self._gate.impatient):
            self._write_events(inf)

    # --- events of bound pods ---------------------------------------------------------------------------

    def _write_events(self, until: float) -> None:
        """Write the events of bound pods, the way bindings are written."""
        if self._gate.stopping:
            until = inf  # there is no next tick
        for _ in range(len(self._events)):  # those only: what can't be written now is put back
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
        """A first try was answered. If it failed, a thread goes on: there are waits between tries."""
        if error and self._gives_up(error):
            self._report.failed(event.pod, "event", error)
        elif error:
            self._retried.append((event, self._event_threads.submit(self._retry, event, error)))

    def _retry(self, event: ScheduledEvent, failed: ApiError) -> ApiError | None:
        """Write an event after a first try has failed; the last error."""
        if self._gate.error or self._gate.impatient:
            return failed
        try:
            self._writer.record_scheduled(event.pod, event.message, event.when, failed)
        except Exception as error:
            return as_api_error(error)
        return None

    def _not_written(self, event: ScheduledEvent, error: ApiError) -> None:
        """Keep an event if nobody was there to take it."""
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
        """Write no more if poller was told to end and nothing answers: the others would take as long."""
        in_vain = self._gate.stopping and isinstance(error, LostAnswerError)
        if in_vain:
            self._gate.error = error
        return in_vain

    # --- pods that were not placed ----------------------------------------------------------------------

    def _start_failed(self, unassigned: Collection[str]) -> None:
        """Have threads write what is still true; of one pod, one thread at a time."""
        for uid, records in list(self._failed.items()):
            if uid in self._writing:
                self._writing[uid][0].outdated = True
                continue
            del self._failed[uid]
            if uid in unassigned:
                self._writing[uid] = records, self._threads.submit(self._write_in_turn, records)
            else:
                self._forget_victims(records.writes)
        for uid, (records, _) in self._writing.items():
            records.outdated |= uid not in unassigned

    def _write_in_turn(self, records: FailureRecords) -> None:
        """Write one pod's records, and take those that are done off the list."""
        while records.writes and not (records.outdated or self._gate.closed):
            try:
                records.writes[0].write()
            except (UnreachableError, NotLeadingError) as error:
                self._gate.error = error
                break
            except Exception as error:
                records.failures.append((records.writes[0], as_api_error(error)))
            records.writes.pop(0)

    def _written(self) -> Iterator[Completed]:
        """Settle what the threads have done; the pods of which something is missing that still holds."""
        for uid, (records, writing) in list(self._writing.items()):
            if not writing.done():
                continue
            writing.result()
            del self._writing[uid]
            for record, error in records.failures:
                self._report.failed(record.pod, record.what, error)
            self._forget_victims([record for record, _ in records.failures] + records.writes)
            if records.writes and not (records.outdated or self._gate.stopping):
                yield Completed(records.decision, Result.NOT_RECORDED)

    def _forget_victims(self, unwritten: list[PendingWrite]) -> None:
        """Nobody has told these pods to leave."""
        self._cache.leaving.difference_update(
            each.pod.metadata.uid for each in unwritten if each.what == "preemption"
        )

    @cached_property
    def _threads(self) -> ThreadPoolExecutor:
        return ThreadPoolExecutor(self._workers)

    @cached_property
    def _event_threads(self) -> ThreadPoolExecutor:
        return ThreadPoolExecutor(self._workers)


def _seconds_until(when: float) -> float | None:
    return None if when == inf else max(0.0, when - time.monotonic())


def _now() -> datetime:
    return datetime.now(UTC).replace(microsecond=0)
