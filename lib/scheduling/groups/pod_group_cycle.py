"""The scheduling cycle of a group of pods: enough of them get a node, or none does.

Counterparts: pkg/scheduler/schedule_one_podgroup.go in kube-scheduler; Unreserve of pkg/coscheduling in
sigs.k8s.io/scheduler-plugins
"""

from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence

from msgspec.structs import replace

from lib.kube.changes import Change, Kind
from lib.kube.objects import Pod, with_parts
from lib.scheduling.attempt import SchedulingAttempt
from lib.scheduling.cache import Cache
from lib.scheduling.decision import PLACED, Decision, Outcome
from lib.scheduling.groups.quorum import Quorum, Unknown, is_reached_without, quorum_of
from lib.scheduling.hints import changes_anything
from lib.scheduling.pod_groups import FOR_ITS_GROUP, REJECTING, group_of
from lib.scheduling.pod_life import UNSENT, Phase, PodLife, PodLives, pod_key
from lib.scheduling.preemption.search import victims_are_leaving
from lib.scheduling.queueing_hints import QueueingHints
from lib.scheduling.scheduling_cycle import Scheduler

NEEDS = "group {group} needs {pod}: {why}"
NEEDS_SOME = "group {group} needs {count} pods, and fewer fit: {pod}: {why}"

ANY_NODE = "any"
"""Stands for the node that a pod may get."""


class GroupAttempt:
    """An attempt to place a group. It can be made in parts, between which other pods are placed."""

    def __init__(self, pods: list[Pod], cache: Cache, schedulers: Mapping[str, Scheduler]) -> None:
        self.pods = pods
        self.group = group_of(pods[0])
        """None for a single pod."""
        self._cache, self._schedulers = cache, schedulers
        self.decisions: list[Decision] = []
        """The decisions that were made until now."""
        self._steps = _attempt(pods, cache, schedulers, self.decisions)

    def go_on(self, has_time: Callable[[], bool]) -> list[Decision] | None:
        """Go on while there is time, at least with one pod. Returns the decisions; None if pods are left."""
        try:
            next(self._steps)
            while has_time():
                next(self._steps)
        except StopIteration as end:
            decisions: list[Decision] = end.value
            return decisions
        return None

    @property
    def placed(self) -> list[Decision]:
        """The decisions until now for pods that got a node."""
        return [decision for decision in self.decisions if decision.outcome in PLACED]

    @property
    def is_overtaken(self) -> bool:
        """Whether one of its pods has changed or gone since it began, or has lost its node."""
        lives, placed = self._cache.lives, {pod_key(decision.pod) for decision in self.placed}
        for pod in self.pods:
            life = lives.get(pod_key(pod))
            if not life or life.leaving:
                return True
            if life.pod is not pod and changes_anything(Change(Kind.MODIFIED, life.pod, pod)):
                return True
            if life.phase not in (UNSENT if life.key in placed else (Phase.ACTIVE,)):
                return True
        return False

    def undo(self) -> list[Decision]:
        """Undo what was decided. Returns the undone decisions for the pods that had a node until now."""
        self._steps.close()
        phase_of = self._cache.lives.phase_of
        had_node = [decision for decision in self.placed if phase_of(decision.pod) in UNSENT]
        for decision in self.decisions:
            if decision.outcome not in PLACED:
                self._cache.nominator.undo_preemption(decision)
        return [_undo(decision, self._cache, self._schedulers) for decision in had_node]


def schedule_pod_group(
    pods: Sequence[Pod], cache: Cache, schedulers: Mapping[str, Scheduler]
) -> list[Decision]:
    """Schedule one of `batches` at once: a single pod, or a group."""
    decisions = GroupAttempt([*pods], cache, schedulers).go_on(lambda: True)
    assert decisions is not None
    return decisions


