"""Writes for pods that were not scheduled: conditions, nominations, events, and evictions of victims.

Source: pkg/scheduler/schedule_one.go, handleSchedulingFailure; framework/preemption/executor.go
"""

import logging
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from datetime import datetime

from lib.kube.errors import ApiError, ConflictError, NotFoundError
from lib.kube.writer import Writer
from lib.scheduling.cache import Cache
from lib.scheduling.decision import Decision, Outcome
from lib.service.binding_cycle import Completed, Result
from lib.service.telemetry.report import Report
from lib.service.write_gate import WriteGate
from lib.service.write_pipeline import PendingWrite, WritePipeline

log = logging.getLogger(__name__)

CONDITION_REASONS = {Outcome.UNSCHEDULABLE: "Unschedulable", Outcome.ERROR: "SchedulerError"}
"""Reasons of a pod's condition PodScheduled."""

PREEMPTION = "preemption"
"""The name of the write that evicts a pod."""


@dataclass(eq=False)
class FailureRecords:
    """The writes for a pod that was not scheduled: first its status, then all others at the same time.

    writes: those not written yet. open: how many of them have begun. failures: those that failed, and why.
    outdated: whether they are no longer true; then no other write is begun.
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
        """Whether evictions are still to be done, or one has failed."""
        failed = [pending for pending, _ in self.failures]
        return any(each.what == PREEMPTION for each in self.writes + failed)


class FailureRecorder:
    """Collects the writes for pods that were not scheduled, and makes them.

    workers: the most requests in flight.
    """

    def __init__(self, writer: Writer, cache: Cache, report: Report, gate: WriteGate, workers: int) -> None:
        self._writer, self._cache, self._report, self._gate = writer, cache, report, gate
        self._failed: dict[str, FailureRecords] = {}  # by the pod's uid: not begun
        self._writing: dict[str, FailureRecords] = {}  # by the pod's uid
        self._records_of: dict[PendingWrite, FailureRecords] = {}
        self._pipeline = WritePipeline(gate, workers, self._ended)

    def __len__(self) -> int:
        return len(self._failed) + len(self._writing)

    def add(self, decision: Decision, now: datetime, *, may_be_bound: bool) -> None:
        """Collect a condition and an event with the reason, and the evictions of victims."""
        pod, message, writer = decision.pod, decision.message, self._writer
        reason, where = CONDITION_REASONS[decision.outcome], decision.nominated
        nominated = where or ("" if decision.clears_nomination else None)
        version = pod.metadata.resource_version if may_be_bound else ""
        status = writer.mark_unscheduled(pod, reason, message, now, nominated, version)
        rest = [
            PendingWrite(other, "nomination", writer.nominate(other, ""))
            for other in decision.cleared_nominations
        ]
        rest += [
            PendingWrite(victim, PREEMPTION, writer.evict(victim, pod, where, now))
            for victim in decision.victims
        ]
        rest.append(PendingWrite(pod, "event", writer.record_failed(pod, decision.event_message, now)))
        records = FailureRecords(decision, PendingWrite(pod, "condition", status), rest)
        self._records_of |= dict.fromkeys(records.writes, records)
        self._failed[pod.metadata.uid] = records

    def nominate(self, decision: Decision, node_name: str) -> None:
        """Collect the nomination of a pod, which isn't bound yet, to its node; "" removes it."""
        nomination = PendingWrite(decision.pod, "nomination", self._writer.nominate(decision.pod, node_name))
        records = FailureRecords(decision, nomination, [])
        self._records_of[nomination] = records
        self._failed.setdefault(decision.pod.metadata.uid, records)

    def is_preempting(self, uid: str) -> bool:
        """Whether victims of a pod are still to be evicted."""
        return any(uid in by_uid and by_uid[uid].evicts for by_uid in (self._failed, self._writing))

    @property
    def is_writing(self) -> bool:
        """Whether requests are in flight, or are about to be sent."""
        return len(self._pipeline) > 0

    def run(self, until: float) -> None:
        """Send requests and read answers until all that was begun is written, or until the time is over.

        until: in `time.monotonic`'s seconds; with 0 it doesn't wait at all.
        """
        self._pipeline.run(until)

    def start(self, unassigned: Collection[str]) -> None:
        """Begin the writes that are still true; those of earlier decisions come first."""
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
        """Begin writes, unless they are outdated, or nothing may be written."""
        if not (records.outdated or self._gate.closed):
            records.open += len(writes)
            for pending in writes:
                self._pipeline.start(pending)

    def _ended(self, pending: PendingWrite, error: ApiError | None, settled: bool) -> None:
        """Handle the end of a write. After the status, begin the others."""
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

    def settled(self) -> Iterator[Completed]:
        """Finish complete records; returns the pods with a missing write that isn't outdated."""
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
            is_alone = any(each.what == PREEMPTION for each in failed)  # with its victims
            if is_alone:
                self._take_back_nomination(records.decision)
            if (is_alone or records.writes) and not (records.outdated or self._gate.stopping):
                yield Completed(records.decision, Result.NOT_RECORDED)

    def _take_back_nomination(self, decision: Decision) -> None:
        """A pod could not be evicted: delete the nomination of the pod that needs its room."""
        self._cache.nominator.delete(decision.pod)
        self.nominate(decision, "")

    def _forget_victims(self, unwritten: list[PendingWrite]) -> None:
        """Forget these victims: they were not evicted."""
        self._cache.leaving.difference_update(
            each.pod.metadata.uid for each in unwritten if each.what == PREEMPTION
        )
