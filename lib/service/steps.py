"""The steps of the loop in poller.py."""

import gc
import logging
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from math import inf

from msgspec.structs import replace
from tenacity import Retrying, retry_if_exception_type, wait_exponential_jitter

from lib.kube.api import Api
from lib.kube.changes import AnyChange, Change, Kind, unassigned_pod
from lib.kube.decoding import called
from lib.kube.errors import ApiError
from lib.kube.lookup import PATIENCE, PENDING
from lib.kube.objects import Pod
from lib.kube.pod_writes import look_up as look_up_pod
from lib.kube.proxy import OwnProxy
from lib.kube.source import ClusterSource
from lib.kube.storage import needs_storage
from lib.scheduling.cache import Cache
from lib.scheduling.decision import Decision, Outcome
from lib.scheduling.needs import needs_of
from lib.scheduling.permit import recheck_permit
from lib.scheduling.pod_group_cycle import schedule_pod_group
from lib.scheduling.pod_groups import batches
from lib.scheduling.pod_life import Phase, PodLife, PodLives
from lib.scheduling.queue import SchedulingQueue, why_ended
from lib.scheduling.scheduling_cycle import Scheduler
from lib.service.lookups import look_up
from lib.service.options import Options
from lib.service.shutdown import Shutdown
from lib.service.startup_checks import StartupChecks
from lib.service.telemetry.report import Report
from lib.service.writes.gate import WriteGate
from lib.service.writes.writes import Writes

log = logging.getLogger("poller")

FIRST_PAUSE, LONGEST_PAUSE = 1.0, 30.0
"""Seconds between two tries to reach the API server, from the first to the longest pause, unless the interval
changes them."""

ANSWER_PAUSE = 0.2
"""Seconds until the next tick when an answer is awaited that pods need."""

STORAGE = "claims and volumes"


