"""How many pods a PodGroup needs, whichever API it is of."""

from math import inf
from typing import TYPE_CHECKING

from lib.kube.errors import InvalidNameError, NotFoundError
from lib.kube.objects import COSCHEDULING, Object, PodGroup, PodGroupRef
from lib.kube.paths import path_of

if TYPE_CHECKING:
    from lib.kube.api import Api

ASK_VERSIONS_AGAIN = 60.0
"""After so many seconds, poller asks again which version of Kubernetes' PodGroups the server has."""


class _Named(Object):
    name: str = ""


class _Version(Object):
    group_version: str = ""


class _ApiGroup(Object):
    versions: tuple[_Version, ...] = ()


class _ApiResources(Object):
    resources: tuple[_Named, ...] = ()


def path_of_pod_groups(api: "Api", group: str) -> str:
    """The path below which an API server has the PodGroups of an API group; "" if it has none.

    Of Kubernetes' own it may have v1alpha2 (1.36) or v1beta1 (1.37), if its feature gates are on.
    """
    if group == COSCHEDULING:
        return f"/apis/{COSCHEDULING}/v1alpha1"
    try:
        for version in api.get(f"/apis/{group}", _ApiGroup).versions:
            path = f"/apis/{version.group_version}"
            if any(resource.name == "podgroups" for resource in api.get(path, _ApiResources).resources):
                return path
    except NotFoundError:
        pass
    return ""


class PodGroups:
    """Reads PodGroups from an API server."""

    def __init__(self, api: "Api") -> None:
        self._api = api
        self._path, self._asked = "", -inf

    def needed(self, group: PodGroupRef) -> int | None:
        """How many pods a group needs; 0 if each is placed alone; None if there is no such PodGroup.

        If the server has none of Kubernetes' PodGroups, it doesn't know gangs: each pod is placed alone.
        """
        path = self._path_of(group.api)
        if not path:
            return 0
        try:
            return self._api.get(path_of("podgroups", group.namespace, group.name, api=path), PodGroup).needed
        except (NotFoundError, InvalidNameError):
            return None

    def _path_of(self, group: str) -> str:
        if group == COSCHEDULING:
            return path_of_pod_groups(self._api, group)
        now = self._api.system.monotonic()
        if now - self._asked >= ASK_VERSIONS_AGAIN:
            self._path, self._asked = path_of_pod_groups(self._api, group), now
        return self._path
