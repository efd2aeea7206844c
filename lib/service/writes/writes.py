"""Writes the results of decisions, through one pipeline: bindings, events, conditions, evictions.

Counterpart in kube-scheduler: bindingCycle and handleSchedulingFailure in pkg/scheduler/schedule_one.go;
client-go's tools/record
"""

import logging
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial
from math import inf

from msgspec.structs import replace

from lib.kube.errors import ApiError, LostAnswerError, NotLeadingError, UnreachableError, as_api_error
from lib.kube.objects import Pod
from lib.kube.pod_writes import bind, look_up, nominate, record
from lib.kube.resource_claims import ReserveClaim
from lib.kube.system import System
from lib.kube.write import Write
from lib.scheduling.cache import Cache
from lib.scheduling.decision import PLACED, Decision, Outcome
from lib.scheduling.pod_life import Phase, PodLife, pod_key
from lib.scheduling.scheduling_cycle import Scheduler
from lib.service.options import Options
from lib.service.telemetry.rendering import as_annotation
from lib.service.telemetry.report import Report
from lib.service.writes.pipeline import EVENTS_BESIDE_BINDINGS, Pipeline, Sort
from lib.service.writes.records import Records
from lib.service.writes.results import Completed, Result

log = logging.getLogger(__name__)

ANNOTATION = "poller/decision"
"""The annotation that says why a pod is on its node."""

REPEATED_FOR = 30.0
"""For so many seconds, a binding that has failed is sent again. Then the pod is decided on anew, because
other pods may have come to its node during a long outage.
"""

MAX_BATCH_SECONDS = 0.005
"""Decisions are collected for so long before they are sent. Many decisions in a row are faster, because their
data stays in the processor's caches."""

LAST_RECORDS_SECONDS = 2.0
"""When poller ends, it waits no longer than this for the records that have begun."""

MAX_EVENTS = 10_000
"""At most so many events of bound pods are kept until they can be written; then the oldest is dropped.

Counterpart in client-go: maxQueuedEvents in tools/record/event.go
"""


