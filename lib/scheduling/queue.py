"""The scheduling queue: which pod is tried first, and when a pod is tried again.

pod_life.py draws the phases of a pod.

Counterpart in kube-scheduler: pkg/scheduler/backend/queue/scheduling_queue.go
"""

import logging
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Set
from functools import cached_property
from math import inf
from typing import TYPE_CHECKING, Any

from lib.kube.changes import AnyChange, Kind, unassigned_pod
from lib.kube.objects import Node, Pod
from lib.scheduling.decision import NO_NODES
from lib.scheduling.framework.interface import PreEnqueuePlugin, Profile, QueueSortPlugin
from lib.scheduling.framework.runtime import describe, raise_if_interrupted
from lib.scheduling.heap import PodHeap
from lib.scheduling.hints import changes_anything, event_of, freed_room
from lib.scheduling.looked_up import BUDGETS_UNSEEN
from lib.scheduling.nominator import Nominator
from lib.scheduling.pod_groups import FOR_ITS_GROUP, group_of
from lib.scheduling.pod_life import (
    QUEUED,
    TRIED,
    TRIED_LATER,
    BackoffSettings,
    LifeIndex,
    Phase,
    PodLife,
    PodLives,
)
from lib.scheduling.status import checked

if TYPE_CHECKING:
    from lib.scheduling.queueing_hints import Hinted, QueueingHints

log = logging.getLogger(__name__)

UNSEEN_SECONDS = 30.0
"""Pods are tried again after so many seconds if poller doesn't see the change that they wait for: of their
PodGroup, or of the right to list disruption budgets."""

UNSEEN_AT_FIRST = 5.0
"""Pods that wait for a PodGroup are tried after so many seconds at first, then after twice, three times as
many, and so on: the PodGroup may be created in a moment."""

MAX_POPPED = 100
"""When no pod is active, at most so many pods are tried before their backoff has ended."""

MAX_HELD, HELD_PAUSE = 50, 0.1
"""At most so many held pods are asked about at a time, and not more often than after so many seconds."""

HELD_SHARE, LONGEST_HELD_PAUSE = 8, 1.0
"""The pause before a held pod is asked about again is the time that it was held, divided by HELD_SHARE. It is
LONGEST_HELD_PAUSE seconds at most; but with many held pods, all the others have their turn first."""

LANES = {
    Phase.ACTIVE.value: [Phase.ACTIVE, Phase.ASSUMED, Phase.BINDING],
    Phase.BACKOFF.value: [Phase.BACKOFF, Phase.DOUBTFUL],
    Phase.UNSCHEDULABLE.value: [Phase.UNSCHEDULABLE],
    Phase.HELD.value: [Phase.HELD],
}
"""The parts of the queue, and the phases of the pods in each."""

Incoming = Callable[[str, str], None]
"""Called with the part of the queue that a pod enters, and the event, with kube-scheduler's names."""