@dataclass
class Poller:
    """The loop's parts: they read, decide, write and report.

    proxy: the kubectl proxy that poller started, if any. leads: whether this poller is the leader.
    unreadable: how many of our pods could not be decoded at the last poll. storage_pending: whether the API
    server hasn't told yet what pods with volumes need. left_out: whether pods were not tried in the last
    tick, as an answer hasn't come yet.
    """

    options: Options
    source: ClusterSource
    cache: Cache
    queue: SchedulingQueue
    schedulers: Mapping[str, Scheduler]
    writes: Writes
    report: Report
    api: Api
    gate: WriteGate
    shutdown: Shutdown
    leads: Callable[[], bool]
    proxy: OwnProxy | None
    checks: StartupChecks
    unreadable: int = 0
    storage_pending: bool = False
    left_out: bool = False

    # --- the loop ---------------------------------------------------------------------------------------

    def run_tick(self, tick: Callable[["Poller"], None]) -> None:
        """Run a tick; retry while the API server can't be reached. With --once no retry: ApiError."""
        if self.options.once:
            self._try_tick(tick)
            return
        interval = self.options.interval
        first, longest = min(interval, FIRST_PAUSE), max(interval, LONGEST_PAUSE)
        Retrying(
            retry=retry_if_exception_type(ApiError),
            wait=wait_exponential_jitter(multiplier=first, max=longest),
            before_sleep=lambda state: self.report.retries(state.upcoming_sleep, longest),
            sleep=self.shutdown.wait,
        )(self._try_tick, tick)
        self.shutdown.raise_if_stopped()

    def _try_tick(self, tick: Callable[["Poller"], None]) -> None:
        self.report.tick_began()
        try:
            if self.proxy:
                self.proxy.revive()
            tick(self)
        except ApiError as error:
            self.report.trouble(error)
            raise
        finally:
            gc.enable()  # it is off until the first tick has ended
        self.report.tick_done(self.queue, self.cache)

    def wait(self) -> None:
        """Wait until it is worth polling again."""
        pause = self.options.interval
        if self.options.watch:  # no change wakes it when a backoff ends, or when we become leader
            pause = min(pause, self.queue.next_in(time.monotonic()) if self.leads() else FIRST_PAUSE)
        if self.left_out:
            pause = min(self.options.interval, ANSWER_PAUSE)
        if self.writes.is_recording:
            pause = 0.0
        self.report.idle_for(pause)
        self.source.wait(pause)

    @property
    def _patience(self) -> float:
        """How many seconds to wait for an answer that not all pods need. The only tick waits for all."""
        return inf if self.options.once else PATIENCE

    @property
    def unplaced(self) -> int:
        """How many of our pods have no node yet."""
        return self.unreadable + len(self.queue)

    @property
    def lives(self) -> PodLives:
        """The pods' records."""
        return self.queue.lives

    # --- changes ----------------------------------------------------------------------------------------

    def changes(self) -> Iterator[AnyChange]:
        """The changes since the last tick. Apply each before you take the next.

        Freed room is a DELETED change of our own making, so that the queue wakes pods: kube-scheduler's
        AssignedPodDelete.
        """
        self.left_out = False
        with self.checks.during_poll(self._patience):
            yield from self.source.first_changes()
            delta = self.source.poll(self._patience)
        self.report.reached()
        self.checks.after_poll(self._patience)
        self.unreadable = delta.unplaceable
        if delta.changes:  # a watch can deliver changes without any request
            self.report.observer.last_answer = time.monotonic()
        self.report.unreadable(delta.unreadable)
        if self.cache.storage.unseen and not delta.storage_unseen:
            self.queue.retry_all(time.monotonic())
        self.cache.storage.unseen, self.storage_pending = delta.storage_unseen, delta.storage_pending
        bound = self.lives.in_phase(Phase.BOUND)
        for change in delta.changes:
            pod = unassigned_pod(change)
            if isinstance(change.object, Pod) and self._ends_room(change):
                continue
            nominated = self._nomination_ended_by(change, pod) if pod else None
            yield change
            if pod and nominated:
                priority = pod.spec.priority
                self.queue.wake_up_to(priority, _deletion(pod, nominated), time.monotonic())
        if delta.complete and not self.options.dry_run:
            for life in bound:
                if life.phase == Phase.BOUND and life.look_up_at == inf:
                    yield _deletion(life.pod, self.cache.node_of(life.pod))  # it was deleted in the meantime
                elif life.phase == Phase.BOUND:
                    life.look_up_at = 0.0  # it should be on its node
        for life in self.lives.overdue(time.monotonic()):
            try:
                yield from self.resolve_doubtful_binding(life)
            except ApiError as error:  # it is looked up again after the same time
                self.report.warning(f"{life.pod} can't be looked up: {error}")
        self.report.synced(self.queue, self.cache)

    def skip_on_error(self, change: AnyChange) -> "SkipOnError":
        """A block that applies a change. An unexpected error is logged, and the next change follows."""
        return SkipOnError(change, self.report)

    def _ends_room(self, change: AnyChange) -> bool:
        """Free the room of a pod that is not to be bound any more. True if the change is to be left out.

        That a pod without a node is gone can also mean that it has one now.
        Source: handleAssumedPodDeletion in pkg/scheduler/eventhandlers.go
        """
        life = self.lives.get(change.object.metadata.uid)
        if not life or not life.decision:
            return False
        pod = unassigned_pod(change)
        is_gone = change.kind == Kind.DELETED
        has_ended = is_gone or (pod and why_ended(pod))
        if life.phase == Phase.HELD and (has_ended or not pod):
            self.free_room(life.decision)
        elif pod and life.phase == Phase.DOUBTFUL and has_ended:
            life.look_up_at = 0.0
            return True
        elif pod and life.phase == Phase.BOUND and self.options.dry_run:
            self.free_room(life.decision)
        elif pod and life.phase == Phase.BOUND:
            life.look_up_at = inf if is_gone else life.look_up_at
            return not is_gone  # a stale event, from before our binding
        return False

    def resolve_doubtful_binding(self, life: PodLife) -> list[AnyChange]:
        """Look up a pod that may be bound, or should have been seen on its node. Returns what has changed.

        If it isn't bound, its room is freed. ApiError when that can't be found out.
        """
        pod, decision, was_bound = life.pod, life.decision, life.phase == Phase.BOUND
        assert decision
        now = self.api.carry_out(look_up_pod(pod))
        if now and now.spec.node_name:
            return [Change(Kind.ADDED, now)]
        if not now and was_bound:
            return [_deletion(pod, self.cache.node_of(pod))]
        self.free_room(decision)
        if not now:
            return [Change(Kind.DELETED, pod)]
        if was_bound:
            what = f"{pod} was said to be bound to {decision.node_name}, but it isn't: it is tried again"
            self.report.warning(what)
        return [Change(Kind.MODIFIED, now, pod)]

    def _nomination_ended_by(self, change: AnyChange, pod: Pod) -> str | None:
        """The node to which a pod was nominated before a change, and isn't any more.

        Source: hasNominatedNodeNameChanged in pkg/scheduler/eventhandlers.go
        """
        if change.kind == Kind.DELETED:
            return self.cache.nominator.node_of(pod)
        before = change.before.status.nominated_node_name if isinstance(change.before, Pod) else ""
        return before if before != pod.status.nominated_node_name else None

    def free_room(self, decision: Decision) -> None:
        """Undo a decision, and retry the pods that its room could help."""
        self.scheduler_of(decision.pod).undo(decision, self.cache)
        self.wake_for_room_of(decision)

    def undo_taken(self, decision: Decision, now: Pod | None) -> None:
        """Undo a decision because another program bound, changed or deleted the pod.

        now: the pod as it is now, so that it is counted on its node; None if it is gone.
        """
        self.free_room(decision)
        if now:
            change = Change(Kind.MODIFIED, now, decision.pod)
            self.cache.apply(change)
            self.queue.apply(change, time.monotonic())
        else:
            self.queue.drop(decision.pod.metadata.uid)

    def wake_for_room_of(self, decision: Decision) -> None:
        """Retry the pods that could use the room of an undone decision."""
        assert decision.node_name
        self.queue.apply(_deletion(decision.pod, decision.node_name), time.monotonic())

    # --- decisions --------------------------------------------------------------------------------------

    @contextmanager
    def writing(self) -> Iterator[None]:
        """A block that writes. A signal doesn't interrupt it, except in its `interruptible` parts.

        At its end it raises the ApiError that stopped the writing, if any.
        """
        self.gate.error = None
        with self.shutdown.held():
            yield
        if self.gate.error:
            raise self.gate.error

    def ready(self) -> Iterator[list[Pod]]:
        """The pods to try now, in order: each alone, or with all of its group.

        It ends when nothing can be written any more. A pod that preempts others is left out until they have
        been evicted: until then its decision depends on them. A pod is left out, too, until the answers have
        come that it needs.
        """
        with self.shutdown.interruptible():
            pods = self.queue.ready(time.monotonic())
            pending = self._look_up_needs(pods)
        self.left_out = bool(pending)
        for batch in batches(pods):
            if self.gate.closed:
                break
            uids = [pod.metadata.uid for pod in batch]
            if why := next((pending[uid] for uid in uids if uid in pending), ""):
                for uid in uids:
                    self.queue.note(uid, why)
            elif not any(map(self.writes.is_preempting, uids)):
                yield batch

    def _look_up_needs(self, pods: list[Pod]) -> dict[str, str]:
        """Look up what pods need. Returns by uid which must wait for an answer, and for which one."""
        if not pods:
            return {}
        needs = needs_of(pods, self.cache, [each.profile for each in self.schedulers.values()])
        pending = look_up(needs, self.source.listers, self.cache, self.report, self._patience)
        if self.storage_pending:
            with_volumes = (pod.metadata.uid for pod in pods if needs_storage(pod))
            pending |= dict.fromkeys(with_volumes, f"{STORAGE}: {PENDING}")
        if self.options.once:  # no other tick follows
            self.cache.lookup_errors |= pending
            return {}
        return pending

    def schedule(self, pods: list[Pod]) -> list[Decision]:
        """Schedule a pod, or a group. Each pod is assumed before the next one is scheduled."""
        with self.shutdown.interruptible():
            try:
                unbound = [pod for pod in pods if self._is_unbound(pod)]
                decisions = self._decide(unbound) if unbound else []
            except ApiError as error:  # their assumed bindings stay, and they back off
                why = f"whether a pod is bound is not known: {error}"
                decisions = [Decision(pod, Outcome.ERROR, reason=why) for pod in self._queued(pods)]
            except Exception as error:
                decisions = self._failed(self._queued(pods), error)
            for decision in decisions:
                self._decided(decision)
            return decisions

    def _queued(self, pods: list[Pod]) -> list[Pod]:
        """Those of the pods that are still in the queue."""
        return [pod for pod in pods if pod.metadata.uid in self.queue]

    def _is_unbound(self, pod: Pod) -> bool:
        """Look up a pod that may be bound, before it is tried again. ApiError when that fails."""
        life = self.lives.get(pod.metadata.uid)
        if life and life.phase == Phase.DOUBTFUL:
            for change in self.resolve_doubtful_binding(life):
                self.cache.apply(change)
                self.queue.apply(change, time.monotonic())
            self.queue.retry_now(life)
        return life is not None and life.phase == Phase.ACTIVE

    def _decide(self, pods: list[Pod]) -> list[Decision]:
        """Decide on a pod, or a group. A victim of ours is evicted only if it is bound.

        A victim that may be bound is looked up, and the decision is made again. If its binding is in flight,
        there is no decision: the pods are tried again in the next tick. ApiError when a lookup fails.
        """
        while True:
            decisions = schedule_pod_group(pods, self.cache, self.schedulers)
            victims = [pod for each in decisions for pod in (*each.victims, *each.preempted_held)]
            phases = {self.lives.phase_of(pod) for pod in victims}
            if not phases & {Phase.ASSUMED, Phase.DOUBTFUL}:
                return decisions
            doubtful = [pod for pod in victims if self.lives.phase_of(pod) == Phase.DOUBTFUL]
            for decision in decisions:
                self.scheduler_of(decision.pod).undo(decision, self.cache)
            if Phase.ASSUMED in phases:
                return []
            for pod in doubtful:
                self._is_unbound(pod)

    def _failed(self, pods: list[Pod], error: Exception) -> list[Decision]:
        """The decisions for a batch that failed with an unexpected error: only these pods are affected."""
        log.debug("%s could not be decided on", " and ".join(map(str, pods)), exc_info=error)
        for pod in pods:
            if self.lives.phase_of(pod) != Phase.DOUBTFUL:
                self.cache.forget(pod)
        what = f"deciding failed: {type(error).__name__}: {error}"
        return [Decision(pod, Outcome.ERROR, all_nodes=len(self.cache.nodes), reason=what) for pod in pods]

    def recheck_permit(self) -> list[Decision]:
        """Run Permit again for waiting pods; returns the decisions that don't wait any longer."""
        with self.shutdown.interruptible():
            decisions = recheck_permit(self.cache, self.schedulers, time.monotonic())
            for decision in decisions:
                if decision.outcome != Outcome.SCHEDULED:
                    self.wake_for_room_of(decision)
                self._decided(decision)
            return decisions

    def _decided(self, decision: Decision) -> None:
        uid = decision.pod.metadata.uid
        decision.attempt, decision.queued, decision.flushed = self.queue.attempt(uid)
        self.report.decided(decision)

    def try_later(self, decision: Decision) -> None:
        """Write why a pod has no node, and try it again after a change that could help, or a backoff."""
        uid = decision.pod.metadata.uid
        self.writes.failed_scheduling(decision)
        self.queue.requeue(uid, decision.rejected_by, decision.message, time.monotonic())
        self.queue.await_victims(uid, (*decision.victims, *decision.preempted_held))

    def scheduler_of(self, pod: Pod) -> Scheduler:
        """The scheduler of a pod's spec.schedulerName."""
        return self.schedulers[pod.spec.scheduler_name]


class SkipOnError:
    """A block that applies a change. It is a class for speed: at the start, each object has such a block."""

    def __init__(self, change: AnyChange, report: Report) -> None:
        self._change, self._report = change, report

    def __enter__(self) -> None:
        pass

    def __exit__(self, _: object, error: BaseException | None, trace: object) -> bool:
        if not isinstance(error, Exception):
            return False
        what = f"{type(self._change.object).__name__} {called(self._change.object.metadata)}"
        log.debug("%s could not be processed", what, exc_info=error)
        self._report.warning(f"{what} could not be processed: {type(error).__name__}: {error}")
        return True


def _deletion(pod: Pod, node_name: str) -> Change[Pod]:
    """The change that a pod was deleted from a node."""
    return Change(Kind.DELETED, replace(pod, spec=replace(pod.spec, node_name=node_name)), pod)
