"""What the requests of a pod's claims find on a node: which devices are there, and why not these."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
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
from lib.kube.objects import Pod
from lib.kube.quantity import Quantity
from lib.kube.selectors import matches_node
from lib.scheduling.cache import Cache
from lib.scheduling.devices.allocator import ALL, AllocationError, Allocator, is_tolerated
from lib.scheduling.devices.cluster_devices import ClusterDevices
from lib.scheduling.devices.constraints import attribute_of
from lib.scheduling.devices.consumption import Counters, as_binary, what_lacks
from lib.scheduling.devices.pod_devices import PodDevices
from lib.scheduling.devices.pools import DeviceId, Pool, PoolDevice
from lib.scheduling.devices.selectors import SelectorError
from lib.scheduling.framework.interface import Lines
from lib.scheduling.node_info import NodeInfo
from lib.scheduling.status import CycleState, Status
from lib.scheduling.text import Line, count, listed

MOST_STEPS = 5000
"""A search for devices without constraints is broken off after so many steps."""

PLURALS = {"has": "have", "gives": "give", "needs": "need"}

FREE = ""
"""Said of a device that a request could have."""

MOST_VALUES = 5
"""At most so many values of an attribute are named."""


class DynamicResourcesExplainer:
    """Explains DynamicResources."""

    name = "DynamicResources"

    def explain(self, state: CycleState, pod: Pod, cache: Cache, node: NodeInfo, status: Status) -> Lines:
        """A line for each request of the pod's claims, or for each claim that has devices elsewhere."""
        kept: PodDevices | None = state.get(self.name)
        return _why_no_devices(kept, node) if kept else ()


def _why_no_devices(of_pod: PodDevices, node: NodeInfo) -> Iterator[str]:
    can_each, claims, devices = True, of_pod.claims_on(node), of_pod.devices
    for claim in claims:
        if given := claim.status.allocation:
            if given.node_selector and not matches_node(given.node_selector, node.node):
                yield f"the devices of claim {claim} can't be used there"
            elif why := of_pod.why_never_ready(claim):
                yield f"the devices of claim {claim} can't be used: {why}"
            continue
        for request in claim.spec.devices.requests:
            for name, spec in request.options:
                found = _found(spec, node, devices)
                can_each = can_each and found.numbers["free"] >= found.numbers["needs"]
                yield Line(
                    f"claim {claim}, request {name}: {found}",
                    **{"claim": str(claim), "request": name, **found.numbers},
                )
    if can_each and (left := [claim for claim in claims if not claim.status.allocation]):
        yield from _why_not_together(left, node, devices)


def _found(spec: ExactDeviceRequest, node: NodeInfo, devices: ClusterDevices) -> Line:
    there = [(pool, device) for pool in devices.pools.of(node) for device in pool.devices]
    reasons = Counter(_why_not(spec, pool, device, node, devices) for pool, device in there)
    free = reasons.pop(FREE, 0)
    parts = [f"{many} {_of_many(why) if many > 1 else why}" for why, many in sorted(reasons.items())]
    wants_all = spec.allocation_mode == ALL
    if free:
        parts.append(f"{free} could be had ({_wants('all' if wants_all else spec.count)})")
    selected = free + sum(many for why, many in reasons.items() if isinstance(why, Line))
    held_by = Counter[str]()
    lacks = []
    for why, many in reasons.items():
        numbers = why.numbers if isinstance(why, Line) else {}
        held_by.update(dict.fromkeys(numbers.get("held_by", ()), many))
        if "needs" in numbers:
            lacks.append({**numbers, "devices": many})
    return Line(
        f"{count(len(there), 'device')}: {', '.join(parts)}" if there else "no devices are there",
        **{"resource": "devices", "class": spec.device_class_name},
        **{"needs": max(selected, 1) if wants_all else spec.count, "has": selected, "free": free},
        **{"held_by": held_by, "lacks": lacks},
    )


