"""Records what came of pods in the cluster: events, conditions, nominations, evictions.

Source: pkg/scheduler/schedule_one.go, handleSchedulingFailure; client-go's tools/record
"""

import logging
import time
from collections import deque
from collections.abc import Collection, Iterator
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cached_property, partial
from math import inf

from lib.kube.errors import (
    ApiError,
    ConflictError,
    LostAnswerError,
    NotFoundError,
    NotLeadingError,
    UnreachableError,
    as_api_error,
)
from lib.kube.in_flight import InFlight, PendingResponse
from lib.kube.objects import Event, Pod
from lib.kube.writer import Writer
from lib.scheduling.cache import Cache
from lib.scheduling.decision import Decision, Outcome
from lib.service.binding_cycle import MAX_BATCH_SECONDS, Completed, Result
from lib.service.telemetry.report import Report
from lib.service.write_gate import MAX_THREADS, WriteGate
from lib.service.write_pipeline import PendingWrite, WritePipeline

log = logging.getLogger(__name__)

CONDITION_REASONS = {Outcome.UNSCHEDULABLE: "Unschedulable", Outcome.ERROR: "SchedulerError"}
"""Reasons of a pod's condition PodScheduled."""

PREEMPTION = "preemption"
"""What is written of a pod that is evicted."""

MAX_FLUSH_SECONDS = 2.0
"""A tick of a loop waits no longer for these writes: no binding is held up by them."""

SHORT_FLUSH_SECONDS = 0.1
"""With --watch a tick costs little, and the next one may bind a pod whose victims have left."""


@dataclass(eq=False)
class FailureRecords:
    """What is to be written of a pod that was not placed: its status first, then all else at a time.

    writes: what isn't written yet. open: how many of these are begun. failures: what could not be written,
    and why. outdated: it holds no longer, and what isn't begun is not to be written.
    """

    decision: Decision
    status: PendingWrite
    rest: list[PendingWrite]
    writes: list[PendingWrite] = field(default_factory=list)
    open: int = 0
    failures: list[tuple[PendingWrite, ApiError]] = field(default_factory=list)
    outdated: bool = False

    def __post_init__(self) -> None:
        self.writes = [self.status, *self.rest]

    @property
    def evicts(self) -> bool:
        """Whether pods are still to be evicted, or one could not be."""
        failed = [pending for pending, _ in self.failures]
        return any(each.what == PREEMPTION for each in self.writes + failed)


@dataclass
class ScheduledEvent:
    """That a pod was bound, and when; to be written. failed: how an earlier try ended."""

    pod: Pod
    message: str
    when: datetime
    failed: ApiError | None = None


