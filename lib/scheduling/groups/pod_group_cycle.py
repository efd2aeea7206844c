"""The scheduling cycle of a group of pods: all of them get a node, or none does.

Counterparts: pkg/scheduler/schedule_one_podgroup.go in kube-scheduler; Unreserve of pkg/coscheduling in
sigs.k8s.io/scheduler-plugins
"""

from collections.abc import Iterable, Mapping, Sequence

from msgspec.structs import replace

from lib.kube.changes import Change, Kind
from lib.kube.objects import Pod, with_parts
from lib.scheduling.attempt import Attempt
from lib.scheduling.cache import Cache
from lib.scheduling.decision import PLACED, Decision, Outcome
from lib.scheduling.groups.pod_groups import REJECTING, Group, annotated_size, group_of
from lib.scheduling.plugins.default_preemption import victims_are_leaving
from lib.scheduling.pod_life import PodLife, PodLives
from lib.scheduling.preemption.nomination import end_nomination, nominate, undo_preemption
from lib.scheduling.queueing_hints import QueueingHints
from lib.scheduling.scheduling_cycle import Scheduler

UNKNOWN_SIZE = "PodGroupSize"
"""Used instead of a plugin's name if a group's size isn't known."""

OF_GROUPS = frozenset([REJECTING, UNKNOWN_SIZE])

NEEDS = "group {group} needs {pod}: {why}"

ANY_NODE = "any"
"""Stands for the node that a pod may get."""


def schedule_pod_group(
    pods: Sequence[Pod], cache: Cache, schedulers: Mapping[str, Scheduler]
) -> list[Decision]:
    """Schedule one of `batches`: a single pod, or a group. In a group all pods get a node, or none does.

    If one pod of a group doesn't fit, the others are unreserved, and those after it aren't tried. The one
    that failed the last time is tried first: mostly it fails again. Pods are evicted for a group only where
    that makes room for all of it, and never one of the group itself. Until they have left, room is kept for
    all of the group. After an unexpected error, the decisions for the pods before are undone.
    """
    group = group_of(pods[0])
    needed = _needed(pods, group, cache) if group else None
    if isinstance(needed, str):
        return [_rejected(pod, cache, needed, UNKNOWN_SIZE) for pod in pods]
    if group and needed and (missing := needed - len(pods) - cache.count_members(group)) > 0:
        why = f"waiting for {missing} more of {needed}"
        return [_rejected(pod, cache, why, REJECTING) for pod in pods]

    is_whole = bool(group and needed)
    if group and is_whole and (first := _failed_again(pods, cache, schedulers)):
        why = NEEDS.format(group=group.name, pod=first.pod, why=first.message)
        return [first if each is first.pod else _rejected(each, cache, why, REJECTING) for each in pods]
    decisions: list[Decision] = []
    try:
        for pod in pods:
            decisions.append(schedulers[pod.spec.scheduler_name].schedule_one(pod, cache))
            if is_whole and _is_hopeless(decisions[-1], cache):
                break
    except Exception:
        for each in decisions:
            schedulers[each.pod.spec.scheduler_name].undo(each, cache)
        raise
    failed = [each for each in decisions if each.outcome not in PLACED]
    if not (group and is_whole and failed):
        return decisions
    own = {pod.metadata.uid for pod in pods}
    victims = {pod.metadata.uid for each in failed for pod in (*each.victims, *each.preempted_held)}
    helps = not victims & own and not any(_is_hopeless(each, cache) for each in failed)
    if not helps:
        decisions = [
            end_nomination(undo_preemption(each, cache), cache) if each.nominated else each
            for each in decisions
        ]
    why = NEEDS.format(group=group.name, pod=failed[0].pod, why=failed[0].message)
    untried = (_rejected(each, cache, why, REJECTING) for each in pods[len(decisions) :])
    return [*_undo_placed(decisions, why, cache, schedulers, keep_room=helps), *untried]


def _is_hopeless(decision: Decision, cache: Cache) -> bool:
    """Whether a pod has no node, and no pod leaves for it."""
    return not (
        decision.outcome in PLACED
        or decision.nominated
        or victims_are_leaving(decision.pod, cache, decision.rejected)
    )


