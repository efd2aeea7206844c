"""Where things are in the API: the paths of requests.

A name that comes from the API is checked before it becomes part of a path: pods say whom they belong to in
their own words, and `../../secrets/x` would lead elsewhere.
"""

from collections.abc import Iterable, Mapping

from lib.kube.errors import InvalidNameError
from lib.kube.storage import (
    CSIDriver,
    CSINode,
    CSIStorageCapacity,
    PersistentVolume,
    StorageClass,
    StorageObject,
    VolumeAttachment,
)

_STORAGE_API = "/apis/storage.k8s.io/v1"

CLAIMS = "/api/v1/persistentvolumeclaims"

STORAGE: Mapping[str, type[StorageObject]] = {
    "/api/v1/persistentvolumes": PersistentVolume,
    f"{_STORAGE_API}/storageclasses": StorageClass,
    f"{_STORAGE_API}/csinodes": CSINode,
    f"{_STORAGE_API}/csidrivers": CSIDriver,
    f"{_STORAGE_API}/csistoragecapacities": CSIStorageCapacity,
    f"{_STORAGE_API}/volumeattachments": VolumeAttachment,
}
"""Where volumes and what else claims depend on are listed."""

PODS, NODES, NAMESPACES = "/api/v1/pods", "/api/v1/nodes", "/api/v1/namespaces"

MAX_NAME = 253
"""Characters of the longest name that an object can have: a DNS subdomain's."""


def paths_of(resource: str, namespaces: Iterable[str], api: str = "/api/v1") -> list[str]:
    """Where a resource of some namespaces is listed; of all namespaces, if none are named."""
    return [path_of(resource, name, api=api) for name in namespaces] or [f"{api}/{resource}"]


def path_of(resource: str, namespace: str, name: str = "", *, api: str = "/api/v1") -> str:
    """Where a namespace's objects of one resource are, or the one of this name.

    InvalidNameError for names that no object can have.
    """
    path = f"{api}/namespaces/{segment(namespace)}/{resource}"
    return f"{path}/{segment(name)}" if name else path


def segment(name: str) -> str:
    """The name, which may be one segment of a path; InvalidNameError if it may not.

    Source: k8s.io/apimachinery, pkg/api/validation/path/name.go, IsValidPathSegmentName
    """
    if name in ("", ".", "..") or "/" in name or "%" in name:
        raise InvalidNameError(name)
    if len(name) > MAX_NAME or not name.isprintable():
        raise InvalidNameError(name)
    return name


def field_value(text: str) -> str:
    """A value as a field selector has it. Source: k8s.io/apimachinery, pkg/fields/selector.go, EscapeValue"""
    return text.replace("\\", "\\\\").replace(",", "\\,").replace("=", "\\=")
