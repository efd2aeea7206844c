"""NodeResourcesFit: what a pod requests must still be free on its node.

Requests count, not use: a node is full when its pods' requests reach what it can allocate, idle or not.

Source: pkg/scheduler/framework/plugins/noderesources/fit.go
"""

from collections.abc import Sequence

from lib.kube.objects import Pod
from lib.scheduling.cluster import NodeInfo
from lib.scheduling.framework import CycleState
from lib.scheduling.resources import pod_requests

TOO_MANY_PODS = "Too many pods"
INSUFFICIENT = "Insufficient {}"


class NodeResourcesFit:
    """Filters out nodes without room for the pod's requests, or for one more pod."""

    name = "NodeResourcesFit"

    def pre_filter(self, state: CycleState, pod: Pod) -> None:
        """Add up what the pod requests."""
        state[self.name] = pod_requests(pod)

    def filter(self, state: CycleState, pod: Pod, node: NodeInfo) -> Sequence[str]:
        """Reject a node that lacks something; a reason for each thing it lacks."""
        reasons = []
        if len(node.pods) + 1 > node.allocatable.get("pods", 0):
            reasons.append(TOO_MANY_PODS)
        for name, amount in state[self.name].items():
            free = node.allocatable.get(name, 0) - node.requested.get(name, 0)
            if amount > 0 and amount > free:
                reasons.append(INSUFFICIENT.format(name))
        return reasons
