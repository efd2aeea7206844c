"""Looks up what pods need besides nodes and pods: namespaces, services, budgets, controllers, PodGroups."""

import logging
from collections.abc import Iterable, Mapping, Sequence

from lib.kube.api import Api
from lib.kube.decoding import Listing
from lib.kube.errors import ForbiddenError, NotFoundError
from lib.kube.objects import (
    ControllerRef,
    LabelSelector,
    Namespace,
    PodDisruptionBudget,
    PodGroup,
    ReplicaSet,
    ReplicationController,
    Service,
    StatefulSet,
)
from lib.kube.paths import NAMESPACES, path_of, paths_of

log = logging.getLogger(__name__)

CONTROLLERS: Mapping[
    tuple[str, str], tuple[str, str, type[ReplicaSet | StatefulSet | ReplicationController]]
] = {
    ("apps/v1", "ReplicaSet"): ("/apis/apps/v1", "replicasets", ReplicaSet),
    ("apps/v1", "StatefulSet"): ("/apis/apps/v1", "statefulsets", StatefulSet),
    ("v1", "ReplicationController"): ("/api/v1", "replicationcontrollers", ReplicationController),
}
"""The controllers whose pods are spread by default, by apiVersion and kind: where they are, and what."""

MAX_SELECTORS = 10_000
"""Selectors of controllers that are kept. The one that was looked up first is the first to be dropped."""


class Listers:
    """Looks up what pods need. An answer is as new as the question, but for the selectors of controllers.

    namespaces: those that are served; all, if none are named. Rights in these are enough.
    """

    def __init__(self, api: Api, namespaces: Sequence[str] = ()) -> None:
        self._api = api
        self._namespaces = namespaces
        self._forbidden: set[str] = set()  # paths that may not be read
        self._selectors: dict[ControllerRef, LabelSelector | None] = {}

    def budgets(self) -> Listing[PodDisruptionBudget]:
        """The disruption budgets of the pods that may have to leave."""
        paths = paths_of("poddisruptionbudgets", self._namespaces, "/apis/policy/v1")
        return self._api.list_each(paths, PodDisruptionBudget)

    def namespaces(self) -> Listing[Namespace]:
        """All namespaces; if they may not be listed, those that are served."""
        if NAMESPACES not in self._forbidden:
            try:
                return self._api.list(NAMESPACES, Namespace)
            except ForbiddenError as error:
                self._do_without(NAMESPACES, error, "the labels of other namespaces are not known")
        found = (self._namespace(name) for name in self._namespaces)
        return Listing([each for each in found if each])

    def _namespace(self, name: str) -> Namespace | None:
        path = f"{NAMESPACES}/{name}"
        try:
            return None if path in self._forbidden else self._api.get(path, Namespace)
        except NotFoundError:
            return None
        except ForbiddenError as error:
            self._do_without(path, error, f"going on without the labels of namespace {name}")
            return None

    def _do_without(self, path: str, error: ForbiddenError, without: str) -> None:
        """Go on without what may not be read, and say so once; the error, if all namespaces are served."""
        if not self._namespaces:
            raise error
        self._forbidden.add(path)
        log.warning("%s: %s", without, error)

    def services(self, namespaces: Iterable[str]) -> Listing[Service]:
        """The services of some namespaces, as the API server has them in memory, up to date or nearly so.

        To be sure that it is up to date, a server waits for up to 0.1 s where the last service was written
        long ago.
        """
        wanted = sorted(set(namespaces))
        if not wanted:
            return Listing()
        return self._api.list_each(paths_of("services", wanted), Service, resourceVersion="0")

    def min_member(self, namespace: str, name: str) -> int | None:
        """How many pods a PodGroup needs; None if there is no such group, or its CRD isn't installed."""
        path = path_of("podgroups", namespace, name, api="/apis/scheduling.x-k8s.io/v1alpha1")
        try:
            return self._api.get(path, PodGroup).spec.min_member
        except NotFoundError:
            return None

    def selector_of(self, controller: ControllerRef) -> LabelSelector | None:
        """What a controller selects its pods by; asked for once, as it can't be changed."""
        if controller not in self._selectors:
            found = self._find_selector(controller)
            while len(self._selectors) >= MAX_SELECTORS:
                del self._selectors[next(iter(self._selectors))]
            self._selectors[controller] = found
        return self._selectors[controller]

    def _find_selector(self, controller: ControllerRef) -> LabelSelector | None:
        if (controller.api_version, controller.kind) not in CONTROLLERS:
            return None
        api, resource, kind = CONTROLLERS[controller.api_version, controller.kind]
        try:
            found = self._api.get(path_of(resource, controller.namespace, controller.name, api=api), kind)
        except NotFoundError:
            return None
        if isinstance(found, ReplicationController):
            return LabelSelector(found.spec.selector)
        return found.spec.selector
