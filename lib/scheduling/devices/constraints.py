"""Constraints between the devices of a claim: the same value of an attribute, or each another one.

Source: k8s.io/dynamic-resource-allocation/structured/internal/incubating, allocator_incubating.go
(matchAttributeConstraint) and constraint.go
"""

from collections.abc import Collection

from lib.kube.devices import DeviceAttribute
from lib.scheduling.devices.pools import PoolDevice
from lib.scheduling.devices.results import RequestToMeet

UNKNOWN = DeviceAttribute()
"""An attribute of a type that isn't known: it is like no other."""


class Constraint:
    """A constraint, and the devices that count for it. Once it fails, more devices don't mend that.

    requests: the names of those that it is for; empty for all. attribute: DOMAIN/ID. distinct: whether each
    request's devices must have another value of it; else all have the same.
    """

    def __init__(self, requests: Collection[str], attribute: str, *, distinct: bool) -> None:
        self._requests, self._attribute, self._distinct = requests, attribute, distinct
        # By request. As in kube-scheduler, only the last device of a request is remembered.
        self._values: dict[str, DeviceAttribute] = {}
        self._count = 0

    def add(self, request: RequestToMeet, device: PoolDevice) -> bool:
        """Count a device, if it suits those that count already. Returns whether it does, or needn't."""
        if not request.is_one_of(self._requests):
            return True
        value = attribute_of(device, self._attribute)
        if value is None or (self._count and not self._suits(value)):
            return False
        if self._distinct or not self._count:
            self._values[(request.parent or request.name) if self._distinct else ""] = value
        self._count += 1
        return True

    def remove(self, request: RequestToMeet) -> None:
        """Count the device no more that was added last."""
        if request.is_one_of(self._requests):
            self._count -= 1
            if self._distinct:
                self._values.pop(request.parent or request.name, None)

    def _suits(self, value: DeviceAttribute) -> bool:
        if value == UNKNOWN:
            return self._distinct and not self._values
        return (value in self._values.values()) != self._distinct


def attribute_of(device: PoolDevice, name: str) -> DeviceAttribute | None:
    """An attribute, by its full name. A device may leave out the domain if that is its driver's."""
    attributes = device.device.attributes
    if (found := attributes.get(name)) is not None:
        return found
    domain, _, short = name.partition("/")
    return attributes.get(short) if short and domain == device.id.driver else None
