"""The pods that wait: which goes first, when one is tried again, and what wakes it.

A pod is active (to be tried at the next tick), backs off (will be, when its time is up), or is unschedulable
(will be when something happens that could help it, or after a few minutes whatever happens).

Source: pkg/scheduler/backend/queue/scheduling_queue.go
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
from lib.scheduling.framework.interface import PreEnqueuePlugin, Profile, QueueingHintPlugin, QueueSortPlugin
from lib.scheduling.pod_groups import group_of

log = logging.getLogger(__name__)


class Where(Enum):
    """Which part of the queue a pod is in."""

    ACTIVE = "active"
    BACKOFF = "backoff"
    UNSCHEDULABLE = "unschedulable"
    WAITING = "waiting"
    """Its node is held for it, until Permit plugins agree."""


@dataclass
class QueuedPod:
    """A pod that waits. Times are in seconds.

    attempts: how often it was tried in vain. since: when it was queued. tried: when it was tried last.
    rejected_by: the plugins that are to say what could help. reason: why it was not placed.
    """

    pod: Pod
    since: float
    where: Where = Where.ACTIVE
    attempts: int = 0
    tried: float = 0.0
    rejected_by: Collection[str] = field(default_factory=frozenset)
    reason: str = ""


@dataclass(frozen=True)
class BackoffSettings:
    """In seconds.

    A pod backs off for `initial_backoff`, twice as long after each attempt, but never over `max_backoff`; an
    unschedulable one is tried again after `unschedulable`, whatever happened.
    """

    initial_backoff: float = 1.0
    max_backoff: float = 10.0
    unschedulable: float = 300.0


EVENTS = {Kind.ADDED: "Add", Kind.MODIFIED: "Update", Kind.DELETED: "Delete"}
"""How the name of an event ends; it begins with what it happened to (framework/events.go)."""

Incoming = Callable[[str, str], None]
"""Is told in which part a pod comes to be, and of which event; in kube-scheduler's words."""


