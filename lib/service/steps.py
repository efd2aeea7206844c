"""The steps of the loop in poller.py."""

import gc
import logging
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from itertools import chain
from math import inf
from typing import TYPE_CHECKING

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
from lib.kube.source import ClusterSource, Delta
from lib.kube.system import MACHINE, System
from lib.lazily import Lazy
from lib.scheduling.attempt import SchedulingAttempt
from lib.scheduling.cache import Cache
from lib.scheduling.decision import PLACED, Decision, Outcome
from lib.scheduling.framework.runtime import describe
from lib.scheduling.pod_groups import HOLDING, group_of
from lib.scheduling.pod_life import CONFIRM_SECONDS, Phase, PodLife, PodLives
from lib.scheduling.queue import SchedulingQueue, batches
from lib.scheduling.scheduling_cycle import Scheduler
from lib.service.follow_up import FollowUp
from lib.service.group_turns import GroupTurns
from lib.service.lookups import look_up, needs_of
from lib.service.options import Options
from lib.service.pod_turns import MOST_PODS, PodTurns
from lib.service.shutdown import Shutdown
from lib.service.startup_checks import StartupChecks
from lib.service.telemetry.report import Report
from lib.service.writes.results import Completed
from lib.service.writes.writes import Writes

if TYPE_CHECKING:
    from lib.kube.proxy import OwnProxy
    from lib.scheduling.groups import pod_group_cycle
else:
    pod_group_cycle = Lazy("lib.scheduling.groups.pod_group_cycle")

log = logging.getLogger("poller")

FIRST_PAUSE, LONGEST_PAUSE = 1.0, 30.0
"""Seconds between two tries to reach the API server, from the first to the longest pause, unless the interval
changes them."""

LEADER_CHECK = 0.5
"""Seconds between two looks whether this poller leads by now."""

ANSWER_PAUSE = 0.2
"""Seconds until the next tick when an answer is awaited that pods need."""

WRITING_SECONDS = 0.02
"""With --watch, poller looks for changes so often as long as it waits for answers to what it writes."""

SIGNAL_SECONDS = 0.1
"""While it waits for such answers, a signal is handled after so long at most."""

DECIDING_SECONDS = 0.1
"""With --watch, pods are decided on for so long in a tick, or for ten times what it took to read the changes.
Then what was decided is sent, and changes are read. When polling, it is an interval."""

VICTIM_PATIENCE, VICTIM_PAUSE = 1.0, 0.1
"""A victim whose binding is on its way is not evicted before this time: it may be bound in a moment. Its
preemptor is tried again after each pause."""


