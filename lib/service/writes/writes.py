"""Writes the results of decisions, through one pipeline: bindings, events, conditions, evictions.

Counterpart in kube-scheduler: bindingCycle and handleSchedulingFailure in pkg/scheduler/schedule_one.go;
client-go's tools/record
"""

import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime
from math import inf
from typing import Any, cast

from lib.kube.errors import LostAnswerError, NotLeadingError, UnreachableError, as_api_error
from lib.kube.objects import Pod
from lib.kube.pod_writes import evict, mark_unscheduled, nominate, record_preempted, record_scheduled
from lib.kube.write import Write
from lib.scheduling.cache import Cache
from lib.scheduling.decision import Decision, Outcome
from lib.scheduling.pod_life import Phase
from lib.scheduling.scheduling_cycle import Scheduler
from lib.service.telemetry.report import Report
from lib.service.writes.binding import binding, volumes
from lib.service.writes.gate import WriteGate
from lib.service.writes.pipeline import Pipeline
from lib.service.writes.recording import PREEMPTION, PodRecords, PodWrite, Recording
from lib.service.writes.results import Completed, Result

ANNOTATION = "poller/decision"
"""The annotation that says why a pod is on its node."""

MAX_BATCH_SECONDS = 0.005
"""Decisions are collected for so long before they are sent: decisions in a row are faster, because their data
stays in the processor's caches."""

MAX_FLUSH_SECONDS = 2.0
"""A tick waits no longer than this for writes other than bindings, so that they don't delay bindings."""

SHORT_FLUSH_SECONDS = 0.1
"""With --watch a tick costs little, and the next one may bind a pod whose victims have left."""

CONDITION_REASONS = {Outcome.UNSCHEDULABLE: "Unschedulable", Outcome.ERROR: "SchedulerError"}
"""Reasons of a pod's condition PodScheduled."""

NOT_EVICTED = " (in poller's memory)."
"""Ends the message of the event of a preempted pod that isn't bound yet: it isn't deleted."""

RESULTS = {
    Outcome.UNSCHEDULABLE: Result.UNSCHEDULABLE,
    Outcome.ERROR: Result.UNSCHEDULABLE,
    Outcome.WAITING: Result.WAITING,
}
"""Results of decisions without a binding."""


def utc_now() -> datetime:
    """The time of conditions and events."""
    return datetime.now(UTC).replace(microsecond=0)


