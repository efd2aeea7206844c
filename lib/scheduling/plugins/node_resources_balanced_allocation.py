"""NodeResourcesBalancedAllocation: a node's resources should be used evenly, none much more than another.

The more evenly a node's resources are used with the pod than without it, the better: 75 says that nothing
changes, 100 that the pod balances the node, 50 that it unbalances it.

Source: pkg/scheduler/framework/plugins/noderesources/balanced_allocation.go
"""

from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from math import sqrt
from typing import ClassVar

from lib.kube.objects import Pod
from lib.scheduling.cache import Cache
from lib.scheduling.framework.interface import DependsOn
from lib.scheduling.node_info import NodeInfo, amount_left, amount_requested, capacity
from lib.scheduling.node_slice import NodeSlice
from lib.scheduling.resource_scores import LACKS, is_scored, with_devices
from lib.scheduling.resources import pod_requests
from lib.scheduling.status import MAX_NODE_SCORE, SKIP, CycleState, Status

HALF = MAX_NODE_SCORE // 2

BY_DEVICES = "NodeResourcesBalancedAllocation/devices"
"""A key in the CycleState: the cache, if devices serve one of the resources on nodes that have none of it."""


@dataclass(frozen=True)
class NodeResourcesBalancedAllocation:
    """Scores how evenly a node's resources are used."""

    resources: Mapping[str, int] = field(default_factory=lambda: {"cpu": 1, "memory": 1})
    name: str = "NodeResourcesBalancedAllocation"
    reads: ClassVar = DependsOn.PODS

    def sign_pod(self, pod: Pod) -> Hashable:
        """The pod's requests."""
        return tuple(pod_requests(pod).items())

    def pre_score(
        self, state: CycleState, pod: Pod, cache: Cache, nodes: Sequence[NodeInfo]
    ) -> Status | None:
        """SKIP if the pod requests nothing, because the most balanced node would get all such pods."""
        wanted = pod_requests(pod)
        state[self.name] = {name: wanted.get(name, 0) for name in self.resources if is_scored(name, wanted)}
        if not cache.classes_by_resource.keys().isdisjoint(state[self.name]):
            state[BY_DEVICES] = cache
        return None if any(wanted.get(name) for name in self.resources) else SKIP

    def score_nodes(self, state: CycleState, pod: Pod, nodes: NodeSlice) -> Sequence[int]:
        """About 75, plus half of what the balance gains. A resource that a node lacks doesn't count there."""
        if BY_DEVICES in state:
            return _scores_with_devices(nodes, state[self.name], cache=state[BY_DEVICES])
        shares = [  # without a call for each node, because there are many
            [
                (room - free + wanted) / room if wanted < free else 1.0 if room else LACKS
                for room, free in zip(
                    nodes.values(capacity, name), nodes.values(amount_left, name), strict=True
                )
            ]
            for name, wanted in state[self.name].items()
        ]
        before = nodes.values(_balance_now, *state[self.name])
        if len(shares) == 2 and not any(LACKS in of_resource for of_resource in shares):
            pairs = zip(*shares, strict=True)
            after = [int((1 - abs((one - other) / 2)) * MAX_NODE_SCORE) for one, other in pairs]
        else:
            after = [*map(_balance, zip(*shares, strict=True))]
        return [HALF + (HALF + now - was) // 2 for was, now in zip(before, after, strict=True)]


def _scores_with_devices(nodes: NodeSlice, wanted: Mapping[str, int], cache: Cache) -> Sequence[int]:
    """The scores by some resources, if devices serve some of them."""
    uses: list[Iterable[tuple[int, int]]] = []
    for name in wanted:
        use = zip(nodes.values(amount_requested, name), nodes.values(capacity, name), strict=True)
        is_served = name in cache.classes_by_resource
        uses.append(with_devices(use, nodes, name, cache.devices) if is_served else use)
    scores = []
    for of_node in zip(*uses, strict=True):
        here = [(*use, more) for use, more in zip(of_node, wanted.values(), strict=True) if use[1]]
        before = _balance([_share(used, room) for used, room, _ in here])
        after = _balance([_share(used + more, room) for used, room, more in here])
        scores.append(HALF + (HALF + after - before) // 2)
    return scores


def _share(used: int, room: int) -> float:
    return used / room if used < room else 1.0


def _balance_now(node: NodeInfo, *names: str) -> int:
    """How evenly these resources are used."""
    has, used = node.allocatable, node.requested  # without calls, because it runs for all nodes
    return _balance([_share(used.get(name, 0), has[name]) for name in names if has.get(name)])


def _balance(shares: Sequence[float]) -> int:
    """100 less the standard deviation of the shares that are used, in hundredths."""
    if LACKS in shares:
        shares = [share for share in shares if share != LACKS]
    if len(shares) == 2:
        deviation = abs((shares[0] - shares[1]) / 2)
    elif shares:
        mean = sum(shares) / len(shares)
        deviation = sqrt(sum((share - mean) * (share - mean) for share in shares) / len(shares))
    else:
        deviation = 0.0
    return int((1 - deviation) * MAX_NODE_SCORE)
