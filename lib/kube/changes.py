"""What happened to an object: the form in which the rest of poller hears of the cluster."""

from dataclasses import dataclass
from enum import Enum
from typing import Generic, TypeVar

from lib.kube.objects import Node, Pod, Service
from lib.kube.storage import (
    CSIDriver,
    CSINode,
    CSIStorageCapacity,
    PersistentVolume,
    PersistentVolumeClaim,
    StorageClass,
    VolumeAttachment,
)


class Kind(Enum):
    """What happened to an object."""

    ADDED = "added"
    MODIFIED = "modified"
    DELETED = "deleted"


Changed = TypeVar(
    "Changed",
    Pod,
    Node,
    Service,
    PersistentVolumeClaim,
    PersistentVolume,
    StorageClass,
    CSINode,
    CSIDriver,
    CSIStorageCapacity,
    VolumeAttachment,
)


@dataclass(frozen=True)
class Change(Generic[Changed]):
    """What happened to an object, such as a pod; `before` is the object as it was, unless it was added.

    A pod that gets a node is deleted from those that wait, and added to those that have one.
    """

    kind: Kind
    object: Changed
    before: Changed | None = None


AnyStorageChange = (
    Change[PersistentVolumeClaim]
    | Change[PersistentVolume]
    | Change[StorageClass]
    | Change[CSINode]
    | Change[CSIDriver]
    | Change[CSIStorageCapacity]
    | Change[VolumeAttachment]
)

AnyChange = Change[Pod] | Change[Node] | AnyStorageChange


def unassigned_pod(change: AnyChange) -> Pod | None:
    """The pod that a change is of, if it waits for a node."""
    return change.object if isinstance(change.object, Pod) and not change.object.spec.node_name else None
