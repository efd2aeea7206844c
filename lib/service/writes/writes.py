"""Writes the results of decisions, through one pipeline: bindings, events, conditions, evictions.

Counterpart in kube-scheduler: bindingCycle and handleSchedulingFailure in pkg/scheduler/schedule_one.go;
client-go's tools/record
"""

import logging
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from math import inf

from msgspec.structs import replace

from lib.kube.errors import ApiError, LostAnswerError, NotLeadingError, UnreachableError, as_api_error
from lib.kube.objects import Pod
from lib.kube.pod_writes import bind, nominate, record
from lib.kube.resource_claims import ReserveClaim
from lib.kube.storage_writes import write_assumed
from lib.kube.system import System
from lib.kube.write import Write
from lib.scheduling.cache import Cache
from lib.scheduling.decision import PLACED, Decision, Outcome
from lib.scheduling.pod_life import pod_key
from lib.scheduling.scheduling_cycle import Scheduler
from lib.service.options import Options
from lib.service.telemetry.rendering import as_annotation
from lib.service.telemetry.report import Report
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


@dataclass
class Writes:
    """All writes of the loop. `submit` takes decisions; `completed` and `drain` return their results.

    schedulers: by scheduler name; their PreBind, Bind and PostBind plugins are run. records: of pods that
    were not scheduled.
    """

    pipeline: Pipeline
    schedulers: Mapping[str, Scheduler]
    cache: Cache
    report: Report
    options: Options
    system: System
    records: Records
    _run_at: float = 0.0
    """When the pipeline runs next, in seconds of `System.monotonic`."""
    _done: list[Completed] = field(default_factory=list)
    """Decisions that need no write."""
    _events: list[tuple[Pod, str, datetime]] = field(default_factory=list)
    """The events of bound pods: pod, message, time."""

    def submit(self, decision: Decision) -> None:
        """Take a decision. Its binding is sent with others, by `completed` or `drain`."""
        if decision.outcome == Outcome.WAITING:
            self.records.nominated(decision, decision.node_name)
            self._done.append(Completed(decision, Result.WAITING))
        elif decision.outcome != Outcome.SCHEDULED:
            self._done.append(Completed(decision, Result.UNSCHEDULABLE))
        elif self.options.dry_run:
            self._done.append(Completed(decision, Result.NOT_WRITTEN))
        else:
            self.pipeline.start(self._bind(decision), Sort.BINDING)

    def completed(self) -> Iterator[Completed]:
        """The results since the last call. Waits only while too many bindings are open."""
        done, self._done = self._done, []
        yield from done
        if self.system.monotonic() >= self._run_at:
            if not self.pipeline.closed:
                self.records.begin()
            yield from self.pipeline.run(Sort.BINDING, inf, left=self.pipeline.window)
            self._run_at = self.system.monotonic() + MAX_BATCH_SECONDS

    def drain(self) -> Iterator[Completed]:
        """The results of all other bindings, as they come. Then make the other writes, but not for too long.

        What isn't written goes on in the next tick. During shutdown only the events of bound pods are
        written, however long that takes. When poller is told twice to stop, it doesn't wait.
        """
        yield from self.completed()
        yield from self.pipeline.run(Sort.BINDING, inf)
        began, once = self.system.monotonic(), self.options.once
        self.records.begin()
        until = inf if once else began + MAX_FLUSH_SECONDS
        yield from self._write_events(inf if self.pipeline.stopping else until)
        if self.pipeline.stopping:  # finish what was begun
            until = self.system.monotonic() + MAX_FLUSH_SECONDS
        elif self.options.watch and not once:
            until = min(until, self.system.monotonic() + SHORT_FLUSH_SECONDS)
        yield from self.pipeline.run(Sort.RECORD, until)

    def _write_events(self, until: float) -> Iterator[Completed]:
        """Write the events of bound pods. They stay true: what isn't written in time is written later."""
        events, self._events = self._events, []
        for each in events:
            self.pipeline.start(self._write_event(*each), Sort.EVENT)
        return self.pipeline.run(Sort.EVENT, until)

    def _bind(self, decision: Decision) -> Write[Completed]:
        """Run PreBind and Bind, POST the binding, run PostBind. Any error affects this pod only.

        Source: bindingCycle in pkg/scheduler/schedule_one.go
        """
        if self.pipeline.closed:
            return Completed(decision, Result.NOT_SENT)
        scheduler = self.schedulers[decision.pod.spec.scheduler_name]
        decision = scheduler.bind(decision, self.cache)
        while decision.outcome == Outcome.WAITING and decision.writes:
            try:
                yield from self._write_assumed(decision)
            except Exception as error:
                gives_devices = any(isinstance(each, ReserveClaim) for each in decision.writes)
                if isinstance(error, ApiError) and not gives_devices:  # what may be taken stays so
                    error.may_be_written = False  # the binding was not sent
                return _failed(decision, error, f'PreBind plugin "{scheduler.waits_in_pre_bind(decision)}"')
            decision = scheduler.bind(decision, self.cache)
        if decision.outcome == Outcome.WAITING:
            return Completed(decision, Result.WAITING)
        if decision.outcome not in PLACED:
            return Completed(decision, Result.FAILED)
        if decision.outcome == Outcome.SCHEDULED:
            annotations = decision.annotations
            if not self.options.no_annotate:
                annotations = {**annotations, ANNOTATION: as_annotation(decision, in_full=self.options.ui)}
            began = self.system.monotonic()
            try:
                taken, now = yield from bind(decision.pod, decision.node_name, annotations)
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
        self._events.append((decision.pod, decision.message, self.records.now()))

    def _write_assumed(self, decision: Decision) -> Write[None]:
        """Write what PreBind waits for: volumes and devices. What may take long is announced on the pod."""
        pod, node_name = decision.pod, decision.node_name
        volumes = [each for each in decision.writes if not isinstance(each, ReserveClaim)]
        if volumes:
            yield from self._announce(pod, nominate(pod, node_name))
        for volume in volumes:
            self.cache.storage.assume((yield from write_assumed(volume)))
        if claims := [each for each in decision.writes if isinstance(each, ReserveClaim)]:
            from lib.kube.claim_writes import announce_wait, reserve_claim  # here, as few clusters need them
            from lib.scheduling.devices.binding_conditions import has_binding_conditions

            written = []
            for each in claims:
                written.append((yield from reserve_claim(each, self.records.now())))
                self.cache.devices.written(written[-1], each.claim.metadata.uid)
            if any(map(has_binding_conditions, written)):
                yield from self._announce(pod, announce_wait(pod, node_name, self.records.now()))

    def _announce(self, pod: Pod, write: Write[None]) -> Write[None]:
        """Write that a pod waits. If that is refused, the pod is bound all the same, as in kube-scheduler."""
        try:
            yield from write
        except (UnreachableError, NotLeadingError):
            raise
        except ApiError as error:
            self.report.failed(pod, "nomination", error)

    def undo(self, decision: Decision) -> None:
        """Write what undoes a decision. The pod isn't tried before that is done."""
        if decision.undo and not self.options.dry_run:
            self.records.undoing.add(pod_key(decision.pod))
            self.pipeline.start(self._undo(decision), Sort.RECORD)

    def _undo(self, decision: Decision) -> Write[None]:
        from lib.kube.claim_writes import undo_claim

        for each in decision.undo:
            try:
                if now := (yield from undo_claim(each)):  # what others have reserved of it stays
                    self.cache.devices.written(now, reserved_as="")
            except Exception as error:  # the pod's next attempt finds its claim as it is
                self.report.failed(decision.pod, "claim", as_api_error(error))
        self.records.undoing.discard(pod_key(decision.pod))

    def _timed(self, decision: Decision, began: float) -> Decision:
        """The decision with the time that its binding took."""
        ended = self.system.monotonic()
        return replace(decision, binding=ended - began, ended=ended)

    def _write_event(self, pod: Pod, message: str, when: datetime) -> Write[None]:
        try:
            yield from record(pod, "Scheduled", message, when)
        except (UnreachableError, NotLeadingError):  # it is kept
            self._events.append((pod, message, when))
        except Exception as error:
            failed = as_api_error(error)
            if self.pipeline.stopping and isinstance(failed, LostAnswerError):
                self.pipeline.error = failed  # nothing answers: the other writes would hang, too
            self.report.failed(pod, "event", failed)


def _failed(decision: Decision, error: Exception, where: str) -> Completed:
    """The result of a binding that failed; the decision says why in kube-scheduler's words."""
    failed = as_api_error(error)
    if failed is not error:
        log.debug("%s: binding failed", decision.pod, exc_info=error)
    if isinstance(failed, UnreachableError | NotLeadingError) and not failed.may_be_written:
        return Completed(decision, Result.NOT_SENT)
    decision = replace(decision, outcome=Outcome.ERROR, message=f"running {where}: {failed}")
    return Completed(decision, Result.DOUBTFUL if failed.may_be_written else Result.FAILED, error=failed)
