"""What requests take of what devices share: of a device's own capacities, and of the counters of its pool.

If several requests may use a device at the same time, its capacities are divided among them. Of any other
device, a request only says how much the device must have. Counters are what devices of a pool have in common:
for example, a GPU can be used whole, or as partitions that share its memory.

Source: k8s.io/dynamic-resource-allocation/structured/internal/incubating, consumable_capacity.go and
allocator_incubating.go (checkAvailableCounters)
"""

from collections import Counter
from collections.abc import Container, Iterator, Mapping

from lib.kube.devices import (
    CapacityRequestPolicy,
    CapacityRequestPolicyRange,
    CapacityRequirements,
    Device,
    DeviceCapacity,
)
from lib.kube.quantity import Quantity
from lib.scheduling.devices.pools import DeviceId, Pool

Consumed = Mapping[str, int]
"""By a capacity's name: billionths of its unit."""

SUFFIXES = ("", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei")


def is_enough(device: Device, wanted: CapacityRequirements | None, consumed: Consumed) -> bool:
    """Whether a device has what a request wants, besides what others have consumed of it."""
    return next(what_lacks(device, wanted, consumed), None) is None


def what_lacks(
    device: Device, wanted: CapacityRequirements | None, consumed: Consumed
) -> Iterator[tuple[str, str, bool]]:
    """The capacities of which a device hasn't what a request wants: the name, how much the request takes, and
    whether a policy forbids that amount.
    """
    requests = wanted.requests if wanted else {}
    yield from ((name, requests[name], False) for name in requests if name not in device.capacity)
    for name, capacity in device.capacity.items():
        taken = _amount_of(requests.get(name), capacity)
        if _violates(taken, capacity.request_policy):
            yield name, taken, True
        elif consumed.get(name, 0) + Quantity.parse(taken) > Quantity.parse(capacity.value):
            yield name, taken, False


def consumed_by(device: Device, wanted: CapacityRequirements | None) -> dict[str, str]:
    """What a request takes of each of a device's capacities, as quantities."""
    requests = wanted.requests if wanted else {}
    return {name: _amount_of(requests.get(name), capacity) for name, capacity in device.capacity.items()}


def added(consumed: Consumed, more: Mapping[str, str], sign: int = 1) -> Consumed:
    """What is consumed, with some more; or less, if the sign is -1."""
    total = Counter(consumed)
    for name, amount in more.items():
        total[name] += sign * Quantity.parse(amount)
    return total


def _amount_of(wanted: str | None, capacity: DeviceCapacity) -> str:
    """The amount that is taken: what is wanted, rounded up as the capacity's policy says.

    A request that wants none gets the policy's default, or all.
    """
    policy = capacity.request_policy
    if wanted is None:
        return (policy and policy.default) or capacity.value
    if policy is None:
        return wanted
    if policy.valid_range and policy.valid_range.min is not None:
        return _rounded_up(wanted, policy.valid_range)
    amount = Quantity.parse(wanted)
    return next((valid for valid in policy.valid_values if amount <= Quantity.parse(valid)), wanted)


def _rounded_up(wanted: str, valid: CapacityRequestPolicyRange) -> str:
    assert valid.min is not None
    least = Quantity.parse(valid.min)
    if Quantity.parse(wanted) < least:
        return valid.min
    if valid.step is None:
        return wanted
    step = Quantity.parse(valid.step).value
    steps = -(-(Quantity.parse(wanted).value - least.value) // step)
    return as_binary(least.value + step * steps)


def as_binary(amount: int) -> str:
    """A whole amount as Kubernetes writes it with binary suffixes: 4294967296 is 4Gi."""
    suffixes = iter(SUFFIXES)
    suffix = next(suffixes)
    while amount and amount % 1024 == 0 and suffix != SUFFIXES[-1]:
        amount //= 1024
        suffix = next(suffixes)
    return f"{amount}{suffix}"


def _violates(amount: str, policy: CapacityRequestPolicy | None) -> bool:
    """Whether an amount isn't one that may be taken."""
    if policy is None or amount == policy.default:
        return False
    taken = Quantity.parse(amount)
    if valid := policy.valid_range:  # the amount was rounded up to a step
        return valid.max is not None and taken > Quantity.parse(valid.max)
    return bool(policy.valid_values) and taken not in map(Quantity.parse, policy.valid_values)


# --- counters -------------------------------------------------------------------------------------------

CounterKey = tuple[str, str, str]
"""Names a counter: pool, set, counter. As in kube-scheduler, whichever driver the pool is of."""


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

    def lacking(self, pool: Pool, device: Device) -> Iterator[tuple[CounterKey, int, int]]:
        """The counters of which others leave less than a device consumes; what is left, what it consumes."""
        left = self._left_of(pool)
        for key, amount in _consumed(pool, device):
            if key in left and amount > left[key]:
                yield key, left[key], amount

    def give_back(self, pool: Pool, device: Device) -> None:
        """Give back what a device has taken."""
        self._add(pool, device, -1)

    def _add(self, pool: Pool, device: Device, sign: int) -> None:
        for key, amount in _consumed(pool, device):
            self._taken[key] += sign * amount

    def _left_of(self, pool: Pool) -> dict[CounterKey, int]:
        """What the devices leave that are in use by others; it may be negative."""
        left: dict[CounterKey, int] = {
            (pool.name, counter_set.name, name): Quantity.parse(counter.value)
            for counter_set in pool.counters.values()
            for name, counter in counter_set.counters.items()
        }
        for device in [*pool.devices, *pool.elsewhere]:
            if device.id in self._in_use:
                for key, amount in _consumed(pool, device.device):
                    if key in left:
                        left[key] -= amount
        return left


def _consumed(pool: Pool, device: Device) -> Iterator[tuple[CounterKey, int]]:
    for consumption in device.consumes_counters:
        for name, counter in consumption.counters.items():
            yield (pool.name, consumption.counter_set, name), Quantity.parse(counter.value)
