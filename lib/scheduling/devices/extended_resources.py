"""Extended resources that a DeviceClass serves: a claim is made for them when the pod is bound.

Source: pkg/scheduler/framework/plugins/dynamicresources/extendeddynamicresources.go
"""

from collections.abc import Mapping, Sequence

from lib.kube.devices import (
    DeviceClaim,
    DeviceRequest,
    ExactDeviceRequest,
    ResourceClaim,
    ResourceClaimSpec,
)
from lib.kube.objects import Container, ObjectMeta, OwnerReference, Pod
from lib.kube.resource_claims import UNNAMED, RequestMapping, all_containers, may_be_of_device_class
from lib.scheduling.devices.claims_of_pod import is_owned_by
from lib.scheduling.devices.cluster_devices import ClusterDevices
from lib.scheduling.node_info import NodeInfo, capacity
from lib.scheduling.resources import pod_requests

ANNOTATION = "resource.kubernetes.io/extended-resource-claim"
"""The annotation of such a claim; its value is "true"."""

CANNOT_FIT = "cannot fit resource"


def requested_of_classes(pod: Pod, devices: ClusterDevices) -> dict[str, int]:
    """The extended resources that a pod requests, if a DeviceClass serves one of them; else nothing."""
    found = {
        name: amount for name, amount in pod_requests(pod).items() if amount and may_be_of_device_class(name)
    }
    return found if any(name in devices.served for name in found) else {}


def claim_for(pod: Pod, devices: ClusterDevices) -> ResourceClaim:
    """The claim for a pod's extended resources: one of an earlier attempt, or a new one without a name."""
    for claim in devices.claims:
        if claim.metadata.annotations.get(ANNOTATION) == "true" and is_owned_by(claim, pod):
            return claim
    name, uid = pod.metadata.name, pod.metadata.uid
    metadata = ObjectMeta(
        name=UNNAMED,
        generate_name=f"{name}-extended-resources-",
        namespace=pod.metadata.namespace,
        uid=f"extended-resources-of-{uid or name}",
        annotations={ANNOTATION: "true"},
        owner_references=[OwnerReference(kind="Pod", name=name, uid=uid, api_version="v1", controller=True)],
    )
    return ResourceClaim(metadata)


def needed_of_devices(
    requested: Mapping[str, int], node: NodeInfo, devices: ClusterDevices
) -> set[str] | None:
    """Which of the resources devices must serve on a node, as the node itself has none of them.

    None if the node has no such resource, and no class serves it.
    """
    needed = set()
    for name in requested:
        if name in devices.served and not capacity(node, name):
            needed.add(name)
        elif name not in node.allocatable:
            return None
    return needed


def with_requests(
    claim: ResourceClaim, pod: Pod, resources: set[str], devices: ClusterDevices
) -> tuple[ResourceClaim, tuple[RequestMapping, ...]]:
    """The claim with a request for each container and resource; and which request is for which of them.

    Init containers use the devices of containers that start after them, before they get their own.
    """
    containers = [*all_containers(pod)]
    brief = [
        i for i, container in enumerate(pod.spec.init_containers) if container.restart_policy != "Always"
    ]
    requests: list[DeviceRequest] = []
    mappings: list[RequestMapping] = []
    for resource in sorted(resources):
        kind = devices.served[resource]
        own: list[DeviceRequest | None] = [None] * len(containers)
        for i, container in enumerate(containers):
            if i not in brief:
                own[i], more = _request(i, container, resource, kind, ())
                mappings += more
        largest: DeviceRequest | None = None
        names: set[str] = set()
        of_brief: list[RequestMapping] = []
        for i in brief:
            request, more = _request(i, containers[i], resource, kind, own[i:])
            of_brief += more
            if request:
                names.add(request.name)
                if largest is None or _count(largest) < _count(request):
                    largest = request
        for mapping in of_brief:  # they run one after the other: the largest request is enough for all
            name = largest.name if largest and mapping.request_name in names else mapping.request_name
            mappings.append(RequestMapping(mapping.container_name, mapping.resource_name, name))
        requests += [request for request in (largest, *own) if request]
    requests.sort(key=lambda request: request.name)
    spec = ResourceClaimSpec(devices=DeviceClaim(requests=tuple(requests)))
    return ResourceClaim(claim.metadata, spec, claim.status), tuple(mappings)


def _request(
    index: int, container: Container, resource: str, kind: str, reusable: Sequence[DeviceRequest | None]
) -> tuple[DeviceRequest | None, list[RequestMapping]]:
    """What a container requests of a class, besides what it can reuse; None if that is enough."""
    wanted = container.resources.requests.get(resource)
    if not wanted:
        return None, []
    count, mappings = wanted.value, []
    for reused in reusable:
        if reused:
            count -= _count(reused)
            mappings.append(RequestMapping(container.name, resource, reused.name))
            if count <= 0:
                return None, mappings
    position = sorted(container.resources.requests).index(resource)
    name = f"container-{index}-request-{position}"
    exactly = ExactDeviceRequest(device_class_name=kind, allocation_mode="ExactCount", count=count)
    mappings.append(RequestMapping(container.name, resource, name))
    return DeviceRequest(name=name, exactly=exactly), mappings


def _count(request: DeviceRequest) -> int:
    assert request.exactly
    return request.exactly.count
