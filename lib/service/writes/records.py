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
    """A write about a pod."""

    pod: Pod
    what: str
    """What is written, in a word."""
    write: Write[Any]
    missing: bool = True
    """Whether it isn't written yet."""
    failed: bool = False
    """Whether it was refused."""


@dataclass(eq=False)
class Record:
    """The writes for a pod that was not scheduled: first its status, then, at the same time, all others.

    Source: pkg/scheduler/backend/api_dispatcher/call_queue.go, merge
    """

    decision: Decision
    writes: list[PodWrite]
    under_way: int = 0
    """How many of the writes are being made."""
    outdated: bool = False
    """Whether there is a later record, or the pod is gone."""
    is_sent: bool = False
    """Whether the answer to the first write is awaited."""
    binding: Write[Completed] | None = None
    """The pod's binding, which waits for that answer. If both were in flight, the API server might carry out
    the condition last: the pod would be bound, and have a condition that says it isn't."""

    @property
    def evictions(self) -> list[PodWrite]:
        """The writes that evict a pod and aren't made yet."""
        return [write for write in self.writes if write.what == PREEMPTION and write.missing]


@dataclass
class Records:
    """Writes why pods were not scheduled. Of each pod, one record is written at a time."""

    pipeline: Pipeline
    cache: Cache
    report: Report
    system: System
    dry_run: bool
    begun: dict[str, Record] = field(default_factory=dict)
    """The records that are being written, by the pod's key."""
    undoing: set[str] = field(default_factory=set)
    """The keys of the pods whose decision is being undone."""
    _collected: dict[str, Record] = field(default_factory=dict)
    """The records that haven't begun, by the pod's key. A later one replaces an earlier one."""

    def now(self) -> datetime:
        """The time for conditions and events: in UTC, in whole seconds."""
        return self.system.now().replace(microsecond=0)

    def failed_scheduling(self, decision: Decision) -> None:
        """A pod was not scheduled: collect a condition and an event with the reason, and its evictions.

        A pod that may be bound gets its condition only if it hasn't changed: then it isn't bound.
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
        cleared = decision.cleared_nominations
        writes += [PodWrite(nominee, "nomination", nominate(nominee, "")) for nominee in cleared]
        for victim in decision.victims:
            write = evict(victim, pod, where, now, partial(self._check_room, victim))
            writes.append(PodWrite(victim, PREEMPTION, write))
        for victim in decision.preempted_held:  # not bound yet, so it isn't deleted
            write = self._tell_held(victim, pod, where, now)
            self.pipeline.start(write, Sort.RECORD, victim.metadata.namespace)
        if decision.undo:
            from lib.kube.claim_writes import undo_claim  # here, as few clusters need it

            writes += [PodWrite(pod, "claim", undo_claim(undo)) for undo in decision.undo]
        life.event = life.event or FailedSchedulingEvent()
        event = life.event.record(pod, event_note(decision), now)
        self._collect(decision, [*writes, PodWrite(pod, "event", event)])

    def _tell_held(self, victim: Pod, preemptor: Pod, node_name: str, now: datetime) -> Write[None]:
        """Write the event that a held pod has lost its node. It stays true when the preemptor is bound."""
        message = f"{PREEMPTED.format(preemptor.metadata.uid, node_name)} (in poller's memory)."
        try:
            yield from record(victim, "Preempted", message, now, preemptor)
        except (UnreachableError, NotLeadingError):
            log.debug("%s isn't told that it has lost %s", victim, node_name)
        except Exception as error:
            self.report.failed(victim, "event", as_api_error(error))

    def _check_room(self, victim: Pod) -> bool:
        """Whether a victim still has room. If it has none, because its binding failed, it is spared."""
        phase = self.cache.lives.phase_of(victim)
        if phase in QUEUED and phase not in ROOM:
            self.cache.lives.spare([victim])
            return False
        return True

    def nominated(self, decision: Decision, node_name: str) -> None:
        """Collect a pod's nomination to a node, by which others know of it; "" ends it.

        A nomination to a node replaces what was collected of an earlier try: that isn't true any more. To end
        one, nothing is collected if there is a later record, which says where the pod is nominated.
        """
        has_later_record = pod_key(decision.pod) in self._collected and not node_name
        if not (self.dry_run or has_later_record):
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
        return any(record.evictions for record in records if record)

    def begin(self) -> bool:
        """Begin to write what was collected, if anything; returns whether there was anything.

        Of a pod whose last record is being written, the next one is begun later.
        """
        keys = [key for key in self._collected if key not in self.begun]
        for key in keys:
            record = self.begun[key] = self._collected.pop(key)
            self._start(record, record.writes[:1])
        return bool(keys)

    def _start(self, record: Record, writes: Iterable[PodWrite]) -> None:
        for write in writes:
            record.under_way += 1
            namespace = record.decision.pod.metadata.namespace
            sort = Sort.EVICTION if write.what == PREEMPTION else Sort.RECORD
            self.pipeline.start(self._write(record, write), sort, namespace)

    def _is_outdated(self, record: Record) -> bool:
        """Whether a record is no longer true. No further write of such a record is begun."""
        phase = self.cache.lives.phase_of(record.decision.pod)
        return record.outdated or phase not in QUEUED or phase == Phase.BINDING

    def _write(self, record: Record, pod_write: PodWrite) -> Write[Completed | None]:
        """Make a write of a record. The first one begins the others; the last one ends the record."""
        is_first, pod, what = pod_write is record.writes[0], pod_write.pod, pod_write.what
        try:
            if not (self._is_outdated(record) or self.pipeline.closed):
                write = pod_write.write
                yield from self._as_long_as_true(record, write) if is_first else write
                pod_write.missing = False
        except (UnreachableError, NotLeadingError):
            pass  # it is missing
        except Exception as error:
            pod_write.failed = True
            if self._is_outdated(record):
                log.debug("%s: %s is no longer true, and not tried again: %s", pod, what, error)
            elif is_first and isinstance(error, NotFoundError | ConflictError):
                log.debug("%s is gone, and nothing is written of it: %s", pod, error)
                record.outdated = True
            else:
                self.report.failed(pod, what, as_api_error(error))
        if is_first:
            self._start(record, record.writes[1:])
        record.under_way -= 1
        return None if record.under_way else self._after_write(record)

    def _as_long_as_true(self, record: Record, write: Write[Any]) -> Write[None]:
        """Make a write. It is tried again only as long as the record is true: the pod may be bound."""
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
        decision, lacks = record.decision, any(write.missing and not write.failed for write in record.writes)
        del self.begun[pod_key(decision.pod)]
        self.cache.lives.spare(write.pod for write in record.evictions)
        if any(write.failed for write in record.evictions):  # the room of a victim that stays isn't kept
            lacks = True
            self.cache.nominator.delete(decision.pod)
            self.nominated(decision, "")
        if lacks and not self._is_outdated(record):
            return Completed(decision, Result.NOT_RECORDED)
        return None
