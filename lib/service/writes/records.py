"""What is written of pods that were not scheduled: conditions, evictions of victims, nominations, events.

Source: pkg/scheduler/schedule_one.go, handleSchedulingFailure; framework/preemption/executor.go
"""

import logging
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import partial
from typing import Any

from lib.kube.errors import (
    ApiError,
    ConflictError,
    NotFoundError,
    NotLeadingError,
    UnreachableError,
    as_api_error,
)
from lib.kube.objects import Pod
from lib.kube.pod_writes import PREEMPTED, FailedSchedulingEvent, evict, mark_unscheduled, nominate, record
from lib.kube.system import System
from lib.kube.write import Pause, Request, Write
from lib.scheduling.cache import Cache
from lib.scheduling.decision import Decision, Outcome
from lib.scheduling.pod_life import QUEUED, ROOM, Phase, pod_key
from lib.service.telemetry.rendering import event_note
from lib.service.telemetry.report import Report
from lib.service.writes.pipeline import Pipeline, Sort
from lib.service.writes.results import Completed, Result

log = logging.getLogger(__name__)

PREEMPTION = "preemption"
"""The name of the write that evicts a pod."""


@dataclass(eq=False)
class PodWrite:
    """A write about a pod. what: a word for it. missing: whether it isn't written. failed: it was refused."""

    pod: Pod
    what: str
    write: Write[Any]
    missing: bool = True
    failed: bool = False


@dataclass(eq=False)
class Record:
    """The writes for a pod that was not scheduled: first its status, then, at the same time, all others.

    under_way: how many are being made. outdated: whether there is a later record, or the pod is gone.
    is_sent: whether an answer to the first one is awaited. binding: that of the pod, which is started then:
    else the API server might carry out the condition last, and the bound pod would be said to wait.
    Source: pkg/scheduler/backend/api_dispatcher/call_queue.go, merge
    """

    decision: Decision
    writes: list[PodWrite]
    under_way: int = 0
    outdated: bool = False
    is_sent: bool = False
    binding: Write[Completed] | None = None

    @property
    def evictions(self) -> list[PodWrite]:
        """Those that evict a pod, and aren't made."""
        return [each for each in self.writes if each.what == PREEMPTION and each.missing]


