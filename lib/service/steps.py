"""The steps of the loop in poller.py."""

import gc
import logging
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from math import inf

from tenacity import (
    Retrying,
    retry_if_exception_type,
    stop_after_attempt,
    stop_never,
    wait_exponential_jitter,
)

from lib.kube.changes import AnyChange
from lib.kube.errors import ApiError
from lib.kube.lookup import PATIENCE
from lib.kube.objects import Pod
from lib.kube.proxy import OwnProxy
from lib.kube.source import ClusterSource
from lib.kube.system import MACHINE, System
from lib.scheduling.attempt import Attempt
from lib.scheduling.cache import Cache
from lib.scheduling.decision import Decision, Outcome
from lib.scheduling.framework.runtime import describe
from lib.scheduling.groups.pod_group_cycle import recheck_pod_group, schedule_pod_group
from lib.scheduling.groups.pod_groups import group_of
from lib.scheduling.needs import needs_of
from lib.scheduling.pod_life import Phase, PodLife, PodLives
from lib.scheduling.queue import SchedulingQueue, batches
from lib.scheduling.scheduling_cycle import Scheduler
from lib.service.lookups import look_up
from lib.service.options import Options
from lib.service.reserved_room import ReservedRoom
from lib.service.shutdown import Shutdown
from lib.service.startup_checks import StartupChecks
from lib.service.telemetry.report import Report
from lib.service.writes.writes import Writes

log = logging.getLogger("poller")

FIRST_PAUSE, LONGEST_PAUSE = 1.0, 30.0
"""Seconds between two tries to reach the API server, from the first to the longest pause, unless the interval
changes them."""

LEADER_CHECK = 0.5
"""Seconds between two looks whether this poller leads by now."""

ANSWER_PAUSE = 0.2
"""Seconds until the next tick when an answer is awaited that pods need."""


