"""Binds a volume to a claim, or writes for which node a claim's volume is to be provisioned.

Source: pkg/scheduler/framework/plugins/volumebinding/binder.go, bindAPIUpdate
"""

from typing import Any

from lib.kube.errors import ConflictError
from lib.kube.paths import path_of, segment
from lib.kube.storage import BOUND_BY_CONTROLLER, SELECTED_NODE, PersistentVolume, PersistentVolumeClaim
from lib.kube.write import Request, Write

Storage = PersistentVolume | PersistentVolumeClaim


def write_assumed(thing: Storage) -> Write[Storage]:
    """Write an assumed volume's claim, or an assumed claim's node; returns the API server's object.

    ConflictError when another object has its name by now, or when it has changed: it isn't overwritten.
    """
    before = thing.metadata
    metadata: dict[str, Any] = {"uid": before.uid, "resourceVersion": before.resource_version}
    patch: dict[str, Any] = {"metadata": metadata}
    if isinstance(thing, PersistentVolume):
        path, mine = f"/api/v1/persistentvolumes/{segment(before.name)}", thing.spec.claim_ref
        assert mine
        claim = {"namespace": mine.namespace, "name": mine.name, "uid": mine.uid}
        patch["spec"] = {"claimRef": {"kind": "PersistentVolumeClaim", "apiVersion": "v1", **claim}}
        if by_controller := before.annotations.get(BOUND_BY_CONTROLLER):
            metadata["annotations"] = {BOUND_BY_CONTROLLER: by_controller}
    else:
        path = path_of("persistentvolumeclaims", before.namespace, before.name)
        metadata["annotations"] = {SELECTED_NODE: before.annotations[SELECTED_NODE]}
    try:
        now: Storage = yield Request("PATCH", path, type(thing), patch)
    except ConflictError:  # an earlier try may have changed it
        now = yield Request("GET", path, type(thing))
        if now.metadata.uid != before.uid or _written(now) != _written(thing):
            raise
    return now


def _written(thing: Storage) -> object:
    """What is written of a volume or claim."""
    if isinstance(thing, PersistentVolume):
        return thing.spec.claim_ref
    return thing.metadata.annotations.get(SELECTED_NODE)
