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

    A victim whose binding isn't sent yet isn't deleted: it gives up its node. One that may be bound is
    deleted. Pods of lower priority lose their nomination to the node, unless all victims are leaving already,
    so that nothing is done for the pod (executor.go, prepareCandidateAsync).
    """
    nominator, phase_of = cache.nominator, cache.lives.phase_of
    cleared: tuple[Pod, ...] = ()
    if any(not each.metadata.deletion_timestamp for each in victims):
        cleared = tuple(nominator.less_important(decision.pod, node_name))
    for other in cleared:
        nominator.delete(other)
    nominator.add(decision.pod, node_name)
    cache.lives.preempt(victims)
    return replace(
        decision,
        nominated=node_name,
        victims=tuple(each for each in victims if phase_of(each) not in UNSENT),
        preempted_held=tuple(each for each in victims if phase_of(each) in UNSENT),
        cleared_nominations=cleared,
    )


def undo_preemption(decision: Decision, cache: Cache) -> Decision:
    """Undo a decision's nomination, and evict no pods for it: not all pods of its group have room."""
    if not decision.nominated:
        return decision
    cache.nominator.delete(decision.pod)
    cache.lives.spare((*decision.victims, *decision.preempted_held))
    for other in decision.cleared_nominations:
        cache.nominator.add(other, decision.nominated)
    return replace(decision, nominated="", victims=(), preempted_held=(), cleared_nominations=())


def end_nomination(decision: Decision, cache: Cache) -> Decision:
    """An attempt that ends without a node ends an earlier nomination, too: its room is free for others."""
    pod = decision.pod
    was_nominated = cache.nominator.node_of(pod) or pod.status.nominated_node_name or decision.waits_in
    cache.nominator.delete(pod)
    return replace(decision, clears_nomination=bool(was_nominated))
