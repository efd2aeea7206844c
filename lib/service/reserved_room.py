"""Room on nodes that is reserved for pods which aren't seen there: until they are, or it is given back."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import inf

from msgspec.structs import replace

from lib.kube.api import Api
from lib.kube.changes import AnyChange, Change, Kind, unassigned_pod
from lib.kube.errors import ApiError
from lib.kube.objects import Pod
from lib.kube.pod_writes import look_up as look_up_pod
from lib.kube.resource_claims import ReserveClaim
from lib.scheduling.cache import Cache
from lib.scheduling.decision import Decision
from lib.scheduling.groups.pod_groups import group_of
from lib.scheduling.hints import freed_room
from lib.scheduling.plugins.dynamic_resources import DynamicResources
from lib.scheduling.plugins.volume_binding import VolumeBinding
from lib.scheduling.pod_life import Phase, PodLife
from lib.scheduling.queue import SchedulingQueue, why_ended
from lib.scheduling.scheduling_cycle import Scheduler
from lib.service.telemetry.report import Report
from lib.service.writes.writes import Writes

RESERVING = {VolumeBinding.name, DynamicResources.name}
"""The plugins that reserve more than room for a pod."""


@dataclass
class ReservedRoom:
    """The room of pods that are held, may be bound, or were bound and not seen on their nodes yet.

    schedulers: by scheduler name. dry_run: nothing is written, so no pod is ever seen on its node.
    """

    cache: Cache
    queue: SchedulingQueue
    schedulers: Mapping[str, Scheduler]
    api: Api
    report: Report
    writes: Writes
    now: Callable[[], float]
    dry_run: bool

    def free(self, decision: Decision) -> Decision:
        """Undo a decision, and wake the pods that its room could help. Returns what is left of it."""
        return self.undone(self.schedulers[decision.pod.spec.scheduler_name].undo(decision, self.cache))

    def undone(self, decision: Decision) -> Decision:
        """A decision was undone: undo its writes, too, and wake the pods that its room could help.

        Its volumes and devices could help others, too: the API shows no change of what was not written yet.
        Returns what is left of the decision.
        """
        if decision.undo:
            self.writes.undo(decision)
            decision = replace(decision, undo=())
        self.queue.apply(freed_room(decision.pod, decision.node_name), self.now())
        self.queue.retry_rejected_by(decision.state.keys() & RESERVING, self.now())
        return decision

    def taken(self, decision: Decision, now: Pod | None) -> None:
        """Another program bound, changed or deleted the pod: its room is freed.

        now: the pod as it is now, so that it is counted on its node; None if it is gone.
        """
        self.free(decision)
        if now and now.spec.node_name:
            self._apply_found(self._on_its_node(now), decision)
        elif now:
            self._apply(Change(Kind.MODIFIED, now, decision.pod))
        else:
            self.queue.drop(decision.pod.metadata.uid)

    def _apply(self, change: AnyChange) -> None:
        self.cache.apply(change)
        self.queue.apply(change, self.now())

    def _apply_found(self, change: AnyChange, decision: Decision) -> None:
        """Apply what a lookup has shown of a pod."""
        self._apply(change)
        self._keep(change, decision)

    def _keep(self, change: AnyChange, decision: Decision) -> None:
        """A pod that was found on a node is bound until a poll shows it: else nobody sees when it goes."""
        if change.kind == Kind.ADDED and isinstance(change.object, Pod):
            self.cache.lives.find(change.object, decision, self.now())

    # --- what a poll shows ------------------------------------------------------------------------------

    def is_stale(self, change: AnyChange, life: PodLife) -> bool:
        """Whether a change of a pod with room is to be left out: it may be from before the binding.

        If the change ends the pod's wait, its room is freed. That a pod without a node is gone can also mean
        that it has one now.
        Source: handleAssumedPodDeletion in pkg/scheduler/eventhandlers.go
        """
        pod, is_gone = unassigned_pod(change), change.kind == Kind.DELETED
        has_ended = is_gone or (pod and why_ended(pod))
        if life.phase == Phase.HELD and (has_ended or not pod):
            self.free(life.decision)
            if has_ended:
                self._free_group(life.pod)
        elif pod and life.phase == Phase.DOUBTFUL and has_ended:
            life.look_up_at = 0.0
            return True
        elif not (pod or is_gone):  # it is on a node
            self._note_bound(life, change.object)
        elif pod and life.phase == Phase.BOUND and self.dry_run:
            self.free(life.decision)
        elif pod and life.phase == Phase.BOUND:
            life.look_up_at = inf if is_gone else life.look_up_at
            return not is_gone
        return False

    def _free_group(self, gone: Pod) -> None:
        """One of a group's pods that wait is gone: the others lose their nodes, too, and are tried again.

        Source: Unreserve in pkg/coscheduling in sigs.k8s.io/scheduler-plugins
        """
        if group := group_of(gone):
            for other in self.cache.lives.in_phase(Phase.HELD):
                if group_of(other.pod) == group:
                    self.free(other.decision)

    def confirm(self, bound: Iterable[PodLife], *, complete: bool) -> Iterator[AnyChange]:
        """After a poll: look up the pods that it should have shown on their nodes, and those that are due.

        bound: those that were bound before it. complete: whether it showed everything. Yields what has
        changed.
        """
        if complete and not self.dry_run:
            for life in bound:
                if life.phase == Phase.BOUND and life.look_up_at == inf:
                    yield freed_room(life.pod, self.cache.node_of(life.pod))  # it was deleted meanwhile
                elif life.phase == Phase.BOUND and not life.found:
                    life.look_up_at = 0.0  # it should be on its node
        for life in self.cache.lives.overdue(self.now()):
            if life.found and not complete:
                life.look_up_at = 0.0  # a complete poll may show it
                continue
            decision = life.decision
            try:
                for change in self.resolve_doubtful_binding(life):
                    yield change
                    self._keep(change, decision)
            except ApiError as error:  # it is looked up again after the same time
                self.report.warning(f"{life.pod} can't be looked up: {error}")

    def resolve_doubtful_binding(self, life: PodLife) -> list[AnyChange]:
        """Look up a pod that may be bound, or should have been seen on its node. Returns what has changed.

        If it isn't bound, its room is freed. Its claims may have devices nevertheless: a watch may not have
        shown that yet. ApiError when that can't be found out.
        """
        pod, decision, was_bound = life.pod, life.decision, life.phase == Phase.BOUND
        now = self.api.carry_out(look_up_pod(pod))
        if now and now.spec.node_name:
            self._note_bound(life, now)
            return [self._on_its_node(now)]
        if not now and was_bound:
            return [freed_room(pod, self.cache.node_of(pod))]
        for step in decision.writes:
            if isinstance(step, ReserveClaim):
                from lib.kube.claim_writes import look_up as look_up_claim  # here, as few clusters need it

                if claim := self.api.carry_out(look_up_claim(step.claim)):
                    self.cache.devices.written(claim, step.claim.metadata.uid)
        self.free(decision)
        if not now:
            return [Change(Kind.DELETED, pod)]
        if was_bound:
            what = f"{pod} was said to be bound to {decision.node_name}, but it isn't: it is tried again"
            self.report.warning(what)
        return [Change(Kind.MODIFIED, now, pod)]

    def _on_its_node(self, pod: Pod) -> AnyChange:
        """The change that tells of a pod which was looked up. One that has finished is in no list."""
        if pod.has_finished:
            return freed_room(pod, pod.spec.node_name)
        return Change(Kind.ADDED, pod)

    def _note_bound(self, life: PodLife, now: object) -> None:
        """A pod with room is on a node. If that was in doubt, its binding is reported now, like any other."""
        assert isinstance(now, Pod)
        decision = life.decision
        if life.phase == Phase.DOUBTFUL and now.spec.node_name == decision.node_name:
            self.report.bound(decision)
            self.writes.scheduled(decision)

    # --- before a decision ------------------------------------------------------------------------------

    def still_unbound(self, pods: Sequence[Pod]) -> list[Pod]:
        """Look up those that may be bound; returns those that are to be tried, or wait for Permit.

        Returns no pod if what an earlier try has written must be undone first. ApiError when a lookup fails.
        """
        lives = [life for pod in pods if (life := self.cache.lives.get(pod.metadata.uid))]
        for life in lives:
            if life.phase == Phase.DOUBTFUL:
                self.look_up(life)
        if any(life.key in self.writes.records.undoing for life in lives):
            return []
        return [life.pod for life in lives if life.phase in (Phase.ACTIVE, Phase.HELD)]

    def look_up(self, life: PodLife) -> None:
        """Look up a pod that may be bound; if it isn't, it is to be tried now. ApiError when that fails."""
        decision = life.decision
        for change in self.resolve_doubtful_binding(life):
            self.report.changed(change)
            self._apply_found(change, decision)
        self.queue.retry_now(life)

    def victims_in_doubt(self, decisions: Iterable[Decision]) -> list[PodLife]:
        """The victims of which isn't known whether they are bound: only bound pods are evicted."""
        victims = (pod for each in decisions for pod in (*each.victims, *each.preempted_held))
        lives = (self.cache.lives.get(pod.metadata.uid) for pod in victims)
        return [each for each in lives if each and each.phase in (Phase.ASSUMED, Phase.DOUBTFUL)]
