"""Which changes of claims, classes and slices could help a pod that didn't get its devices.

Source: pkg/scheduler/framework/plugins/dynamicresources/dynamicresources.go, isSchedulableAfterClaimChange
"""

from lib.kube.changes import AnyChange, Kind
from lib.kube.devices import DeviceClass, ResourceClaim, ResourceSlice
from lib.kube.objects import Pod
from lib.scheduling.devices.claims_of_pod import is_owned_by, names_claim


def may_give_devices(pod: Pod, change: AnyChange) -> bool:
    """Whether a pod may get devices now: its claim has changed, or a claim, class or slice gives more."""
    now, before = change.object, change.before
    is_gone = change.kind == Kind.DELETED
    if isinstance(now, DeviceClass | ResourceSlice):
        return not is_gone
    if not isinstance(now, ResourceClaim):
        return False
    had_devices = isinstance(before, ResourceClaim) and before.status.allocation
    if had_devices and (is_gone or not now.status.allocation):
        return True
    if is_gone:
        return False
    if not names_claim(pod, now) and not is_owned_by(now, pod):
        return False
    return not isinstance(before, ResourceClaim) or before.status != now.status