@dataclass
class Writes:
    """All writes of the loop. `submit` takes decisions; `completed` and `drain` return their results."""

    pipeline: Pipeline
    schedulers: Mapping[str, Scheduler]
    """By scheduler name; their PreBind, Bind and PostBind plugins are run."""
    cache: Cache
    report: Report
    options: Options
    system: System
    records: Records
    """What is written of pods that were not scheduled."""
    more: bool = False
    """Whether there are pods that could not be decided on in this tick, because its time was over."""
    _run_at: float = 0.0
    """When the pipeline runs next while pods are decided on, in seconds of `System.monotonic`."""
    _done: list[Completed] = field(default_factory=list)
    """Decisions that need no write."""
    _looking_up: set[str] = field(default_factory=set)
    """The keys of the pods that are being looked up."""
    _kept: list[tuple[Pod, str, datetime]] = field(default_factory=list)
    """The events of bound pods that could not be written in an outage: pod, message, time."""

    def submit(self, decision: Decision) -> None:
        """Take a decision. Its binding is sent with others, by `completed` or `drain`.

        If the pod's condition is on its way, the binding waits for the answer to that.
        """
        if decision.only_waits:
            self.records.nominated(decision, decision.node_name)
            self._done.append(Completed(decision, Result.WAITING))
        elif decision.outcome not in PLACED:
            self._done.append(Completed(decision, Result.UNSCHEDULABLE))
        else:
            life = self.cache.lives.of(decision.pod)
            self.cache.lives.move(life, Phase.BINDING)
            if self.options.dry_run:
                self._done.append(Completed(decision, Result.NOT_WRITTEN))
            elif (record := self.records.begun.get(life.key)) and record.is_sent:
                record.binding = self._bind(decision, life)
            else:
                self.pipeline.start(self._bind(decision, life), Sort.BINDING, life.pod.metadata.namespace)

    def look_up(self, life: PodLife) -> None:
        """Find out whether a pod is bound, unless that is under way. The result comes as others do."""
        if life.key not in self._looking_up:
            self._looking_up.add(life.key)
            self.pipeline.start(self._look_up(life.decision), Sort.LOOK_UP, life.pod.metadata.namespace)

    def completed(self) -> Iterator[Completed]:
        """The results that have come since the last call. It doesn't wait."""
        done, self._done = self._done, []
        yield from done
        if self.system.monotonic() >= self._run_at:
            if not self.pipeline.closed:
                self.records.begin()
            self.pipeline.most_events = 0
            yield from self.pipeline.run(-inf)
            self._run_at = self.system.monotonic() + MAX_BATCH_SECONDS

    def drain(self) -> Iterator[Completed]:
        """At the tick's end: begin the other writes, and return the results that have come.

        The writes go on over the next ticks; only the tick of --once waits for all. During shutdown only the
        events of bound pods are begun, and what has begun is finished. When poller is told twice to stop, it
        doesn't wait.
        """
        yield from self.completed()
        if not self.pipeline.closed:
            self.records.begin()
        self.pipeline.most_events = EVENTS_BESIDE_BINDINGS if self.more else self.pipeline.window
        kept, self._kept = self._kept, []
        for pod, message, when in kept:
            event = self._write_event(pod, message, when)
            self.pipeline.start(event, Sort.EVENT, pod.metadata.namespace)
        if self.pipeline.stopping:
            yield from self.pipeline.run(inf, [Sort.BINDING])
            yield from self.pipeline.run(inf, [Sort.EVENT])
            until = self.system.monotonic() + LAST_RECORDS_SECONDS
            yield from self.pipeline.run(until, [Sort.EVICTION, Sort.RECORD])
        elif self.options.once:
            # Its results make records, which are written, too.
            while not self.pipeline.stopping and (self.records.begin() or self.pipeline.open.total()):
                yield from self.pipeline.run(inf)
        else:
            yield from self.pipeline.run(-inf)

    def _bind(self, decision: Decision, life: PodLife) -> Write[Completed]:
        """Run PreBind and Bind, POST the binding, run PostBind. Any error affects this pod only.

        If a list or a watch shows what became of the pod before the answer comes, that counts, and nothing
        more is written.
        Source: bindingCycle in pkg/scheduler/schedule_one.go
        """
        if life.phase != Phase.BINDING:
            return Completed(decision, Result.OVERTAKEN)
        if self.pipeline.closed:
            return Completed(decision, Result.NOT_SENT)
        scheduler = self.schedulers[decision.pod.spec.scheduler_name]
        if decision.outcome != Outcome.WAITING:  # else PreBind has run, and waits for writes
            decision = scheduler.bind(decision, self.cache)
        while decision.outcome == Outcome.WAITING and decision.writes:
            if ended := (yield from self._write_for_pre_bind(decision, life)):
                return ended
            decision = scheduler.bind(decision, self.cache)
        if decision.outcome == Outcome.WAITING:
            return Completed(decision, Result.NOT_SENT if life.is_gone else Result.WAITING)
        if decision.outcome not in PLACED:
            return Completed(decision, Result.FAILED)
        if decision.outcome == Outcome.SCHEDULED:
            annotations = decision.annotations
            if not self.options.no_annotate:
                annotations = {**annotations, ANNOTATION: as_annotation(decision, in_full=self.options.ui)}
            began = self.system.monotonic()
            try:
                may_repeat = partial(self._is_recent, began)
                taken, now = yield from bind(decision.pod, decision.node_name, annotations, may_repeat)
            except Exception as error:
                return self._failed(self._timed(decision, began), error, 'Bind plugin "DefaultBinder"', life)
            decision = self._timed(decision, began)
            if taken:
                return Completed(decision, Result.TAKEN, why=taken, now=now)
        scheduler.post_bind(decision)
        self.scheduled(decision)
        return Completed(decision, Result.BOUND)

    def _is_recent(self, began: float) -> bool:
        """Whether a binding that began at this time may still be sent."""
        return self.system.monotonic() - began <= REPEATED_FOR

    def _write_for_pre_bind(self, decision: Decision, life: PodLife) -> Write[Completed | None]:
        """Write what PreBind waits for. Returns a result if the pod can't be bound after that, else None."""
        try:
            yield from self._write_assumed(decision)
        except Exception as error:
            gives_devices = any(isinstance(write, ReserveClaim) for write in decision.writes)
            if isinstance(error, ApiError) and not gives_devices:  # which may be taken now
                error.may_be_written = False  # the binding was not sent
            waits_in = self.schedulers[decision.pod.spec.scheduler_name].waits_in_pre_bind(decision)
            if life.phase == Phase.BINDING:
                return self._failed(decision, error, f'PreBind plugin "{waits_in}"', life)
        return None if life.phase == Phase.BINDING else Completed(decision, Result.OVERTAKEN)

    def _failed(self, decision: Decision, error: Exception, where: str, life: PodLife) -> Completed:
        """The result of a binding that failed. Its decision says why in kube-scheduler's words."""
        failed = as_api_error(error)
        if failed is not error:
            log.debug("%s: binding failed", decision.pod, exc_info=error)
        if life.phase != Phase.BINDING:
            return self._overtaken(decision, life)
        if isinstance(failed, UnreachableError | NotLeadingError) and not failed.may_be_written:
            return Completed(decision, Result.NOT_SENT)
        decision = replace(decision, outcome=Outcome.ERROR, message=f"running {where}: {failed}")
        return Completed(decision, Result.DOUBTFUL if failed.may_be_written else Result.FAILED, error=failed)

    def _overtaken(self, decision: Decision, life: PodLife) -> Completed:
        """The result of a binding that failed, or had no answer, when its pod was seen before that."""
        if life.seen_on != decision.node_name:
            return Completed(decision, Result.OVERTAKEN)
        self.scheduled(decision)  # the pod was seen on its node: only the answer was lost
        return Completed(decision, Result.BOUND)

    def _look_up(self, decision: Decision) -> Write[Completed]:
        """Look up a pod that may be bound. If it isn't bound, its claims are looked up, too."""
        try:
            now = yield from look_up(decision.pod)
            if not (now and now.spec.node_name):
                yield from self._look_up_claims(decision)
        except Exception as error:
            return Completed(decision, Result.NOT_FOUND_OUT, error=as_api_error(error))
        finally:
            self._looking_up.discard(pod_key(decision.pod))
        return Completed(decision, Result.FOUND, now=now)

    def _look_up_claims(self, decision: Decision) -> Write[None]:
        """Look up the claims that PreBind was to write: a watch may not have shown yet what was written."""
        for reserve in decision.writes:
            if isinstance(reserve, ReserveClaim):
                from lib.kube.claim_writes import look_up as look_up_claim  # here, as few clusters need it

                if claim := (yield from look_up_claim(reserve.claim)):
                    self.cache.devices.written(claim, reserve.claim.metadata.uid)

    def scheduled(self, decision: Decision) -> None:
        """A pod was bound: its event is written."""
        if self.pipeline.open[Sort.EVENT] >= MAX_EVENTS:
            self.pipeline.drop_oldest(Sort.EVENT)
            self.report.observer.event_dropped()
        pod, now = decision.pod, self.records.now()
        event = self._write_event(pod, decision.message, now)
        self.pipeline.start(event, Sort.EVENT, pod.metadata.namespace)

    def _write_assumed(self, decision: Decision) -> Write[None]:
        """Write what PreBind waits for: volumes and devices. What may take long is announced on the pod."""
        pod, node_name = decision.pod, decision.node_name
        volumes = [write for write in decision.writes if not isinstance(write, ReserveClaim)]
        if volumes:
            from lib.kube.storage_writes import write_assumed  # here, as few clusters need it

            yield from self._announce(pod, nominate(pod, node_name))
            for volume in volumes:
                self.cache.storage.written((yield from write_assumed(volume)))
        if reserving := [write for write in decision.writes if isinstance(write, ReserveClaim)]:
            from lib.kube.claim_writes import announce_wait, reserve_claim  # here, as few clusters need them
            from lib.scheduling.devices.claims_of_pod import has_binding_conditions

            written = []
            for reserve in reserving:
                claim = yield from reserve_claim(reserve, self.records.now())
                written.append(claim)
                self.cache.devices.written(claim, reserve.claim.metadata.uid)
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
            self.pipeline.start(self._undo(decision), Sort.RECORD, decision.pod.metadata.namespace)

    def _undo(self, decision: Decision) -> Write[None]:
        from lib.kube.claim_writes import undo_claim

        for undo in decision.undo:
            try:
                if now := (yield from undo_claim(undo)):  # what others have reserved of it stays
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
        except (UnreachableError, NotLeadingError):
            self._kept.append((pod, message, when))
        except Exception as error:
            failed = as_api_error(error)
            if self.pipeline.stopping and isinstance(failed, LostAnswerError):
                self.pipeline.error = failed  # nothing answers: the other writes would hang, too
            self.report.failed(pod, "event", failed)
