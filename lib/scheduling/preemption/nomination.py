"""A pod's nomination to the node where it preempts others, and its end.

Source: pkg/scheduler/framework/preemption and clearNominatedNode in pkg/scheduler/schedule_one.go
"""

from msgspec.structs import replace

from lib.kube.objects import Pod
from lib.scheduling.cache import Cache
from lib.scheduling.decision import Decision
from lib.scheduling.pod_life import UNSENT


def nominate(decision: Decision, cache: Cache, node_name: str, victims: tuple[Pod, ...]) -> Decision:
    """Nominate the pod to the node that its victims leave (preemption.go, prepareCandidate).

    A victim whose binding isn't sent yet isn't deleted, but gives up its node. A victim that may be bound is
    deleted. Pods of lower priority lose their nomination to the node. They keep it if all victims are leaving
    already, as nothing is done for the pod then (executor.go, prepareCandidateAsync).
    """
    nominator, phase_of = cache.nominator, cache.lives.phase_of
    cleared: tuple[Pod, ...] = ()
    if any(not victim.metadata.deletion_timestamp for victim in victims):
        cleared = tuple(nominator.less_important(decision.pod, node_name))
    for other in cleared:
        nominator.delete(other)
    nominator.add(decision.pod, node_name)
    cache.lives.preempt(victims)
    return replace(
        decision,
        nominated=node_name,
        victims=tuple(victim for victim in victims if phase_of(victim) not in UNSENT),
        preempted_held=tuple(victim for victim in victims if phase_of(victim) in UNSENT),
        cleared_nominations=cleared,
    )


def undo_preemption(decision: Decision, cache: Cache) -> Decision:
    """Undo a decision's nomination, and evict no pods for it, as not all pods of its group have room."""
    if not decision.nominated:
        return decision
    cache.nominator.delete(decision.pod)
    cache.lives.spare((*decision.victims, *decision.preempted_held))
    for other in decision.cleared_nominations:
        cache.nominator.add(other, decision.nominated)
    return replace(decision, nominated="", victims=(), preempted_held=(), cleared_nominations=())


def end_nomination(decision: Decision, cache: Cache) -> Decision:
    """An attempt has ended without a node. An earlier nomination ends, too: its room is free for others."""
    pod = decision.pod
    was_nominated = cache.nominator.node_of(pod) or pod.status.nominated_node_name or decision.waits_in
    cache.nominator.delete(pod)
    return replace(decision, clears_nomination=bool(was_nominated))