class Writes:
    """All writes of the loop. `submit` takes decisions; `completed` and `drain` return their results.

    schedulers: by scheduler name; their PreBind, Bind and PostBind plugins are run. annotate: write
    on each pod why it is on its node; annotate_in_full: also why on no other, in a small cluster. dry_run:
    write nothing. max_seconds: how long `drain` may take for other writes than bindings; short_flushes:
    whether it takes SHORT_FLUSH_SECONDS for pods that were not scheduled.
    """

    def __init__(
        self,
        pipeline: Pipeline,
        gate: WriteGate,
        schedulers: Mapping[str, Scheduler],
        cache: Cache,
        report: Report,
        *,
        annotate: bool,
        annotate_in_full: bool,
        dry_run: bool,
        max_seconds: float,
        short_flushes: bool,
        clock: Callable[[], float] = time.monotonic,
        now: Callable[[], datetime] = utc_now,
    ) -> None:
        self._pipeline, self._gate = pipeline, gate
        self._schedulers, self._cache, self._report = schedulers, cache, report
        self._annotate, self._annotate_in_full, self._dry_run = annotate, annotate_in_full, dry_run
        self._max_seconds = max_seconds
        self._recording_seconds = SHORT_FLUSH_SECONDS if short_flushes else max_seconds
        self._clock, self._now = clock, now
        self._unsent: deque[Decision] = deque()
        self._send_at = self._record_at = 0.0  # in clock's seconds
        self._completed: list[Completed] = []
        self._open = {"bindings": 0, "events": 0, "records": 0}  # how many have begun and haven't ended
        self._events: deque[tuple[Pod, str, datetime]] = deque()  # of bound pods
        self._to_record: list[Recording] = []  # not begun; each pod's records say which is the last

    # --- bindings ---------------------------------------------------------------------------------------

    def submit(self, decision: Decision) -> None:
        """Take a decision. Its binding is sent with others, at the next call of `completed` or `drain`."""
        if result := RESULTS.get(decision.outcome):
            self._completed.append(Completed(decision, result))
        elif self._dry_run:
            self._completed.append(Completed(decision, Result.NOT_WRITTEN))
        else:
            if not self._unsent:
                self._send_at = self._clock() + MAX_BATCH_SECONDS
            self._unsent.append(decision)

    def completed(self) -> list[Completed]:
        """The results since the last call. Waits only while too many requests are in flight."""
        now = self._clock()
        if self._unsent and now > self._send_at:
            self._pipeline.run()
            self._send_bindings()
        if self._to_record and now > self._record_at and not self._gate.closed:
            self._begin_recordings()
            self._record_at = now + MAX_BATCH_SECONDS
        return self._take()

    def drain(self) -> Iterator[Completed]:
        """The results of all other bindings, as they come, unless poller was told twice to stop."""
        if not self._gate.impatient:
            self._send_bindings()
        while self._open["bindings"] and not self._gate.impatient:
            yield from self._take()
            self._pipeline.run(inf, lambda: self._pipeline.has_ended)
        yield from self._take()

    def _send_bindings(self) -> None:
        """Send a binding as soon as there is room for it in flight."""
        while self._unsent:
            self._pipeline.run(inf, lambda: not self._pipeline.is_full)
            decision = self._unsent.popleft()
            if self._gate.closed:
                self._completed.append(Completed(decision, Result.NOT_SENT))
                continue
            result = self._run_bind_plugins(decision)
            if result == Result.WAITING:
                self._start(volumes(decision), "bindings")
            elif result:
                self._conclude(Completed(decision, result))
            else:
                self._start(binding(decision, self._annotations(decision), self._clock), "bindings")

    def _start(self, write: Write[Any], sort: str) -> None:
        """Begin a write, and count it as open until it ends."""

        def counted() -> Write[Any]:
            try:
                return (yield from write)
            finally:
                self._open[sort] -= 1

        self._open[sort] += 1
        self._pipeline.start(counted())

    def _run_bind_plugins(self, decision: Decision) -> Result | None:
        """Run the PreBind and Bind plugins and the extenders; None if poller must POST the binding."""
        bound = self._schedulers[decision.pod.spec.scheduler_name].bind(decision, self._cache)
        decision.ended = self._clock()
        if bound:
            return Result.BOUND
        if decision.outcome == Outcome.WAITING:
            return Result.WAITING
        return None if decision.outcome == Outcome.SCHEDULED else Result.FAILED

    def _annotations(self, decision: Decision) -> Mapping[str, str]:
        """The annotations to write with a pod's binding."""
        return {ANNOTATION: decision.as_annotation(in_full=self._annotate_in_full)} if self._annotate else {}

    def _conclude(self, completed: Completed) -> None:
        """Run the PostBind plugins, or update the cache of claims and volumes."""
        decision = completed.decision
        for written in decision.writes if completed.result == Result.WAITING else ():
            self._cache.storage.assume(written)
        if completed.result == Result.BOUND:
            self._schedulers[decision.pod.spec.scheduler_name].post_bind(decision)
        self._completed.append(completed)

    def _take(self) -> list[Completed]:
        for each in self._pipeline.ended():
            if isinstance(each, Completed):
                self._conclude(each)
            elif isinstance(each, Recording):
                self._recorded(each)
        completed, self._completed = self._completed, []
        return completed

    # --- records ----------------------------------------------------------------------------------------

    def scheduled(self, decision: Decision) -> None:
        """A pod was bound: collect its event."""
        self._events.append((decision.pod, decision.message, self._now()))

    def failed_scheduling(self, decision: Decision) -> None:
        """A pod was not scheduled: collect a condition and an event with the reason, and its evictions.

        If it may be bound, they are written only if it hasn't changed, that is, if it isn't bound.
        """
        if self._dry_run:
            return
        pod, where, now = decision.pod, decision.nominated, self._now()
        nominated = where or ("" if decision.clears_nomination else None)
        may_be_bound = self._cache.lives.phase_of(pod) == Phase.DOUBTFUL
        version = pod.metadata.resource_version if may_be_bound else ""
        reason = CONDITION_REASONS[decision.outcome]
        status = mark_unscheduled(pod, reason, decision.message, now, nominated, version)
        rest = [PodWrite(other, "nomination", nominate(other, "")) for other in decision.cleared_nominations]
        rest += [PodWrite(each, PREEMPTION, evict(each, pod, where, now)) for each in decision.victims]
        rest += [
            PodWrite(each, "event", record_preempted(each, pod, where, now, NOT_EVICTED))
            for each in decision.preempted_held
        ]
        event = self._records_of(pod).event.record(pod, decision.event_message, now)
        rest.append(PodWrite(pod, "event", event))
        self._collect(decision, PodWrite(pod, "condition", status), rest)

    def _records_of(self, pod: Pod) -> PodRecords:
        life = self._cache.lives.of(pod)
        life.records = life.records or PodRecords()
        return cast(PodRecords, life.records)

    def _collect(self, decision: Decision, status: PodWrite, rest: list[PodWrite]) -> None:
        """Collect the writes for a pod; they replace those that were collected before, and haven't begun."""
        records = self._records_of(decision.pod)
        life = self._cache.lives.of(decision.pod)
        records.waiting = Recording(decision, status, rest, life, records)
        self._to_record.append(records.waiting)

    def nominated(self, decision: Decision) -> None:
        """A pod waits, with a node reserved: collect its nomination, by which others know of the node.

        Source: bindingCycle in pkg/scheduler/schedule_one.go
        """
        is_written = decision.pod.status.nominated_node_name == decision.node_name
        if not (self._dry_run or is_written or decision.waits_for_pre_bind):  # `volumes` writes it
            self._nominate(decision, decision.node_name or "")

    def _nominate(self, decision: Decision, node_name: str) -> None:
        status = PodWrite(decision.pod, "nomination", nominate(decision.pod, node_name))
        if not self._records_of(decision.pod).waiting:
            self._collect(decision, status, [])

    def is_preempting(self, uid: str) -> bool:
        """Whether victims of a pod are still to be evicted."""
        life = self._cache.lives.get(uid)
        records = life.records if life else None
        return bool(records and any(each and each.not_evicted for each in (records.waiting, records.begun)))

    @property
    def is_recording(self) -> bool:
        """Whether such writes have begun and haven't ended."""
        return self._open["records"] > 0

    def flush(self) -> list[Completed]:
        """Make the writes besides bindings, and wait for them, but not too long: the next flush goes on.

        Returns the pods that must be tried again: a write failed because the API server wasn't there, or a
        victim could not be evicted. Events of bound pods stay true: they are kept and written later. During
        shutdown only these events are written; the next run does the rest.
        """
        if self._gate.impatient:
            return []
        until = self._clock() + self._max_seconds
        self._begin_recordings()
        self._write_events(until)
        self._run_recordings(min(until, self._clock() + self._recording_seconds))
        return self._take()

    def close(self) -> None:
        """Write the remaining events of bound pods, however long that takes, and finish what was begun."""
        if not (self._gate.error or self._gate.impatient):
            self._write_events(inf)
            self._run_recordings(self._clock() + MAX_FLUSH_SECONDS)

    def _begin_recordings(self) -> None:
        """Begin those that are still true; those of earlier decisions come first."""
        collected, self._to_record = self._to_record, []
        for recording in collected:
            records = recording.records
            if records.waiting is not recording:
                continue  # a later one has replaced it
            if records.begun:
                records.begun.outdated = True
                self._to_record.append(recording)
                continue
            records.waiting, records.begun = None, recording
            self._open["records"] += 1
            if recording.is_outdated or self._gate.closed:
                self._recorded(recording)
            else:
                self._pipeline.start(recording.write(self._gate))

    def _run_recordings(self, until: float) -> None:
        self._pipeline.run(until, lambda: not self.is_recording)

    def _recorded(self, recording: Recording) -> None:
        """Handle the end of a recording. If a write is missing that is still true, its pod is tried again."""
        decision = recording.decision
        recording.records.begun = None
        self._open["records"] -= 1
        for each, error in recording.failures:
            self._report.failed(each.pod, each.what, error)
        self._cache.lives.spare(recording.not_evicted)
        if recording.is_preemptor_alone:  # with its victims: it loses the room that they would have left
            self._cache.nominator.delete(decision.pod)
            self._nominate(decision, "")
        is_missing = recording.is_preemptor_alone or recording.unwritten
        if is_missing and not (recording.is_outdated or self._gate.stopping):
            self._completed.append(Completed(decision, Result.NOT_RECORDED))

    # --- events of bound pods ---------------------------------------------------------------------------

    def _write_events(self, until: float) -> None:
        """Write the events, and wait until the time is over. The next call writes what is left.

        During shutdown there is no time limit.
        """
        if self._gate.stopping:
            until = inf  # there is no next tick
        for _ in range(len(self._events)):  # only these: an event that can't be written now is put back
            self._pipeline.run(until, lambda: not self._pipeline.is_full)
            if self._pipeline.is_full or self._gate.error or self._gate.impatient:
                break
            self._start(self._event(*self._events.popleft()), "events")
        self._pipeline.run(until, lambda: not self._open["events"])

    def _event(self, pod: Pod, message: str, when: datetime) -> Write[None]:
        try:
            yield from record_scheduled(pod, message, when)
        except (UnreachableError, NotLeadingError):  # it is kept
            self._events.append((pod, message, when))
        except Exception as error:
            failed = as_api_error(error)
            if self._gate.stopping and isinstance(failed, LostAnswerError):
                self._gate.error = failed  # nothing answers: the other writes would hang, too
            self._report.failed(pod, "event", failed)
