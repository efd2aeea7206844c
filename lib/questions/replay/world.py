"""Replays a trace: a cluster in virtual time, in which pods arrive, are placed, run and end.

A second of waiting takes no time.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from heapq import heappop, heappush
from itertools import count
from math import inf
from random import Random

from lib.kube.changes import Change, Kind
from lib.kube.objects import Node, Pod, with_parts
from lib.kube.source import MAIN_SCHEDULER
from lib.kube.system import MACHINE
from lib.questions.errors import QuestionError
from lib.questions.replay.figures import Figures, typical_of
from lib.questions.replay.trace import Arrival, Kinds, Trace, capacity, main_resource, requested
from lib.questions.snapshot import Snapshot
from lib.questions.snapshot_cache import cache_of
from lib.questions.waits import cause_of
from lib.scheduling.decision import PLACED, Decision, Outcome
from lib.scheduling.framework.interface import Plugin, Profile
from lib.scheduling.groups.pod_group_cycle import recheck_pod_group, schedule_pod_group
from lib.scheduling.hints import freed_room
from lib.scheduling.plugins.registry import default_profile
from lib.scheduling.pod_groups import group_of
from lib.scheduling.pod_life import BackoffSettings, Phase, pod_key
from lib.scheduling.queue import SchedulingQueue, batches
from lib.scheduling.scheduling_cycle import Scheduler

TICK = 1.0
"""Seconds from one tick to the next, as in the loop, as long as a pod is to be tried."""

IDLE_TICKS = 60
"""When nothing more arrives or ends, the replay ends after so many ticks in which no pod got a node."""


class World:
    """A cluster and its scheduler, as in the loop: the same cache, queue, plugins and preemption.

    snapshot: the nodes, and pods that run already; they end only by an event. profiles: pods that name none
    of their schedulers are scheduled by the first. figures: are told what happens.
    """

    def __init__(
        self,
        snapshot: Snapshot,
        profiles: Sequence[Profile],
        random: Random,
        figures: Figures,
    ) -> None:
        self.now = 0.0
        self.cache = cache_of(snapshot)
        self.cache.lives.clock = lambda: self.now
        # A PodGroup may have come later: no trace has such a change.
        self.cache.looked_up = replace(self.cache.looked_up, pod_groups_unread=True)
        self._names = [profile.scheduler_name for profile in profiles]
        self._schedulers = {
            profile.scheduler_name: Scheduler(profile, random, in_full=False) for profile in profiles
        }
        times = BackoffSettings(unschedulable=inf)  # without a change, another try has the same result
        by_name = dict(zip(self._names, profiles, strict=True))
        self.queue = SchedulingQueue(by_name, times, lives=self.cache.lives)
        self._figures = figures
        # By the pod's key: those that have no node, and since when; likewise, those that have one.
        self._waiting: dict[str, tuple[Arrival, Pod, float]] = {}
        self._running: dict[str, tuple[Arrival, Pod]] = {}
        self._ends: list[tuple[float, int, str, Pod]] = []  # a heap; a pod that has changed by then stays
        self._numbers = count()
        # By kind: the plugins that reject such a pod, why, and what it waits for; until a pod gets a node, or
        # leaves one.
        self._nowhere: dict[Pod, tuple[set[str], str, str]] = {}

    def run(self, trace: Trace) -> Iterator[list[Arrival]]:
        """Replay a trace. Yields after each tick which pods have arrived in it.

        In a tick, pods that end come first, then events of the cluster, then pods that arrive.
        """
        idle, tick_at = 0, inf
        coming, events = iter(trace.arrivals), iter(trace.events)
        arrival, event = next(coming, None), next(events, None)
        while True:
            next_at = min(
                arrival.at if arrival else inf,
                event[0] if event else inf,
                self._ends[0][0] if self._ends else inf,
            )
            idle = idle + 1 if next_at == inf else 0
            self.now = min(next_at, tick_at)
            if self.now == inf or idle > IDLE_TICKS:
                return
            while self._ends and self._ends[0][0] <= self.now:
                _, _, key, pod = heappop(self._ends)
                if self._running.get(key, (None, None))[1] is pod:
                    self._end_or_begin_to(key)
                elif self._waiting.get(key, (None, None, 0))[1] is pod:
                    del self._waiting[key]
                    self._figures.deleted_pod(key, self.now)
                    self._apply(Change(Kind.DELETED, pod))
            while event and event[0] <= self.now:
                self._happen(event[1])
                event = next(events, None)
            arrived = []
            while arrival and arrival.at <= self.now:
                self._arrive(arrival, arrival.at)
                arrived.append(arrival)
                arrival = next(coming, None)
            if self._place():
                idle = 0
            is_to_be_tried = self.cache.lives.count([Phase.ACTIVE, Phase.BACKOFF, Phase.HELD])
            tick_at = self.now + TICK if is_to_be_tried else inf
            yield arrived

    def _arrive(self, arrival: Arrival, since: float) -> None:
        pod = arrival.pod()
        if pod.spec.scheduler_name not in self._schedulers:
            pod = with_parts(pod, spec={"scheduler_name": self._names[0]})
        key = pod_key(pod)
        if key in self._waiting or key in self._running:
            raise QuestionError(f"pod {pod} arrives at {arrival.at:g} s, while another of that name is there")
        self._waiting[key] = arrival, pod, since
        self._end_at(arrival.leaves_at, key, pod)
        self._apply(Change(Kind.ADDED, pod))

    def _end_at(self, at: float, key: str, pod: Pod) -> None:
        if at < inf:
            # Rounded, as a recording's times are: what ended when another pod came ends before it comes.
            heappush(self._ends, (round(at, 6), next(self._numbers), key, pod))

    def _happen(self, change: Change[Node] | Change[Pod]) -> None:
        """A node has changed, or a pod that ran before the trace began. Pods of a node that is gone move."""
        changed, before = change.object, change.before
        if isinstance(changed, Pod):
            is_there = self.cache.node_of(changed)  # else it was evicted
            if is_there and change.kind == Kind.DELETED:
                self._leave(changed, evicted=False)
            elif is_there or change.kind == Kind.ADDED:
                self._apply(Change(change.kind, changed, before if isinstance(before, Pod) else None))
            return
        self._nowhere.clear()
        name = changed.metadata.name
        node = self.cache.nodes.get(name)
        if change.kind == Kind.DELETED and node:
            self._evict([*node.pods])
        self.cache.apply(change)
        self.queue.apply(change, self.now)
        self._figures.changed_nodes((node.node for node in self.cache.nodes.values()), self.now)

    def _try_later(self, pod: Pod, rejected_by: set[str], message: str, cause: str) -> None:
        self.queue.requeue(pod_key(pod), rejected_by, message, self.now)
        self._waits_for(pod, cause)

    def _waits_for(self, pod: Pod, cause: str) -> None:
        _, _, since = self._waiting[pod_key(pod)]
        self._figures.waiting_pod(pod, since, cause, self.now)

    def _apply(self, change: Change[Pod]) -> None:
        if change.object.spec.node_name:
            self._nowhere.clear()
        self.cache.apply(change)
        self.queue.apply(change, self.now)

    def _place(self) -> int:
        """Try the pods that are ready; returns how many got a node."""
        placed = 0
        for pods in batches(life.pod for life in self.cache.lives.in_phase(Phase.HELD)):
            for decision in recheck_pod_group(pods, self.cache, self._schedulers, self.now):
                if decision.outcome not in PLACED:  # its node is free for others
                    self._nowhere.clear()
                    self.queue.apply(freed_room(decision.pod, decision.node_name), self.now)
                placed += self._finish(decision)
        for pods in batches(self.queue.ready(self.now)):
            pods = [pod for pod in pods if self.cache.lives.phase_of(pod) == Phase.ACTIVE]
            if len(pods) == 1 and (same := self._nowhere.get(self._kind_of(pods[0]))):
                self._try_later(pods[0], *same)
                continue
            for decision in schedule_pod_group(pods, self.cache, self._schedulers) if pods else ():
                placed += self._finish(decision)
        return placed

    def _kind_of(self, pod: Pod) -> Pod:
        """The same for pods that only their names tell apart."""
        return self._waiting[pod_key(pod)][0].like

    def _finish(self, decision: Decision) -> bool:
        """Handle a decision, as `finish` in poller.py does; returns whether the pod got a node."""
        self._figures.decided(decision)
        pod, uid = decision.pod, pod_key(decision.pod)
        if decision.outcome == Outcome.SCHEDULED:
            bound = with_parts(pod, spec={"node_name": decision.node_name})
            self._apply(Change(Kind.MODIFIED, bound, pod))
            arrival, _, since = self._waiting.pop(uid)
            self._running[uid] = arrival, bound
            self._end_at(min(self.now + arrival.runs_for, arrival.leaves_at) - arrival.grace, uid, bound)
            self._figures.placed_pod(arrival, bound, self.now, self.now - since)
            return True
        if decision.outcome == Outcome.WAITING:
            self.cache.lives.hold(uid, decision.message)
            self._waits_for(pod, decision.message)
            return False
        why = decision.rejected_by, decision.message, cause_of(decision, self.cache)
        self._try_later(pod, *why)
        self.queue.await_victims(uid, decision.preempted)
        if not group_of(pod):
            self._nowhere[self._kind_of(pod)] = why
        self._evict(victim for victim in decision.victims if not victim.metadata.deletion_timestamp)
        return False

    def _evict(self, pods: Iterable[Pod]) -> None:
        for pod in pods:
            if pod_key(pod) in self._running:
                self._end(pod_key(pod), evicted=True)
            else:  # it ran before the trace began
                self._leave(pod, evicted=True)

    def _end_or_begin_to(self, key: str) -> None:
        """A pod's time is up: it has left its node, or is being deleted for as long as that took."""
        arrival, pod = self._running[key]
        if not arrival.grace or pod.metadata.deletion_timestamp:
            self._end(key, evicted=False)
            return
        leaving = with_parts(pod, metadata={"deletion_timestamp": datetime.fromtimestamp(self.now, UTC)})
        self._running[key] = arrival, leaving
        self._end_at(self.now + arrival.grace, key, leaving)
        self._apply(Change(Kind.MODIFIED, leaving, pod))

    def _end(self, key: str, *, evicted: bool) -> None:
        """A pod has left its node. One that was evicted arrives again now, as its controller would see to."""
        arrival, pod = self._running.pop(key)
        evicted = evicted and not pod.metadata.deletion_timestamp  # else it left by itself
        self._leave(pod, evicted=evicted)
        if evicted:
            self._figures.placed -= 1
            self._arrive(arrival, self.now)

    def _leave(self, pod: Pod, *, evicted: bool) -> None:
        self._apply(Change(Kind.DELETED, pod))
        self._figures.left_pod(pod, self.now, evicted=evicted)


