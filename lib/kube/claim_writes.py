"""Writes of resource claims: which devices a claim has, and which pods use it.

Each function returns a write. `now` is in UTC, in whole seconds.

Source: pkg/scheduler/framework/plugins/dynamicresources, dynamicresources.go (bindClaim, Unreserve,
PostFilter) and extendeddynamicresources.go
"""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from msgspec.structs import replace

from lib.kube.devices import AllocationResult, ResourceClaim
from lib.kube.errors import ApiError, ConflictError, ForbiddenError, NotFoundError, StatusError
from lib.kube.objects import Pod
from lib.kube.paths import path_of
from lib.kube.pod_writes import nominate, patch_status, record
from lib.kube.protobuf import PROTOBUF, with_metadata
from lib.kube.resource_claims import (
    UNNAMED,
    DeallocateClaim,
    DeleteClaim,
    ReleaseClaim,
    ReserveClaim,
    UndoClaim,
)
from lib.kube.resources import RESOURCE_CLAIMS
from lib.kube.write import Request, Write

FINALIZER = "resource.kubernetes.io/delete-protection"
"""Keeps a claim from being deleted as long as it has devices."""

IMMUTABLE = "field is immutable"
"""What the API server says of a claim whose spec it takes for changed."""

TRIES = 5
"""How often poller tries to write a claim that others change at the same time."""


class ClaimError(ApiError):
    """A claim can't be written as it is now."""


def reserve_claim(step: ReserveClaim, now: datetime) -> Write[ResourceClaim]:
    """Write that a pod uses a claim, and its allocation if it has none; returns the API server's object.

    ApiError with the server's words when that is refused. If the same was written before, and the answer was
    lost, it is found written.
    """
    claim = step.claim
    created = claim.metadata.name == UNNAMED
    if created:
        claim = yield from _create(claim)
    for left in reversed(range(TRIES)):
        if claim.metadata.deletion_timestamp:
            raise ClaimError(f"claim {claim} got deleted in the meantime")
        if step.allocation and claim.status.allocation:
            raise ClaimError(f"claim {claim} got allocated elsewhere in the meantime")
        if not step.allocation and not claim.status.allocation:
            raise ClaimError(f"claim {claim} got deallocated elsewhere in the meantime")
        try:
            claim = yield from _reserve(step, claim, now)
            break
        except ConflictError:  # others have written, or it is our own write whose answer was lost
            found: ResourceClaim = yield Request("GET", _path(claim), ResourceClaim)
            if found.metadata.uid != claim.metadata.uid or not left:
                raise
            claim = found
            if uses(step.pod, claim) and _has_devices(claim, step.allocation):
                break
    if step.mappings:
        about = {"requestMappings": step.mappings, "resourceClaimName": claim.metadata.name}
        yield patch_status(step.pod, {"extendedResourceClaimStatus": about})
    return claim


def look_up(claim: ResourceClaim) -> Write[ResourceClaim | None]:
    """The claim as it is now; None if it is gone, or has no name. ApiError when that is unknown."""
    if claim.metadata.name == UNNAMED:
        return None
    try:
        now: ResourceClaim = yield Request("GET", _path(claim), ResourceClaim)
    except NotFoundError:
        return None
    return now if now.metadata.uid == claim.metadata.uid else None


