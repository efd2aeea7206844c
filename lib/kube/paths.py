"""The paths of API requests.

A name from an object is checked before it becomes part of a path: the owner that a pod names may be any
text, and `../../secrets/x` would lead elsewhere.
"""

from collections.abc import Iterable

from lib.kube.errors import InvalidNameError
from lib.kube.objects import MAX_NAME
from lib.kube.resources import Resource


def paths_of(resource: Resource, namespaces: Iterable[str]) -> list[str]:
    """The paths that list a resource in some namespaces; empty for all namespaces."""
    return [path_of(resource.plural, name, api=resource.api) for name in namespaces] or [resource.path]


def path_of(resource: str, namespace: str, name: str = "", *, api: str = "/api/v1") -> str:
    """The path of a namespace's objects of one resource, or of the object with this name.

    InvalidNameError for invalid names.
    """
    path = f"{api}/namespaces/{segment(namespace)}/{resource}"
    return f"{path}/{segment(name)}" if name else path


def is_listed_at(path: str, namespace: str) -> bool:
    """Whether a list's path, of one namespace or of all, has the objects of this namespace."""
    return "/namespaces/" not in path or f"/namespaces/{namespace}/" in path


def segment(name: str) -> str:
    """The name, if it can be one segment of a path; else InvalidNameError.

    Source: k8s.io/apimachinery, pkg/api/validation/path/name.go, IsValidPathSegmentName
    """
    if name in ("", ".", "..") or "/" in name or "%" in name:
        raise InvalidNameError(name)
    if len(name) > MAX_NAME or not name.isprintable():
        raise InvalidNameError(name)
    return name