@dataclass
class Records:
    """Writes why pods were not scheduled. Of each pod, one record is written at a time.

    begun: the records that are being written, by the pod's key. undoing: the keys of the pods of which a
    decision is being undone.
    """

    pipeline: Pipeline
    cache: Cache
    report: Report
    system: System
    dry_run: bool
    begun: dict[str, Record] = field(default_factory=dict)
    undoing: set[str] = field(default_factory=set)
    _collected: dict[str, Record] = field(default_factory=dict)
    """By the pod's key. A later record replaces one that hasn't begun."""

    def now(self) -> datetime:
        """The time for conditions and events: in UTC, in whole seconds."""
        return self.system.now().replace(microsecond=0)

    def failed_scheduling(self, decision: Decision) -> None:
        """A pod was not scheduled: collect a condition and an event with the reason, and its evictions.

        If it may be bound, they are written only if it hasn't changed, that is, if it isn't bound.
        """
        if self.dry_run:
            return
        pod, where, now = decision.pod, decision.nominated, self.now()
        life = self.cache.lives.of(pod)
        nominated = where or ("" if decision.clears_nomination else None)
        version = pod.metadata.resource_version if life.phase == Phase.DOUBTFUL else ""
        reason = "SchedulerError" if decision.outcome == Outcome.ERROR else "Unschedulable"
        status = mark_unscheduled(pod, reason, decision.message, now, nominated, version)
        writes = [PodWrite(pod, "condition", status)]
        writes += [PodWrite(each, "nomination", nominate(each, "")) for each in decision.cleared_nominations]
        for each in decision.victims:
            write = evict(each, pod, where, now, partial(self._has_room, each))
            writes.append(PodWrite(each, PREEMPTION, write))
        for each in decision.preempted_held:  # not bound yet, so they aren't deleted
            message = f"{PREEMPTED.format(pod.metadata.uid, where)} (in poller's memory)."
            writes.append(PodWrite(each, "event", record(each, "Preempted", message, now, pod)))
        if decision.undo:
            from lib.kube.claim_writes import undo_claim  # here, as few clusters need it

            writes += [PodWrite(pod, "claim", undo_claim(each)) for each in decision.undo]
        life.event = life.event or FailedSchedulingEvent()
        event = life.event.record(pod, event_note(decision), now)
        self._collect(decision, [*writes, PodWrite(pod, "event", event)])

    def _has_room(self, victim: Pod) -> bool:
        """Whether a victim still has room. One that was being bound has none once that failed."""
        phase = self.cache.lives.phase_of(victim)
        if phase in QUEUED and phase not in ROOM:
            self.cache.lives.spare([victim])
            return False
        return True

    def nominated(self, decision: Decision, node_name: str) -> None:
        """Collect a pod's nomination to a node, by which others know of it; "" ends it.

        With a node, what was collected of an earlier try isn't true any more.
        """
        says_it = pod_key(decision.pod) in self._collected and not node_name
        if not (self.dry_run or says_it):
            write = nominate(decision.pod, node_name)
            self._collect(decision, [PodWrite(decision.pod, "nomination", write)])

    def _collect(self, decision: Decision, writes: list[PodWrite]) -> None:
        key = pod_key(decision.pod)
        self._collected[key] = Record(decision, writes)
        if begun := self.begun.get(key):
            begun.outdated = True

    def must_wait(self, uid: str) -> bool:
        """Whether victims of a pod are still to be evicted, or its claims to be given back."""
        if uid in self.undoing:
            return True
        records = self._collected.get(uid), self.begun.get(uid)
        return any(each.evictions for each in records if each)

    def begin(self) -> bool:
        """Begin to write what was collected, if anything; returns whether there was anything.

        Of a pod whose last record is being written, the next one is begun later.
        """
        keys = [each for each in self._collected if each not in self.begun]
        for key in keys:
            record = self.begun[key] = self._collected.pop(key)
            self._start(record, record.writes[:1])
        return bool(keys)

    def _start(self, record: Record, writes: Iterable[PodWrite]) -> None:
        for each in writes:
            record.under_way += 1
            namespace = record.decision.pod.metadata.namespace
            self.pipeline.start(self._write(record, each), Sort.RECORD, namespace)

    def _is_outdated(self, record: Record) -> bool:
        """Whether a record is no longer true; then no other write of it is begun."""
        phase = self.cache.lives.phase_of(record.decision.pod)
        return record.outdated or phase not in QUEUED or phase == Phase.BINDING

    def _write(self, record: Record, each: PodWrite) -> Write[Completed | None]:
        """Make a write of a record. The first one begins the others; the last one ends the record."""
        is_first = each is record.writes[0]
        try:
            if not (self._is_outdated(record) or self.pipeline.closed):
                yield from self._as_long_as_true(record, each.write) if is_first else each.write
                each.missing = False
        except (UnreachableError, NotLeadingError):
            pass  # it is missing
        except Exception as error:
            each.failed = True
            if self._is_outdated(record):
                log.debug("%s: %s is no longer true, and not tried again: %s", each.pod, each.what, error)
            elif is_first and isinstance(error, NotFoundError | ConflictError):
                log.debug("%s is gone, and nothing is written of it: %s", each.pod, error)
                record.outdated = True
            else:
                self.report.failed(each.pod, each.what, as_api_error(error))
        if is_first:
            self._start(record, record.writes[1:])
        record.under_way -= 1
        return None if record.under_way else self._after_write(record)

    def _as_long_as_true(self, record: Record, write: Write[Any]) -> Write[None]:
        """Make a write. What fails is tried again only if the record is still true: the pod may be bound."""
        try:
            step = next(write)
            while True:
                assert isinstance(step, Request)
                record.is_sent = True
                try:
                    answer = yield replace(step, repeatable=False)
                except ApiError as error:
                    self._answered(record)
                    if error.transient:
                        yield Pause(error)  # if it isn't worth another try, the error is raised here
                    if not error.transient or self._is_outdated(record):
                        step = write.throw(error)
                else:
                    self._answered(record)
                    step = write.send(answer)
        except StopIteration:
            return

    def _answered(self, record: Record) -> None:
        """The answer to a record's first write has come: start the binding that waits for it."""
        record.is_sent, binding, record.binding = False, record.binding, None
        if binding:
            self.pipeline.start(binding, Sort.BINDING, record.decision.pod.metadata.namespace)

    def _after_write(self, record: Record) -> Completed | None:
        """A record has ended. If a write is missing that is still true, its pod must be tried again."""
        decision, lacks = record.decision, any(each.missing and not each.failed for each in record.writes)
        del self.begun[pod_key(decision.pod)]
        self.cache.lives.spare(each.pod for each in record.evictions)
        if any(each.failed for each in record.evictions):  # the room of a victim that stays isn't kept
            lacks = True
            self.cache.nominator.delete(decision.pod)
            self.nominated(decision, "")
        if lacks and not (self._is_outdated(record) or self.pipeline.stopping):
            return Completed(decision, Result.NOT_RECORDED)
        return None