def _create(claim: ResourceClaim) -> Write[ResourceClaim]:
    """Create the claim for a pod's extended resources; the API server completes its name.

    If the answer is lost, the claim is found by its owner when the pod is tried again.
    """
    named = claim.metadata
    owners = [
        {"apiVersion": owner.api_version, "kind": owner.kind, "name": owner.name, "uid": owner.uid}
        | {"controller": owner.controller}
        for owner in named.owner_references
    ]
    metadata = {
        "generateName": named.generate_name,
        "namespace": named.namespace,
        "annotations": named.annotations,
        "ownerReferences": owners,
    }
    body = {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim", "metadata": metadata}
    path = path_of("resourceclaims", named.namespace, api=RESOURCE_CLAIMS.api)
    try:
        made: ResourceClaim = yield Request(
            "POST", path, ResourceClaim, {**body, "spec": claim.spec}, repeatable=False
        )
    except StatusError as error:
        raise _with_words(error, f"create claim for extended resources {claim}") from error
    return made


def _reserve(step: ReserveClaim, claim: ResourceClaim, now: datetime) -> Write[ResourceClaim]:
    """Two requests: the finalizer is no part of the status."""
    pod = step.pod.metadata
    status: dict[str, Any] = {"reservedFor": [{"resource": "pods", "name": pod.name, "uid": pod.uid}]}
    what = "add reservation to claim"
    if step.allocation:
        if FINALIZER not in claim.metadata.finalizers:
            try:
                claim = yield from _add_finalizer(claim)
            except ConflictError:
                raise
            except StatusError as error:
                raise _with_words(error, f"add finalizer to claim {claim}") from error
        what = "add allocation and reservation to claim"
        status["allocation"] = replace(step.allocation, allocation_timestamp=now)
    patch: dict[str, Any] = {"metadata": _version(claim), "status": status}
    try:
        written: ResourceClaim = yield Request("PATCH", f"{_path(claim)}/status", ResourceClaim, patch)
    except ConflictError:
        raise
    except StatusError as error:
        raise _with_words(error, f"{what} {claim}") from error
    return written


def _add_finalizer(claim: ResourceClaim) -> Write[ResourceClaim]:
    """As protobuf if the API server takes the patch for a change of the spec (see protobuf.py)."""
    patch = {"metadata": {**_version(claim), "finalizers": [FINALIZER]}}
    try:
        patched: ResourceClaim = yield Request("PATCH", _path(claim), ResourceClaim, patch)
        return patched
    except ConflictError:
        raise
    except StatusError as error:
        if IMMUTABLE not in error.said:
            raise
        refused = error
    now: bytes = yield Request("GET", _path(claim), media_type=PROTOBUF)
    try:
        body = with_metadata(now, **_version(claim), finalizers=FINALIZER)
    except ValueError:  # this server doesn't write protobuf
        raise refused from None
    updated: ResourceClaim = yield Request("PUT", _path(claim), ResourceClaim, body, media_type=PROTOBUF)
    return updated


def announce_wait(pod: Pod, node_name: str, now: datetime) -> Write[None]:
    """Write that a pod waits for its devices: its nominated node, and an event."""
    yield from nominate(pod, node_name)
    message = f"waiting for binding conditions for device on node {node_name}"
    yield from record(pod, "BindingConditionsPending", message, now)


def undo_claim(step: UndoClaim) -> Write[ResourceClaim | None]:
    """Undo what was written of a claim, or take its devices away. What is undone already stays so.

    Returns the API server's object; None if the claim is gone, or has changed.
    """
    claim, now = step.claim, None
    try:
        if isinstance(step, ReleaseClaim):
            gone = {"$patch": "delete", "uid": step.pod.metadata.uid}
            now = yield _patch_status(claim, {"uid": claim.metadata.uid}, {"reservedFor": [gone]})
        elif isinstance(step, DeallocateClaim):
            nothing = {"allocation": None, "reservedFor": None, "devices": None}
            now = yield _patch_status(claim, _version(claim), nothing)
        elif isinstance(step, DeleteClaim):
            finalizers = {"$deleteFromPrimitiveList/finalizers": [FINALIZER]}
            patch = {"metadata": {"uid": claim.metadata.uid, **finalizers}}
            yield Request("PATCH", _path(claim), ResourceClaim, patch)
            options = {"uid": claim.metadata.uid}
            yield Request(
                "DELETE",
                _path(claim),
                body={"kind": "DeleteOptions", "apiVersion": "v1", "preconditions": options},
            )
    except (NotFoundError, ConflictError):  # it is gone, or has changed: then it is decided on again
        return None
    return now


def uses(pod: Pod, claim: ResourceClaim) -> bool:
    """Whether a claim is reserved for a pod."""
    return any(consumer.uid == pod.metadata.uid for consumer in claim.status.reserved_for)


def _has_devices(claim: ResourceClaim, allocation: AllocationResult | None) -> bool:
    """Whether a claim has the devices of an allocation; with None, whether it has any."""
    now = claim.status.allocation
    if not now or not allocation:
        return now is not None
    return _devices(now) == _devices(allocation)


def _devices(allocation: AllocationResult) -> list[tuple[object, ...]]:
    return [
        (result.driver, result.pool, result.device, result.share_id) for result in allocation.devices.results
    ]


def _with_words(error: StatusError, what: str) -> ApiError:
    """The error as kube-scheduler says it: what was tried, and the server's words.

    A missing right stays what it is: its message names the rule.
    """
    if error.said and not error.transient and not isinstance(error, ForbiddenError):
        return ClaimError(f"{what}: {error.said}")
    return error


def _version(claim: ResourceClaim) -> Mapping[str, str]:
    return {"uid": claim.metadata.uid, "resourceVersion": claim.metadata.resource_version}


def _patch_status(claim: ResourceClaim, which: Mapping[str, str], status: Mapping[str, object]) -> Request:
    body = {"metadata": which, "status": status}
    return Request("PATCH", f"{_path(claim)}/status", ResourceClaim, body)


def _path(claim: ResourceClaim) -> str:
    return path_of("resourceclaims", claim.metadata.namespace, claim.metadata.name, api=RESOURCE_CLAIMS.api)
