"""The claims of a pod: those that it names, and those that are created for its ephemeral volumes.

Source: component-helpers/storage/ephemeral/ephemeral.go and
pkg/scheduler/framework/plugins/volumebinding/volume_binding.go, podHasPVCs
"""

from collections import Counter
from collections.abc import Hashable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, ClassVar

import msgspec

from lib.kube.changes import AnyChange
from lib.kube.objects import Pod, Volume
from lib.kube.resources import VOLUMES
from lib.kube.storage import PersistentVolumeClaim

if TYPE_CHECKING:
    from lib.scheduling.storage import Storage

NOT_FOUND = 'persistentvolumeclaim "{}" not found'
NOT_CREATED = 'waiting for ephemeral volume controller to create the persistentvolumeclaim "{}"'
LOST = 'persistentvolumeclaim "{}" bound to non-existent persistentvolume "{}"'
BEING_DELETED = 'persistentvolumeclaim "{}" is being deleted'
NOT_OWNER = "PVC {} was not created for pod {} (pod is not owner)"


class ReadsVolumes:
    """What all plugins have in common that filter nodes by a pod's volumes."""

    needs: ClassVar = (VOLUMES,)

    def sign_for_hint(self, pod: Pod) -> Hashable:
        """The pod's namespace and volumes, with its name if it has claims of its own."""
        volumes = pod.spec.volumes
        own = pod.metadata.name if any(volume.ephemeral for volume in volumes) else ""
        return pod.metadata.namespace, own, msgspec.json.encode(volumes)

    def helps_owners_alone(self, change: AnyChange) -> bool:
        """Each change of a PersistentVolumeClaim."""
        return isinstance(change.object, PersistentVolumeClaim)


@dataclass(frozen=True)
class ClaimName:
    """A claim of a pod, by its name."""

    name: str
    ephemeral: bool
    """Whether it is created for the pod."""


def claim_name(pod: Pod, volume: Volume) -> ClaimName | None:
    """The claim of a pod's volume; None if the volume has none."""
    if volume.persistent_volume_claim:
        return ClaimName(volume.persistent_volume_claim.claim_name, ephemeral=False)
    if volume.ephemeral:
        return ClaimName(f"{pod.metadata.name}-{volume.name}", ephemeral=True)
    return None


@lru_cache(maxsize=1024)
def claim_names(pod: Pod) -> Mapping[ClaimName, int]:
    """The claims of a pod, in the order of its volumes, each with the number of volumes that have it."""
    return Counter(name for volume in pod.spec.volumes if (name := claim_name(pod, volume)))


def has_claims(pod: Pod) -> bool:
    """Whether one of a pod's volumes has a claim."""
    return bool(pod.spec.volumes and claim_names(pod))


def has_volumes(pod: Pod) -> bool:
    """Whether a filter reads one of a pod's volumes."""
    volumes = pod.spec.volumes
    return any(volume != Volume(name=volume.name, empty_dir=volume.empty_dir) for volume in volumes)


def why_not_owner(pod: Pod, claim: PersistentVolumeClaim) -> str | None:
    """Why a claim isn't the one that was created for a pod's ephemeral volume; None if it is."""
    controllers = (owner.uid for owner in claim.metadata.owner_references if owner.controller)
    if claim.metadata.namespace == pod.metadata.namespace and pod.metadata.uid in controllers:
        return None
    return NOT_OWNER.format(claim, pod)


def why_not_usable(pod: Pod, storage: "Storage") -> str | None:
    """Why a claim of a pod can't be used on any node; None if all can be used."""
    for reference in claim_names(pod):
        claim = storage.claim(pod.metadata.namespace, reference.name)
        if claim is None:
            return (NOT_CREATED if reference.ephemeral else NOT_FOUND).format(reference.name)
        if claim.status.phase == "Lost":
            return LOST.format(reference.name, claim.spec.volume_name)
        if claim.metadata.deletion_timestamp:
            return BEING_DELETED.format(reference.name)
        if reference.ephemeral and (why := why_not_owner(pod, claim)):
            return why
    return None


def existing_claims(pod: Pod, storage: "Storage") -> Iterator[PersistentVolumeClaim]:
    """The claims of a pod that exist."""
    claims = (storage.claim(pod.metadata.namespace, reference.name) for reference in claim_names(pod))
    return (claim for claim in claims if claim)
