"""Binds a volume to a claim, or writes for which node a claim's volume is to be provisioned.

Source: pkg/scheduler/framework/plugins/volumebinding/binder.go, bindAPIUpdate
"""

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from lib.kube.api import Api
from lib.kube.errors import ConflictError
from lib.kube.paths import path_of
from lib.kube.storage import BOUND_BY_CONTROLLER, SELECTED_NODE, PersistentVolume, PersistentVolumeClaim

T = TypeVar("T", PersistentVolume, PersistentVolumeClaim)

Written = PersistentVolume | PersistentVolumeClaim

VOLUME = "/api/v1/persistentvolumes/{}"


class StorageWriter:
    """Writes assumed volumes and claims. An object that has changed meanwhile is not overwritten."""

    def __init__(self, api: Api) -> None:
        self._api = api

    def write(
        self, thing: PersistentVolume | PersistentVolumeClaim
    ) -> PersistentVolume | PersistentVolumeClaim:
        """Write it; returns the API server's object. ConflictError when another has its name by now."""
        return self._bind(thing) if isinstance(thing, PersistentVolume) else self._select_node(thing)

    def _bind(self, volume: PersistentVolume) -> PersistentVolume:
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
        return self._patch(
            volume,
            VOLUME.format(volume.metadata.name),
            PersistentVolume,
            {"annotations": {BOUND_BY_CONTROLLER: by_controller}} if by_controller else {},
            {"spec": {"claimRef": claim}},
            lambda now: now.spec.claim_ref == mine,
        )

    def _select_node(self, claim: PersistentVolumeClaim) -> PersistentVolumeClaim:
        """Write for which node a claim's volume is to be provisioned."""
        node_name = claim.metadata.annotations[SELECTED_NODE]
        return self._patch(
            claim,
            path_of("persistentvolumeclaims", claim.metadata.namespace, claim.metadata.name),
            PersistentVolumeClaim,
            {"annotations": {SELECTED_NODE: node_name}},
            {},
            lambda now: now.metadata.annotations.get(SELECTED_NODE) == node_name,
        )

    def _patch(
        self,
        thing: T,
        path: str,
        kind: type[T],
        metadata: Mapping[str, Any],
        rest: Mapping[str, Any],
        is_done: Callable[[T], bool],
    ) -> T:
        """Merge into the version that was read. A conflict may come from an earlier try of the same write."""
        same = {"uid": thing.metadata.uid, "resourceVersion": thing.metadata.resource_version}
        try:
            return self._api.patch(path, {"metadata": {**same, **metadata}, **rest}, kind)
        except ConflictError:
            now = self._api.get(path, kind)
            if now.metadata.uid == thing.metadata.uid and is_done(now):
                return now
            raise
