"""Where things are in the API: the paths of requests."""

from collections.abc import Iterable

PODS, NODES, NAMESPACES = "/api/v1/pods", "/api/v1/nodes", "/api/v1/namespaces"


def paths_of(resource: str, namespaces: Iterable[str], api: str = "/api/v1") -> list[str]:
    """Where a resource of some namespaces is listed; of all namespaces, if none are named."""
    return [path_of(resource, name, api=api) for name in namespaces] or [f"{api}/{resource}"]


def path_of(resource: str, namespace: str, name: str = "", *, api: str = "/api/v1") -> str:
    """Where a namespace's objects of one resource are, or the one of this name."""
    path = f"{api}/namespaces/{namespace}/{resource}"
    return f"{path}/{name}" if name else path
