"""Says what a claim's requests would find on a node: which devices are there, and why not these."""

from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import count as count_from
from random import Random

from msgspec.structs import replace

from lib.kube.devices import (
    DeviceAttribute,
    DeviceConstraint,
    DeviceSelector,
    ExactDeviceRequest,
    ResourceClaim,
)
from lib.kube.quantity import Quantity
from lib.kube.selectors import matches_node
from lib.scheduling.devices.allocator import AllocationError, Allocator, is_tolerated
from lib.scheduling.devices.cluster_devices import ClusterDevices
from lib.scheduling.devices.constraints import attribute_of
from lib.scheduling.devices.consumption import Counters, as_binary, what_lacks
from lib.scheduling.devices.pools import DeviceId, Pool, PoolDevice
from lib.scheduling.devices.selectors import SelectorError
from lib.scheduling.node_info import NodeInfo
from lib.scheduling.text import count, listed, verb

MOST_STEPS = 5000
"""A search for devices without constraints is broken off after so many steps."""

PLURALS = {"has": "have", "gives": "give", "needs": "need"}

MOST_VALUES = 5
"""At most so many values of an attribute are named."""


def why_no_devices(claims: Sequence[ResourceClaim], node: NodeInfo, devices: ClusterDevices) -> Iterator[str]:
    """A line for each request of the claims, or for each claim that has devices elsewhere."""
    for claim in claims:
        where = claim.status.allocation.node_selector if claim.status.allocation else None
        if where and not matches_node(where, node.node):
            yield f"the devices of claim {claim} can't be used there"
        if claim.status.allocation:
            continue
        for request in claim.spec.devices.requests:
            for name, spec in request.options:
                yield f"claim {claim}, request {name}: {_found(spec, node, devices)}"
    if left := [each for each in claims if not each.status.allocation]:
        yield from _why_not_together(left, node, devices)


def _found(spec: ExactDeviceRequest, node: NodeInfo, devices: ClusterDevices) -> str:
    there = [(pool, device) for pool in devices.pools.of(node) for device in pool.devices]
    if not there:
        return "no devices are there"
    reasons = Counter(_why_not(spec, pool, device, node, devices) for pool, device in there)
    free = reasons.pop("", 0)
    parts = [f"{many} {_of_many(why) if many > 1 else why}" for why, many in sorted(reasons.items())]
    if free:
        wanted = (
            "all are" if spec.allocation_mode == "All" else f"{spec.count} {verb(spec.count, 'is', 'are')}"
        )
        parts.append(f"{free} could be had, {wanted} wanted")
    return f"{count(len(there), 'device')}: {', '.join(parts)}"


def _why_not_together(
    claims: Sequence[ResourceClaim], node: NodeInfo, devices: ClusterDevices
) -> Iterator[str]:
    """Why the requests can't all have devices, if each could have some by itself."""
    requests = [request for claim in claims for request in claim.spec.devices.requests]
    could_be_had = list[PoolDevice]()
    wanted = Counter[str]()
    for request in requests:
        if request.first_available:  # it has a choice
            return
        for _, spec in request.options:
            free = [
                device
                for pool in devices.pools.of(node)
                for device in pool.devices
                if not _why_not(spec, pool, device, node, devices)
            ]
            if len(free) < spec.count:
                return
            could_be_had += (device for device in free if device not in could_be_had)
            for name, quantity in (spec.capacity.requests if spec.capacity else {}).items():
                wanted[name] += spec.count * Quantity.parse(quantity).value
    free_of = [
        replace(claim, spec=replace(claim.spec, devices=replace(claim.spec.devices, constraints=())))
        for claim in claims
    ]
    if any(claim.spec.devices.constraints for claim in claims) and _fit(free_of, node, devices):
        for claim in claims:
            for each in claim.spec.devices.constraints:
                yield f"claim {claim}, {_constraint_text(each, could_be_had)}"
        return
    for name, amount in wanted.items():
        has = sum(
            Quantity.parse(device.device.capacity[name].value).value
            - devices.taken.consumed.get(device.id, {}).get(name, 0) // 10**9
            for device in could_be_had
        )
        if amount > has:
            yield f"together they want {as_binary(amount)} of {name}, these devices have {as_binary(has)}"
            return
    if any(device.device.consumes_counters for device in could_be_had):
        yield "these devices share counters of their pool, and can't all be had at the same time"


