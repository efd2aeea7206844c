"""The devices of a DeviceClass that a node can reach: an extended resource is scored by how many are taken.

Source: calculateDRAResourceTotals in pkg/scheduler/framework/plugins/noderesources/resource_allocation.go
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from msgspec.structs import replace

from lib.kube.devices import Device, DeviceClass
from lib.scheduling.devices.pools import DeviceId, Pools
from lib.scheduling.devices.selectors import SelectorError, Selectors, evaluate
from lib.scheduling.node_info import NodeInfo


class DeviceUse(NamedTuple):
    """How many of the devices that serve a resource on a node are taken, and how many there are."""

    taken: int
    capacity: int


class ClassDevices:
    """The devices of classes, for each node. They are found once, until the labels of the node change.

    Throw this away when slices or classes change.
    """

    def __init__(self, pools: Pools, selectors: Selectors) -> None:
        self._pools, self._selectors = pools, selectors
        self._known: dict[tuple[str, str], tuple[Mapping[str, str], Sequence[DeviceId]]] = {}

    def of(self, kind: DeviceClass, node: NodeInfo) -> Sequence[DeviceId]:
        """Those on one node; none if a selector fails for one of its devices, as in kube-scheduler."""
        key = kind.metadata.name, node.name
        labels, found = self._known.get(key, (None, ()))
        if labels is not node.labels:
            try:
                offered = self._pools.offered(node)
                found = [each.id for each in offered if self._has(kind, each.device, each.id.driver)]
            except SelectorError:
                found = ()
            self._known[key] = node.labels, found
        return found

    def _has(self, kind: DeviceClass, device: Device, driver: str) -> bool:
        expressions = (each.cel.expression for each in kind.spec.selectors if each.cel)
        if not device.allow_multiple_allocations:
            return all(self._selectors.match(each, device, driver) for each in expressions)
        seen = replace(device, allow_multiple_allocations=False)  # kube-scheduler doesn't hand this over here
        return all(evaluate(each, seen, driver) for each in expressions)
