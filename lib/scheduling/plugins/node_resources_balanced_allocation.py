"""NodeResourcesBalancedAllocation: a node's resources should run out together, not one long before another.

The more evenly a node's resources are used with the pod than without it, the better: 75 says that nothing
changes, 100 that the pod balances the node, 50 that it unbalances it.

Source: pkg/scheduler/framework/plugins/noderesources/balanced_allocation.go
"""

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from math import sqrt
from typing import ClassVar

from lib.kube.objects import Pod
from lib.scheduling.cluster import Cluster, NodeInfo
from lib.scheduling.framework import MAX_NODE_SCORE, SKIP, CycleState, Reads, Status
from lib.scheduling.plugins.node_resources_fit import counts
from lib.scheduling.resources import pod_requests


@dataclass(frozen=True)
class NodeResourcesBalancedAllocation:
    """Scores how evenly a node's resources are used."""

    resources: Mapping[str, int] = field(default_factory=lambda: {"cpu": 1, "memory": 1})
    name: str = "NodeResourcesBalancedAllocation"
    reads: ClassVar = Reads.PODS

    def sign_pod(self, pod: Pod) -> Hashable:
        """What it requests."""
        return tuple(pod_requests(pod).items())

    def pre_score(
        self, state: CycleState, pod: Pod, cluster: Cluster, nodes: Sequence[NodeInfo]
    ) -> Status | None:
        """A pod that requests nothing changes no balance; scoring it would heap such pods on one node."""
        wanted = pod_requests(pod)
        state[self.name] = [(name, wanted.get(name, 0)) for name in self.resources if counts(name, wanted)]
        return None if any(wanted.get(name) for name in self.resources) else SKIP

    def score(self, state: CycleState, pod: Pod, node: NodeInfo) -> int:
        """Half of what the balance gains, on top of 75 or so."""
        allocatable, requested = node.allocatable, node.requested
        before, after = [], []
        for name, wanted in state[self.name]:
            if capacity := allocatable.get(name, 0):
                used = requested.get(name, 0)
                with_it = used + wanted
                before.append(used / capacity if used < capacity else 1.0)
                after.append(with_it / capacity if with_it < capacity else 1.0)
        half = MAX_NODE_SCORE // 2
        return half + (half + _balance(after) - _balance(before)) // 2


def _balance(shares: list[float]) -> int:
    """100 less the standard deviation of the shares that are used, in hundredths."""
    if len(shares) == 2:
        deviation = abs((shares[0] - shares[1]) / 2)
    elif shares:
        mean = sum(shares) / len(shares)
        deviation = sqrt(sum((share - mean) * (share - mean) for share in shares) / len(shares))
    else:
        deviation = 0.0
    return int((1 - deviation) * MAX_NODE_SCORE)
