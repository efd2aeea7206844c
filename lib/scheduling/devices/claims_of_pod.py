"""The resource claims of a pod: those that it names, and those that are made for it from templates.

Source: k8s.io/dynamic-resource-allocation, resourceclaim/resourceclaim.go;
pkg/scheduler/framework/plugins/dynamicresources/dynamicresources.go, foreachPodResourceClaim,
isClaimReadyForBinding and isSchedulableAfterClaimChange
"""

from lib.kube.changes import AnyChange, Kind
from lib.kube.devices import DeviceClass, ResourceClaim, ResourceSlice
from lib.kube.objects import Pod, PodResourceClaim
from lib.scheduling.devices.cluster_devices import ClusterDevices
from lib.scheduling.devices.pools import DeviceId

NOT_CREATED = 'pod "{}": ResourceClaim not created yet'
NOT_FOUND = 'could not find ResourceClaim "{}"'
BEING_DELETED = 'resourceclaim "{}" is being deleted'
NOT_OWNER = "ResourceClaim {} was not created for Pod {} (Pod is not owner)"
UNSUPPORTED = 'pod "{}", spec.resourceClaim "{}": none of the supported fields are set'


class ClaimMissingError(Exception):
    """A claim of a pod isn't there, or can't be used. The text says why, in kube-scheduler's words."""


class BindingFailedError(Exception):
    """A device will not get ready. The text says why."""


def claim_name(pod: Pod, named: PodResourceClaim) -> str | None:
    """The name of a claim; None if the pod needs none after all. ClaimMissingError if it isn't made yet."""
    if named.resource_claim_name is not None:
        return named.resource_claim_name
    if named.resource_claim_template_name is None:
        raise ClaimMissingError(UNSUPPORTED.format(pod, named.name))
    for status in pod.status.resource_claim_statuses:
        if status.name == named.name:
            return status.resource_claim_name
    raise ClaimMissingError(NOT_CREATED.format(pod))


def claims_of(pod: Pod, devices: ClusterDevices) -> list[ResourceClaim]:
    """The claims of a pod, in its order. ClaimMissingError if one isn't there, or can't be used."""
    found = []
    for named in pod.spec.resource_claims:
        name = claim_name(pod, named)
        if name is None:
            continue
        claim = devices.claim(pod.metadata.namespace, name)
        if claim is None:
            raise ClaimMissingError(NOT_FOUND.format(f"{pod.metadata.namespace}/{name}"))
        if claim.metadata.deletion_timestamp:
            raise ClaimMissingError(BEING_DELETED.format(name))
        if named.resource_claim_name is None and not is_owned_by(claim, pod):
            raise ClaimMissingError(NOT_OWNER.format(f"{pod.metadata.namespace}/{name}", pod))
        found.append(claim)
    return found


def names_claim(pod: Pod, claim: ResourceClaim) -> bool:
    """Whether a claim is one of a pod's."""
    if claim.metadata.namespace != pod.metadata.namespace:
        return False
    for named in pod.spec.resource_claims:
        try:
            if claim_name(pod, named) == claim.metadata.name:
                return True
        except ClaimMissingError:
            continue
    return False


def is_owned_by(claim: ResourceClaim, pod: Pod) -> bool:
    """Whether a claim was made for a pod: the pod is the owner that controls it."""
    return any(
        owner.controller and owner.uid == pod.metadata.uid for owner in claim.metadata.owner_references
    )


def is_reserved_for(claim: ResourceClaim, pod: Pod) -> bool:
    """Whether it is written that a pod uses a claim."""
    return any(user.uid == pod.metadata.uid for user in claim.status.reserved_for)


def has_binding_conditions(claim: ResourceClaim) -> bool:
    """Whether a device of a claim must get ready first."""
    allocation = claim.status.allocation
    return allocation is not None and any(result.binding_conditions for result in allocation.devices.results)


def is_ready(claim: ResourceClaim) -> bool:
    """Whether all devices of an allocated claim are ready. BindingFailedError when one never will be."""
    allocation = claim.status.allocation
    if not allocation:
        return False
    for device in allocation.devices.results:
        if not device.binding_conditions:
            continue
        of_device = (status for status in claim.status.devices if DeviceId.of(status) == DeviceId.of(device))
        status = next(of_device, None)
        if status is None:
            return False
        conditions = {condition.type: condition for condition in status.conditions}
        for name in device.binding_failure_conditions:
            failed = conditions.get(name)
            if failed and failed.status == "True":
                why = f'claim={claim.metadata.name}, reason={failed.reason}, message="{failed.message}"'
                raise BindingFailedError(f"device binding failed: {why}")
        for name in device.binding_conditions:
            if name not in conditions or conditions[name].status != "True":
                return False
    return True


def changes_claim(change: AnyChange) -> bool:
    """Whether a change is one of a claim."""
    return isinstance(change.object, ResourceClaim)


def gives_back(change: AnyChange) -> bool:
    """Whether a claim had devices, and has none any more."""
    now, before = change.object, change.before
    if not isinstance(now, ResourceClaim) or not isinstance(before, ResourceClaim):
        return False
    return bool(before.status.allocation) and (change.kind == Kind.DELETED or not now.status.allocation)


def may_give_devices(pod: Pod, change: AnyChange) -> bool:
    """Whether a pod may get devices now: its claim has changed, or a claim, class or slice gives more."""
    now, before = change.object, change.before
    is_gone = change.kind == Kind.DELETED
    if isinstance(now, DeviceClass | ResourceSlice):
        return not is_gone
    if not isinstance(now, ResourceClaim):
        return False
    if gives_back(change):
        return True
    if is_gone:
        return False
    if not names_claim(pod, now) and not is_owned_by(now, pod):
        return False
    return not isinstance(before, ResourceClaim) or before.status != now.status
