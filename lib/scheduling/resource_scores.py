"""Scores a node by how much of a resource is used there, with a pod.

Source: pkg/scheduler/framework/plugins/noderesources/resource_allocation.go, least_allocated.go,
most_allocated.go, requested_to_capacity_ratio.go
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from lib.scheduling.node_slice import NodeSlice
from lib.scheduling.resources import NATIVE, nodes_are_compared_by
from lib.scheduling.status import MAX_NODE_SCORE

if TYPE_CHECKING:
    from lib.scheduling.devices.cluster_devices import ClusterDevices

LACKS = -1
"""The score for a resource that a node lacks."""

Shape = Sequence[tuple[int, int]]
"""Points of a line: utilization (0 to 100), and the score (0 to 10) for it."""


Uses = Iterable[tuple[int, int]]
"""For each of some nodes, how much of a resource is used, and how much there is."""


def least_allocated(wanted: int, uses: Uses) -> list[int]:
    """The share that stays free: the emptier, the better. It calls nothing per node, as there are many."""
    return [
        (room - used - wanted) * MAX_NODE_SCORE // room if 0 < room >= used + wanted else 0 if room else LACKS
        for used, room in uses
    ]


def most_allocated(wanted: int, uses: Uses) -> list[int]:
    """The share that is used: the fuller, the better."""
    return [min(used + wanted, room) * MAX_NODE_SCORE // room if room else LACKS for used, room in uses]


def requested_to_capacity_ratio(shape: Shape, wanted: int, uses: Uses) -> list[int]:
    """The score on the line that `shape` gives."""
    points = [(utilization, ten * MAX_NODE_SCORE // 10) for utilization, ten in shape]
    return [
        _on_line(min((used + wanted) * 100 // room, 100), points) if room else LACKS for used, room in uses
    ]


def _on_line(utilization: int, points: Shape) -> int:
    before = points[0]
    for point in points:
        if utilization <= point[0]:
            if point is points[0]:
                return point[1]
            rise, run = point[1] - before[1], point[0] - before[0]
            return before[1] + int(rise * (utilization - before[0]) / run)  # rounded towards zero, as in Go
        before = point
    return points[-1][1]


def is_scored(name: str, wanted: Mapping[str, int]) -> bool:
    """Whether a resource is scored for a pod with these requests; some are, whatever it requests."""
    return name in NATIVE or (bool(wanted.get(name)) and nodes_are_compared_by(name))


def with_devices(
    uses: Uses, nodes: NodeSlice, name: str, devices: ClusterDevices
) -> Iterator[tuple[int, int]]:
    """For each node, how much of a resource is used, and how much there is. Devices count if there is none.

    Source: calculateResourceAllocatableRequest in resource_allocation.go
    """
    for use, node in zip(uses, nodes, strict=True):
        yield use if use[1] else devices.use(name, node)
