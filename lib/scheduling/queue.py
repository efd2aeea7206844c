"""The scheduling queue: which pod is tried first, and when a pod is tried again.

A pod is active (tried in the next tick), backs off (tried when its backoff ends), is unschedulable (tried
when something changes that could help it, or after five minutes), or a Permit plugin holds it.

Counterpart in kube-scheduler: pkg/scheduler/backend/queue/scheduling_queue.go
"""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Set
from itertools import chain
from math import inf

from lib.kube.changes import AnyChange, Change, Kind, unassigned_pod
from lib.kube.objects import Pod
from lib.scheduling.decision import NO_NODES
from lib.scheduling.framework.interface import PreEnqueuePlugin, Profile, QueueSortPlugin, checked
from lib.scheduling.framework.runtime import describe, raise_if_interrupted
from lib.scheduling.hints import changes_anything
from lib.scheduling.pod_groups import POD_GROUP, REJECTING, group_of
from lib.scheduling.queued_pod import BackoffSettings, QueuedPod, Where
from lib.scheduling.queueing_hints import QueueingHints

EVENTS = {Kind.ADDED: "Add", Kind.MODIFIED: "Update", Kind.DELETED: "Delete"}
"""The last part of an event's name; the first is the kind of object (framework/events.go)."""

POD_GROUP_SECONDS = 30.0
"""A pod that waits for others of its PodGroup is tried again after so many seconds: poller doesn't see
changes of the PodGroup's `minMember`."""

