"""Which devices claims have taken.

Source: k8s.io/dynamic-resource-allocation/structured/internal/allocatedstate.go, and kube-scheduler's
plugins/dynamicresources/allocateddevices.go
"""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field

from lib.kube.devices import AllocationResult
from lib.scheduling.devices.consumption import Consumed, added
from lib.scheduling.devices.pools import DeviceId


@dataclass
class Taken:
    """Devices that claims have: it follows them by `add` and `remove`."""

    devices: set[DeviceId] = field(default_factory=set)
    """Those that one claim has alone."""
    shared: set[DeviceId] = field(default_factory=set)
    """Those that several claims may have."""
    consumed: dict[DeviceId, Consumed] = field(default_factory=dict)
    """What is taken of the capacities of shared ones."""
    changes: Counter[str] = field(default_factory=Counter)
    """By the name of a pool, how often something of it was taken or given back."""
    version: int = 0
    """It changes whenever something is taken or given back."""
    _users: Counter[tuple[DeviceId, bool]] = field(default_factory=Counter)
    """How many claims have a device, and whether alone."""

    def __contains__(self, device: object) -> bool:
        """Whether a claim has a device, or a share of it."""
        return device in self.devices or device in self.shared

    def given_twice(self, allocation: AllocationResult) -> Iterator[DeviceId]:
        """The devices of an allocation that another claim has, too, though each has them alone."""
        for result in allocation.devices.results:
            device = DeviceId.of(result)
            if not result.admin_access and self._users[device, True] > 1:
                yield device

    def add(self, allocation: AllocationResult) -> None:
        """A claim has this. Admin access takes nothing."""
        self._count(allocation, 1)

    def remove(self, allocation: AllocationResult) -> None:
        """A claim had this."""
        self._count(allocation, -1)

    def _count(self, allocation: AllocationResult, times: int) -> None:
        for result in allocation.devices.results:
            if result.admin_access:
                continue
            self.changes[result.pool] += 1
            self.version += 1
            device = DeviceId.of(result)
            is_alone = result.share_id is None
            users = self._users[device, is_alone] + times
            self._users[device, is_alone] = users
            (self.devices if is_alone else self.shared).add(device)
            if not users:
                del self._users[device, is_alone]
                (self.devices if is_alone else self.shared).discard(device)
            if not is_alone and result.consumed_capacity:
                consumed = added(self.consumed.get(device, {}), result.consumed_capacity, times)
                self.consumed[device] = consumed
                if not any(consumed.values()):
                    del self.consumed[device]
