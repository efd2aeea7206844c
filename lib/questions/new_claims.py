"""The claims of new pods, as controllers would create them, and their volumes.

Sources: pkg/controller/statefulset/stateful_set_utils.go, pkg/controller/volume/ephemeral/controller.go
and the admission plugin DefaultStorageClass.
"""

from collections.abc import Iterator, Mapping, Sequence

from lib.kube.objects import Json, ObjectMeta, OwnerReference, Pod, with_parts
from lib.kube.storage import (
    BIND_COMPLETED,
    NO_PROVISIONER,
    WAIT_FOR_FIRST_CONSUMER,
    ClaimReference,
    PersistentVolume,
    PersistentVolumeClaim,
    PersistentVolumeSpec,
    StorageClass,
    StorageObject,
)
from lib.scheduling.storage import Storage
from lib.scheduling.volumes.claims import claim_names

DEFAULT_CLASS = "storageclass.kubernetes.io/is-default-class"
"""An annotation of the default StorageClass, for claims that name none."""


def claim_volumes(templates: Sequence[Json], pod_name: str) -> list[Json]:
    """The volumes that a pod of a StatefulSet gets for its volumeClaimTemplates."""
    names = [str((template.get("metadata") or {}).get("name")) for template in templates]
    return [{"name": name, "persistentVolumeClaim": {"claimName": f"{name}-{pod_name}"}} for name in names]


def add_claims(
    pod: Pod,
    templates: Sequence[PersistentVolumeClaim],
    ephemeral: Mapping[str, PersistentVolumeClaim],
    storage: Storage,
) -> None:
    """Add the claims that would be created for a new pod, if they don't exist, and volumes for its claims.

    templates: a StatefulSet's. ephemeral: by name, the claims of the pod's ephemeral volumes. Any other claim
    must exist already.
    """
    for claim in _made_for(pod, templates, ephemeral):
        if storage.claim(claim.metadata.namespace, claim.metadata.name) is None:
            storage.put(claim)
    for name in claim_names(pod):
        unbound = storage.claim(pod.metadata.namespace, name.name)
        if unbound and not unbound.spec.volume_name:
            for made in _provisioned(unbound, storage):
                storage.put(made)


def _made_for(
    pod: Pod,
    templates: Sequence[PersistentVolumeClaim],
    ephemeral: Mapping[str, PersistentVolumeClaim],
) -> Iterator[PersistentVolumeClaim]:
    for template in templates:
        name = f"{template.metadata.name}-{pod.metadata.name}"
        yield _claim(pod, name, template)
    owner = OwnerReference("Pod", pod.metadata.name, pod.metadata.uid, "v1", controller=True)
    for volume, template in ephemeral.items():
        yield _claim(pod, f"{pod.metadata.name}-{volume}", template, owner)


def _claim(
    pod: Pod, name: str, template: PersistentVolumeClaim, *owners: OwnerReference
) -> PersistentVolumeClaim:
    """A claim of a pod. The annotations stay: one of them may name the class."""
    annotations, namespace = template.metadata.annotations, pod.metadata.namespace
    metadata = ObjectMeta(name=name, namespace=namespace, uid=name, annotations=annotations)
    metadata.owner_references = [*owners]
    return PersistentVolumeClaim(metadata, template.spec)


def _provisioned(claim: PersistentVolumeClaim, storage: Storage) -> Iterator[StorageObject]:
    """A claim with its class, and if that is Immediate, bound to a new volume that all nodes can reach.

    Where such a volume would be isn't known before it is provisioned.
    """
    found = _class_of(claim, storage)
    if found is None:
        return
    claim = with_parts(claim, spec={"storage_class_name": found.metadata.name})
    made_at_once = found.volume_binding_mode != WAIT_FOR_FIRST_CONSUMER
    if made_at_once and found.provisioner not in ("", NO_PROVISIONER):
        yield from _bound(claim)
    else:
        yield claim


def _bound(claim: PersistentVolumeClaim) -> Iterator[StorageObject]:
    """A claim that is bound to a new volume, and the volume."""
    name = f"pv-of-{claim.metadata.namespace}-{claim.metadata.name}"
    own = ClaimReference(claim.metadata.namespace, claim.metadata.name, claim.metadata.uid)
    of_class = claim.spec.storage_class_name or ""
    yield PersistentVolume(
        ObjectMeta(name=name), PersistentVolumeSpec(claim_ref=own, storage_class_name=of_class)
    )
    annotations = {**claim.metadata.annotations, BIND_COMPLETED: "yes"}
    yield with_parts(claim, metadata={"annotations": annotations}, spec={"volume_name": name})


def missing_claim(pod: Pod, name: str, storage: Storage) -> list[StorageObject]:
    """A claim that isn't there, as it would be of the default class, with its volume.

    Without a default class, it has a volume that all nodes can reach.
    """
    metadata = ObjectMeta(name=name, namespace=pod.metadata.namespace, uid=name)
    claim = PersistentVolumeClaim(metadata)
    return [*_provisioned(claim, storage)] or [*_bound(claim)]


def _class_of(claim: PersistentVolumeClaim, storage: Storage) -> StorageClass | None:
    if claim.spec.storage_class_name is not None or claim.storage_class:
        return storage.classes.get(claim.storage_class)
    default = [
        storage_class
        for storage_class in storage.classes.values()
        if storage_class.metadata.annotations.get(DEFAULT_CLASS) == "true"
    ]
    return max(
        default,
        key=lambda storage_class: (_created(storage_class), storage_class.metadata.name),
        default=None,
    )


def _created(kind: StorageClass) -> float:
    created = kind.metadata.creation_timestamp
    return created.timestamp() if created else 0.0