def _attempt(
    pods: Sequence[Pod], cache: Cache, schedulers: Mapping[str, Scheduler], decisions: list[Decision]
) -> Generator[None, None, list[Decision]]:
    """Schedule a single pod, or a group. Enough pods of a group get a node, or none does.

    - When more pods have failed than may fail, the others lose their nodes, and no more pods are tried.
    - The pods that failed the last time are tried first, because mostly they fail again.
    - Pods are evicted only where that makes room for enough pods of the group, and no pod of the group is.
      Until the victims have left, room is kept for all of the group.
    - When enough pods have nodes, each of the others may preempt for itself.
    - After an unexpected error, the decisions for the pods before are undone.

    It yields after each pod. decisions: those that are made are added here.
    """
    group = group_of(pods[0])
    quorum = quorum_of(pods, group, cache)
    if isinstance(quorum, Unknown):
        return [_rejected(pod, cache, quorum.why, quorum.plugin) for pod in pods]
    placed = cache.count_members(group) if group else 0
    if missing := quorum.missing(placed + len(pods)):
        why = f"waiting for {missing} more of {quorum.needed}"
        return [_rejected(pod, cache, why, quorum.waits_as) for pod in pods]
    must_place = quorum.must_place(len(pods), placed)
    most_failed = len(pods) - must_place
    if failed := (yield from _failed_again(pods, most_failed + 1, cache, schedulers)):
        why, decided = _why(failed[0], quorum), {pod_key(decision.pod): decision for decision in failed}
        return [decided.get(pod_key(pod)) or _rejected(pod, cache, why, REJECTING) for pod in pods]
    yield from _try_each(pods, most_failed, cache, schedulers, decisions)
    return _concluded(pods, decisions, quorum, must_place, cache, schedulers)


def _concluded(
    pods: Sequence[Pod],
    decisions: Sequence[Decision],
    quorum: Quorum,
    must_place: int,
    cache: Cache,
    schedulers: Mapping[str, Scheduler],
) -> list[Decision]:
    """The decisions for all pods of a group, after some were tried. must_place: so many need a node."""
    failed = [decision for decision in decisions if decision.outcome not in PLACED]
    waiting = {pod_key(decision.pod) for decision in failed if _waits_for_victims(decision, pods, cache)}
    have_node = len(decisions) - len(failed)
    is_enough, will_be = have_node >= must_place, have_node + len(waiting) >= must_place
    ended = [
        cache.nominator.end_nomination(cache.nominator.undo_preemption(decision))
        if decision.nominated and not (will_be and pod_key(decision.pod) in waiting)
        else decision
        for decision in decisions
    ]
    if is_enough:
        for decision in ended:
            decision.state[REJECTING] = quorum
        return ended
    why = _why(failed[0], quorum)
    untried = (_rejected(pod, cache, why, REJECTING) for pod in pods[len(decisions) :])
    return [*_undo_placed(ended, why, cache, schedulers, keep_room=will_be), *untried]


def _try_each(
    pods: Iterable[Pod],
    most_failed: int,
    cache: Cache,
    schedulers: Mapping[str, Scheduler],
    decisions: list[Decision],
) -> Iterator[None]:
    """Schedule one pod after the other, until more have failed for good than may fail. Yields after each."""
    failed = 0
    try:
        for pod in pods:
            decisions.append(schedulers[pod.spec.scheduler_name].schedule_one(pod, cache))
            failed += _is_hopeless(decisions[-1], cache)
            if failed > most_failed:
                break
            yield
    except Exception:
        for decision in decisions:
            _undo(decision, cache, schedulers)
        raise


def _undo(decision: Decision, cache: Cache, schedulers: Mapping[str, Scheduler]) -> Decision:
    return schedulers[decision.pod.spec.scheduler_name].undo(decision, cache)


def _why(failed: Decision, quorum: Quorum) -> str:
    """Why the other pods of a group have no node. failed: for the first pod that has none."""
    group = group_of(failed.pod)
    assert group
    needs = NEEDS if quorum.all_or_none else NEEDS_SOME
    return needs.format(group=group.name, count=quorum.needed, pod=failed.pod, why=failed.message)


def _waits_for_victims(decision: Decision, pods: Iterable[Pod], cache: Cache) -> bool:
    """Whether a pod without a node gets one when others leave, none of which is of its own group."""
    own = {pod_key(pod) for pod in pods}
    victims = map(pod_key, decision.preempted)
    return own.isdisjoint(victims) and not _is_hopeless(decision, cache)


def _is_hopeless(decision: Decision, cache: Cache) -> bool:
    """Whether a pod has no node, and no pod leaves for it."""
    return not (
        decision.outcome in PLACED
        or decision.nominated
        or victims_are_leaving(decision.pod, cache, decision.rejected)
    )


