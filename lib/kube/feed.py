"""What the cluster looks like now, by asking."""

from collections.abc import Iterable, Mapping, Sequence

from lib.kube.api import Api, Listing, NotFoundError
from lib.kube.objects import (
    LabelSelector,
    Namespace,
    Node,
    OwnerReference,
    Pod,
    ReplicaSet,
    ReplicationController,
    Service,
    StatefulSet,
)

CONTROLLERS: Mapping[tuple[str, str], tuple[str, type[ReplicaSet | StatefulSet | ReplicationController]]] = {
    ("apps/v1", "ReplicaSet"): ("/apis/apps/v1/namespaces/{}/replicasets/{}", ReplicaSet),
    ("apps/v1", "StatefulSet"): ("/apis/apps/v1/namespaces/{}/statefulsets/{}", StatefulSet),
    ("v1", "ReplicationController"): (
        "/api/v1/namespaces/{}/replicationcontrollers/{}",
        ReplicationController,
    ),
}
"""The controllers whose pods are spread by default, by apiVersion and kind: where they are, and what."""


class Feed:
    """Polls for the pods that wait for some schedulers, and for what they could be placed on."""

    def __init__(self, api: Api, scheduler_names: Sequence[str]) -> None:
        self._api = api
        self._scheduler_names = scheduler_names
        self._selectors: dict[str, LabelSelector | None] = {}

    def waiting_pods(self) -> Listing[Pod]:
        """Pods of all namespaces that name one of the schedulers and have no node yet.

        The server filters, so that a tick on a busy cluster where nothing waits costs a small answer for
        each scheduler.
        """
        found: Listing[Pod] = Listing()
        for name in self._scheduler_names:
            selector = f"spec.nodeName=,spec.schedulerName={name}"
            listing = self._api.list("/api/v1/pods", Pod, fieldSelector=selector)
            found.items += listing.items
            found.malformed += listing.malformed
        return found

    def nodes(self) -> Listing[Node]:
        """All nodes."""
        return self._api.list("/api/v1/nodes", Node)

    def assigned_pods(self) -> Listing[Pod]:
        """Pods that have a node and haven't finished: they use what it has, whoever placed them."""
        selector = "spec.nodeName!=,status.phase!=Succeeded,status.phase!=Failed"
        return self._api.list("/api/v1/pods", Pod, fieldSelector=selector)

    def namespaces(self) -> Listing[Namespace]:
        """All namespaces."""
        return self._api.list("/api/v1/namespaces", Namespace)

    def services(self, namespaces: Iterable[str]) -> Listing[Service]:
        """The services of some namespaces."""
        found: Listing[Service] = Listing()
        for namespace in sorted(set(namespaces)):
            listing = self._api.list(f"/api/v1/namespaces/{namespace}/services", Service)
            found.items += listing.items
            found.malformed += listing.malformed
        return found

    def selector_of(self, owner: OwnerReference, namespace: str) -> LabelSelector | None:
        """What a controller selects its pods by; asked for once, as it can't be changed."""
        if owner.uid not in self._selectors:
            self._selectors[owner.uid] = self._find_selector(owner, namespace)
        return self._selectors[owner.uid]

    def _find_selector(self, owner: OwnerReference, namespace: str) -> LabelSelector | None:
        if (owner.api_version, owner.kind) not in CONTROLLERS:
            return None
        path, kind = CONTROLLERS[owner.api_version, owner.kind]
        try:
            found = self._api.get(path.format(namespace, owner.name), kind)
        except NotFoundError:
            return None
        if isinstance(found, ReplicationController):
            return LabelSelector(found.spec.selector)
        return found.spec.selector
