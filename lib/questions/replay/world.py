"""A cluster in virtual time: pods arrive, are placed, run and end. A second of waiting takes no time."""

from collections.abc import Callable, Iterator, Sequence
from heapq import heappop, heappush
from itertools import count
from math import inf
from random import Random

from msgspec.structs import replace

from lib.kube.changes import Change, Kind
from lib.kube.objects import Pod
from lib.questions.replay.trace import Arrival
from lib.questions.snapshot import Snapshot
from lib.questions.snapshot_cache import cache_of
from lib.scheduling.backoff import BackoffSettings
from lib.scheduling.decision import Decision, Outcome
from lib.scheduling.framework.interface import Profile
from lib.scheduling.groups.pod_group_cycle import schedule_pod_group
from lib.scheduling.groups.pod_groups import group_of
from lib.scheduling.permit import recheck_permit
from lib.scheduling.pod_life import Phase, pod_key
from lib.scheduling.queue import SchedulingQueue, batches
from lib.scheduling.scheduling_cycle import Scheduler

TICK = 1.0
"""Seconds from one tick to the next, as in the loop, as long as a pod is to be tried."""

IDLE_TICKS = 60
"""When nothing more arrives or ends, the replay ends after so many ticks in which no pod got a node."""


class World:
    """A cluster and its scheduler, as in the loop: the same cache, queue, plugins and preemption.

    snapshot: the nodes, and pods that run already and never end. profiles: pods that name none of their
    schedulers are scheduled by the first. placed, left: called with a pod's arrival, its pod and the time: it
    got a node, or it ended (evicted: whether it was evicted; then it arrives again, and runs anew).
    """

    def __init__(
        self,
        snapshot: Snapshot,
        profiles: Sequence[Profile],
        random: Random,
        placed: Callable[[Arrival, Pod, float], None],
        left: Callable[[Arrival, Pod, float, bool], None],
    ) -> None:
        self.now, self.decisions = 0.0, 0
        self.cache = cache_of(snapshot)
        self._names = [each.scheduler_name for each in profiles]
        self._schedulers = {each.scheduler_name: Scheduler(each, random, in_full=False) for each in profiles}
        times = BackoffSettings(unschedulable=inf)  # without a change, another try has the same result
        by_name = dict(zip(self._names, profiles, strict=True))
        self.queue = SchedulingQueue(by_name, times, lives=self.cache.lives)
        self._placed, self._left = placed, left
        self._waiting: dict[str, Arrival] = {}  # by the pod's key: those that have no node
        self._running: dict[str, tuple[Arrival, Pod]] = {}  # likewise, those that have one
        self._ends: list[tuple[float, int, str, Pod]] = []  # a heap
        self._numbers = count()
        # By kind: which plugins reject such a pod, and why, as long as no pod gets or leaves a node.
        self._nowhere: dict[int, tuple[set[str], str]] = {}

    def run(self, arrivals: Sequence[Arrival]) -> Iterator[int]:
        """Replay a trace. Yields after each tick how many pods have arrived.

        arrivals: by time. In a tick, pods that end come first, then those that arrive.
        """
        arrived, idle, tick_at = 0, 0, inf
        while True:
            coming = arrivals[arrived].at if arrived < len(arrivals) else inf
            ending = self._ends[0][0] if self._ends else inf
            idle = idle + 1 if coming == ending == inf else 0
            self.now = min(coming, ending, tick_at)
            if self.now == inf or idle > IDLE_TICKS:
                return
            while self._ends and self._ends[0][0] <= self.now:
                _, _, key, pod = heappop(self._ends)
                if self._running.get(key, (None, None))[1] is pod:
                    self._end(key, evicted=False)
            while arrived < len(arrivals) and arrivals[arrived].at <= self.now:
                self._arrive(arrivals[arrived])
                arrived += 1
            if self._place():
                idle = 0
            is_to_be_tried = self.cache.lives.count([Phase.ACTIVE, Phase.BACKOFF, Phase.HELD])
            tick_at = self.now + TICK if is_to_be_tried else inf
            yield arrived

    def _arrive(self, arrival: Arrival) -> None:
        pod = arrival.pod()
        if pod.spec.scheduler_name not in self._schedulers:
            pod = replace(pod, spec=replace(pod.spec, scheduler_name=self._names[0]))
        self._waiting[pod_key(pod)] = arrival
        self._apply(Change(Kind.ADDED, pod))

    def _try_later(self, pod: Pod, rejected_by: set[str], message: str) -> None:
        self.queue.requeue(pod_key(pod), rejected_by, message, self.now)

    def _apply(self, change: Change[Pod]) -> None:
        if change.object.spec.node_name:
            self._nowhere.clear()
        self.cache.apply(change)
        self.queue.apply(change, self.now)

    def _place(self) -> int:
        """Try the pods that are ready; returns how many got a node."""
        placed = 0
        for decision in recheck_permit(self.cache, self._schedulers, self.now):
            placed += self._finish(decision)
        for pods in batches(self.queue.ready(self.now)):
            pods = [pod for pod in pods if self.cache.lives.phase_of(pod) == Phase.ACTIVE]
            if len(pods) == 1 and (same := self._nowhere.get(self._kind_of(pods[0]))):
                self._try_later(pods[0], *same)
                continue
            for decision in schedule_pod_group(pods, self.cache, self._schedulers) if pods else ():
                placed += self._finish(decision)
        return placed

    def _kind_of(self, pod: Pod) -> int:
        """Equal for pods that only their names tell apart."""
        return id(self._waiting[pod_key(pod)].like)

    def _finish(self, decision: Decision) -> bool:
        """Handle a decision, as `finish` in poller.py does; returns whether the pod got a node."""
        self.decisions += 1
        pod, uid = decision.pod, pod_key(decision.pod)
        if decision.outcome == Outcome.SCHEDULED:
            assert decision.node_name
            bound = replace(pod, spec=replace(pod.spec, node_name=decision.node_name))
            self._apply(Change(Kind.MODIFIED, bound, pod))
            arrival = self._waiting.pop(uid)
            self._running[uid] = arrival, bound
            if arrival.runs_for < inf:
                heappush(self._ends, (self.now + arrival.runs_for, next(self._numbers), uid, bound))
            self._placed(arrival, bound, self.now)
            return True
        if decision.outcome == Outcome.WAITING:
            self.cache.lives.hold(uid, decision.message)
            return False
        why = decision.rejected_by, decision.message
        self._try_later(pod, *why)
        self.queue.await_victims(uid, decision.victims)
        if not group_of(pod):
            self._nowhere[self._kind_of(pod)] = why
        for victim in decision.victims:
            if pod_key(victim) in self._running:
                self._end(pod_key(victim), evicted=True)
            else:  # it ran before the trace began
                self._apply(Change(Kind.DELETED, victim))
        return False

    def _end(self, key: str, *, evicted: bool) -> None:
        """A pod has left its node. One that was evicted arrives again, as its controller would see to."""
        arrival, pod = self._running.pop(key)
        self._apply(Change(Kind.DELETED, pod))
        self._left(arrival, pod, self.now, evicted)
        if evicted:
            self._arrive(arrival)
