"""Looks up what some decisions need besides nodes and pods: namespaces, services, budgets, controllers."""

from collections.abc import Mapping, Sequence
from functools import partial

from lib.kube.api import Api
from lib.kube.decoding import Listing
from lib.kube.errors import ForbiddenError, InvalidNameError, NotFoundError
from lib.kube.lookup import MAX_THREADS, Lookup
from lib.kube.objects import (
    ControllerRef,
    LabelSelector,
    Namespace,
    NodeMetrics,
    PodDisruptionBudget,
    ReplicaSet,
    ReplicationController,
    Service,
    StatefulSet,
)
from lib.kube.paths import NAMESPACES, NODE_METRICS, Narrowing, path_of, paths_of, segment
from lib.kube.pod_groups import PodGroups

Controller = ReplicaSet | StatefulSet | ReplicationController

CONTROLLERS: Mapping[tuple[str, str], tuple[str, str, type[Controller]]] = {
    ("apps/v1", "ReplicaSet"): ("/apis/apps/v1", "replicasets", ReplicaSet),
    ("apps/v1", "StatefulSet"): ("/apis/apps/v1", "statefulsets", StatefulSet),
    ("v1", "ReplicationController"): ("/api/v1", "replicationcontrollers", ReplicationController),
}
"""The controllers whose pods are spread by default, by apiVersion and kind: path, resource, and class."""

MAX_SELECTORS = 10_000
"""At most so many controllers' selectors are kept. The oldest is dropped first."""


def selector_of(controller: Controller) -> LabelSelector | None:
    """Which pods a controller manages."""
    selector = controller.spec.selector
    return LabelSelector(selector) if isinstance(selector, dict) else selector


def list_services(api: Api, namespace: str) -> Listing[Service]:
    """The services of a namespace, from the API server's cache: up to date, or nearly so.

    A read that must be up to date can take 0.1 s longer, if the last service was written long ago.
    """
    return api.list(path_of("services", namespace), Service, resourceVersion="0")


class Listers:
    """Looks up what decisions need. Answers are up to date, or nearly so; controllers' selectors are kept.

    budgets: the disruption budgets of the pods that may be evicted; its only key is ALL. namespaces: all
    namespaces, by the same key; if they may not be listed, those that are served. services: by namespace.
    selectors: of controllers; None where there is none. They can't be changed, so they are looked up once.
    group_sizes: how many pods each PodGroup needs; see `PodGroups`. node_metrics: what nodes use; its only
    key is ALL.

    served: the namespaces that are served; empty for all. Rights in these are enough. services: how to look
    these up, if they aren't to be listed.
    """

    def __init__(
        self, api: Api, served: Sequence[str] = (), services: Lookup[str, Listing[Service]] | None = None
    ) -> None:
        self._api = api.with_short_timeouts()
        self._served = served
        self._narrowing = Narrowing(served, api.system)
        self.system = system = api.system
        self.budgets = Lookup("budgets", self._budgets, system=system)
        self.namespaces = Lookup("namespaces", self._namespaces, system=system)
        listed = partial(list_services, self._api)
        self.services = services or Lookup("services", listed, threads=MAX_THREADS, system=system)
        self.selectors = Lookup(
            "selectors",
            self._selector,
            keep=MAX_SELECTORS,
            alike=lambda controller: controller[:3],
            threads=MAX_THREADS,
            system=system,
        )
        self.group_sizes = Lookup("groups", PodGroups(self._api).needed, threads=MAX_THREADS, system=system)
        self.node_metrics = Lookup("node metrics", self._node_metrics, system=system)

    def wait(self, until: float) -> None:
        """Take all answers that have come; see `Lookup.wait`."""
        self.budgets.wait(until)
        self.namespaces.wait(until)
        self.services.wait(until)
        self.selectors.wait(until)
        self.group_sizes.wait(until)
        self.node_metrics.wait(until)

    # --- in a thread for each kind ----------------------------------------------------------------------

    def _budgets(self, _: str) -> Listing[PodDisruptionBudget]:
        paths = paths_of("poddisruptionbudgets", self._served, "/apis/policy/v1")
        return self._api.list_each(paths, PodDisruptionBudget)

    def _namespaces(self, _: str) -> Listing[Namespace]:
        if NAMESPACES not in self._narrowing:
            try:
                everywhere = self._api.list(NAMESPACES, Namespace)
            except ForbiddenError as error:
                self._narrowing.do_without(NAMESPACES, error, "the labels of other namespaces are not known")
            else:
                self._narrowing.was_read(NAMESPACES)
                return everywhere
        found = (self._namespace(name) for name in self._served)
        return Listing([each for each in found if each])

    def _namespace(self, name: str) -> Namespace | None:
        path = f"{NAMESPACES}/{segment(name)}"
        if path in self._narrowing:
            return None
        try:
            found = self._api.get(path, Namespace)
        except NotFoundError:
            return None
        except ForbiddenError as error:
            self._narrowing.do_without(path, error, f"going on without the labels of namespace {name}")
            return None
        self._narrowing.was_read(path)
        return found

    def _node_metrics(self, _: str) -> Listing[NodeMetrics]:
        return self._api.list(NODE_METRICS, NodeMetrics)

    def _selector(self, controller: ControllerRef) -> LabelSelector | None:
        if (controller.api_version, controller.kind) not in CONTROLLERS:
            return None
        api, resource, kind = CONTROLLERS[controller.api_version, controller.kind]
        try:
            found = self._api.get(path_of(resource, controller.namespace, controller.name, api=api), kind)
        except (NotFoundError, InvalidNameError):
            return None
        return selector_of(found)
