"""What devices of a pool share: each takes some of it while it is in use.

A GPU can be used whole, or as partitions that share its memory.

Source: k8s.io/dynamic-resource-allocation/structured/internal/incubating/allocator_incubating.go
(checkAvailableCounters). As there, counters are kept by the name of the pool, whichever driver's it is.
"""

from collections import Counter
from collections.abc import Container, Iterator

from lib.kube.devices import Device
from lib.kube.quantity import Quantity
from lib.scheduling.devices.pools import DeviceId, Pool

CounterKey = tuple[str, str, str]
"""Names a counter: pool, set, counter."""


class Counters:
    """The counters of all pools: what is there, and what devices take that are being allocated.

    in_use: the devices that others use. available: by pool, what these leave; it is found out when needed.
    """

    def __init__(
        self, in_use: Container[DeviceId], available: dict[str, dict[CounterKey, int]] | None = None
    ) -> None:
        self._in_use = in_use
        self._available = {} if available is None else available
        self._taken = Counter[CounterKey]()

    def take(self, pool: Pool, device: Device) -> bool:
        """Take what a device consumes. Returns whether it was there; if it wasn't, nothing is taken."""
        if pool.name not in self._available:
            self._available[pool.name] = self._left_of(pool)
        self._add(pool, device, 1)
        if all(self._taken[key] <= left for key, left in self._available[pool.name].items()):
            return True
        self.give_back(pool, device)
        return False

    def give_back(self, pool: Pool, device: Device) -> None:
        """Give back what a device has taken."""
        self._add(pool, device, -1)

    def _add(self, pool: Pool, device: Device, sign: int) -> None:
        for key, amount in _consumed(pool, device):
            self._taken[key] += sign * amount

    def _left_of(self, pool: Pool) -> dict[CounterKey, int]:
        """What the devices leave that are in use by others; it may be negative."""
        left: dict[CounterKey, int] = {
            (pool.name, each.name, name): Quantity.parse(counter.value)
            for each in pool.counters.values()
            for name, counter in each.counters.items()
        }
        for each in [*pool.devices, *pool.elsewhere]:
            if each.id in self._in_use:
                for key, amount in _consumed(pool, each.device):
                    if key in left:
                        left[key] -= amount
        return left


def _consumed(pool: Pool, device: Device) -> Iterator[tuple[CounterKey, int]]:
    for each in device.consumes_counters:
        for name, counter in each.counters.items():
            yield (pool.name, each.counter_set, name), Quantity.parse(counter.value)