def profile_of(policy: Sequence[Plugin], weights: Mapping[str, int]) -> Profile:
    """The default plugins, of which only the filters count, with a policy's, whose scores alone count.

    weights: by plugin name.
    """
    plugins = default_profile(MAIN_SCHEDULER, *policy).plugins
    return Profile(MAIN_SCHEDULER, plugins, weights, percentage_of_nodes_to_score=100)


class Replaying:
    """A replay. name: the configuration's. kinds: those of the trace's pods. seed: of ties between nodes.

    QuestionError when the nodes have nothing that pods request.
    """

    def __init__(
        self,
        name: str,
        profiles: Sequence[Profile],
        snapshot: Snapshot,
        trace: Trace,
        kinds: Kinds,
        seed: int,
    ) -> None:
        asked, there = requested(kinds), capacity(snapshot.of(Node))
        main = main_resource(asked, there)
        shown = {name: amount for name, amount in there.items() if name in {main, *asked}}
        self.answer = Figures(name, shown, main, typical_of(kinds))
        for pod in snapshot.of(Pod):
            if pod.spec.node_name:
                self.answer.running_pod(pod)
        self.world = World(snapshot, profiles, MACHINE.random(seed), self.answer)
        self._profiles, self._trace = profiles, trace
        self._in_any_order = [arrival.like for arrival in trace.arrivals]
        MACHINE.random(seed).shuffle(self._in_any_order)

    def __len__(self) -> int:
        return len(self._trace.arrivals)

    def steps(self) -> Iterator[None]:
        """Yields for each pod that has arrived. At the end, also of an iteration that is broken off, the
        figures are there.
        """
        figures, world = self.answer, self.world
        for plugin in {
            id(plugin): plugin for profile in self._profiles for plugin in profile.plugins
        }.values():
            if prepare := getattr(plugin, "prepare", None):
                prepare(self._in_any_order)  # not in that of their arrival, which nobody knows before
        began = MACHINE.monotonic()
        try:
            for arrived in world.run(self._trace):
                figures.tick(arrived, len(world.queue), world.now)
                for _ in arrived:
                    yield
            figures.complete = True
        finally:
            figures.end(world.cache.nodes.values(), MACHINE.monotonic() - began)
