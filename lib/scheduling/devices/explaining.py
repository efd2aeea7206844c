"""Says what a claim's requests would find on a node: which devices are there, and why not these."""

from collections import Counter
from collections.abc import Iterator, Sequence

from lib.kube.devices import DeviceSelector, ExactDeviceRequest, ResourceClaim
from lib.kube.selectors import matches_node
from lib.scheduling.devices.allocator import is_tolerated
from lib.scheduling.devices.cluster_devices import ClusterDevices
from lib.scheduling.devices.pools import DeviceId, PoolDevice
from lib.scheduling.devices.selectors import SelectorError
from lib.scheduling.node_info import NodeInfo
from lib.scheduling.text import count, listed, verb


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


def _found(spec: ExactDeviceRequest, node: NodeInfo, devices: ClusterDevices) -> str:
    there = [device for pool in devices.pools.of(node) for device in pool.devices]
    if not there:
        return "no devices are there"
    reasons = Counter(_why_not(spec, device, node, devices) for device in there)
    free = reasons.pop("", 0)
    parts = [f"{many} {why}" for why, many in sorted(reasons.items())]
    if free:
        wanted = (
            "all are" if spec.allocation_mode == "All" else f"{spec.count} {verb(spec.count, 'is', 'are')}"
        )
        parts.append(f"{free} could be had, {wanted} wanted")
    return f"{count(len(there), 'device')}: {', '.join(parts)}"


def _why_not(spec: ExactDeviceRequest, device: PoolDevice, node: NodeInfo, devices: ClusterDevices) -> str:
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