def _failed_again(
    pods: Sequence[Pod], enough: int, cache: Cache, schedulers: Mapping[str, Scheduler]
) -> Generator[None, None, list[Decision]]:
    """The decisions for some pods of a group that failed the last time, if they all fail again for good.

    Empty if one of them doesn't, or if there are not enough of them. Empty, too, if another pod of the group
    may help them, for example because they must be near to it: they are tried in their turn then. It yields
    after each pod.
    """
    likely = [pod for pod in pods if _has_failed(cache.lives.get(pod.metadata.uid))][:enough]
    if len(likely) < enough:
        return []
    failed: list[Decision] = []
    for pod in likely:
        decision = schedulers[pod.spec.scheduler_name].schedule_one(pod, cache)
        if not _is_hopeless(decision, cache):
            _undo(decision, cache, schedulers)
            return []
        failed.append(decision)
        yield
    return [] if _may_be_helped(failed, pods, schedulers) else failed


def _has_failed(life: PodLife | None) -> bool:
    """Whether a pod was rejected the last time, and not because of its group.

    A nominated pod isn't meant: room was made for it.
    """
    if life is None or life.nominated or not life.rejected_by:
        return False
    return FOR_ITS_GROUP.isdisjoint(life.rejected_by)


def _may_be_helped(
    failed: Sequence[Decision], pods: Iterable[Pod], schedulers: Mapping[str, Scheduler]
) -> bool:
    """Whether a plugin says that one of the failed pods may fit when others of its group are placed.

    failed: the decisions for these pods. pods: all pods of the group.
    """
    if not all(decision.rejected_by for decision in failed):
        return True
    lives = PodLives()
    hints = QueueingHints({name: scheduler.profile for name, scheduler in schedulers.items()}, lives)
    for decision in failed:
        life = lives.of(decision.pod)
        life.rejected_by = decision.rejected_by
        hints.add(life)
    itself = pod_key(failed[0].pod) if len(failed) == 1 else ""
    placed = (with_parts(pod, spec={"node_name": ANY_NODE}) for pod in pods if pod_key(pod) != itself)
    return any(hints.helped(Change(Kind.ADDED, pod)) for pod in placed)


def recheck_pod_group(
    pods: Iterable[Pod], cache: Cache, schedulers: Mapping[str, Scheduler], now: float
) -> list[Decision]:
    """Run Permit, or PreBind, again for a pod that is held, or for the held pods of a group.

    If a pod of a group doesn't get its node, for example because it was preempted, the others don't either.
    Returns the decisions for the pods that don't wait any longer, or for which more is to be written.
    now: in seconds.
    """
    lives = [cache.lives.of(pod) for pod in pods]
    decisions = [schedulers[life.pod.spec.scheduler_name].recheck_permit(life, cache, now) for life in lives]
    failed = [decision for decision in decisions if decision.outcome not in PLACED]
    if failed and (group := group_of(failed[0].pod)) and not is_reached_without(failed[0], group, cache):
        why = NEEDS.format(group=group.name, pod=failed[0].pod, why=failed[0].message)
        decisions = _undo_placed(decisions, why, cache, schedulers)
    return [decision for decision in decisions if not decision.only_waits]


def _undo_placed(
    decisions: Iterable[Decision],
    why: str,
    cache: Cache,
    schedulers: Mapping[str, Scheduler],
    *,
    keep_room: bool = False,
) -> list[Decision]:
    """Take back the nodes of a group's pods, as one of the pods has none.

    keep_room: the pod without a node waits for its victims to leave. So the others are nominated to their
    nodes meanwhile. Otherwise they lose their nominations, because the group may never fit.
    Source: submitPodGroupAlgorithmResult in pkg/scheduler/schedule_one_podgroup.go
    """
    undone = []
    for decision in decisions:
        if decision.outcome in PLACED:
            node_name = decision.node_name
            decision = replace(
                schedulers[decision.pod.spec.scheduler_name].unreserve_and_forget(decision, cache),
                outcome=Outcome.UNSCHEDULABLE,
                message=why,
                rejecting_plugin=REJECTING,
            )
            decision = (
                cache.nominator.nominate(decision, node_name, ())
                if keep_room
                else cache.nominator.end_nomination(decision)
            )
        undone.append(decision)
    return undone


def _rejected(pod: Pod, cache: Cache, message: str, rejecting: str) -> Decision:
    decision = SchedulingAttempt(pod, cache).decide(
        Outcome.UNSCHEDULABLE, message, rejecting_plugin=rejecting
    )
    return cache.nominator.end_nomination(decision)
