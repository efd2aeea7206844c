"""Writes the results of decisions, through one pipeline: bindings, events, conditions, evictions.

Counterpart in kube-scheduler: bindingCycle and handleSchedulingFailure in pkg/scheduler/schedule_one.go;
client-go's tools/record
"""

import logging
from collections.abc import Callable, Iterator, Mapping
from datetime import datetime
from math import inf

from msgspec.structs import replace

from lib.kube.errors import ApiError, LostAnswerError, NotLeadingError, UnreachableError, as_api_error
from lib.kube.objects import Pod
from lib.kube.pod_writes import bind, nominate, record_scheduled
from lib.kube.resource_claims import ReserveClaim
from lib.kube.storage_writes import write_assumed
from lib.kube.write import Write
from lib.scheduling.cache import Cache
from lib.scheduling.decision import PLACED, Decision, Outcome
from lib.scheduling.scheduling_cycle import Scheduler
from lib.service.telemetry.rendering import as_annotation
from lib.service.telemetry.report import Report
from lib.service.writes.gate import WriteGate
from lib.service.writes.pipeline import Pipeline, Sort
from lib.service.writes.records import Records
from lib.service.writes.results import Completed, Result

log = logging.getLogger(__name__)

ANNOTATION = "poller/decision"
"""The annotation that says why a pod is on its node."""

MAX_BATCH_SECONDS = 0.005
"""Decisions are collected for so long before they are sent: decisions in a row are faster, because their data
stays in the processor's caches."""

MAX_FLUSH_SECONDS = 2.0
"""A tick waits no longer than this for writes other than bindings, so that they don't delay bindings."""

SHORT_FLUSH_SECONDS = 0.1
"""The same with --watch, for records: a tick costs little, and the next may bind a pod whose victims left."""


