"""The claims of new pods, as controllers would create them, and their volumes.

Sources: pkg/controller/statefulset/stateful_set_utils.go, pkg/controller/volume/ephemeral/controller.go
and the admission plugin DefaultStorageClass.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec

from lib.kube.objects import ObjectMeta, OwnerReference, Pod
from lib.kube.storage import (
    BIND_COMPLETED,
    NO_PROVISIONER,
    WAIT_FOR_FIRST_CONSUMER,
    ClaimReference,
    PersistentVolume,
    PersistentVolumeClaim,
    PersistentVolumeClaimSpec,
    PersistentVolumeSpec,
    StorageClass,
)
from lib.scheduling.volumes.assume_cache import Storage
from lib.scheduling.volumes.claims import claim_names

DEFAULT_CLASS = "storageclass.kubernetes.io/is-default-class"
"""An annotation of the default StorageClass, for claims that name none."""

Json = dict[str, Any]


def claim_volumes(templates: Sequence[Json], pod_name: str) -> list[Json]:
    """The volumes that a pod of a StatefulSet gets for its volumeClaimTemplates."""
    names = [str((each.get("metadata") or {}).get("name")) for each in templates]
    return [{"name": name, "persistentVolumeClaim": {"claimName": f"{name}-{pod_name}"}} for name in names]


def add_claims(
    pod: Pod,
    templates: Sequence[PersistentVolumeClaim],
    ephemeral: Mapping[str, PersistentVolumeClaimSpec],
    storage: Storage,
) -> None:
    """Add the claims that would be created for a new pod, if they don't exist, and volumes for its claims.

    templates: a StatefulSet's. ephemeral: by name, the claims of the pod's ephemeral volumes. Any other claim
    must exist already.
    """
    for claim in _made_for(pod, templates, ephemeral):
        if storage.claim(claim.metadata.namespace, claim.metadata.name) is None:
            storage.put(claim)
    for each in claim_names(pod):
        unbound = storage.claim(pod.metadata.namespace, each.name)
        if unbound and not unbound.spec.volume_name:
            _provision(unbound, storage)


def _made_for(
    pod: Pod,
    templates: Sequence[PersistentVolumeClaim],
    ephemeral: Mapping[str, PersistentVolumeClaimSpec],
) -> Iterator[PersistentVolumeClaim]:
    for each in templates:
        name = f"{each.metadata.name}-{pod.metadata.name}"
        yield PersistentVolumeClaim(
            ObjectMeta(name=name, namespace=pod.metadata.namespace, uid=name), each.spec
        )
    owner = OwnerReference("Pod", pod.metadata.name, pod.metadata.uid, "v1", controller=True)
    for volume, spec in ephemeral.items():
        name = f"{pod.metadata.name}-{volume}"
        metadata = ObjectMeta(name=name, namespace=pod.metadata.namespace, uid=name, owner_references=[owner])
        yield PersistentVolumeClaim(metadata, spec)


def _provision(claim: PersistentVolumeClaim, storage: Storage) -> None:
    """Bind a claim of an Immediate class to a new volume that can be reached from all nodes.

    Where such a volume would be isn't known before it is provisioned.
    """
    found = _class_of(claim, storage)
    if found is None:
        return
    spec = msgspec.structs.replace(claim.spec, storage_class_name=found.metadata.name)
    annotations = dict(claim.metadata.annotations)
    made_at_once = found.volume_binding_mode != WAIT_FOR_FIRST_CONSUMER
    if made_at_once and found.provisioner not in ("", NO_PROVISIONER):
        name = f"pv-of-{claim.metadata.namespace}-{claim.metadata.name}"
        own = ClaimReference(claim.metadata.namespace, claim.metadata.name, claim.metadata.uid)
        volume_spec = PersistentVolumeSpec(claim_ref=own, storage_class_name=found.metadata.name)
        storage.put(PersistentVolume(ObjectMeta(name=name), volume_spec))
        spec.volume_name = name
        annotations[BIND_COMPLETED] = "yes"
    metadata = msgspec.structs.replace(claim.metadata, annotations=annotations)
    storage.put(msgspec.structs.replace(claim, metadata=metadata, spec=spec))


def _class_of(claim: PersistentVolumeClaim, storage: Storage) -> StorageClass | None:
    if claim.spec.storage_class_name is not None or claim.storage_class:
        return storage.classes.get(claim.storage_class)
    default = (
        each for each in storage.classes.values() if each.metadata.annotations.get(DEFAULT_CLASS) == "true"
    )
    return next(default, None)
