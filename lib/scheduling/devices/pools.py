"""Which devices a node can reach: pools of slices.

A driver publishes a pool as several slices. While it replaces them, slices of two generations are there, or
some are missing. Nothing is taken from the pool until it is complete again.

Source: k8s.io/dynamic-resource-allocation/structured/internal/incubating/pools_incubating.go
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from lib.kube.devices import (
    AllocatedDeviceStatus,
    CounterSet,
    Device,
    DeviceRequestAllocationResult,
    ResourceSlice,
)
from lib.kube.objects import NodeSelector
from lib.scheduling.node_info import NodeInfo
from lib.scheduling.node_terms import NodeTerms


class DeviceId(NamedTuple):
    """Names a device in the cluster."""

    driver: str
    pool: str
    device: str

    @classmethod
    def of(cls, result: DeviceRequestAllocationResult | AllocatedDeviceStatus) -> "DeviceId":
        """The device that a request got, or that a status is about."""
        return cls(result.driver, result.pool, result.device)

    def __str__(self) -> str:
        return "/".join(self)


class PoolDevice(NamedTuple):
    """A device, and the slice that it is in."""

    id: DeviceId
    device: Device
    slice: ResourceSlice


@dataclass(eq=False)
class Pool:
    """A pool, as one node sees it."""

    driver: str
    name: str
    devices: Sequence[PoolDevice] = ()
    """Those of slices for this node, in the order in which they are tried."""
    elsewhere: Sequence[PoolDevice] = ()
    """Those of other slices."""
    counters: Mapping[str, CounterSet] = field(default_factory=dict)
    """What devices of the pool share, by the name of the set."""
    is_incomplete: bool = False
    """Whether slices are missing."""
    invalid: str = ""
    """Why nothing can be taken from it; "" if devices can be taken."""

    def __str__(self) -> str:
        return f"{self.driver}/{self.name}"


PoolKey = tuple[str, str]
"""The driver and the name of a pool."""


class Pools:
    """The pools of some slices, for each node. They are found out once, until a node's labels change."""

    def __init__(self, slices: Iterable[ResourceSlice]) -> None:
        self._all: dict[PoolKey, list[ResourceSlice]] = defaultdict(list)
        self._of_node: dict[str, list[ResourceSlice]] = defaultdict(list)
        self._shared: list[ResourceSlice] = []
        for resource_slice in slices:
            self._all[_key(resource_slice)].append(resource_slice)
            if resource_slice.spec.node_name and not resource_slice.spec.shared_counters:
                self._of_node[resource_slice.spec.node_name].append(resource_slice)
            else:
                self._shared.append(resource_slice)
        self._terms: dict[NodeSelector, NodeTerms] = {}
        self._known: dict[str, tuple[Mapping[str, str], Sequence[Pool]]] = {}

    def of(self, node: NodeInfo) -> Sequence[Pool]:
        """The pools that a node can reach, in the order in which they are tried.

        By driver and name; those with devices that aren't ready at once (binding conditions) come last.
        """
        labels, found = self._known.get(node.name, (None, ()))
        if labels is not node.labels:
            found = self._gather(node)
            self._known[node.name] = node.labels, found
        return found

    def offered(self, node: NodeInfo) -> Iterator[PoolDevice]:
        """All devices of slices for a node, also those of pools that nothing can be taken from."""
        for resource_slice in [*self._of_node.get(node.name, ()), *self._shared]:
            if self._is_relevant(resource_slice, node):
                of_each = resource_slice.spec.per_device_node_selection
                yield from (
                    found
                    for found in _devices_of([resource_slice])
                    if not of_each or self.reaches(found.device, node)
                )

    def reaches(self, device: Device, node: NodeInfo) -> bool:
        """Whether a node can reach a device of a slice that leaves this to its devices."""
        return self._matches(node, device.node_name, device.all_nodes, device.node_selector)

    def _gather(self, node: NodeInfo) -> Sequence[Pool]:
        newest: dict[PoolKey, list[ResourceSlice]] = {}
        for resource_slice in [*self._of_node.get(node.name, ()), *self._shared]:
            if not self._is_relevant(resource_slice, node):
                continue
            there = newest.setdefault(_key(resource_slice), [])
            if there and resource_slice.spec.pool.generation < there[0].spec.pool.generation:
                continue
            if there and resource_slice.spec.pool.generation > there[0].spec.pool.generation:
                there.clear()
            there.append(resource_slice)
        pools = [pool for key, slices in newest.items() if (pool := self._built(key, slices))]
        pools.sort(key=lambda pool: (_is_slow(pool), pool.driver, pool.name))
        return pools

    def _is_relevant(self, resource_slice: ResourceSlice, node: NodeInfo) -> bool:
        spec = resource_slice.spec
        if spec.shared_counters:  # devices of other slices use them
            return True
        if spec.per_device_node_selection:
            return any(self.reaches(device, node) for device in spec.devices)
        return self._matches(node, spec.node_name, spec.all_nodes, spec.node_selector)

    def _matches(
        self, node: NodeInfo, name: str | None, all_nodes: bool, selector: NodeSelector | None
    ) -> bool:
        if name:
            return node.name == name
        if all_nodes or selector is None:
            return all_nodes
        if selector not in self._terms:
            self._terms[selector] = NodeTerms((term, 1) for term in selector.node_selector_terms)
        return self._terms[selector].match(node)

    def _built(self, key: PoolKey, slices: list[ResourceSlice]) -> Pool | None:
        """The pool of the newest slices that a node can reach; None if there are newer ones elsewhere."""
        pool = Pool(*key)
        whole = slices
        if len(slices) != slices[0].spec.pool.resource_slice_count:
            generation = slices[0].spec.pool.generation
            if any(resource_slice.spec.pool.generation > generation for resource_slice in self._all[key]):
                return None
            whole = [
                resource_slice
                for resource_slice in self._all[key]
                if resource_slice.spec.pool.generation == generation
            ]
            if len(whole) != slices[0].spec.pool.resource_slice_count:
                pool.is_incomplete = True
                return pool
        slices = sorted(slices, key=lambda resource_slice: resource_slice.metadata.name)
        pool.devices = [
            *_devices_of(
                resource_slice for resource_slice in slices if not resource_slice.spec.shared_counters
            )
        ]
        here = {resource_slice.metadata.name for resource_slice in slices}
        pool.elsewhere = [
            *_devices_of(
                resource_slice for resource_slice in whole if resource_slice.metadata.name not in here
            )
        ]
        if why := _add_counters(pool, slices) or _why_invalid(pool):
            return Pool(*key, invalid=why)  # it has no devices, as in kube-scheduler
        return pool