def _fit(claims: Sequence[ResourceClaim], node: NodeInfo, devices: ClusterDevices) -> bool:
    """Whether claims would get devices; no, if that takes long to find out."""
    random, steps = Random(0), count_from()  # noqa: S311  # for the names of shares
    allocator = Allocator(
        devices.pools, devices.selectors, devices.classes, devices.taken, random, lambda: next(steps)
    )
    try:
        return allocator.search(node, claims, MOST_STEPS) is not None
    except AllocationError:
        return False


def _constraint_text(constraint: DeviceConstraint, devices: Sequence[PoolDevice]) -> str:
    """The constraint, and the values that devices have."""
    name = constraint.match_attribute or constraint.distinct_attribute or ""
    values = Counter(_value_text(attribute_of(device, name)) for device in devices)
    have = listed(f"{value} ({many:,})" for value, many in values.most_common(MOST_VALUES))
    rule = "must have the same value" if constraint.match_attribute else "must have different values"
    kind = "matchAttribute" if constraint.match_attribute else "distinctAttribute"
    return f"constraint {kind} {name}: the devices {rule}, and have {have}"


def _value_text(attribute: DeviceAttribute | None) -> str:
    if attribute is None:
        return "no such attribute"
    values = attribute.string_value, attribute.version_value, attribute.int_value, attribute.bool_value
    return next((str(each) for each in values if each is not None), "an unknown value")


def _of_many(why: str) -> str:
    """The same, said of more than one device."""
    verb_of_one, blank, rest = why.partition(" ")
    return f"{PLURALS.get(verb_of_one, verb_of_one)}{blank}{rest}"


def _lack_text(spec: ExactDeviceRequest, device: PoolDevice, devices: ClusterDevices) -> str:
    """Which capacity a device lacks; "" if none."""
    consumed = devices.taken.consumed.get(device.id, {})
    for name, taken, is_forbidden in what_lacks(device.device, spec.capacity, consumed):
        capacity = device.device.capacity.get(name)
        if capacity is None:
            return f"has no {name}, {taken} are wanted"
        if is_forbidden and Quantity.parse(taken) <= Quantity.parse(capacity.value):
            return f"gives no {taken} of {name}: its request policy forbids that amount"
        used = as_binary(consumed.get(name, 0) // 10**9)
        in_use = f", of which {used} are in use" if used != "0" else ""
        return f"has {capacity.value} of {name}{in_use}, {taken} are wanted"
    return ""


def _why_not(
    spec: ExactDeviceRequest, pool: Pool, device: PoolDevice, node: NodeInfo, devices: ClusterDevices
) -> str:
    """Why a request can't have a device; "" if it could."""
    kind = devices.classes.get(spec.device_class_name)
    for whose, selectors in (
        (f"class {spec.device_class_name}", kind.spec.selectors if kind else ()),
        ("the claim", spec.selectors),
    ):
        if not _selects(selectors, device, devices):
            return f"not selected by {whose}"
    if device.slice.spec.per_device_node_selection and not devices.pools.reaches(device.device, node):
        return "for other nodes"
    if any(not is_tolerated(taint, spec.tolerations) for taint in device.device.taints):
        return "with a taint that isn't tolerated"
    if device.id in devices.taken.devices and not spec.admin_access:
        users = [str(claim) for claim in devices.claims if _has(claim, device.id)]
        return f"in use by {listed(users)}" if users else "in use"
    if lacks := _lack_text(spec, device, devices):
        return lacks
    is_shared = device.device.allow_multiple_allocations and device.id in devices.taken.consumed
    if device.device.consumes_counters and not is_shared:
        for (_, of_set, name), left, wanted in Counters(devices.taken).lacking(pool, device.device):
            has, needs = (as_binary(max(each, 0) // 10**9) for each in (left, wanted))
            return f"needs {needs} of shared counter {of_set}/{name}, {has} is left"
    return ""


def _selects(selectors: Sequence[DeviceSelector], device: PoolDevice, devices: ClusterDevices) -> bool:
    try:
        return devices.selectors.match_all(selectors, device.device, device.id.driver)
    except SelectorError:
        return False


def _has(claim: ResourceClaim, device: DeviceId) -> bool:
    allocation = claim.status.allocation
    return allocation is not None and any(
        DeviceId.of(result) == device for result in allocation.devices.results
    )
