"""Which pods need devices, and what is to be written of their claims.

It is read by programs that never see a device: the objects themselves (`devices.py`) are imported only when
a pod needs them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, cast

from lib.kube.objects import Container, Pod, Value

if TYPE_CHECKING:
    from lib.kube.devices import AllocationResult, DeviceClass, ResourceClaim

DEVICE_CLASS_PREFIX = "deviceclass.resource.kubernetes.io/"
"""With a DeviceClass' name, a resource that containers can request (k8s.io/api/resource/v1/types.go)."""

UNNAMED = "<extended-resources>"
"""The name of a claim that is created in PreBind, for resources that a DeviceClass serves."""


def may_need_devices(pod: Pod) -> bool:
    """Whether the scheduling of a pod depends on devices, or may do: a DeviceClass may serve a resource."""
    return bool(pod.spec.resource_claims) or any(
        may_be_of_device_class(name)
        for container in all_containers(pod)
        for name in container.resources.requests
    )


def may_be_of_device_class(resource: str) -> bool:
    """Whether a DeviceClass may serve a resource (pkg/scheduler/util/utils.go, IsDRAExtendedResourceName)."""
    if "/" not in resource:
        return False
    return "kubernetes.io/" not in resource or resource.startswith(DEVICE_CLASS_PREFIX)


def served_by(thing: object) -> tuple[str, ...]:
    """The resources that a DeviceClass serves; none if the object isn't one."""
    if type(thing).__name__ != "DeviceClass":  # its type may not be imported yet
        return ()
    kind = cast("DeviceClass", thing)
    own = DEVICE_CLASS_PREFIX + kind.metadata.name
    return (kind.spec.extended_resource_name, own) if kind.spec.extended_resource_name else (own,)


def all_containers(pod: Pod) -> Iterator[Container]:
    """A pod's init containers, and then the others."""
    yield from pod.spec.init_containers
    yield from pod.spec.containers


class RequestMapping(Value, frozen=True):
    """Which request of a claim has the devices for a container's resource."""

    container_name: str
    resource_name: str
    request_name: str


@dataclass(frozen=True)
class ReserveClaim:
    """Write that a pod uses a claim, with the allocation if there is none yet.

    claim: as it was last seen. A claim without a name is created. mappings: what is written about it on the
    pod.
    """

    claim: ResourceClaim
    pod: Pod
    node_name: str
    allocation: AllocationResult | None = None
    mappings: tuple[RequestMapping, ...] = ()


@dataclass(frozen=True)
class ReleaseClaim:
    """Write that a pod doesn't use a claim. The allocation stays."""

    claim: ResourceClaim
    pod: Pod


@dataclass(frozen=True)
class DeallocateClaim:
    """Take a claim's devices away, so that it can get others."""

    claim: ResourceClaim


@dataclass(frozen=True)
class DeleteClaim:
    """Delete a claim that was created for a pod's extended resources."""

    claim: ResourceClaim


UndoClaim = ReleaseClaim | DeallocateClaim | DeleteClaim