@dataclass(kw_only=True)
class Poller:
    """The loop's parts: they read, decide, write and report."""

    options: Options
    source: ClusterSource
    cache: Cache
    queue: SchedulingQueue
    schedulers: Mapping[str, Scheduler]
    """By scheduler name."""
    writes: Writes
    report: Report
    shutdown: Shutdown
    leads: Callable[[], bool]
    """Whether this poller is the leader."""
    proxy: "OwnProxy | None"
    """The kubectl proxy that poller started, if any."""
    checks: StartupChecks
    follow_up: FollowUp
    """Does what follows for pods that aren't seen on their nodes yet."""
    system: System = MACHINE
    unreadable: int = 0
    """How many of our pods could not be decoded at the last poll."""
    awaits_answers: bool = False
    """Whether pods were left out in the last tick until an answer comes, or for a moment."""
    pod_turns: PodTurns = field(init=False)
    group_turns: GroupTurns = field(init=False)
    lives: PodLives = field(init=False)
    """The pods' records."""
    now: Callable[[], float] = field(init=False)
    """The time, in seconds of a clock that only grows."""
    _tick_began: float = 0.0
    _patience: float = field(init=False)
    """How many seconds to wait for an answer that not all pods need. The only tick waits for all."""

    def __post_init__(self) -> None:
        self.lives, self.now = self.queue.lives, self.system.monotonic
        self.pod_turns = PodTurns(self.now, None if self.options.once else MOST_PODS)
        self.group_turns = GroupTurns(self.follow_up, self.now)
        self._patience = inf if self.options.once else PATIENCE

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

    def wait(self) -> Iterator[Completed]:
        """Wait until it is worth polling again; yields the results of writes that come meanwhile."""
        pause = self.options.interval
        if self.options.watch:  # no change wakes it when a backoff ends, or when we become leader
            pause = min(pause, self.queue.next_in(self.now()) if self.leads() else LEADER_CHECK)
        if self.awaits_answers:
            pause = min(self.options.interval, ANSWER_PAUSE)
        if self.writes.more:
            pause = 0.0
        self.report.observer.idle_for(pause)
        until, pipeline = self.now() + pause, self.writes.pipeline
        if self.options.watch:
            for completed in self._answers(min(until, self.now() + WRITING_SECONDS)):
                until = 0.0  # what follows from it may let pods be tried
                yield completed
        else:
            while pipeline.waits_until < until and self.now() < until:
                yield from self._answers(min(until, max(pipeline.waits_until, self.now() + SIGNAL_SECONDS)))
        self.source.wait(max(0.0, min(until, pipeline.waits_until) - self.now()))

    def _answers(self, until: float) -> Iterator[Completed]:
        """Go on with the writes until this time, or until all have ended; yields their results."""
        if self.writes.pipeline.waits_until <= until:
            with self.shutdown.held():
                yield from self.writes.pipeline.run(until)

    def end(self) -> Iterator[Completed]:
        """poller ends: nothing new is written but the events of bound pods; yields the results."""
        self.shutdown.stopping.set()
        return self.writes.drain()

    # --- changes ----------------------------------------------------------------------------------------

    def changes(self) -> Iterator[AnyChange]:
        """The changes since the last tick. Apply each before you take the next.

        Freed room is reported as a DELETED change of our own making, so that the queue wakes pods. In
        kube-scheduler it is the event AssignedPodDelete.
        """
        self._tick_began, self.awaits_answers = self.now(), False
        claims = self.source.storage, self.source.devices
        unseen_before = [kind for kind in claims if kind.unseen]
        with self.checks.during_poll(self._patience):
            yield from self._timed(self.source.first_changes())
            delta = self.source.poll(self._patience)
        knew_claims, self.cache.knows_claims = self.cache.knows_claims, self.source.devices.is_known
        self._note_poll(delta)
        if any(not kind.unseen for kind in unseen_before):
            self.queue.retry_all(self.now())
        bound = self.lives.in_phase(Phase.BOUND)
        changes, turns = self._not_stale(delta.changes), self.group_turns
        if turns.under_way and not self.leads():
            turns.give_up()
        yield from self._timed(turns.noted(changes) if turns.under_way or turns.missed else changes)
        if self.cache.knows_claims and not knew_claims:
            for pod, why in self.queue.gate_again():
                self.report.skipped(pod, why)
        yield from self._timed(self.follow_up.after_poll(bound, complete=delta.complete))
        self.report.observer.synced(self.queue, self.cache)

    def _note_poll(self, delta: Delta) -> None:
        """Note what a poll tells besides changes: the API server answers, and some objects can't be read."""
        self.report.reached()
        self.checks.after_poll(self._patience)
        self.unreadable = delta.unplaceable
        if delta.changes:  # a watch can deliver changes without any request
            self.report.observer.last_answer = self.now()
        for line in delta.unreadable:
            self.report.warning(line)

    def _not_stale(self, changes: Iterable[AnyChange]) -> Iterator[AnyChange]:
        """The changes, except those that were overtaken by what poller itself has done."""
        for change in changes:
            life = self.lives.get(change.object.metadata.uid)
            if life and life.has_room:
                yield from self.follow_up.shown(change, life)
            else:
                yield self.cache.with_own_writes(change)

    def _timed(self, changes: Iterable[AnyChange]) -> Iterator[AnyChange]:
        """The changes. The loop handles each before it asks for the next one: that time is recorded."""
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

        It ends with the ApiError that stopped the writing, if any: in this block, or since the last one.
        """
        with self.shutdown.held():
            yield
        error, self.writes.pipeline.error = self.writes.pipeline.error, None
        if error:
            raise error

    def ready(self) -> Iterator[list[Pod]]:
        """The pods to try now, in order each alone, or with its group: first those that wait for Permit.

        It ends when nothing can be written any more, or when the time for decisions is over; the others come
        in the next tick. Pods are left out as long as their decision depends on what isn't known yet: an
        answer that they need, or whether their victims have been evicted.
        """
        self.writes.more = False
        if self.writes.pipeline.closed:
            return
        yield from self._held()
        with self.shutdown.interruptible():
            in_turn = self.group_turns.in_turn(self.queue.ready(self.now()))
            groups, later = self.pod_turns.split([*batches(in_turn)])
            self.writes.more = bool(later)
            if under_way := self.group_turns.under_way:
                groups.append(under_way.pods)
            pods = [pod for group in groups for pod in group]
            looked_up = self.cache.looked_up
            if pods:
                profiles = [scheduler.profile for scheduler in self.schedulers.values()]
                needs, until = needs_of(pods, self.cache, profiles), self.now() + self._patience
                self.cache.looked_up = look_up(needs, self.source, looked_up, self.report, until)
            else:  # the pods that waited for an answer may have gone
                self.cache.looked_up = replace(looked_up, errors={}, pending={})
        awaited = self._await_answers(pods)
        self.pod_turns.begin(later)
        self.awaits_answers = bool(self.cache.looked_up.pending or self.pod_turns.not_before)
        tried, until = False, self._decides_until()
        for group in groups:
            if self.writes.pipeline.closed:
                break
            goes_on = under_way is not None and group is under_way.pods
            if tried and self.now() >= until and not goes_on:
                self.writes.more = True
            elif not self._leave_out(group, awaited):
                tried = True
                yield group
            elif goes_on:  # its room isn't kept while it waits for an answer
                self.group_turns.give_up()
        self.writes.more &= tried  # if all were left out, the others can wait for the usual pause

    def _held(self) -> Iterator[list[Pod]]:
        """The pods for which Permit or PreBind is to run again now, each alone, or with its group."""
        held = self.queue.held(self.now()) if self.lives.count([Phase.HELD]) else []
        for group in batches(self.group_turns.others(held)):
            still_held = [pod for pod in group if self.lives.phase_of(pod) == Phase.HELD]
            if still_held and not self.writes.pipeline.closed:
                yield still_held

    def _await_answers(self, pods: list[Pod]) -> dict[str, str]:
        """Why pods wait for an answer, by uid.

        If a pod of a group may be bound, it is looked up, and the others of the group wait for that.
        """
        doubtful = {life.group: life for life in self.lives.in_phase(Phase.DOUBTFUL) if life.group}
        awaited = {}
        for pod in pods if doubtful else ():
            if (group := group_of(pod)) and (life := doubtful.get(group)):
                self.writes.look_up(life)
                awaited[pod.metadata.uid] = f"whether {life.pod} of its group is bound is not known yet"
        return {**awaited, **self.cache.looked_up.pending}

    def _leave_out(self, group: list[Pod], awaited: Mapping[str, str]) -> bool:
        """Leave a group out of this tick, if one of its pods must wait. Returns whether it was left out."""
        uids = [pod.metadata.uid for pod in group]
        why = next((awaited[uid] for uid in uids if uid in awaited), "")
        for uid in uids if why else ():
            self.queue.note(uid, why)
        must_wait = self.writes.records.must_wait
        if why or any(uid in self.pod_turns.not_before or must_wait(uid) for uid in uids):
            self.pod_turns.leave_out(uids)
            return True
        return False

    def _decides_until(self) -> float:
        """When the time for decisions in this tick is over."""
        if self.options.once:
            return inf
        least = DECIDING_SECONDS if self.options.watch else max(DECIDING_SECONDS, self.options.interval)
        return self.now() + max(least, 10 * (self.now() - self._tick_began))

    def schedule(self, pods: list[Pod]) -> list[Decision]:
        """Schedule a pod, or a group. Each pod is assumed before the next one is scheduled.

        There is no decision on a pod as long as it waits for Permit.
        """
        with self.shutdown.interruptible():
            try:
                decisions = self._decide(pods)
                preempts = any(decision.nominated for decision in decisions)
                if preempts and (victims := self._victims_on_their_way(decisions)):
                    self._try_in_a_moment(decisions, victims)
                    return []
            except Exception as error:  # only these pods are affected
                log.debug("%s could not be decided on", " and ".join(map(str, pods)), exc_info=error)
                for pod in pods:
                    self.cache.forget(pod)
                decisions = self._failed(pods, f"deciding failed: {describe(error)}")
            for decision in decisions:
                self.report.decided(decision)
            return decisions

    def _decide(self, pods: list[Pod]) -> list[Decision]:
        """The decisions for a pod, or for all pods of a group together; none for a pod that still waits.

        An earlier decision may have changed what is to be tried: a pod that is no longer active, and doesn't
        wait for Permit, is left out. If what an earlier try has written must be undone first, all are.
        """
        if self.group_turns.under_way and pods is self.group_turns.under_way.pods:
            return self._decide_on_group(pods)
        lives = [life for pod in pods if (life := self.lives.get(pod.metadata.uid))]
        if any(life.key in self.writes.records.undoing for life in lives):
            return []
        lives = [life for life in lives if life.phase in (Phase.ACTIVE, Phase.HELD)]
        pods = [life.pod for life in lives]
        if lives and lives[0].phase == Phase.HELD:
            return self._recheck_permit(pods)
        if lives and lives[0].group:
            return self._decide_on_group(pods)
        return [self.schedulers[pod.spec.scheduler_name].schedule_one(pod, self.cache) for pod in pods]

    def _decide_on_group(self, pods: list[Pod]) -> list[Decision]:
        """The decisions for a group; none if the attempt goes on in the next tick."""
        until = inf if self.options.once else self.now() + DECIDING_SECONDS
        decisions = self.group_turns.go_on(pods, until)
        if decisions is None:
            self.writes.more = True
        return decisions or []

    def _recheck_permit(self, pods: Iterable[Pod]) -> list[Decision]:
        """Run Permit, or PreBind, again for pods that wait; returns the decisions for those that did."""
        decisions = pod_group_cycle.recheck_pod_group(pods, self.cache, self.schedulers, self.now())
        undone = self.follow_up.undone
        return [decision if decision.outcome in PLACED else undone(decision) for decision in decisions]

    def _victims_on_their_way(self, decisions: Iterable[Decision]) -> list[PodLife]:
        """The victims whose binding is on its way, or whose answer was lost, since a moment ago.

        After that moment they are evicted like any others: the API server deletes them, bound or not, as for
        kube-scheduler.
        """
        victims = chain.from_iterable(decision.preempted for decision in decisions)
        lives = (self.lives.get(pod.metadata.uid) for pod in victims)
        may_be_bound = (life for life in lives if life and life.phase in (Phase.BINDING, Phase.DOUBTFUL))
        return [life for life in may_be_bound if self.now() - life.since < VICTIM_PATIENCE]

    def _try_in_a_moment(self, decisions: Iterable[Decision], victims: Iterable[PodLife]) -> None:
        """Undo decisions, and try their pods again in a moment, when more is known of their victims."""
        for decision in decisions:
            self.schedulers[decision.pod.spec.scheduler_name].undo(decision, self.cache)
            self.pod_turns.not_before[decision.pod.metadata.uid] = self.now() + VICTIM_PAUSE
        for life in victims:
            if life.phase == Phase.DOUBTFUL:
                self.writes.look_up(life)

    def look_up_later(self, completed: Completed) -> None:
        """A pod that may be bound could not be looked up."""
        life = self.lives.get(completed.decision.pod.metadata.uid)
        if not life:
            return
        life.look_up_at = self.now() + CONFIRM_SECONDS
        if life.phase == Phase.DOUBTFUL:
            why = f"whether a pod is bound is not known: {completed.error}"
            for decision in self._failed([life.pod], why):
                self.report.decided(decision)
                self.try_later(decision)
        elif life.has_room:
            self.report.warning(f"{life.pod} can't be looked up: {completed.error}")

    def _failed(self, pods: list[Pod], why: str) -> list[Decision]:
        """Decisions with an error, for those of the pods that are still in the queue."""
        queued = [pod for pod in pods if pod.metadata.uid in self.queue]
        return [SchedulingAttempt(pod, self.cache).decide(Outcome.ERROR, why) for pod in queued]

    def try_later(self, decision: Decision) -> None:
        """Write why a pod has no node, and try it again after a change that could help, or a backoff.

        Nothing follows if the pod is gone. Nothing is written of a pod that Kubernetes' PodGroup holds.
        """
        uid = decision.pod.metadata.uid
        if uid not in self.queue:
            return
        if decision.rejecting_plugin != HOLDING or decision.clears_nomination:
            self.writes.records.failed_scheduling(decision)
        self.queue.requeue(uid, decision.rejected_by, decision.message, self.now())
        self.queue.await_victims(uid, decision.preempted)