class Recorder:
    """Keeps what is to be written of pods, and writes it at `flush`.

    workers: how many writes are in flight at most. max_seconds: how long a flush may take. short_flushes:
    whether it is to take SHORT_FLUSH_SECONDS for pods that were not placed. dry_run: write nothing.
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
        short_flushes: bool,
        dry_run: bool,
    ) -> None:
        self._writer = writer
        self._cache = cache
        self._report = report
        self._gate = gate
        self._workers = min(workers, MAX_THREADS)
        self._max_seconds = max_seconds
        self._failed_seconds = SHORT_FLUSH_SECONDS if short_flushes else max_seconds
        self._dry_run = dry_run
        self._events: deque[ScheduledEvent] = deque()
        self._in_flight = InFlight(workers, self._answered)
        self._retried: list[tuple[ScheduledEvent, Future[ApiError | None]]] = []
        self._failed: dict[str, FailureRecords] = {}  # by the pod's uid
        self._writing: dict[str, FailureRecords] = {}  # by the pod's uid
        self._records_of: dict[PendingWrite, FailureRecords] = {}
        self._pipeline = WritePipeline(gate, workers, self._ended)
        self._write_at = 0.0  # in time.monotonic's seconds

    # --- what is to be written --------------------------------------------------------------------------

    def scheduled(self, decision: Decision) -> None:
        """A pod was bound: an event says so."""
        self._events.append(ScheduledEvent(decision.pod, decision.message, _now()))

    def failed_scheduling(self, decision: Decision) -> None:
        """A pod was not placed: a condition and an event say why. Pods that must make room are evicted."""
        if self._dry_run:
            return
        now, pod, message, writer = _now(), decision.pod, decision.message, self._writer
        reason, where = CONDITION_REASONS[decision.outcome], decision.nominated
        # A pod that waited for its volumes was nominated for that time.
        nominated = where or ("" if decision.waits_for_pre_bind else None)
        status = writer.mark_unscheduled(pod, reason, message, now, nominated)
        rest = [
            PendingWrite(other, "nomination", writer.nominate(other, ""))
            for other in decision.lost_nomination
        ]
        rest += [
            PendingWrite(victim, PREEMPTION, writer.evict(victim, pod, where, now))
            for victim in decision.victims
        ]
        rest.append(PendingWrite(pod, "event", writer.record_failed(pod, decision.event_message, now)))
        records = FailureRecords(decision, PendingWrite(pod, "condition", status), rest)
        self._records_of |= dict.fromkeys(records.writes, records)
        self._failed[pod.metadata.uid] = records

    def is_preempting(self, uid: str) -> bool:
        """Whether pods that are to make room for a pod are still to be evicted."""
        return any(uid in by_uid and by_uid[uid].evicts for by_uid in (self._failed, self._writing))

    @property
    def is_writing(self) -> bool:
        """Whether requests have been sent that weren't answered yet, or are about to be sent."""
        return len(self._pipeline) > 0

    # --- writing it -------------------------------------------------------------------------------------

    def written(self, unassigned: Collection[str]) -> list[Completed]:
        """Begin to write what is to be written of pods that were not placed, and wait for nothing.

        Takes and returns what `flush` does. Most calls do nothing: see MAX_BATCH_SECONDS.
        """
        if self._gate.closed or time.monotonic() < self._write_at or not (self._failed or self._writing):
            return []
        self._start_failed(unassigned)
        self._pipeline.run(until=0)
        self._write_at = time.monotonic() + MAX_BATCH_SECONDS
        return list(self._settled())

    def flush(self, unassigned: Collection[str]) -> list[Completed]:
        """Write what is to be written, and wait for it, but not too long: the next flush goes on with it.

        unassigned: the uids of the pods in the queue. What was to be written of others holds no longer, and
        is not written. Returned are the pods of which something wasn't written as nobody was there, or for
        which a pod could not be evicted: they are to be decided on again. Events of bound pods are kept and
        written later: they hold for ever.
        During shutdown only these events are written; the next run does the rest.
        """
        if self._gate.impatient:
            return []
        until = time.monotonic() + self._max_seconds
        self._writer.forget_all_but(unassigned)
        self._start_failed(unassigned)
        self._pipeline.run(until=0)
        self._write_events(until)
        self._pipeline.run(min(until, time.monotonic() + self._failed_seconds))
        return list(self._settled())

    def close(self) -> None:
        """Write the events of bound pods that are still due, however long that takes; end what was begun."""
        if not (self._gate.error or self._gate.impatient):
            self._write_events(inf)
            self._pipeline.run(time.monotonic() + MAX_FLUSH_SECONDS)

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
        """Begin to write what is still true; what an earlier decision left comes first."""
        for uid, records in self._writing.items():
            records.outdated |= uid not in unassigned
        for uid, records in list(self._failed.items()):
            if uid in self._writing:
                self._writing[uid].outdated = True
                continue
            del self._failed[uid]
            self._writing[uid] = records
            records.outdated = uid not in unassigned
            self._begin(records, [records.status])

    def _begin(self, records: FailureRecords, writes: list[PendingWrite]) -> None:
        """Begin writes, unless they hold no longer, or nothing may be written."""
        if not (records.outdated or self._gate.closed):
            records.open += len(writes)
            for pending in writes:
                self._pipeline.start(pending)

    def _ended(self, pending: PendingWrite, error: ApiError | None, settled: bool) -> None:
        """A write has come to its end. After the status, the rest is written."""
        records = self._records_of.pop(pending)
        records.open -= 1
        if settled:
            records.writes.remove(pending)
        if pending is records.status and isinstance(error, NotFoundError | ConflictError):
            log.debug("%s is gone, and nothing is written of it: %s", pending.pod, error)
            records.outdated = True
        elif error:
            records.failures.append((pending, error))
        if pending is records.status and settled:
            self._begin(records, records.rest)

    def _settled(self) -> Iterator[Completed]:
        """Settle what is written; the pods of which something is missing that still holds."""
        for uid, records in list(self._writing.items()):
            if records.open:
                continue
            del self._writing[uid]
            for pending in records.writes:
                self._records_of.pop(pending, None)
            for pending, error in records.failures:
                self._report.failed(pending.pod, pending.what, error)
            failed = [pending for pending, _ in records.failures]
            self._forget_victims(failed + records.writes)
            is_alone = any(each.what == PREEMPTION for each in failed)  # with who should have left
            if is_alone:
                self._take_back_nomination(records.decision)
            if (is_alone or records.writes) and not (records.outdated or self._gate.stopping):
                yield Completed(records.decision, Result.NOT_RECORDED)

    def _take_back_nomination(self, decision: Decision) -> None:
        """A pod could not be evicted: its room is not kept for the pod that would have had it."""
        self._cache.nominator.delete(decision.pod)
        undone = PendingWrite(decision.pod, "nomination", self._writer.nominate(decision.pod, ""))
        records = FailureRecords(decision, undone, [])
        self._records_of[undone] = records
        self._failed.setdefault(decision.pod.metadata.uid, records)

    def _forget_victims(self, unwritten: list[PendingWrite]) -> None:
        """Nobody has told these pods to leave."""
        self._cache.leaving.difference_update(
            each.pod.metadata.uid for each in unwritten if each.what == PREEMPTION
        )

    @cached_property
    def _event_threads(self) -> ThreadPoolExecutor:
        return ThreadPoolExecutor(self._workers)


def _seconds_until(when: float) -> float | None:
    return None if when == inf else max(0.0, when - time.monotonic())


def _now() -> datetime:
    return datetime.now(UTC).replace(microsecond=0)
