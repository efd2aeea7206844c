"""Which kinds are read only while a pod needs them: claims, and what these depend on."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from lib.kube.objects import Pod
from lib.kube.paths import CLAIMS, DEVICES_API, RESOURCE_CLAIMS, STORAGE_PATHS
from lib.kube.resource_claims import may_need_devices
from lib.kube.storage import PersistentVolumeClaim, needs_storage


@dataclass(frozen=True)
class ClaimKinds:
    """Claims, and what they depend on.

    what: a word for what is claimed. needed_by: whether the scheduling of a pod depends on them. claims: the
    path of all claims. kinds: returns the kind of claims, and the other kinds by their paths; they are
    imported only then. by_namespace: whether to go on with the claims of the served namespaces if those of
    others can't be read.
    """

    what: str
    needed_by: Callable[[Pod], bool]
    claims: str
    kinds: Callable[[], tuple[type[Any], Mapping[str, type[Any]]]]
    by_namespace: bool

    @property
    def unseen_elsewhere(self) -> str:
        """What is logged when the claims of other namespaces can't be read."""
        return f"{self.what} of pods of other namespaces are not counted"


def _device_kinds() -> tuple[type[Any], Mapping[str, type[Any]]]:
    from lib.kube.devices import DeviceClass, ResourceClaim, ResourceSlice  # here, as few clusters need them

    others = {f"{DEVICES_API}/deviceclasses": DeviceClass, f"{DEVICES_API}/resourceslices": ResourceSlice}
    return ResourceClaim, others


VOLUMES = ClaimKinds("volumes", needs_storage, CLAIMS, lambda: (PersistentVolumeClaim, STORAGE_PATHS), True)

DEVICES = ClaimKinds("devices", may_need_devices, RESOURCE_CLAIMS, _device_kinds, False)
"""A device that another namespace's claim has must not be given away: so all claims are needed."""