MAX_POPPED = 100
"""When no pod is active, at most so many pods are tried before their backoff has ended."""

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
        self._gated: dict[str, QueuedPod] = {}  # by uid; a PreEnqueue plugin keeps it out of the queue
        self._ask_gates_again = False  # something has changed since their plugins were asked
        self._preemptors: dict[str, set[str]] = {}  # by a victim's uid: the preemptors' uids
        first = next(iter(profiles.values()))  # all profiles have the same order
        (self._sort,) = first.with_point(QueueSortPlugin)
        self._pre_enqueuers = {
            name: profile.with_point(PreEnqueuePlugin) for name, profile in profiles.items()
        }
        self._hints = QueueingHints(profiles)

    def __len__(self) -> int:
        return len(self._pods)

    # --- changes ----------------------------------------------------------------------------------------

    def skip_reason(self, pod: Pod) -> str | None:
        """Why a pod must not be queued; None if it may. Runs the PreEnqueue plugins."""
        return _why_ended(pod) or self._gate(pod, "")[1]

    def _gate(self, pod: Pod, first: str) -> tuple[str, str | None]:
        """The PreEnqueue plugin that keeps a pod out of the queue, and why. first: the one to ask first."""
        plugins = self._pre_enqueuers[pod.spec.scheduler_name]
        if first:
            plugins = sorted(plugins, key=lambda each: each.name != first)
        for plugin in plugins:
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
        it is, or if the change isn't about such a pod.
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
        why_ended = _why_ended(pod)
        if kind == Kind.DELETED or why_ended:
            self.drop(uid)
            if queued:
                self._wake_group(queued.pod, now, event)
            return None if kind == Kind.DELETED else why_ended
        queued = queued or self._gated.get(uid) or QueuedPod(pod, timestamp=now)
        before, queued.pod = queued.pod, pod
        if why := self._keep_out(queued, event):
            return why
        if uid not in self._pods or self._is_helped_by_itself(queued, before):
            self._enter(queued, now, event)
        return None

    def _is_helped_by_itself(self, queued: QueuedPod, before: Pod) -> bool:
        """Whether a change of an unschedulable pod itself could help it."""
        if queued.where != Where.UNSCHEDULABLE or _asks_for(before) == _asks_for(queued.pod):
            return False
        return self._hints.may_help(Change(Kind.MODIFIED, queued.pod, before), queued)

    def _keep_out(self, queued: QueuedPod, event: str) -> str | None:
        """If a PreEnqueue plugin gates a pod, keep it out of the queue. Returns why, or None."""
        uid = queued.pod.metadata.uid
        was_gated = uid in self._gated
        plugin, why = self._gate(queued.pod, next(iter(queued.rejected_by)) if was_gated else "")
        if why is not None:
            self.drop(uid)
            queued.rejected_by = frozenset([plugin])
            self._gated[uid] = queued
            if not was_gated:
                self._incoming(Where.UNSCHEDULABLE.value, event)
        return why

    def _enter(self, queued: QueuedPod, now: float, event: str) -> None:
        """Try a pod as soon as its backoff has ended."""
        uid = queued.pod.metadata.uid
        self._gated.pop(uid, None)
        self._pods[uid] = queued
        queued.since = queued.since or now
        queued.where = Where.BACKOFF if now < self._times.ends_at(queued) else Where.ACTIVE
        self._incoming(queued.where.value, event)

    def _move(self, queued: QueuedPod, now: float, event: str) -> None:
        """Try an unschedulable or gated pod again, unless a PreEnqueue plugin gates it."""
        if self._keep_out(queued, event) is None:
            self._enter(queued, now, event)

    def wake_up_to(self, priority: int, change: AnyChange, now: float) -> None:
        """Move the unschedulable pods of this priority, or a lower one, that a change could help.

        Such is the end of a nomination: pods of a higher priority didn't have to keep its room free. The pod
        itself is tried, too, unless it is nominated to another node.
        Source: getLEPriorityPreCheck in pkg/scheduler/eventhandlers.go
        """
        self._wake(change, now, priority)

    def _wake(self, change: AnyChange, now: float, up_to: float = inf) -> None:
        """Move the unschedulable pods that a change could help. up_to: the highest priority of these pods.

        A node's heartbeat, for example, changes nothing that a decision depends on: it moves none.
        """
        if not (self._pods or self._gated) or not changes_anything(change):
            return
        self._ask_gates_again = True
        what = "AssignedPod" if isinstance(change.object, Pod) else type(change.object).__name__
        for queued in list(self._pods.values()):
            if queued.where != Where.UNSCHEDULABLE or queued.pod.spec.priority > up_to:
                continue
            if _is_one_of_several_victims(change, queued) or _is_nominated_elsewhere(change, queued):
                continue
            if self._hints.may_help(change, queued):
                self._move(queued, now, what + EVENTS[change.kind])

    def await_victims(self, uid: str, victims: Iterable[Pod]) -> None:
        """A pod preempts others: it is tried again, without backoff, when all its victims have left.

        When a single one leaves, it isn't tried: unless it was tried since, and preempted nobody then.
        """
        if queued := self._pods.get(uid):
            self._forget_victims(queued)
            queued.victims = {victim.metadata.uid for victim in victims}
            for victim in queued.victims:
                self._preemptors.setdefault(victim, set()).add(uid)

    def _victim_left(self, victim: str) -> None:
        for uid in self._preemptors.pop(victim, ()):
            queued = self._pods[uid]
            queued.victims.remove(victim)
            if not queued.victims and queued.where in (Where.BACKOFF, Where.UNSCHEDULABLE):
                self._activate(queued, "AssignedPodDelete")

    def _forget_victims(self, queued: QueuedPod) -> None:
        for victim in queued.victims:
            preemptors = self._preemptors[victim]
            preemptors.remove(queued.pod.metadata.uid)
            if not preemptors:
                del self._preemptors[victim]
        queued.victims = set()

    def _wake_group(self, gone: Pod, now: float, event: str) -> None:
        """Move the unschedulable pods of a deleted pod's group: it may have been in their way."""
        if group := group_of(gone):
            for queued in list(self._pods.values()):
                if queued.where == Where.UNSCHEDULABLE and group_of(queued.pod) == group:
                    self._move(queued, now, event)

    def drop(self, uid: str) -> None:
        """Remove a pod from the queue."""
        if queued := self._pods.pop(uid, None):
            self._forget_victims(queued)
        self._gated.pop(uid, None)

    # --- what is tried ----------------------------------------------------------------------------------

    def ready(self, now: float) -> list[Pod]:
        """The pods to try now, highest priority first. They stay active until `drop` or `requeue`."""
        self._recheck_gates(now)
        for queued in list(self._pods.values()):
            overdue = now - queued.timestamp >= self._retried_after(queued)
            if queued.where == Where.UNSCHEDULABLE and overdue:
                queued.flushed = True
                self._move(queued, now, "UnschedulableTimeout")
            if queued.where == Where.BACKOFF and now >= self._times.ends_at(queued):
                self._activate(queued, "BackoffComplete")
        if not any(queued.where == Where.ACTIVE for queued in self._pods.values()):
            for queued in self._backing_off()[:MAX_POPPED]:
                self._activate(queued, "PopFromBackoffQ")
        self._gather_groups()
        active = [queued for queued in self._pods.values() if queued.where == Where.ACTIVE]
        active.sort(key=lambda queued: (self._sort.queue_sort(queued.pod), queued.timestamp))
        return [queued.pod for queued in active]

    def _recheck_gates(self, now: float) -> None:
        """Ask the PreEnqueue plugins again about gated pods, after a change, and once in a while."""
        for gated in list(self._gated.values()):
            overdue = now - gated.timestamp >= self._times.unschedulable
            if overdue:
                gated.timestamp = now
            if overdue or self._ask_gates_again:
                self._move(gated, now, "UnschedulableTimeout" if overdue else "ForceActivate")
        self._ask_gates_again = False

    def _activate(self, queued: QueuedPod, event: str) -> None:
        queued.where = Where.ACTIVE
        self._incoming(Where.ACTIVE.value, event)

    def _backing_off(self) -> list[QueuedPod]:
        """The pods that may be tried before their backoff has ended: not after an error."""
        found = [each for each in self._pods.values() if each.where == Where.BACKOFF and each.rejected_by]
        return sorted(found, key=lambda each: (self._times.ends_at(each), -each.pod.spec.priority))

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
                self._activate(queued, "ForceActivate")

    def next_in(self, now: float) -> float:
        """The seconds until the next pod can be tried, without any change; infinity if none backs off."""
        if self._backing_off():
            return 0.0  # no other pod is active then
        backing_off = (queued for queued in self._pods.values() if queued.where == Where.BACKOFF)
        return max(0.0, min(map(self._times.ends_at, backing_off), default=inf) - now)

    def requeue(self, uid: str, rejected_by: Iterable[str], reason: str, now: float) -> None:
        """A pod was tried without success. rejected_by: the plugins that did it.

        If it is empty, there was an error: the pod backs off, and is tried again.
        """
        if queued := self._pods.get(uid):
            queued.attempts += 1
            queued.timestamp, queued.flushed = now, False
            queued.rejected_by, queued.reason = frozenset(rejected_by), reason
            if queued.rejected_by:
                queued.rejections, queued.errors = queued.rejections + 1, 0
                queued.where = Where.UNSCHEDULABLE
            else:
                queued.errors += 1
                queued.where = Where.BACKOFF
            self._incoming(queued.where.value, "ScheduleAttemptFailure")

    def retry_all(self, now: float) -> None:
        """Try all unschedulable pods again: something has changed that no `apply` shows."""
        for queued in list(self._pods.values()):
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

    def note(self, uid: str, reason: str) -> None:
        """A pod stays active, but can't be tried now."""
        if queued := self._pods.get(uid):
            queued.reason = reason

    def uids(self) -> Set[str]:
        """The uids of all queued pods."""
        return self._pods.keys()

    # --- for reports and metrics ------------------------------------------------------------------------

    def attempt(self, uid: str) -> tuple[int, float]:
        """The number of this attempt at a pod, and when the pod was queued."""
        queued = self._pods[uid]
        return queued.attempts + 1, queued.since

    def was_flushed(self, uid: str) -> bool:
        """Whether a pod is tried because it was unschedulable for too long."""
        return self._pods[uid].flushed

    def counts(self) -> dict[str, int]:
        """The number of pods in each part of the queue."""
        return {where.value: sum(queued.where == where for queued in self._pods.values()) for where in Where}

    def gated(self) -> int:
        """The number of pods that a PreEnqueue plugin keeps out of the queue."""
        return len(self._gated)

    def unschedulable_by_plugin(self) -> Counter[tuple[str, str]]:
        """The number of unschedulable pods, by plugin and scheduler name."""
        return Counter(
            (plugin, queued.pod.spec.scheduler_name)
            for queued in chain(self._gated.values(), self._pods.values())
            for plugin in queued.rejected_by
            if queued.where != Where.PERMIT_WAIT and plugin != NO_NODES
        )

    def lanes(self) -> dict[str, list[Pod]]:
        """The pods in each part of the queue, and those that a PreEnqueue plugin keeps out of it."""
        lanes: dict[str, list[Pod]] = {where.value: [] for where in Where}
        for queued in self._pods.values():
            lanes[queued.where.value].append(queued.pod)
        return {**lanes, "gated": [queued.pod for queued in self._gated.values()]}

    def oldest(self) -> QueuedPod | None:
        """The pod that has been queued longest."""
        return min(self._pods.values(), key=lambda queued: queued.since, default=None)


def _why_ended(pod: Pod) -> str | None:
    """Why a pod is never to be tried, whatever plugins say."""
    if pod.metadata.deletion_timestamp:
        return "is being deleted"
    return "has finished" if pod.status.phase in ("Succeeded", "Failed") else None


def _is_one_of_several_victims(change: AnyChange, queued: QueuedPod) -> bool:
    """Whether a pod has left a node for this one, which still waits for others."""
    return change.object.metadata.uid in queued.victims and len(queued.victims) > 1


def _is_nominated_elsewhere(change: AnyChange, queued: QueuedPod) -> bool:
    """Whether the pod itself has left a node, only because it is nominated to another."""
    is_itself = change.object.metadata.uid == queued.pod.metadata.uid
    return is_itself and bool(queued.pod.status.nominated_node_name)


def _asks_for(pod: Pod) -> object:
    """The fields that scheduling depends on. A change of other fields is no reason to try the pod again."""
    return pod.spec, pod.metadata.labels, pod.metadata.annotations, pod.metadata.deletion_timestamp
