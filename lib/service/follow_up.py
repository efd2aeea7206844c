"""Does what follows for pods with room, as lib/scheduling/transitions.py says. It undoes decisions, too."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from msgspec.structs import replace

from lib.kube.changes import AnyChange, Change, Kind
from lib.kube.objects import Pod
from lib.lazily import Lazy
from lib.scheduling.cache import Cache
from lib.scheduling.decision import Decision
from lib.scheduling.hints import freed_room
from lib.scheduling.pod_groups import group_of
from lib.scheduling.pod_life import ANSWER_SECONDS, Phase, PodLife, pod_key
from lib.scheduling.queue import SchedulingQueue
from lib.scheduling.scheduling_cycle import Scheduler
from lib.scheduling.transitions import (
    FOUND,
    REFUSED,
    SHOWN,
    SHOWN_IN_DRY_RUN,
    Seen,
    Step,
    Steps,
    seen_as,
    seen_in,
)
from lib.service.telemetry.report import Report
from lib.service.writes.writes import Writes

if TYPE_CHECKING:
    from lib.scheduling.groups import quorum
else:
    quorum = Lazy("lib.scheduling.groups.quorum")


@dataclass
class FollowUp:
    """What follows for pods that are held, are being bound, may be bound, or were bound and not seen yet."""

    cache: Cache
    queue: SchedulingQueue
    schedulers: Mapping[str, Scheduler]
    """By scheduler name."""
    report: Report
    writes: Writes
    now: Callable[[], float]
    dry_run: bool
    """Whether nothing is written, so that no pod is ever seen on its node."""

    # --- undoing decisions ------------------------------------------------------------------------------

    def free(self, decision: Decision) -> Decision:
        """Undo a decision, and wake the pods that its room could help. Returns what is left of it."""
        return self.undone(self.schedulers[decision.pod.spec.scheduler_name].undo(decision, self.cache))

    def undone(self, decision: Decision) -> Decision:
        """A decision was undone: undo its writes, too, and wake the pods that its room could help.

        Pods that could use its volumes and devices are woken, too, because the API shows no change of what
        was not written yet. A pod that was seen to be gone while it was being bound leaves the queue now,
        because no other change tells that it is gone. Returns what is left of the decision.
        """
        if decision.undo:
            self.writes.undo(decision)
            decision = replace(decision, undo=())
        self.queue.apply(freed_room(decision.pod, decision.node_name), self.now())
        reserving = self.schedulers[decision.pod.spec.scheduler_name].profile.reserving
        self.queue.retry_rejected_by(decision.state.keys() & reserving, self.now())
        if (life := self.cache.lives.get(pod_key(decision.pod))) and life.is_gone and not life.has_room:
            self.queue.apply(Change(Kind.DELETED, life.pod), self.now())
        return decision

    def _free_group(self, gone: Pod) -> None:
        """A held pod of a group is gone. If too few of the group are left, they are freed and tried again.

        Source: Unreserve in pkg/coscheduling in sigs.k8s.io/scheduler-plugins
        """
        if group := group_of(gone):
            for other in self.cache.lives.in_phase(Phase.HELD):
                if group_of(other.pod) == group and not quorum.is_reached_without(
                    other.decision, group, self.cache
                ):
                    self.free(other.decision)

    # --- what was seen ----------------------------------------------------------------------------------

    def shown(self, change: AnyChange, life: PodLife) -> Iterator[AnyChange]:
        """A list or a watch shows a change of a pod with room. Returns the changes to apply, if any."""
        table = SHOWN_IN_DRY_RUN if self.dry_run else SHOWN
        seen = seen_in(change, life.decision.node_name if life.decision else "")
        if life.phase == Phase.BINDING and seen == Seen.WAITING:
            life.is_gone = False
        return self._do(table[life.phase][seen], life, change)

    def found(self, pod: Pod, now: Pod | None) -> None:
        """A pod that may be bound was looked up. now: the pod as it is; None if it is gone."""
        life = self.cache.lives.get(pod_key(pod))
        if life and life.phase in FOUND:
            self._follow(FOUND[life.phase], life, now)

    def taken(self, pod: Pod, now: Pod | None) -> None:
        """Another program bound, changed or deleted a pod. now: the pod as it is; None if it is gone."""
        life = self.cache.lives.get(pod_key(pod))
        if life and life.phase == Phase.BINDING:
            self._follow(REFUSED, life, now)

    def _follow(self, row: Mapping[Seen, Steps], life: PodLife, now: Pod | None) -> None:
        """Do what follows from a look-up, and apply its change."""
        steps = row[seen_as(now, life.decision.node_name)]
        for change in self._do(steps, life, self._change_of(life, now)):
            self.report.changed(change)
            try:
                self.cache.apply(change)
                self.queue.apply(change, self.now())
            except Exception as error:  # of this object alone
                self.report.not_processed(change, error)

    def _change_of(self, life: PodLife, now: Pod | None) -> AnyChange:
        """The change that tells what a look-up has found. A pod that has finished is in no list."""
        pod = life.pod
        if not now and life.phase == Phase.BOUND:
            return freed_room(pod, self.cache.node_of(pod))
        if not now:
            return Change(Kind.DELETED, pod)
        if not now.spec.node_name:
            return Change(Kind.MODIFIED, now, pod)
        return freed_room(now, now.spec.node_name) if now.has_finished else Change(Kind.ADDED, now)

    def _do(self, steps: Steps, life: PodLife, change: AnyChange) -> Iterator[AnyChange]:
        """Do what is to be done, in this order. Yields the changes that the caller must apply."""
        decision: Decision = life.decision
        for step in steps:
            match step:
                case Step.APPLY:
                    yield change
                case Step.FREE:
                    self.free(decision)
                case Step.FREE_GROUP:
                    self._free_group(life.pod)
                case Step.NOTE_GONE:
                    life.is_gone = True
                case Step.LOOK_UP:
                    life.look_up_at = 0.0
                case Step.LOOK_UP_SOON:
                    life.look_up_at = min(life.look_up_at, self.now() + ANSWER_SECONDS)
                case Step.REPORT:
                    self.report.bound(decision)
                    self.writes.scheduled(decision)
                case Step.WARN:
                    said = f"{life.pod} was said to be bound to {decision.node_name}, but it isn't"
                    self.report.warning(f"{said}: it is tried again")
                case Step.KEEP if change.kind == Kind.ADDED:
                    assert isinstance(change.object, Pod)
                    self.cache.lives.find(change.object, decision, self.now())

    # --- after a poll -----------------------------------------------------------------------------------

    def after_poll(self, bound: Iterable[PodLife], *, complete: bool) -> Iterator[AnyChange]:
        """Look up the pods that a poll should have shown on their nodes, and those that are due.

        bound: the pods that were bound before the poll. complete: whether the poll showed everything. Yields
        what has changed.
        """
        if complete and not self.dry_run:
            self.cache.lives.listed_at = self.now()
            for life in bound:
                if life.phase == Phase.BOUND and life.is_gone:
                    yield freed_room(life.pod, self.cache.node_of(life.pod))  # it was deleted meanwhile
                elif life.phase == Phase.BOUND and not life.found:
                    life.look_up_at = 0.0  # the poll should have shown it on its node
        for life in self.cache.lives.overdue(self.now()):
            if life.found and not complete:
                life.look_up_at = 0.0  # a complete poll may show it
            else:
                self.writes.look_up(life)
