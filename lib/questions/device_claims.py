"""The resource claims of new pods, as the claim controller would create them.

Source: pkg/controller/resourceclaim/controller.go
"""

from collections.abc import Sequence
from typing import Any

from msgspec.structs import replace

from lib.kube.devices import ResourceClaim, ResourceClaimStatus, ResourceClaimTemplate
from lib.kube.objects import ObjectMeta, OwnerReference, Pod, PodResourceClaimStatus
from lib.kube.resource_claims import may_be_of_device_class
from lib.scheduling.cache import Cache
from lib.scheduling.decision import Decision, Outcome
from lib.scheduling.plugins.dynamic_resources import NO_CEL


def may_need_devices(manifests: Any) -> bool:
    """Whether pods of some manifests may need devices: they name claims, or request an extended resource."""
    if isinstance(manifests, list):
        return any(map(may_need_devices, manifests))
    if not isinstance(manifests, dict):
        return False
    requested = [*_names(manifests.get("requests")), *_names(manifests.get("limits"))]
    found = "resourceClaims" in manifests or any(map(may_be_of_device_class, requested))
    return found or any(map(may_need_devices, manifests.values()))


def _names(amounts: Any) -> list[str]:
    return [*map(str, amounts)] if isinstance(amounts, dict) else []


def add_resource_claims(pod: Pod, templates: Sequence[ResourceClaimTemplate], cache: Cache) -> None:
    """Add the claims that would be created for a new pod from templates, and name them in its status.

    If there is no such template, the pod has no claim, as in the cluster.
    """
    namespace = pod.metadata.namespace
    known = {
        template.metadata.name: template for template in templates if template.metadata.namespace == namespace
    }
    owner = OwnerReference("Pod", pod.metadata.name, pod.metadata.uid, "v1", controller=True)
    for named in pod.spec.resource_claims:
        template = known.get(named.resource_claim_template_name or "")
        if template is None:
            continue
        name = f"{pod.metadata.name}-{named.name}"
        metadata = ObjectMeta(name=name, namespace=namespace, uid=f"{pod.metadata.uid}-{named.name}")
        metadata.owner_references = [owner]
        cache.devices.put(ResourceClaim(metadata, template.spec.spec))
        pod.status.resource_claim_statuses.append(PodResourceClaimStatus(named.name, name))


def release_claims(pod: Pod, cache: Cache) -> None:
    """A pod has gone: its claims aren't reserved for it any more, and what nobody uses has no devices."""
    from lib.scheduling.devices.claims_of_pod import (  # here, as few pods have some
        ClaimMissingError,
        claims_of,
    )

    try:
        claims = claims_of(pod, cache.devices)
    except ClaimMissingError:
        return
    for claim in claims:
        users = tuple(consumer for consumer in claim.status.reserved_for if consumer.uid != pod.metadata.uid)
        status = replace(claim.status, reserved_for=users)
        cache.devices.put(replace(claim, status=status if users else ResourceClaimStatus()))


def knows_devices(decision: Decision) -> bool:
    """Whether a decision about a pod doesn't depend on devices that can't be seen, or claims not made yet."""
    if not decision.pod.spec.resource_claims:
        return True
    return decision.outcome != Outcome.ERROR and NO_CEL.reasons[0] not in decision.message
