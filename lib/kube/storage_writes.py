"""Binds a volume to a claim, or writes for which node a claim's volume is to be provisioned.

Source: pkg/scheduler/framework/plugins/volumebinding/binder.go, bindAPIUpdate
"""

from collections.abc import Callable
from typing import Any, TypeVar

from lib.kube.errors import ConflictError
from lib.kube.paths import path_of
from lib.kube.storage import BOUND_BY_CONTROLLER, SELECTED_NODE, PersistentVolume, PersistentVolumeClaim
from lib.kube.write import Request, Write

T = TypeVar("T", PersistentVolume, PersistentVolumeClaim)


def write_assumed(
    thing: PersistentVolume | PersistentVolumeClaim,
) -> Write[PersistentVolume | PersistentVolumeClaim]:
    """Write an assumed volume or claim; returns the API server's object.

    ConflictError when another object has its name by now, or when it has changed: it isn't overwritten.
    """
    return _reserve(thing) if isinstance(thing, PersistentVolume) else _select_node(thing)


def _reserve(volume: PersistentVolume) -> Write[PersistentVolume]:
    """Reserve a volume for the claim that it names."""
    mine = volume.spec.claim_ref
    assert mine
    claim = {
        "kind": "PersistentVolumeClaim",
        "apiVersion": "v1",
        "namespace": mine.namespace,
        "name": mine.name,
        "uid": mine.uid,
    }
    by_controller = volume.metadata.annotations.get(BOUND_BY_CONTROLLER)
    metadata = {"annotations": {BOUND_BY_CONTROLLER: by_controller}} if by_controller else {}
    patch = {"metadata": metadata, "spec": {"claimRef": claim}}
    path = f"/api/v1/persistentvolumes/{volume.metadata.name}"
    return _patch(volume, path, patch, lambda now: now.spec.claim_ref == mine)


def _select_node(claim: PersistentVolumeClaim) -> Write[PersistentVolumeClaim]:
    """Write for which node a claim's volume is to be provisioned."""
    node_name = claim.metadata.annotations[SELECTED_NODE]
    path = path_of("persistentvolumeclaims", claim.metadata.namespace, claim.metadata.name)
    patch = {"metadata": {"annotations": {SELECTED_NODE: node_name}}}
    return _patch(claim, path, patch, lambda now: now.metadata.annotations.get(SELECTED_NODE) == node_name)


def _patch(thing: T, path: str, patch: dict[str, Any], is_done: Callable[[T], bool]) -> Write[T]:
    """Merge into the version that was read. A conflict may come from an earlier try of the same write."""
    same = {"uid": thing.metadata.uid, "resourceVersion": thing.metadata.resource_version}
    try:
        now: T = yield Request("PATCH", path, type(thing), {**patch, "metadata": same | patch["metadata"]})
    except ConflictError:
        now = yield Request("GET", path, type(thing))
        if now.metadata.uid != thing.metadata.uid or not is_done(now):
            raise
    return now