class Writes:
    """All writes of the loop. `submit` takes decisions; `completed` and `drain` return their results.

    records: of pods that were not scheduled. schedulers: by scheduler name; their PreBind, Bind and PostBind
    plugins are run. annotate: write on each pod why it is on its node; annotate_in_full: also why on no
    other, in a small cluster. dry_run: write nothing. event_seconds, record_seconds: how long `drain` may
    take for these. clock: the time in seconds; now: the same for events, in UTC, in whole seconds.
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
        event_seconds: float,
        record_seconds: float,
        clock: Callable[[], float],
        now: Callable[[], datetime],
    ) -> None:
        self.records = Records(pipeline, gate, cache, report, now, dry_run=dry_run)
        self._pipeline, self._gate, self._cache, self._report = pipeline, gate, cache, report
        self._schedulers, self._dry_run = schedulers, dry_run
        self._annotate, self._in_full = annotate, annotate_in_full
        self._event_seconds, self._record_seconds = event_seconds, record_seconds
        self._clock, self._now = clock, now
        self._run_at = 0.0  # in clock's seconds
        self._done: list[Completed] = []  # decisions that need no write
        self._events: list[tuple[Pod, str, datetime]] = []  # of bound pods

    def submit(self, decision: Decision) -> None:
        """Take a decision. Its binding is sent with others, by `completed` or `drain`."""
        if decision.outcome == Outcome.WAITING:
            self.records.nominated(decision, decision.node_name or "")
            self._done.append(Completed(decision, Result.WAITING))
        elif decision.outcome != Outcome.SCHEDULED:
            self._done.append(Completed(decision, Result.UNSCHEDULABLE))
        elif self._dry_run:
            self._done.append(Completed(decision, Result.NOT_WRITTEN))
        else:
            self._pipeline.start(self._bind(decision), Sort.BINDING)

    def completed(self) -> Iterator[Completed]:
        """The results since the last call. Waits only while too many bindings are open."""
        done, self._done = self._done, []
        yield from done
        if self._clock() >= self._run_at:
            if not self._gate.closed:
                self.records.begin()
            yield from self._pipeline.run(Sort.BINDING, inf, left=self._pipeline.window)
            self._run_at = self._clock() + MAX_BATCH_SECONDS

    def drain(self) -> Iterator[Completed]:
        """The results of all other bindings, as they come. Then make the other writes, but not for too long.

        What isn't written goes on in the next tick. During shutdown only the events of bound pods are
        written, however long that takes. When poller is told twice to stop, it doesn't wait.
        """
        yield from self.completed()
        yield from self._pipeline.run(Sort.BINDING, inf)
        until = self._clock() + self._event_seconds
        self.records.begin()
        yield from self._write_events(inf if self._gate.stopping else until)
        yield from self._pipeline.run(Sort.RECORD, min(until, self._clock() + self._record_seconds))

    def close(self) -> None:
        """Write the remaining events of bound pods, however long that takes, and finish what was begun."""
        if not self._gate.error:
            list(self._write_events(inf))
            list(self._pipeline.run(Sort.RECORD, self._clock() + MAX_FLUSH_SECONDS))

    def _write_events(self, until: float) -> Iterator[Completed]:
        """Write the events of bound pods. They stay true: what isn't written in time is written later."""
        events, self._events = self._events, []
        for each in events:
            self._pipeline.start(self._write_event(*each), Sort.EVENT)
        return self._pipeline.run(Sort.EVENT, until)

    def _bind(self, decision: Decision) -> Write[Completed]:
        """Run PreBind and Bind, POST the binding, run PostBind. Any error affects this pod only.

        Source: bindingCycle in pkg/scheduler/schedule_one.go
        """
        if self._gate.closed:
            return Completed(decision, Result.NOT_SENT)
        scheduler = self._schedulers[decision.pod.spec.scheduler_name]
        decision = scheduler.bind(decision, self._cache)
        while decision.outcome == Outcome.WAITING and decision.writes:
            try:
                yield from self._write_assumed(decision)
            except Exception as error:
                if isinstance(error, ApiError):
                    error.may_be_written = False  # the binding was not sent
                return _failed(decision, error, f'PreBind plugin "{scheduler.waits_in_pre_bind(decision)}"')
            decision = scheduler.bind(decision, self._cache)
        if decision.outcome == Outcome.WAITING:
            return Completed(decision, Result.WAITING)
        if decision.outcome not in PLACED:
            return Completed(decision, Result.FAILED)
        assert decision.node_name
        if decision.outcome == Outcome.SCHEDULED:
            given = decision.annotations
            why = {ANNOTATION: as_annotation(decision, in_full=self._in_full)} if self._annotate else {}
            began = self._clock()
            try:
                taken, now = yield from bind(decision.pod, decision.node_name, {**given, **why})
            except Exception as error:
                return _failed(self._timed(decision, began), error, 'Bind plugin "DefaultBinder"')
            decision = self._timed(decision, began)
            if taken:
                return Completed(decision, Result.TAKEN, why=taken, now=now)
        scheduler.post_bind(decision)
        self.scheduled(decision)
        return Completed(decision, Result.BOUND)

    def scheduled(self, decision: Decision) -> None:
        """A pod was bound: its event is written with others."""
        self._events.append((decision.pod, decision.message, self._now()))

    def _write_assumed(self, decision: Decision) -> Write[None]:
        """Write what a PreBind plugin waits for. What may take long comes after the pod's nominated node."""
        volumes = [each for each in decision.writes if not isinstance(each, ReserveClaim)]
        if volumes:
            yield from self._nominate(decision)
            written = []
            for volume in volumes:
                now = yield from write_assumed(volume)
                written.append(now)
            for each in written:
                self._cache.storage.assume(each)
        if claims := [each for each in decision.writes if isinstance(each, ReserveClaim)]:
            yield from self._reserve_claims(decision, claims)

    def _nominate(self, decision: Decision) -> Write[None]:
        pod = decision.pod
        assert decision.node_name
        try:
            yield from nominate(pod, decision.node_name)
        except (UnreachableError, NotLeadingError):
            raise
        except ApiError as error:  # the volumes are bound all the same, as in kube-scheduler
            log.warning("%s is not nominated to %s: %s", pod, decision.node_name, error)

    def _reserve_claims(self, decision: Decision, claims: list[ReserveClaim]) -> Write[None]:
        """Write which devices the pod's claims have. If it waits for a device, say so on the pod."""
        from lib.kube.claim_writes import announce_wait, reserve_claim  # here, as few clusters need them
        from lib.scheduling.devices.binding_conditions import has_binding_conditions

        devices, waits = self._cache.devices, False
        for each in claims:
            written = yield from reserve_claim(each, self._now())
            devices.written(written, each.claim.metadata.uid)
            waits |= has_binding_conditions(written)
        if waits:
            assert decision.node_name
            try:
                yield from announce_wait(decision.pod, decision.node_name, self._now())
            except (UnreachableError, NotLeadingError):
                raise
            except ApiError as error:
                log.warning("%s: that it waits for its devices is not written: %s", decision.pod, error)

    def undo(self, decision: Decision) -> None:
        """Write what undoes a decision."""
        if decision.undo and not self._dry_run:
            self._pipeline.start(self._undo(decision), Sort.RECORD)

    def _undo(self, decision: Decision) -> Write[None]:
        from lib.kube.claim_writes import undo_claim

        for each in decision.undo:
            try:
                yield from undo_claim(each)
            except ApiError as error:  # the pod's next attempt finds its claim as it is
                self._report.failed(decision.pod, "claim", error)

    def _timed(self, decision: Decision, began: float) -> Decision:
        """The decision with the time that its binding took."""
        ended = self._clock()
        return replace(decision, binding=ended - began, ended=ended)

    def _write_event(self, pod: Pod, message: str, when: datetime) -> Write[None]:
        try:
            yield from record_scheduled(pod, message, when)
        except (UnreachableError, NotLeadingError):  # it is kept
            self._events.append((pod, message, when))
        except Exception as error:
            failed = as_api_error(error)
            if self._gate.stopping and isinstance(failed, LostAnswerError):
                self._gate.error = failed  # nothing answers: the other writes would hang, too
            self._report.failed(pod, "event", failed)


def _failed(decision: Decision, error: Exception, where: str) -> Completed:
    """The result of a binding that failed; the decision says why in kube-scheduler's words."""
    failed = as_api_error(error)
    if failed is not error:
        log.debug("%s: binding failed", decision.pod, exc_info=error)
    if isinstance(failed, UnreachableError | NotLeadingError) and not failed.may_be_written:
        return Completed(decision, Result.NOT_SENT)
    decision = replace(decision, outcome=Outcome.ERROR, message=f"running {where}: {failed}")
    return Completed(decision, Result.DOUBTFUL if failed.may_be_written else Result.FAILED, error=failed)
