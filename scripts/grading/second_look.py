"""Checks a placement again, by kube-scheduler's rules alone: in a fresh cluster, without the policy."""

from collections.abc import Iterable

from lib.kube.objects import Pod
from lib.questions.deciding import Decider, Placed


def second_look(placed: Iterable[Placed], decider: Decider) -> str:
    """Put each pod where it went, in order; returns which rule a pod breaks there, or "".

    decider: of the cluster as it was, with the default plugins.
    """
    for each in placed:
        pod = each.pod
        if not each.node_name:
            continue
        if gated := decider.gated(pod):
            return f"{pod} has a node, but: {gated}"
        victims = [_there(victim, decider) for victim in each.victims]
        for victim in victims:
            if victim.spec.priority >= pod.spec.priority:
                return f"{pod} may not evict {victim}, which is as important"
        decider.leave(victims)
        if each.node_name not in decider.cache.nodes:
            return f"{pod} is on {each.node_name}, which doesn't exist"
        if rejection := decider.rejection(pod, each.node_name):
            why = ", ".join(rejection.status.reasons)
            return f"{pod} doesn't fit on {each.node_name}: {why}"
        decider.cache.assume(pod, each.node_name)
    return ""


def _there(pod: Pod, decider: Decider) -> Pod:
    """The same pod in another cluster; itself if it is a new one."""
    for info in decider.cache.nodes.values():
        for each in info.pods:
            if str(each) == str(pod):
                return each
    return pod
