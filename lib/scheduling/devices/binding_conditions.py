"""Conditions that devices must meet before a pod is bound: a fabric has attached them, for example.

Source: pkg/scheduler/framework/plugins/dynamicresources/dynamicresources.go, isClaimReadyForBinding
"""

from lib.kube.devices import AllocatedDeviceStatus, DeviceRequestAllocationResult, ResourceClaim


class BindingFailedError(Exception):
    """A device will not get ready. The text says why."""


def has_binding_conditions(claim: ResourceClaim) -> bool:
    """Whether a device of a claim must get ready first."""
    allocation = claim.status.allocation
    return allocation is not None and any(each.binding_conditions for each in allocation.devices.results)


def is_ready(claim: ResourceClaim) -> bool:
    """Whether all devices of an allocated claim are ready. BindingFailedError when one never will be."""
    allocation = claim.status.allocation
    if not allocation:
        return False
    for device in allocation.devices.results:
        if not device.binding_conditions:
            continue
        status = _status_of(claim, device)
        if status is None:
            return False
        conditions = {each.type: each for each in status.conditions}
        for name in device.binding_failure_conditions:
            failed = conditions.get(name)
            if failed and failed.status == "True":
                why = f'claim={claim.metadata.name}, reason={failed.reason}, message="{failed.message}"'
                raise BindingFailedError(f"device binding failed: {why}")
        for name in device.binding_conditions:
            if name not in conditions or conditions[name].status != "True":
                return False
    return True


def _status_of(claim: ResourceClaim, device: DeviceRequestAllocationResult) -> AllocatedDeviceStatus | None:
    for status in claim.status.devices:
        if (status.driver, status.pool, status.device) == (device.driver, device.pool, device.device):
            return status
    return None