class SchedulingQueue:
    """The pods that wait for some profiles, by scheduler name. `now` is in seconds, and only grows."""

    def __init__(
        self,
        profiles: Mapping[str, Profile],
        times: BackoffSettings | None = None,
        incoming: Incoming = lambda _where, _event: None,
    ) -> None:
        self._times = times or BackoffSettings()
        self._incoming = incoming
        self._pods: dict[str, QueuedPod] = {}
        self._gated: dict[str, tuple[str, str]] = {}  # by uid: which plugin keeps it out of which profile
        first = next(iter(profiles.values()))  # all order the queue alike
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

    # --- what happens to pods ---------------------------------------------------------------------------

    def skip_reason(self, pod: Pod) -> str | None:
        """Why no scheduler may place a pod now; None when it is to be queued."""
        if pod.metadata.deletion_timestamp:
            return "is being deleted"
        if pod.status.phase in ("Succeeded", "Failed"):
            return "has finished"
        _, why = self._gate(pod)
        return why

    def _gate(self, pod: Pod) -> tuple[str, str | None]:
        """The plugin that keeps a pod out of the queue, if one does, and why."""
        for plugin in self._pre_enqueuers[pod.spec.scheduler_name]:
            try:
                if status := plugin.pre_enqueue(pod):
                    return plugin.name, ", ".join(status.reasons)
            except Exception as error:
                return plugin.name, f"plugin {plugin.name} failed: {type(error).__name__}: {error}"
        return "", None

    def apply(self, change: AnyChange, now: float) -> None:
        """Hear of a change: of a pod that waits, or of something that may help one."""
        if pod := unassigned_pod(change):
            self._apply_to_waiting(pod, change.kind, now)  # no other pod's place depends on it
            return
        if isinstance(change.object, Pod) and change.kind != Kind.DELETED:
            self.drop(change.object.metadata.uid)  # whoever bound it
        self._wake(change, now)

    def _apply_to_waiting(self, pod: Pod, kind: Kind, now: float) -> None:
        uid = pod.metadata.uid
        queued = self._pods.get(uid)
        event = "UnschedulablePod" + EVENTS[kind]
        if kind == Kind.DELETED or self.skip_reason(pod):
            was_gated = uid in self._gated
            self.drop(uid)
            if kind != Kind.DELETED and not pod.metadata.deletion_timestamp and (gate := self._gate(pod)[0]):
                self._gated[uid] = gate, pod.spec.scheduler_name
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

    def _wake(self, change: AnyChange, now: float) -> None:
        """Move the unschedulable pods that a change could help."""
        what = "AssignedPod" if isinstance(change.object, Pod) else type(change.object).__name__
        for queued in self._pods.values():
            if queued.where == Where.UNSCHEDULABLE and self._may_help(change, queued):
                self._move(queued, now, what + EVENTS[change.kind])

    def _may_help(self, change: AnyChange, queued: QueuedPod) -> bool:
        """Ask the plugins that rejected a pod; one that has no opinion takes every change for help."""
        hints = self._hints[queued.pod.spec.scheduler_name]
        for name in queued.rejected_by:
            try:
                if name not in hints or hints[name].queueing_hint(queued.pod, change):
                    return True
            except Exception:  # one that doesn't know is like one that doesn't say
                about = {"pod": str(queued.pod)}
                log.exception("plugin %s failed to say what could help %s", name, queued.pod, extra=about)
                return True
        return False

    def drop(self, uid: str) -> None:
        """A pod waits no longer."""
        self._pods.pop(uid, None)
        self._gated.pop(uid, None)

    # --- what is tried ----------------------------------------------------------------------------------

    def ready(self, now: float) -> list[Pod]:
        """The pods to try now, the most important first. They stay here until it is said what came of it."""
        for queued in self._pods.values():
            overdue = now - queued.tried >= self._times.unschedulable
            if queued.where == Where.UNSCHEDULABLE and overdue:
                self._move(queued, now, "UnschedulableTimeout")
            if queued.where == Where.BACKOFF and now >= self._backs_off_until(queued):
                queued.where = Where.ACTIVE
                self._incoming(Where.ACTIVE.value, "BackoffComplete")
        self._gather_groups()
        active = [queued.pod for queued in self._pods.values() if queued.where == Where.ACTIVE]
        return sorted(active, key=self._sort.queue_sort)

    def _gather_groups(self) -> None:
        """Where one of a group is to be tried, all of it is: it is placed together or not at all."""
        groups = {group_of(queued.pod) for queued in self._pods.values() if queued.where == Where.ACTIVE}
        for queued in self._pods.values():
            group = group_of(queued.pod)
            if group and group in groups and queued.where in (Where.BACKOFF, Where.UNSCHEDULABLE):
                queued.where = Where.ACTIVE
                self._incoming(Where.ACTIVE.value, "ForceActivate")

    def next_in(self, now: float) -> float:
        """The seconds until the first of the pods that back off is ready; infinitely many if none does."""
        backing_off = (queued for queued in self._pods.values() if queued.where == Where.BACKOFF)
        return max(0.0, min(map(self._backs_off_until, backing_off), default=inf) - now)

    def requeue(self, uid: str, rejected_by: Iterable[str], reason: str, now: float) -> None:
        """A pod was tried in vain: for plugins that say what could help it; or, without any, try it again."""
        if queued := self._pods.get(uid):
            queued.attempts += 1
            queued.tried = now
            queued.rejected_by, queued.reason = frozenset(rejected_by), reason
            queued.where = Where.UNSCHEDULABLE if queued.rejected_by else Where.BACKOFF
            self._incoming(queued.where.value, "ScheduleAttemptFailure")

    def hold(self, uid: str, reason: str) -> None:
        """A pod has a node, but must wait for it."""
        if queued := self._pods.get(uid):
            queued.where, queued.reason = Where.WAITING, reason

    def uids(self) -> Set[str]:
        """The uids of all pods that wait, wherever they are."""
        return self._pods.keys()

    def _move(self, queued: QueuedPod, now: float, event: str) -> None:
        """Have a pod tried again, as soon as it has backed off."""
        queued.where = Where.BACKOFF if now < self._backs_off_until(queued) else Where.ACTIVE
        self._incoming(queued.where.value, event)

    def _backs_off_until(self, queued: QueuedPod) -> float:
        if not queued.attempts:
            return 0.0
        # Doubled so often at the most that no float overflows.
        doubled = self._times.initial_backoff * 2.0 ** min(queued.attempts - 1, 100)
        return queued.tried + min(doubled, self._times.max_backoff)

    # --- what is shown ----------------------------------------------------------------------------------

    def attempt(self, uid: str) -> tuple[int, float]:
        """Which attempt at a pod this is, and when the pod was queued."""
        queued = self._pods[uid]
        return queued.attempts + 1, queued.since

    def counts(self) -> dict[str, int]:
        """How many pods are where."""
        return {where.value: sum(queued.where == where for queued in self._pods.values()) for where in Where}

    def gated(self) -> int:
        """How many pods are kept out of the queue by a plugin."""
        return len(self._gated)

    def in_the_way(self) -> Counter[tuple[str, str]]:
        """How many pods each plugin stands in the way of, by plugin and scheduler name."""
        rejections = (
            (plugin, queued.pod.spec.scheduler_name)
            for queued in self._pods.values()
            for plugin in queued.rejected_by
            if queued.where != Where.WAITING and plugin != NO_NODES
        )
        return Counter(chain(self._gated.values(), rejections))

    def oldest(self) -> QueuedPod | None:
        """The pod that has waited longest."""
        return min(self._pods.values(), key=lambda queued: queued.since, default=None)


def _asks_for(pod: Pod) -> object:
    """What a pod's place depends on; how it fares and what is noted on it is no reason to try again."""
    return pod.spec, pod.metadata.labels, pod.metadata.annotations, pod.metadata.deletion_timestamp
