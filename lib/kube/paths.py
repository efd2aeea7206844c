"""The paths of API requests.

A name from an object is checked before it becomes part of a path: the owner that a pod names may be any
text, and `../../secrets/x` would lead elsewhere.
"""

import logging
from collections.abc import Iterable, Mapping, Sequence

from lib.kube.errors import ForbiddenError, InvalidNameError
from lib.kube.objects import MAX_NAME
from lib.kube.storage import (
    CSIDriver,
    CSINode,
    CSIStorageCapacity,
    PersistentVolume,
    StorageClass,
    StorageObject,
    VolumeAttachment,
)

log = logging.getLogger(__name__)

STORAGE_API = "/apis/storage.k8s.io/v1"

CLAIMS = "/api/v1/persistentvolumeclaims"

STORAGE_PATHS: Mapping[str, type[StorageObject]] = {
    "/api/v1/persistentvolumes": PersistentVolume,
    f"{STORAGE_API}/storageclasses": StorageClass,
    f"{STORAGE_API}/csinodes": CSINode,
    f"{STORAGE_API}/csidrivers": CSIDriver,
    f"{STORAGE_API}/csistoragecapacities": CSIStorageCapacity,
    f"{STORAGE_API}/volumeattachments": VolumeAttachment,
}
"""The paths of volumes and of what volumes and claims depend on, with their kinds."""

DEVICES_API = "/apis/resource.k8s.io/v1"

RESOURCE_CLAIMS = f"{DEVICES_API}/resourceclaims"

PODS, NODES, NAMESPACES = "/api/v1/pods", "/api/v1/nodes", "/api/v1/namespaces"

NODE_METRICS = "/apis/metrics.k8s.io/v1beta1/nodes"


def paths_of(resource: str, namespaces: Iterable[str], api: str = "/api/v1") -> list[str]:
    """The paths that list a resource in some namespaces; empty for all namespaces."""
    return [path_of(resource, name, api=api) for name in namespaces] or [f"{api}/{resource}"]


def path_of(resource: str, namespace: str, name: str = "", *, api: str = "/api/v1") -> str:
    """The path of a namespace's objects of one resource, or of the object with this name.

    InvalidNameError for invalid names.
    """
    path = f"{api}/namespaces/{segment(namespace)}/{resource}"
    return f"{path}/{segment(name)}" if name else path


def segment(name: str) -> str:
    """The name, if it can be one segment of a path; else InvalidNameError.

    Source: k8s.io/apimachinery, pkg/api/validation/path/name.go, IsValidPathSegmentName
    """
    if name in ("", ".", "..") or "/" in name or "%" in name:
        raise InvalidNameError(name)
    if len(name) > MAX_NAME or not name.isprintable():
        raise InvalidNameError(name)
    return name


class Narrowing:
    """What may be read only in the namespaces that are served; empty if all namespaces are."""

    def __init__(self, served: Sequence[str]) -> None:
        self.served = served
        self._forbidden: set[str] = set()

    def __contains__(self, path: str) -> bool:
        return path in self._forbidden

    def do_without(self, path: str, error: ForbiddenError, without: str) -> None:
        """Go on without what may not be read, and log that once. Raises the error if it is indispensable."""
        if not self.served or path in self._forbidden:
            raise error
        self._forbidden.add(path)
        log.warning("%s: %s", without, error)

    def paths(self, everywhere: str) -> list[str]:
        """The paths that list a resource: that of all namespaces, or those of the served ones."""
        api, _, resource = everywhere.rpartition("/")
        return paths_of(resource, self.served, api) if everywhere in self else [everywhere]
