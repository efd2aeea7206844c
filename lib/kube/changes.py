"""A change of an object: the form in which the rest of poller gets news of the cluster."""

from enum import Enum
from typing import TYPE_CHECKING, Generic, TypeVar, Union

import msgspec

from lib.kube.objects import Node, Pod, Service

if TYPE_CHECKING:  # imported only when a pod needs them
    from lib.kube.devices import DeviceObject
    from lib.kube.storage import StorageObject

AnyObject = Union[Pod, Node, Service, "StorageObject", "DeviceObject"]
"""The kinds whose changes are told."""


class Kind(Enum):
    """What happened to an object."""

    ADDED = "added"
    MODIFIED = "modified"
    DELETED = "deleted"


Changed = TypeVar("Changed", bound=AnyObject)
Changed_co = TypeVar("Changed_co", bound=AnyObject, covariant=True)


class Change(msgspec.Struct, Generic[Changed_co], frozen=True):
    """A change of an object, such as a pod. before: the object as it was; None if it was added.

    A pod that gets a node makes two changes: the unassigned pod is deleted, the assigned pod is added.
    """

    kind: Kind
    object: Changed_co
    before: Changed_co | None = None


AnyChange = Change[Pod] | Change[Node] | Change["StorageObject"] | Change["DeviceObject"]


def unassigned_pod(change: AnyChange) -> Pod | None:
    """The pod that a change is about, if that pod has no node."""
    return change.object if isinstance(change.object, Pod) and not change.object.spec.node_name else None


def is_older(version: str, other: str) -> bool:
    """Whether a resource version is known to come before another one."""
    return version.isdecimal() and other.isdecimal() and int(version) < int(other)