def _failed_again(pods: Sequence[Pod], cache: Cache, schedulers: Mapping[str, Scheduler]) -> Decision | None:
    """The decision for the pod of a group that failed the last time, if none of the others can help it.

    A pod that these may help, such as one that wants to be near another, is tried in its turn.
    """
    pod = next((each for each in pods if _has_failed(cache.lives.get(each.metadata.uid))), None)
    if pod is None:
        return None
    scheduler = schedulers[pod.spec.scheduler_name]
    decision = scheduler.schedule_one(pod, cache)
    if _is_hopeless(decision, cache) and not _may_be_helped(decision, pods, scheduler):
        return decision
    scheduler.undo(decision, cache)
    return None


def _has_failed(life: PodLife | None) -> bool:
    """Whether a pod itself was rejected the last time. Room that was made for it is looked at in its turn."""
    if life is None or life.nominated or not life.rejected_by:
        return False
    return OF_GROUPS.isdisjoint(life.rejected_by)


def _may_be_helped(decision: Decision, pods: Iterable[Pod], scheduler: Scheduler) -> bool:
    """Whether a pod without a node may get one when others of its group are placed: its plugins say that."""
    pod, lives = decision.pod, PodLives()
    life = lives.of(pod)
    life.rejected_by = decision.rejected_by
    hints = QueueingHints({pod.spec.scheduler_name: scheduler.profile}, lives)
    hints.add(life)
    placed = (with_parts(each, spec={"node_name": ANY_NODE}) for each in pods if each is not pod)
    return not decision.rejected_by or any(hints.helped(Change(Kind.ADDED, each)) for each in placed)


def recheck_pod_group(
    pods: Iterable[Pod], cache: Cache, schedulers: Mapping[str, Scheduler], now: float
) -> list[Decision]:
    """Run Permit, or PreBind, again for a pod that is held, or for those pods of a group that are.

    If one of a group doesn't get its node, for example because it was preempted, the others don't either.
    Returns the decisions for the pods that don't wait any longer, or for which more is to be written.
    now: in seconds.
    """
    lives = [cache.lives.of(pod) for pod in pods]
    decisions = [schedulers[life.pod.spec.scheduler_name].recheck_permit(life, cache, now) for life in lives]
    failed = [each for each in decisions if each.outcome not in PLACED]
    if failed and (group := group_of(failed[0].pod)):
        why = NEEDS.format(group=group.name, pod=failed[0].pod, why=failed[0].message)
        decisions = _undo_placed(decisions, why, cache, schedulers)
    return [each for each in decisions if not each.only_waits]


def _undo_placed(
    decisions: Iterable[Decision],
    why: str,
    cache: Cache,
    schedulers: Mapping[str, Scheduler],
    *,
    keep_room: bool = False,
) -> list[Decision]:
    """Take back the nodes of a group's pods, as one of them has none.

    keep_room: that one waits for its victims to leave, so the others are nominated to their nodes meanwhile.
    Else they are nominated to none: the group may never fit.
    Source: submitPodGroupAlgorithmResult in pkg/scheduler/schedule_one_podgroup.go
    """
    found = []
    for each in decisions:
        if each.outcome in PLACED:
            each = replace(
                schedulers[each.pod.spec.scheduler_name].unreserve_and_forget(each, cache),
                outcome=Outcome.UNSCHEDULABLE,
                message=why,
                rejecting_plugin=REJECTING,
            )
            each = nominate(each, cache, each.node_name, ()) if keep_room else end_nomination(each, cache)
        found.append(each)
    return found


def _needed(pods: Sequence[Pod], group: Group, cache: Cache) -> int | str | None:
    """The number of pods that a group needs, or why it isn't known; None if there is no PodGroup."""
    return cache.looked_up.group_sizes.get(group) if group.api else annotated_size(pods, group)


def _rejected(pod: Pod, cache: Cache, message: str, rejecting: str) -> Decision:
    decision = Attempt(pod, cache).decide(Outcome.UNSCHEDULABLE, message, rejecting_plugin=rejecting)
    return end_nomination(decision, cache)
