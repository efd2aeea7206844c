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
from lib.scheduling.permit import WaitingPods
from lib.scheduling.pod_group_cycle import schedule_pod_group
from lib.scheduling.pod_groups import batches
from lib.scheduling.queue import SchedulingQueue
from lib.scheduling.scheduling_cycle import Scheduler
from lib.service.lookups import look_up
from lib.service.options import Options
from lib.service.shutdown import Shutdown
from lib.service.startup_checks import StartupChecks
from lib.service.telemetry.report import Report
from lib.service.unconfirmed import UnconfirmedBinding, UnconfirmedBindings
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
    waiting_pods: WaitingPods
    writes: Writes
    report: Report
    unconfirmed: UnconfirmedBindings
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

    # --- changes ----------------------------------------------------------------------------------------

    def changes(self) -> Iterator[AnyChange]:
        """The changes since the last tick. Apply each before you take the next.

        If a node has room again, that is the deletion of an assigned pod: kube-scheduler's AssignedPodDelete.
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
        bound = self.cache.assumed - self.queue.uids()  # by us, and not seen on the node yet
        for change in delta.changes:
            pod = unassigned_pod(change)
            is_gone = change.kind == Kind.DELETED
            room = self._room_left_by(pod, is_gone=is_gone) if pod else None
            nominated = self._nomination_ended_by(change, pod) if pod else None
            if pod and is_gone and pod.metadata.uid in self.queue.uids():
                self._forget_unsettled(pod)
            self.unconfirmed.apply(change)
            if (
                pod
                and not is_gone
                and pod.metadata.uid in bound
                and not (delta.complete or self.options.dry_run)
            ):
                continue  # a stale event, from before our binding
            yield change
            if pod and room:
                yield _deletion(pod, room)
            elif pod and nominated:
                priority = pod.spec.priority
                self.queue.wake_up_to(priority, _deletion(pod, nominated), time.monotonic())
        if delta.complete and not self.options.dry_run:
            for pod, node_name in self.cache.assumed_pods(bound):
                yield _deletion(pod, node_name)  # it was deleted in the meantime
        for binding in self.unconfirmed.overdue(time.monotonic()):
            yield from self._look_up(binding)
        self.report.synced(self.queue, self.cache)

    def skip_on_error(self, change: AnyChange) -> "SkipOnError":
        """A block that applies a change. An unexpected error is logged, and the next change follows."""
        return SkipOnError(change, self.report)

    def _look_up(self, binding: UnconfirmedBinding) -> Iterator[AnyChange]:
        """Look up a pod that should have been seen on its node, and wasn't."""
        decision, pod, uid = binding.decision, binding.decision.pod, binding.decision.pod.metadata.uid
        try:
            now = self.api.carry_out(look_up_pod(pod))
        except ApiError as error:  # it is looked up again after the same time
            self.report.warning(f"{pod} can't be looked up: {error}")
            return
        self.unconfirmed.pop(uid)
        if now and now.spec.node_name:
            yield Change(Kind.ADDED, now)
            return
        if now or not binding.settled:
            self.free_room(decision)
        else:
            yield _deletion(pod, decision.node_name or "")
        if now and uid not in self.queue.uids():
            what = f"{pod} was said to be bound to {decision.node_name}, but it isn't: it is tried again"
            self.report.warning(what)
            yield Change(Kind.ADDED, now)

    def _room_left_by(self, pod: Pod, *, is_gone: bool) -> str | None:
        """The node on which an unassigned pod was assumed that is gone, or that waits and is being deleted.

        Source: handleAssumedPodDeletion in pkg/scheduler/eventhandlers.go
        """
        uid = pod.metadata.uid
        ends = is_gone or (pod.metadata.deletion_timestamp and uid in self.waiting_pods)
        if ends and uid in self.cache.assumed and (uid in self.queue.uids() or self.options.dry_run):
            return self.cache.node_of(pod)
        return None

    def _nomination_ended_by(self, change: AnyChange, pod: Pod) -> str | None:
        """The node to which a pod was nominated before a change, and isn't any more.

        Source: hasNominatedNodeNameChanged in pkg/scheduler/eventhandlers.go
        """
        if change.kind == Kind.DELETED:
            return self.cache.nominator.node_of(pod)
        before = change.before.status.nominated_node_name if isinstance(change.before, Pod) else ""
        return before if before != pod.status.nominated_node_name else None

    def _forget_unsettled(self, pod: Pod) -> None:
        """Undo a binding that may have been written: its pod is tried again, or is gone."""
        if pod.metadata.uid not in self.cache.assumed or pod.metadata.uid in self.waiting_pods:
            return
        binding = self.unconfirmed.pop(pod.metadata.uid)
        if binding:
            self.scheduler_of(pod).unreserve_and_forget(binding.decision, self.cache)
        else:
            self.cache.forget(pod)

    def _is_settled_now(self, pod: Pod) -> bool:
        """Look up a binding that may have been written, before its pod is tried again. True if it was
        written, or if the pod is gone; else the binding is undone. ApiError when that can't be found out.
        """
        uid = pod.metadata.uid
        if uid in self.cache.assumed and uid not in self.waiting_pods and self.unconfirmed.get(uid):
            now = self.api.carry_out(look_up_pod(pod))
            if now and now.spec.node_name:
                self.unconfirmed.pop(uid)
                self.cache.apply(Change(Kind.ADDED, now))
                self.queue.apply(Change(Kind.ADDED, now), time.monotonic())
                return True
            if now is None:
                self._forget_unsettled(pod)
                self.queue.drop(uid)
                return True
        self._forget_unsettled(pod)
        return False

    def free_room(self, decision: Decision) -> None:
        """Undo a decision: unreserve and forget, and retry the pods that its room could help."""
        self.scheduler_of(decision.pod).unreserve_and_forget(decision, self.cache)
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
                pods = [pod for pod in pods if not self._is_settled_now(pod)]
                decisions = self._decide(pods) if pods else []
            except ApiError as error:  # their assumed bindings stay, and they back off
                why = f"whether a pod is bound is not known: {error}"
                left = [pod for pod in pods if pod.metadata.uid in self.queue.uids()]
                decisions = [Decision(pod, Outcome.ERROR, reason=why) for pod in left]
            except Exception as error:
                decisions = self._failed(pods, error)
            for decision in decisions:
                self._decided(decision)
            return decisions

    def _decide(self, pods: list[Pod]) -> list[Decision]:
        """Decide on a pod, or a group. A victim of ours is evicted only if it is bound.

        A victim that may be bound is looked up, and the decision is made again. If its binding is in flight,
        there is no decision: the pods are tried again in the next tick. ApiError when a lookup fails.
        """
        while True:
            decisions = schedule_pod_group(pods, self.cache, self.schedulers)
            victims = [pod for each in decisions for pod in (*each.victims, *each.preempted_held)]
            unbound = [pod for pod in victims if self._is_being_bound(pod.metadata.uid)]
            if not unbound:
                return decisions
            for decision in decisions:
                self.scheduler_of(decision.pod).undo(decision, self.cache)
            if not all(self.unconfirmed.get(pod.metadata.uid) for pod in unbound):
                return []
            for pod in unbound:
                self._is_settled_now(pod)

    def _is_being_bound(self, uid: str) -> bool:
        """Whether a pod's binding is in flight, or may have been written."""
        return uid in self.cache.assumed and uid in self.queue.uids() and uid not in self.waiting_pods

    def _failed(self, pods: list[Pod], error: Exception) -> list[Decision]:
        """The decisions for a batch that failed with an unexpected error: only these pods are affected."""
        log.debug("%s could not be decided on", " and ".join(map(str, pods)), exc_info=error)
        for pod in pods:
            self.cache.forget(pod)
        what = f"deciding failed: {type(error).__name__}: {error}"
        return [Decision(pod, Outcome.ERROR, all_nodes=len(self.cache.nodes), reason=what) for pod in pods]

    def recheck_permit(self) -> list[Decision]:
        """Run Permit again for waiting pods; returns the decisions that don't wait any longer."""
        with self.shutdown.interruptible():
            unassigned = self.queue.uids()
            decisions = self.waiting_pods.recheck_permit(self.cache, unassigned, time.monotonic())
            for decision in decisions:
                if decision.outcome != Outcome.SCHEDULED:
                    self.wake_for_room_of(decision)
                self._decided(decision)
            return decisions

    def _decided(self, decision: Decision) -> None:
        uid = decision.pod.metadata.uid
        decision.attempt, decision.queued = self.queue.attempt(uid)
        decision.flushed = self.queue.was_flushed(uid)
        self.report.decided(decision)

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