class SchedulingQueue:
    """The queued pods of all profiles. profiles: by scheduler name. lives: the pods' records.

    `now` is in seconds, and only grows.
    """

    def __init__(
        self,
        profiles: Mapping[str, Profile],
        times: BackoffSettings | None = None,
        incoming: Incoming = lambda _where, _event: None,
        lives: PodLives | None = None,
        hinted: "Hinted | None" = None,
    ) -> None:
        self.lives = lives or PodLives()
        self._times = times or BackoffSettings()
        self._incoming = incoming
        self._active, self._unschedulable, self._gated = PodHeap(), PodHeap(), PodHeap()
        self._backing_off, self._after_errors, self._held = PodHeap(), PodHeap(), PodHeap()
        self._held_from = 0.0
        """No held pod is asked about before this time."""
        self._gates_to_ask = LifeIndex()
        """The gated pods that a change could help; all with the key None."""
        first = next(iter(profiles.values()))  # all profiles have the same order
        (self._sort,) = first.with_point(QueueSortPlugin)
        self._sort_fails = False
        self._pre_enqueuers = {
            name: profile.with_point(PreEnqueuePlugin) for name, profile in profiles.items()
        }
        self._profiles, self._hinted = profiles, hinted
        self._nominator = Nominator(self.lives)

    def __len__(self) -> int:
        return self.lives.count(QUEUED)

    def __contains__(self, uid: str) -> bool:
        life = self.lives.get(uid)
        return life is not None and life.is_queued

    @cached_property
    def _hints(self) -> "QueueingHints":
        """Which changes could help the pods that wait. Its module is imported when the first pod waits."""
        from lib.scheduling.queueing_hints import QueueingHints

        return QueueingHints(self._profiles, self.lives, self._hinted)

    # --- changes ----------------------------------------------------------------------------------------

    def apply(self, change: AnyChange, now: float) -> str | None:
        """Apply a change: to a pod without a node, or to something that may help one.

        Returns why a pod without a node is not queued, in words that continue "pod NAME ..."; None if
        it is, or if the change isn't about such a pod.
        """
        pod = unassigned_pod(change)
        if not pod:
            self._apply_to_others(change, now)
            return None
        is_gone, ended, event = change.kind == Kind.DELETED, why_ended(pod), event_of(change)
        life = self.lives.of(pod)
        was_queued, before = life.is_queued, life.pod
        if before is not pod:
            self.lives.update(life, pod)
        nominated_before = ""
        if life.nominated or pod.status.nominated_node_name or change.before:
            nominated_before = self._follow_nomination(change, life)
            life = self.lives.of(pod)  # a new record, if only its nomination kept the old one
        if is_gone or ended:
            self.drop(pod.metadata.uid)
            if was_queued:
                self._wake_group(pod, now, event)
        if nominated_before:  # pods of a higher priority didn't have to keep this room free
            self.wake(freed_room(pod, nominated_before), now, up_to=pod.spec.priority)
        if is_gone or ended or life.has_room:
            return None if is_gone else ended
        if was_queued:
            return self._follow_queued(life, before, now, event)
        if life.phase == Phase.OUT:
            life.timestamp = now
        return self._enter(life, now, event)

    def _follow_queued(self, life: PodLife, before: Pod, now: float, event: str) -> str | None:
        """A queued pod has changed. Returns why a PreEnqueue plugin gates it now; None if none does.

        An unschedulable pod is tried again if its change may help it. The others stay where they are.
        """
        if life.phase == Phase.UNSCHEDULABLE and self._hints.helps_itself(life, before):
            return self._enter(life, now, event)
        why = self._gate(life, event)
        if why is None and life.phase == Phase.UNSCHEDULABLE:
            self._hints.add(life)  # as it is now
        return why

    def _enter(self, life: PodLife, now: float, event: str) -> str | None:
        """Have a pod tried when its backoff has ended. Returns why a PreEnqueue plugin gates it, if so."""
        if (why := self._gate(life, event)) is not None:
            return why
        life.queued = life.queued or now
        self._move(life, Phase.BACKOFF if now < self._times.ends_at(life) else Phase.ACTIVE, event)
        return None

    def _gate(self, life: PodLife, event: str) -> str | None:
        """Keep a pod out of the queue if a PreEnqueue plugin gates it. Returns why; None if none does."""
        was_gated = life.phase == Phase.GATED
        plugins = self._pre_enqueuers[life.pod.spec.scheduler_name]
        if was_gated:  # ask the plugin first that gated it
            plugins = sorted(plugins, key=lambda plugin: plugin.name not in life.rejected_by)
        for plugin in plugins:
            try:
                if not (status := checked(plugin.pre_enqueue(life.pod))):
                    continue
                why = ", ".join(status.reasons)
            except BaseException as error:
                raise_if_interrupted(error)
                why = f"plugin {plugin.name} failed: {describe(error)}"
            self.lives.reject(life, [plugin.name])
            self.lives.await_victims(life, ())
            if not was_gated:
                self.lives.move(life, Phase.GATED)
                self._incoming(Phase.UNSCHEDULABLE.value, event)
            self._hints.add(life)
            return why
        return None

    def _move(self, life: PodLife, phase: Phase, event: str) -> None:
        """Move a pod to another part of the queue, and count that."""
        self.lives.move(life, phase)
        self._incoming(phase.value, event)

    def drop(self, uid: str) -> None:
        """Remove a pod from the queue."""
        if (life := self.lives.get(uid)) and life.phase != Phase.BOUND:
            self.lives.end(life.pod)

    # --- which pods a change helps ----------------------------------------------------------------------

    def _apply_to_others(self, change: AnyChange, now: float) -> None:
        """Apply a change that isn't about a pod without a node."""
        uid = change.object.metadata.uid
        if isinstance(change.object, Pod) and change.kind != Kind.DELETED:
            self.drop(uid)  # it has a node now
        self.wake(change, now)
        if isinstance(change.object, Pod) and change.kind == Kind.DELETED:
            self._victim_left(uid)
        if isinstance(change.object, Node) and change.kind == Kind.DELETED:
            for life in self.lives.in_phase(Phase.HELD):
                if life.decision.node_name == change.object.metadata.name:
                    self.lives.renew(life)  # so that it is asked about at once

    def wake(self, change: AnyChange, now: float, up_to: float = inf) -> None:
        """Move the unschedulable pods that a change could help. up_to: the highest priority of these pods.

        A node's heartbeat, for example, changes nothing that a decision depends on: it moves none.
        """
        if not self.lives.count([Phase.UNSCHEDULABLE, Phase.GATED]) or not changes_anything(change):
            return
        event = event_of(change)
        for life in self._hints.helped(change):
            if life.phase == Phase.GATED:
                self.lives.unlist(life)  # no other change needs to be looked at
                self.lives.list_in(self._gates_to_ask, None, life)
            elif life.pod.spec.priority <= up_to:
                self._enter(life, now, event)

    def _follow_nomination(self, change: AnyChange, life: PodLife) -> str:
        """Note where a pod is nominated. Returns the node where it was nominated before, if that was another.

        Source: hasNominatedNodeNameChanged in pkg/scheduler/eventhandlers.go
        """
        pod = life.pod
        if change.kind == Kind.DELETED or why_ended(pod):
            old_node = self._nominator.node_of(pod) or ""
            self._nominator.delete(pod)
            return old_node
        old_node = change.before.status.nominated_node_name if isinstance(change.before, Pod) else ""
        new_node = pod.status.nominated_node_name
        if (old_node or new_node) and not life.has_room:  # else our own nomination may not be in the API yet
            self._nominator.add(pod, new_node)
        return old_node if old_node != new_node else ""

    def await_victims(self, uid: str, victims: Iterable[Pod]) -> None:
        """A pod preempts others. It is tried again, without backoff, when all its victims have left.

        While other victims are still there, a victim that leaves doesn't wake the pod. If the pod is tried
        meanwhile, and preempts nobody then, it waits for no victims any more.
        """
        if life := self.lives.get(uid):
            self.lives.await_victims(life, [victim.metadata.uid for victim in victims])

    def _victim_left(self, victim: str) -> None:
        for life in self.lives.victim_left(victim):
            if not life.victims and life.phase in TRIED_LATER:
                self._move(life, Phase.ACTIVE, "AssignedPodDelete")

    def _wake_group(self, gone: Pod, now: float, event: str) -> None:
        """Move the unschedulable pods of a group that has lost a pod: that pod may have been in their way."""
        if group := group_of(gone):
            for life in self.lives.of_group(group):
                if life.phase == Phase.UNSCHEDULABLE:
                    self._enter(life, now, event)

    # --- what is tried ----------------------------------------------------------------------------------

    def ready(self, now: float, most: float = inf) -> list[Pod]:
        """Move the pods that are due. Returns the pods to try now, highest priority first.

        They stay active until `drop` or `requeue`. most: at most so many, and the others of their groups.
        """
        if self.lives.count([Phase.GATED]):
            self._recheck_gates(now)
        new = self.lives.new_in(Phase.UNSCHEDULABLE)
        self._unschedulable.add(((life.timestamp + self._retried_after(life),), life) for life in new)
        for life in self._unschedulable.pop(until=now):
            life.flushed = True
            self._enter(life, now, "UnschedulableTimeout")
        self._note_times()
        for life in self._backing_off.pop(until=now) + self._after_errors.pop(until=now):
            self._move(life, Phase.ACTIVE, "BackoffComplete")
        if not self.lives.count([Phase.ACTIVE]):
            for life in self._backing_off.pop(most=MAX_POPPED):
                self._move(life, Phase.ACTIVE, "PopFromBackoffQ")
        return [life.pod for life in self._in_order(most)]

    def held(self, now: float) -> list[Pod]:
        """The held pods for which Permit or PreBind is to run again now, with those of their groups.

        A pod that has just been held is asked about at once, later more and more seldom: so 10,000 held pods
        are no burden. A held pod that is preempted is asked about now.
        """
        self._note_times()
        due = [life for life in self.lives.are_leaving() if life.phase == Phase.HELD]
        if now >= self._held_from and (popped := self._held.pop(until=now, most=MAX_HELD)):
            self._held_from = now + HELD_PAUSE
            due += [life for life in popped if not life.leaving]
        groups = dict.fromkeys(life.group for life in due if life.group)
        of_groups = [life for group in groups for life in self.lives.of_group(group)]
        known = {life.key for life in due}
        due += [life for life in of_groups if life.phase == Phase.HELD and life.key not in known]
        longest = max(LONGEST_HELD_PAUSE, self.lives.count([Phase.HELD]) / MAX_HELD * HELD_PAUSE)
        pauses = [min((now - life.since) / HELD_SHARE, longest) for life in due]
        self._held.add(((now + pause,), life) for pause, life in zip(pauses, due, strict=True))
        return [life.pod for life in due]

    def _in_order(self, most: float) -> list[PodLife]:
        """The active pods, at most so many, sorted by the QueueSort plugin.

        By priority, if it fails, or its keys can't be compared.
        """
        try:
            new = self.lives.new_in(Phase.ACTIVE)
            self._active.add(((self._sort.queue_sort(life.pod), life.timestamp), life) for life in new)
            first = self._active.smallest(most)
            if any(life.group for life in first):
                first = self._with_groups(first, self._sort_key)
            self._sort_fails = False
            return first
        except BaseException as error:
            raise_if_interrupted(error)
            if not self._sort_fails:
                log.exception("plugin %s failed to sort the queue: it is sorted by priority", self._sort.name)
            self._sort_fails = True
            self._active = PodHeap()
            active = self.lives.in_phase(Phase.ACTIVE)
            for life in active:
                life.entry = None  # so that the plugin is asked again
            active.sort(key=_by_priority)
            return self._with_groups(active[: len(active) if most == inf else int(most)], _by_priority)

    def _sort_key(self, life: PodLife) -> Any:
        return self._sort.queue_sort(life.pod), life.timestamp

    def _with_groups(self, active: list[PodLife], sort_key: Callable[[PodLife], Any]) -> list[PodLife]:
        """These pods, and the others of their groups: if one of a group is to be tried, all of them are."""
        groups = dict.fromkeys(life.group for life in active if life.group)
        of_groups = [life for group in groups for life in self.lives.of_group(group)]
        for life in of_groups:
            if life.phase in TRIED_LATER:
                self._move(life, Phase.ACTIVE, "ForceActivate")
        known = {life.key for life in active}
        others = [life for life in of_groups if life.phase == Phase.ACTIVE and life.key not in known]
        return sorted(active + others, key=sort_key) if others else active

    def _recheck_gates(self, now: float) -> None:
        """Ask the PreEnqueue plugins again about gated pods that a change could help, or that are overdue."""
        pause = self._times.unschedulable
        self._gated.add(((life.timestamp + pause,), life) for life in self.lives.new_in(Phase.GATED))
        for life in self._gated.pop(until=now):
            life.timestamp = now
            self._gated.add([((now + pause,), life)])
            self._enter(life, now, "UnschedulableTimeout")
        for life in [*self._gates_to_ask.of(None)]:
            self._enter(life, now, "ForceActivate")

    def gate_again(self) -> list[tuple[Pod, str]]:
        """Ask the PreEnqueue plugins about the active pods again: the plugins know more than at first.

        Returns the pods that are kept out of the queue now, each with the reason.
        """
        asked = [(life, self._gate(life, "ForceActivate")) for life in self.lives.in_phase(Phase.ACTIVE)]
        return [(life.pod, why) for life, why in asked if why is not None]

    def _note_times(self) -> None:
        """Note when the pods are due that are held now, or back off.

        A pod that backs off after an error is never tried before its backoff has ended.
        """
        self._held.add(((life.since,), life) for life in self.lives.new_in(Phase.HELD))
        for life in self.lives.new_in(Phase.BACKOFF):
            heap = self._backing_off if life.rejected_by else self._after_errors
            heap.add([((self._times.ends_at(life), -life.pod.spec.priority), life)])

    def _retried_after(self, life: PodLife) -> float:
        """The seconds after which an unschedulable pod is tried again, even without any change."""
        seconds, group = self._times.unschedulable, life.group
        if seconds == inf:
            return inf
        if group and group.api and not FOR_ITS_GROUP.isdisjoint(life.rejected_by):
            return min(seconds, UNSEEN_SECONDS, UNSEEN_AT_FIRST * life.rejections)
        return min(seconds, UNSEEN_SECONDS) if BUDGETS_UNSEEN in life.rejected_by else seconds

    def next_in(self, now: float) -> float:
        """The seconds until the next pod is tried, asked about or looked up, without any change."""
        self._note_times()
        backing_off = self._backing_off.first()
        if backing_off and not self.lives.count([Phase.ACTIVE]):
            return 0.0  # it needn't back off then
        times = [life.look_up_at for life in self.lives.in_phase(Phase.BINDING, Phase.DOUBTFUL)]
        times += [key[0] for key in (backing_off, self._after_errors.first()) if key]
        if held := self._held.first():
            times.append(max(held[0], self._held_from))
        return max(0.0, min(times, default=inf) - now)

    def requeue(self, uid: str, rejected_by: Iterable[str], reason: str, now: float) -> None:
        """A pod was tried without success.

        rejected_by: the plugins that rejected it. Without any, there was an error: the pod backs off, and is
        tried again. A pod that may be bound keeps its room while it backs off, and is looked up then. If the
        pod is being bound, or waits for Permit, nothing changes.
        """
        life = self.lives.get(uid)
        if not life or life.phase not in TRIED:
            return
        life.attempts += 1
        life.timestamp, life.flushed = now, False
        life.reason = reason
        self.lives.reject(life, rejected_by)
        if life.rejected_by:
            life.rejections, life.errors = life.rejections + 1, 0
        else:
            life.errors += 1
        event = "ScheduleAttemptFailure"
        if life.phase == Phase.DOUBTFUL:
            life.look_up_at = min(life.look_up_at, self._times.ends_at(life))
            self._incoming(Phase.BACKOFF.value, event)
        else:
            self._move(life, Phase.UNSCHEDULABLE if life.rejected_by else Phase.BACKOFF, event)
            self._hints.add(life)

    def retry_all(self, now: float) -> None:
        """Try all unschedulable pods again: something has changed that no `apply` shows."""
        for life in self.lives.in_phase(Phase.UNSCHEDULABLE):
            self._enter(life, now, "ForceActivate")

    def retry_rejected_by(self, plugins: Set[str], now: float) -> None:
        """Try the unschedulable pods again that one of these plugins rejected."""
        for life in self._hints.rejected_by(plugins):
            if life.phase == Phase.UNSCHEDULABLE:
                self._enter(life, now, "ForceActivate")

    def note(self, uid: str, reason: str) -> None:
        """A pod stays active, but can't be tried now."""
        if life := self.lives.get(uid):
            life.reason = reason

    # --- for reports and metrics ------------------------------------------------------------------------

    def counts(self) -> dict[str, int]:
        """The number of pods in each part of the queue."""
        return {lane: self.lives.count(phases) for lane, phases in LANES.items()}

    def gated(self) -> int:
        """The number of pods that a PreEnqueue plugin keeps out of the queue."""
        return self.lives.count([Phase.GATED])

    def unschedulable_by_plugin(self) -> Counter[tuple[str, str]]:
        """The number of unschedulable pods, by plugin and scheduler name."""
        return Counter({key: count for key, count in self.lives.rejected.items() if key[0] != NO_NODES})

    def lanes(self) -> dict[str, list[Pod]]:
        """The pods in each part of the queue, and those that a PreEnqueue plugin keeps out of it."""
        lanes = LANES | {Phase.GATED.value: [Phase.GATED]}
        return {lane: [life.pod for life in self.lives.in_phase(*phases)] for lane, phases in lanes.items()}

    def oldest(self) -> PodLife | None:
        """The pod that has been queued longest."""
        return min(self.lives.in_phase(*QUEUED), key=lambda life: life.queued, default=None)


def _by_priority(life: PodLife) -> tuple[int, float]:
    return -life.pod.spec.priority, life.timestamp


def why_ended(pod: Pod) -> str | None:
    """Why a pod is never to be tried, whatever plugins say."""
    if pod.metadata.deletion_timestamp:
        return "is being deleted"
    return "has finished" if pod.has_finished else None


def batches(pods: Iterable[Pod]) -> Iterator[list[Pod]]:
    """The pods in order, one by one; the pods of a group together, at the position of its first pod."""
    together: dict[object, list[Pod]] = {}
    for pod in pods:
        together.setdefault(group_of(pod) or pod.metadata.uid, []).append(pod)
    yield from together.values()