@dataclass
class Poller:
    """The loop's parts: they read, decide, write and report.

    proxy: the kubectl proxy that poller started, if any. leads: whether this poller is the leader. room: of
    pods that aren't seen on their nodes yet. unreadable: how many of our pods could not be decoded at the
    last poll. left_out: whether pods were not tried in the last tick, as an answer hasn't come yet.
    """

    options: Options
    source: ClusterSource
    cache: Cache
    queue: SchedulingQueue
    schedulers: Mapping[str, Scheduler]
    writes: Writes
    report: Report
    shutdown: Shutdown
    leads: Callable[[], bool]
    proxy: OwnProxy | None
    checks: StartupChecks
    room: ReservedRoom
    unreadable: int = 0
    left_out: bool = False
    system: System = MACHINE

    # --- the loop ---------------------------------------------------------------------------------------

    def run_tick(self, tick: Callable[["Poller"], None]) -> None:
        """Run a tick; retry while the API server can't be reached. With --once no retry: ApiError."""
        interval = self.options.interval
        first, longest = min(interval, FIRST_PAUSE), max(interval, LONGEST_PAUSE)
        attempts = Retrying(
            retry=retry_if_exception_type(ApiError),
            stop=stop_after_attempt(1) if self.options.once else stop_never,
            wait=wait_exponential_jitter(multiplier=first, max=longest),
            before_sleep=lambda state: self.report.retries(state.upcoming_sleep, longest),
            sleep=self._pause,
            reraise=True,
        )
        for attempt in attempts:
            with attempt:
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
        if not self.options.once:
            self.shutdown.raise_if_stopped()

    def _pause(self, seconds: float) -> None:
        """Wait until a failed tick is tried again. Becoming leader ends the wait: the API server answers."""
        led, until = self.leads(), self.now() + seconds
        while (left := until - self.now()) > 0 and (led or not self.leads()):
            self.shutdown.wait(min(left, LEADER_CHECK))

    def wait(self) -> None:
        """Wait until it is worth polling again."""
        pause = self.options.interval
        if self.options.watch:  # no change wakes it when a backoff ends, or when we become leader
            pause = min(pause, self.queue.next_in(self.now()) if self.leads() else LEADER_CHECK)
        if self.left_out:
            pause = min(self.options.interval, ANSWER_PAUSE)
        if self.writes.records.begun:
            pause = 0.0
        self.report.observer.idle_for(pause)
        self.source.wait(pause)

    def now(self) -> float:
        """The time, in seconds of a clock that only grows."""
        return self.system.monotonic()

    @property
    def _patience(self) -> float:
        """How many seconds to wait for an answer that not all pods need. The only tick waits for all."""
        return inf if self.options.once else PATIENCE

    @property
    def lives(self) -> PodLives:
        """The pods' records."""
        return self.queue.lives

    # --- changes ----------------------------------------------------------------------------------------

    def changes(self) -> Iterator[AnyChange]:
        """The changes since the last tick. Apply each before you take the next.

        Freed room is reported as a DELETED change of our own making, so that the queue wakes pods. In
        kube-scheduler it is the event AssignedPodDelete.
        """
        self.left_out = False
        claims = self.source.storage, self.source.devices
        unseen_before = [each for each in claims if each.unseen]
        with self.checks.during_poll(self._patience):
            yield from self._timed(self.source.first_changes())
            delta = self.source.poll(self._patience)
        knew_claims, self.cache.knows_claims = self.cache.knows_claims, self.source.devices.is_known
        self.report.reached()
        self.checks.after_poll(self._patience)
        self.unreadable = delta.unplaceable
        if delta.changes:  # a watch can deliver changes without any request
            self.report.observer.last_answer = self.now()
        self.report.unreadable(delta.unreadable)
        if any(not each.unseen for each in unseen_before):
            self.queue.retry_all(self.now())
        bound = self.lives.in_phase(Phase.BOUND)
        yield from self._timed(self._not_stale(delta.changes))
        if self.cache.knows_claims and not knew_claims:
            for pod, why in self.queue.gate_again():
                self.report.skipped(pod, why)
        yield from self._timed(self.room.confirm(bound, complete=delta.complete))
        self.report.observer.synced(self.queue, self.cache)

    def _not_stale(self, changes: Iterable[AnyChange]) -> Iterator[AnyChange]:
        """The changes, except those that were overtaken by what poller itself has done."""
        for change in changes:
            life = self.lives.get(change.object.metadata.uid)
            if not (life and life.has_room and self.room.is_stale(change, life)):
                yield self.cache.with_own_writes(change)

    def _timed(self, changes: Iterable[AnyChange]) -> Iterator[AnyChange]:
        """The changes. The time until the next one is asked for is that of handling one."""
        handled = self.report.observer.handled
        for change in changes:
            began = self.now()
            self.report.changed(change)
            yield change
            handled(change, self.now() - began)

    # --- decisions --------------------------------------------------------------------------------------

    @contextmanager
    def writing(self) -> Iterator[None]:
        """A block that writes. A signal doesn't interrupt it, except in its `interruptible` parts.

        At its end it raises the ApiError that stopped the writing, if any.
        """
        self.writes.pipeline.error = None
        with self.shutdown.held():
            yield
        if self.writes.pipeline.error:
            raise self.writes.pipeline.error

    def ready(self) -> Iterator[list[Pod]]:
        """The pods to try now, in order each alone, or with its group: first those that wait for Permit.

        It ends when nothing can be written any more. A pod that preempts others is left out until they have
        been evicted: until then its decision depends on them. A pod is left out, too, until the answers have
        come that it needs.
        """
        for batch in batches(life.pod for life in self.lives.in_phase(Phase.HELD)):
            held = [pod for pod in batch if self.lives.phase_of(pod) == Phase.HELD]
            if held and not self.writes.pipeline.closed:
                yield held
        with self.shutdown.interruptible():
            pods = self.queue.ready(self.now())
            if pods:
                needs = needs_of(pods, self.cache, [each.profile for each in self.schedulers.values()])
                before, until = self.cache.looked_up, self.now() + self._patience
                self.cache.looked_up = look_up(needs, self.source, before, self.report, until)
            else:  # the pods that waited for an answer may have gone
                self.cache.looked_up = replace(self.cache.looked_up, errors={}, pending={})
        pending = self.cache.looked_up.pending
        self.left_out = bool(pending)
        for batch in batches(pods):
            if self.writes.pipeline.closed:
                break
            uids = [pod.metadata.uid for pod in batch]
            if why := next((pending[uid] for uid in uids if uid in pending), ""):
                for uid in uids:
                    self.queue.note(uid, why)
            elif not any(map(self.writes.records.must_wait, uids)):
                yield batch

    def schedule(self, pods: list[Pod]) -> list[Decision]:
        """Schedule a pod, or a group. Each pod is assumed before the next one is scheduled.

        As long as a pod waits for Permit, there is no decision.
        """
        with self.shutdown.interruptible():
            try:
                unbound = self.room.still_unbound(pods)
                decisions = self._decide(unbound)
                while in_doubt := self.room.victims_in_doubt(decisions):
                    decisions = self._schedule_again(unbound, decisions, in_doubt)
            except ApiError as error:  # their assumed bindings stay, and they back off
                decisions = self._failed(pods, f"whether a pod is bound is not known: {error}")
            except Exception as error:  # only these pods are affected
                log.debug("%s could not be decided on", " and ".join(map(str, pods)), exc_info=error)
                for pod in pods:
                    if self.lives.phase_of(pod) != Phase.DOUBTFUL:
                        self.cache.forget(pod)
                decisions = self._failed(pods, f"deciding failed: {describe(error)}")
            for decision in decisions:
                self.report.decided(decision)
            return decisions

    def _decide(self, pods: list[Pod]) -> list[Decision]:
        """The decisions for a pod, or for all pods of a group together; none for a pod that still waits."""
        if pods and (life := self.lives.get(pods[0].metadata.uid)) and life.phase == Phase.HELD:
            return self._recheck_permit(pods)
        if pods and group_of(pods[0]):
            return schedule_pod_group(pods, self.cache, self.schedulers)
        return [self.schedulers[pod.spec.scheduler_name].schedule_one(pod, self.cache) for pod in pods]

    def _recheck_permit(self, pods: Iterable[Pod]) -> list[Decision]:
        """Run Permit, or PreBind, again for pods that wait; returns the decisions for those that did."""
        decisions = recheck_pod_group(pods, self.cache, self.schedulers, self.now())
        return [each if each.outcome == Outcome.SCHEDULED else self.room.undone(each) for each in decisions]

    def _schedule_again(
        self, pods: list[Pod], decisions: list[Decision], in_doubt: list[PodLife]
    ) -> list[Decision]:
        """Look up the victims that may be bound, and decide again. ApiError when a lookup fails.

        If a victim's binding is in flight, there is no decision: the pods are tried again in the next tick.
        """
        for decision in decisions:
            self.schedulers[decision.pod.spec.scheduler_name].undo(decision, self.cache)
        if any(life.phase == Phase.ASSUMED for life in in_doubt):
            return []
        for life in in_doubt:
            self.room.look_up(life)
        return self._decide(pods)

    def _failed(self, pods: list[Pod], why: str) -> list[Decision]:
        """The decisions for those of the pods that are still in the queue: nothing could be decided."""
        queued = [pod for pod in pods if pod.metadata.uid in self.queue]
        return [Attempt(pod, self.cache).decide(Outcome.ERROR, why) for pod in queued]

    def try_later(self, decision: Decision) -> None:
        """Write why a pod has no node, and try it again after a change that could help, or a backoff."""
        uid = decision.pod.metadata.uid
        self.writes.records.failed_scheduling(decision)
        self.queue.requeue(uid, decision.rejected_by, decision.message, self.now())
        self.queue.await_victims(uid, (*decision.victims, *decision.preempted_held))
