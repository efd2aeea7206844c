"""Which devices are taken: by the claims that have them.

Source: k8s.io/dynamic-resource-allocation/structured/internal/allocatedstate.go, and kube-scheduler's
plugins/dynamicresources/allocateddevices.go
"""

from collections.abc import Iterable
from dataclasses import dataclass, field

from lib.kube.devices import AllocationResult
from lib.scheduling.devices.capacity import Consumed, added
from lib.scheduling.devices.pools import DeviceId


@dataclass
class Taken:
    """Devices that claims have.

    devices: those that one claim has alone. shared: those that several may have. consumed: what is taken of
    the capacities of the latter.
    """

    devices: set[DeviceId] = field(default_factory=set)
    shared: set[DeviceId] = field(default_factory=set)
    consumed: dict[DeviceId, Consumed] = field(default_factory=dict)

    def __contains__(self, device: object) -> bool:
        """Whether a claim has a device, or a share of it."""
        return device in self.devices or device in self.shared


def taken_by(allocations: Iterable[AllocationResult]) -> Taken:
    """What some claims have. Who has only admin access takes nothing."""
    taken = Taken()
    for allocation in allocations:
        for result in allocation.devices.results:
            device = DeviceId(result.driver, result.pool, result.device)
            if result.admin_access:
                continue
            if result.share_id is None:
                taken.devices.add(device)
                continue
            taken.shared.add(device)
            if result.consumed_capacity:
                taken.consumed[device] = added(taken.consumed.get(device, {}), result.consumed_capacity)
    return taken