def _key(of: ResourceSlice) -> PoolKey:
    return of.spec.driver, of.spec.pool.name


def _devices_of(slices: Iterable[ResourceSlice]) -> Iterator[PoolDevice]:
    for resource_slice in slices:
        for device in resource_slice.spec.devices:
            yield PoolDevice(DeviceId(*_key(resource_slice), device.name), device, resource_slice)


def _is_slow(pool: Pool) -> bool:
    return any(device.device.binding_conditions for device in pool.devices)


def _add_counters(pool: Pool, slices: Iterable[ResourceSlice]) -> str:
    counters: dict[str, CounterSet] = {}
    for resource_slice in slices:
        for counter_set in resource_slice.spec.shared_counters:
            if counter_set.name in counters:
                return f"duplicate counter set name {counter_set.name}"
            counters[counter_set.name] = counter_set
    pool.counters = counters
    return ""


def _why_invalid(pool: Pool) -> str:
    """Two devices with a name, or a counter that there isn't; "" if all is well."""
    names: set[str] = set()
    for device in pool.devices:
        if device.device.name in names:
            return f"duplicate device name {device.device.name}"
        names.add(device.device.name)
    for device in [*pool.devices, *pool.elsewhere]:
        for consumed in device.device.consumes_counters:
            counter_set = pool.counters.get(consumed.counter_set)
            if counter_set is None:
                return f"counter set {consumed.counter_set} not found"
            for name in consumed.counters:
                if name not in counter_set.counters:
                    return f"counter {name} not found in counter set {counter_set.name}"
    return ""
