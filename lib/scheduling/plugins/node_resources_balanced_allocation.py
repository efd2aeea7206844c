"""NodeResourcesBalancedAllocation: a node's resources should be used evenly, none much more than another.

The more evenly a node's resources are used with the pod than without it, the better: 75 says that nothing
changes, 100 that the pod balances the node, 50 that it unbalances it.

Source: pkg/scheduler/framework/plugins/noderesources/balanced_allocation.go
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from math import sqrt
from typing import TYPE_CHECKING, Any, ClassVar

from lib.kube.objects import Pod
from lib.scheduling.cache import Cache
from lib.scheduling.framework.arguments import CPU_AND_MEMORY, Args, ResourceSpec
from lib.scheduling.framework.interface import MAX_NODE_SCORE, SKIP, CycleState, DependsOn, Status
from lib.scheduling.node_info import NodeInfo, amount_left, amount_requested, capacity
from lib.scheduling.node_slice import NodeSlice
from lib.scheduling.plugins.node_resources_fit import LACKS, counts, devices_for, use_and_room
from lib.scheduling.resources import pod_requests

if TYPE_CHECKING:
    from lib.scheduling.devices.cluster_devices import ClusterDevices

BY_DEVICES = "NodeResourcesBalancedAllocation/devices"
"""A key in the CycleState: by name, the devices that serve a resource on nodes that have none of it."""


class NodeResourcesBalancedAllocationArgs(Args):
    """Which resources should be used evenly."""

    resources: tuple[ResourceSpec, ...] = ()

    def __post_init__(self) -> None:
        self.resources = self.resources or CPU_AND_MEMORY

    def problems(self, path: str) -> Iterator[str]:
        """A line for each invalid field: `PATH: why`."""
        seen = set()
        for i, each in enumerate(self.resources):
            if each.name in seen:
                yield f"{path}.resources[{i}].name: {each.name} is given twice"
            seen.add(each.name)
            if each.weight != 1:
                yield f"{path}.resources[{i}].weight: must be 1"

    def for_plugin(self) -> dict[str, Any]:
        """Weights by name."""
        return {"resources": {each.name: each.weight for each in self.resources}}


@dataclass(frozen=True)
class NodeResourcesBalancedAllocation:
    """Scores how evenly a node's resources are used."""

    resources: Mapping[str, int] = field(default_factory=lambda: {"cpu": 1, "memory": 1})
    name: str = "NodeResourcesBalancedAllocation"
    args: ClassVar = NodeResourcesBalancedAllocationArgs
    reads: ClassVar = DependsOn.PODS

    def sign_pod(self, pod: Pod) -> Hashable:
        """The pod's requests."""
        return tuple(pod_requests(pod).items())

    def pre_score(
        self, state: CycleState, pod: Pod, cache: Cache, nodes: Sequence[NodeInfo]
    ) -> Status | None:
        """SKIP if the pod requests nothing: else the most balanced node would get all such pods."""
        wanted = pod_requests(pod)
        state[self.name] = {name: wanted.get(name, 0) for name in self.resources if counts(name, wanted)}
        if served := {name: each for name in state[self.name] if (each := devices_for(name, cache))}:
            state[BY_DEVICES] = served
        return None if any(wanted.get(name) for name in self.resources) else SKIP

    def score_nodes(self, state: CycleState, pod: Pod, nodes: NodeSlice) -> Sequence[int]:
        """About 75, plus half of what the balance gains. A resource that a node lacks doesn't count there."""
        if BY_DEVICES in state:
            return _scores_with_devices(nodes, state[self.name], state[BY_DEVICES])
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
        return [*map(_score, before, map(_balance, zip(*shares, strict=True)))]


def _scores_with_devices(
    nodes: NodeSlice, wanted: Mapping[str, int], devices: Mapping[str, ClusterDevices]
) -> Sequence[int]:
    """The scores by some resources, if devices serve some of them."""
    uses = [use_and_room(nodes, name, amount_requested, devices.get(name)) for name in wanted]
    scores = []
    for of_node in zip(*uses, strict=True):
        here = [(*use, more) for use, more in zip(of_node, wanted.values(), strict=True) if use[1]]
        before = _balance([_share(used, room) for used, room, _ in here])
        scores.append(_score(before, _balance([_share(used + more, room) for used, room, more in here])))
    return scores


def _score(before: int, after: int) -> int:
    half = MAX_NODE_SCORE // 2
    return half + (half + after - before) // 2


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