def _why_not_together(
    claims: Sequence[ResourceClaim], node: NodeInfo, devices: ClusterDevices
) -> Iterator[str]:
    """Why the requests can't all have devices; each could have some by itself."""
    requests = [request for claim in claims for request in claim.spec.devices.requests]
    could_be_had = list[PoolDevice]()
    wanted, many = Counter[str](), 0
    for request in requests:
        if request.first_available:  # it has a choice
            return
        for _, spec in request.options:
            of_request = [
                device
                for pool in devices.pools.of(node)
                for device in pool.devices
                if not _why_not(spec, pool, device, node, devices)
            ]
            could_be_had += (device for device in of_request if device not in could_be_had)
            many += len(of_request) if spec.allocation_mode == ALL else spec.count
            for name, quantity in (spec.capacity.requests if spec.capacity else {}).items():
                wanted[name] += spec.count * Quantity.parse(quantity).value
    free_of = [
        replace(claim, spec=replace(claim.spec, devices=replace(claim.spec.devices, constraints=())))
        for claim in claims
    ]
    if any(claim.spec.devices.constraints for claim in claims) and _fit(free_of, node, devices):
        for claim in claims:
            for constraint in claim.spec.devices.constraints:
                yield f"claim {claim}, {_constraint_text(constraint, could_be_had)}"
        return
    if lack := _lack_of_all(wanted, could_be_had, devices):
        yield lack
        return
    are_alone = not any(device.device.allow_multiple_allocations for device in could_be_had)
    if are_alone and many > len(could_be_had):
        yield f"together the requests want {count(many, 'device')}, and {len(could_be_had)} could be had"
    elif any(device.device.consumes_counters for device in could_be_had):
        yield "these devices share counters of their pool, and can't all be had at the same time"


def _lack_of_all(
    wanted: Mapping[str, int], could_be_had: Sequence[PoolDevice], devices: ClusterDevices
) -> Line | None:
    """A capacity of which all requests together want more than these devices have left."""
    for name, amount in wanted.items():
        having = [device for device in could_be_had if name in device.device.capacity]
        has = sum(Quantity.parse(device.device.capacity[name].value).value for device in having)
        left = has - sum(_consumed(device, name, devices) for device in having)
        if amount > left:
            wanted_of_all = f"together the requests want {as_binary(amount)} of {name}"
            words = f"{wanted_of_all}, and these devices have {as_binary(left)} left"
            return Line(words, resource=name, needs=amount, has=has, free=left, devices=len(having))
    return None


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
    return next((str(value) for value in values if value is not None), "an unknown value")


def _wants(amount: str | int) -> str:
    return f"the request wants {amount}"


def _of_many(why: str) -> str:
    """The same, said of more than one device."""
    verb_of_one, blank, rest = why.partition(" ")
    return f"{PLURALS.get(verb_of_one, verb_of_one)}{blank}{rest}"


def _consumed(device: PoolDevice, capacity: str, devices: ClusterDevices) -> int:
    return devices.taken.consumed.get(device.id, {}).get(capacity, 0) // 10**9


def _lack(spec: ExactDeviceRequest, device: PoolDevice, devices: ClusterDevices) -> Line | None:
    """Which capacity a device lacks; None if it lacks none."""
    consumed = devices.taken.consumed.get(device.id, {})
    for name, taken, is_forbidden in what_lacks(device.device, spec.capacity, consumed):
        line = partial(Line, resource=name, needs=Quantity.parse(taken).value)
        capacity = device.device.capacity.get(name)
        if capacity is None:
            return line(f"has no {name} ({_wants(taken)})", has=0, free=0)
        has, used = Quantity.parse(capacity.value), _consumed(device, name, devices)
        if is_forbidden and Quantity.parse(taken) <= has:
            return Line(f"gives no {taken} of {name}: its request policy forbids that amount")
        in_use = f" with {as_binary(used)} in use" if used else ""
        words = f"has {capacity.value} of {name}{in_use} ({_wants(taken)})"
        return line(words, has=has.value, free=has.value - used)
    return None


def _why_not(
    spec: ExactDeviceRequest, pool: Pool, device: PoolDevice, node: NodeInfo, devices: ClusterDevices
) -> str:
    """Why a request can't have a device; FREE if it could. It is a Line if the request selects the device."""
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
        return Line("with a taint that isn't tolerated")
    if device.id in devices.taken.devices and not spec.admin_access:
        users = [str(claim) for claim in devices.claims if _has(claim, device.id)]
        return Line(f"in use by {listed(users)}" if users else "in use", held_by=users)
    if lack := _lack(spec, device, devices):
        return lack
    is_shared = device.device.allow_multiple_allocations and device.id in devices.taken.consumed
    if device.device.consumes_counters and not is_shared:
        for (_, of_set, name), left, wanted in Counters(devices.taken).lacking(pool, device.device):
            free, needs = (max(amount, 0) // 10**9 for amount in (left, wanted))
            counter = f"{of_set}/{name}"
            words = f"needs {as_binary(needs)} of shared counter {counter} ({as_binary(free)} left)"
            has = Quantity.parse(pool.counters[of_set].counters[name].value).value
            return Line(words, resource=counter, needs=needs, has=has, free=free)
    return FREE


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
