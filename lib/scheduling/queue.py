"""The scheduling queue: which pod is tried first, and when a pod is tried again.

A pod is active (tried in the next tick), backs off (tried when its backoff ends), is unschedulable (tried
when something changes that could help it, or after five minutes), or a Permit plugin holds it.

Counterpart in kube-scheduler: pkg/scheduler/backend/queue/scheduling_queue.go
"""

import logging
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Set
from dataclasses import dataclass, field
from enum import Enum
from itertools import chain
from math import inf

from lib.kube.changes import AnyChange, Kind, unassigned_pod
from lib.kube.objects import Pod
from lib.scheduling.decision import NO_NODES
from lib.scheduling.framework.interface import (
    PreEnqueuePlugin,
    Profile,
    QueueingHintPlugin,
    QueueSortPlugin,
    checked,
)
from lib.scheduling.framework.runtime import describe, raise_if_interrupted
from lib.scheduling.hints import changes_anything, placed_pod
from lib.scheduling.pod_groups import POD_GROUP, REJECTING, group_of
from lib.scheduling.pod_limits import TOO_COMPLEX

log = logging.getLogger(__name__)


class Where(Enum):
    """Which part of the queue a pod is in."""

    ACTIVE = "active"
    BACKOFF = "backoff"
    UNSCHEDULABLE = "unschedulable"
    PERMIT_WAIT = "waiting"
    """A node is reserved for it; it waits until the Permit plugins agree."""


@dataclass
class QueuedPod:
    """A pod in the queue. Times are in seconds.

    attempts: the number of attempts without success. since: when it was queued. tried: the time of the last
    attempt. rejected_by: the plugins that rejected it; their hints say what could help. reason: why it has no
    node. victims: the uids of the pods that have not yet left a node for it.
    """

    pod: Pod
    since: float
    where: Where = Where.ACTIVE
    attempts: int = 0
    tried: float = 0.0
    rejected_by: Collection[str] = field(default_factory=frozenset)
    reason: str = ""
    victims: set[str] = field(default_factory=set)


@dataclass(frozen=True)
class BackoffSettings:
    """In seconds.

    A pod backs off for `initial_backoff`, twice as long after each attempt, but `max_backoff` at most. An
    unschedulable pod is tried again after `unschedulable`, even without any change.
    """

    initial_backoff: float = 1.0
    max_backoff: float = 10.0
    unschedulable: float = 300.0


EVENTS = {Kind.ADDED: "Add", Kind.MODIFIED: "Update", Kind.DELETED: "Delete"}
"""The last part of an event's name; the first is the kind of object (framework/events.go)."""

POD_GROUP_SECONDS = 30.0
"""A pod that waits for others of its PodGroup is tried again after so many seconds: poller doesn't see
changes of the PodGroup's `minMember`."""

Incoming = Callable[[str, str], None]
"""Called with the part of the queue that a pod enters, and the event, with kube-scheduler's names."""


class SchedulingQueue:
    """The queued pods of all profiles. profiles: by scheduler name. `now` is in seconds, and only grows."""

    def __init__(
        self,
        profiles: Mapping[str, Profile],
        times: BackoffSettings | None = None,
        incoming: Incoming = lambda _where, _event: None,
    ) -> None:
        self._times = times or BackoffSettings()
        self._incoming = incoming
        self._pods: dict[str, QueuedPod] = {}
        self._gated: dict[str, tuple[str, Pod]] = {}  # by uid, with the plugin that gates the pod
        self._preemptors: dict[str, str] = {}  # by a victim's uid: the preemptor's uid
        first = next(iter(profiles.values()))  # all profiles have the same order
        (self._sort,) = first.with_point(QueueSortPlugin)
        self._pre_enqueuers = {
            name: profile.with_point(PreEnqueuePlugin) for name, profile in profiles.items()
        }
        self._hints = {
            name: {plugin.name: plugin for plugin in profile.with_point(QueueingHintPlugin)}
            for name, profile in profiles.items()
        }

    def __len__(self) -> int:
        return len(self._pods)

    # --- changes ----------------------------------------------------------------------------------------

    def skip_reason(self, pod: Pod) -> str | None:
        """Why a pod must not be queued; None if it may. Runs the PreEnqueue plugins."""
        return self._skip(pod)[1]

    def _skip(self, pod: Pod) -> tuple[str, str | None]:
        """Why a pod must not be queued, and the plugin that rejects it, if one does."""
        if pod.metadata.deletion_timestamp:
            return "", "is being deleted"
        if pod.status.phase in ("Succeeded", "Failed"):
            return "", "has finished"
        for plugin in self._pre_enqueuers[pod.spec.scheduler_name]:
            try:
                if status := checked(plugin.pre_enqueue(pod)):
                    return plugin.name, ", ".join(status.reasons)
            except BaseException as error:
                raise_if_interrupted(error)
                return plugin.name, f"plugin {plugin.name} failed: {describe(error)}"
        return "", None

    def apply(self, change: AnyChange, now: float) -> str | None:
        """Apply a change: to a pod without a node, or to something that may help one.

        Returns why a pod without a node is not queued, in words that continue "pod NAME ..."; None if
        it is, or if the change isn't about such a pod. PreEnqueue plugins run once.
        """
        if pod := unassigned_pod(change):
            return self._apply_to_unassigned(pod, change.kind, now)  # other pods don't depend on it
        if isinstance(change.object, Pod) and change.kind != Kind.DELETED:
            self.drop(change.object.metadata.uid)  # it has a node now
        self._wake(change, now)
        if isinstance(change.object, Pod) and change.kind == Kind.DELETED:
            self._victim_left(change.object.metadata.uid)
        return None

    def _apply_to_unassigned(self, pod: Pod, kind: Kind, now: float) -> str | None:
        uid = pod.metadata.uid
        queued = self._pods.get(uid)
        event = "UnschedulablePod" + EVENTS[kind]
        plugin, skip_reason = ("", None) if kind == Kind.DELETED else self._skip(pod)
        if kind == Kind.DELETED or skip_reason is not None:
            was_gated = uid in self._gated
            self.drop(uid)
            if queued:
                self._wake_group(queued.pod, now, event)
            if plugin:
                self._gated[uid] = plugin, pod
                if not was_gated:
                    self._incoming(Where.UNSCHEDULABLE.value, event)
        elif queued is None:
            self._gated.pop(uid, None)
            self._pods[uid] = QueuedPod(pod, since=now)
            self._incoming(Where.ACTIVE.value, event)
        else:
            changed = _asks_for(queued.pod) != _asks_for(pod)
            queued.pod = pod
            if changed and queued.where == Where.UNSCHEDULABLE:
                self._move(queued, now, event)
        return skip_reason

    def wake_up_to(self, priority: int, change: AnyChange, now: float) -> None:
        """Move the unschedulable pods of this priority, or a lower one, that a change could help.

        Such is the end of a nomination: pods of a higher priority didn't have to keep its room free.
        Source: getLEPriorityPreCheck in pkg/scheduler/eventhandlers.go
        """
        self._wake(change, now, priority)

    def _wake(self, change: AnyChange, now: float, up_to: float = inf) -> None:
        """Move the unschedulable pods that a change could help. up_to: the highest priority of these pods.

        A node's heartbeat, for example, changes nothing that a decision depends on: it moves none.
        """
        if not self._pods or not changes_anything(change):
            return
        what = "AssignedPod" if isinstance(change.object, Pod) else type(change.object).__name__
        for queued in self._pods.values():
            if queued.where != Where.UNSCHEDULABLE or queued.pod.spec.priority > up_to:
                continue
            if self._may_help(change, queued):
                self._move(queued, now, what + EVENTS[change.kind])

    def await_victims(self, uid: str, victims: Iterable[Pod]) -> None:
        """A pod preempts others: it is tried again when all its victims have left.

        It doesn't back off then, as in kube-scheduler, which takes pods from its backoff queue when no other
        pod is active.
        """
        if queued := self._pods.get(uid):
            self._forget_victims(queued)
            queued.victims = {victim.metadata.uid for victim in victims}
            self._preemptors |= dict.fromkeys(queued.victims, uid)

    def _victim_left(self, victim: str) -> None:
        queued = self._pods.get(self._preemptors.pop(victim, ""))
        if not queued or victim not in queued.victims:
            return
        queued.victims.remove(victim)
        if not queued.victims and queued.where in (Where.BACKOFF, Where.UNSCHEDULABLE):
            queued.where = Where.ACTIVE
            self._incoming(Where.ACTIVE.value, "AssignedPodDelete")

    def _forget_victims(self, queued: QueuedPod) -> None:
        for victim in queued.victims:
            if self._preemptors.get(victim) == queued.pod.metadata.uid:
                del self._preemptors[victim]

    def _wake_group(self, gone: Pod, now: float, event: str) -> None:
        """Move the unschedulable pods of a deleted pod's group: it may have been in their way."""
        if group := group_of(gone):
            for queued in self._pods.values():
                if queued.where == Where.UNSCHEDULABLE and group_of(queued.pod) == group:
                    self._move(queued, now, event)

    def _may_help(self, change: AnyChange, queued: QueuedPod) -> bool:
        """Whether a change could help a pod, by its plugins' hints. Without hints, every change could."""
        hints = self._hints[queued.pod.spec.scheduler_name]
        for name in queued.rejected_by:
            try:
                if name == TOO_COMPLEX:
                    continue
                if name == REJECTING:  # does the change add a pod to its group?
                    pod = placed_pod(change)
                    if pod and group_of(pod) == group_of(queued.pod):
                        return True
                elif name not in hints or hints[name].queueing_hint(queued.pod, change):
                    return True
            except BaseException as error:  # it is treated as a plugin without hints
                raise_if_interrupted(error)
                about = {"pod": str(queued.pod)}
                log.exception("plugin %s failed to say what could help %s", name, queued.pod, extra=about)
                return True
        return False

    def drop(self, uid: str) -> None:
        """Remove a pod from the queue."""
        if queued := self._pods.pop(uid, None):
            self._forget_victims(queued)
        self._gated.pop(uid, None)

    # --- what is tried ----------------------------------------------------------------------------------

    def ready(self, now: float) -> list[Pod]:
        """The pods to try now, highest priority first. They stay active until `drop` or `requeue`."""
        for queued in self._pods.values():
            overdue = now - queued.tried >= self._retried_after(queued)
            if queued.where == Where.UNSCHEDULABLE and overdue:
                self._move(queued, now, "UnschedulableTimeout")
            if queued.where == Where.BACKOFF and now >= self._backs_off_until(queued):
                queued.where = Where.ACTIVE
                self._incoming(Where.ACTIVE.value, "BackoffComplete")
        self._gather_groups()
        active = [queued.pod for queued in self._pods.values() if queued.where == Where.ACTIVE]
        return sorted(active, key=self._sort.queue_sort)

    def _retried_after(self, queued: QueuedPod) -> float:
        """The seconds after which an unschedulable pod is tried again, even without any change."""
        group = group_of(queued.pod)
        if group and group.label == POD_GROUP and REJECTING in queued.rejected_by:
            return min(self._times.unschedulable, POD_GROUP_SECONDS)
        return self._times.unschedulable

    def _gather_groups(self) -> None:
        """If one pod of a group is to be tried, try all of them: all are scheduled, or none."""
        groups = {group_of(queued.pod) for queued in self._pods.values() if queued.where == Where.ACTIVE}
        for queued in self._pods.values():
            group = group_of(queued.pod)
            if group and group in groups and queued.where in (Where.BACKOFF, Where.UNSCHEDULABLE):
                queued.where = Where.ACTIVE
                self._incoming(Where.ACTIVE.value, "ForceActivate")

    def next_in(self, now: float) -> float:
        """The seconds until the first backoff ends; infinity if no pod backs off."""
        backing_off = (queued for queued in self._pods.values() if queued.where == Where.BACKOFF)
        return max(0.0, min(map(self._backs_off_until, backing_off), default=inf) - now)

    def requeue(self, uid: str, rejected_by: Iterable[str], reason: str, now: float) -> None:
        """A pod was tried without success. rejected_by: the plugins that did it; if empty, it backs off."""
        if queued := self._pods.get(uid):
            queued.attempts += 1
            queued.tried = now
            queued.rejected_by, queued.reason = frozenset(rejected_by), reason
            queued.where = Where.UNSCHEDULABLE if queued.rejected_by else Where.BACKOFF
            self._incoming(queued.where.value, "ScheduleAttemptFailure")

    def retry_all(self, now: float) -> None:
        """Try all unschedulable pods again: something has changed that no `apply` shows."""
        for queued in self._pods.values():
            if queued.where == Where.UNSCHEDULABLE:
                self._move(queued, now, "ForceActivate")

    def hold_for_permit(self, uid: str, reason: str) -> None:
        """A pod waits for Permit: it isn't tried."""
        if queued := self._pods.get(uid):
            queued.where, queued.reason = Where.PERMIT_WAIT, reason

    def activate(self, uid: str) -> None:
        """A pod was not tried after all: make it active, even if it was waiting for Permit."""
        if queued := self._pods.get(uid):
            queued.where = Where.ACTIVE

    def uids(self) -> Set[str]:
        """The uids of all queued pods."""
        return self._pods.keys()

    def _move(self, queued: QueuedPod, now: float, event: str) -> None:
        """Try a pod again as soon as its backoff has ended."""
        queued.where = Where.BACKOFF if now < self._backs_off_until(queued) else Where.ACTIVE
        self._incoming(queued.where.value, event)

    def _backs_off_until(self, queued: QueuedPod) -> float:
        if not queued.attempts:
            return 0.0
        # The limit keeps the float from overflowing.
        doubled = self._times.initial_backoff * 2.0 ** min(queued.attempts - 1, 100)
        return queued.tried + min(doubled, self._times.max_backoff)

    # --- for reports and metrics ------------------------------------------------------------------------

    def attempt(self, uid: str) -> tuple[int, float]:
        """The number of this attempt at a pod, and when the pod was queued."""
        queued = self._pods[uid]
        return queued.attempts + 1, queued.since

    def counts(self) -> dict[str, int]:
        """The number of pods in each part of the queue."""
        return {where.value: sum(queued.where == where for queued in self._pods.values()) for where in Where}

    def gated(self) -> int:
        """The number of pods that a PreEnqueue plugin keeps out of the queue."""
        return len(self._gated)

    def unschedulable_by_plugin(self) -> Counter[tuple[str, str]]:
        """The number of unschedulable pods, by plugin and scheduler name."""
        rejections = (
            (plugin, queued.pod.spec.scheduler_name)
            for queued in self._pods.values()
            for plugin in queued.rejected_by
            if queued.where != Where.PERMIT_WAIT and plugin != NO_NODES
        )
        gated = ((plugin, pod.spec.scheduler_name) for plugin, pod in self._gated.values())
        return Counter(chain(gated, rejections))

    def lanes(self) -> dict[str, list[Pod]]:
        """The pods in each part of the queue, and those that a PreEnqueue plugin keeps out of it."""
        lanes: dict[str, list[Pod]] = {where.value: [] for where in Where}
        for queued in self._pods.values():
            lanes[queued.where.value].append(queued.pod)
        return {**lanes, "gated": [pod for _, pod in self._gated.values()]}

    def oldest(self) -> QueuedPod | None:
        """The pod that has been queued longest."""
        return min(self._pods.values(), key=lambda queued: queued.since, default=None)


def _asks_for(pod: Pod) -> object:
    """The fields that scheduling depends on. A change of other fields is no reason to try the pod again."""
    return pod.spec, pod.metadata.labels, pod.metadata.annotations, pod.metadata.deletion_timestamp
