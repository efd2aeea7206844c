"""Looks up what some decisions need besides nodes and pods: namespaces, services, budgets, controllers."""

from collections.abc import Hashable, Iterable, Mapping, Sequence
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any

from lib.kube import resources
from lib.kube.api import Api
from lib.kube.decoding import Listing
from lib.kube.errors import ApiError, InvalidNameError, NotFoundError
from lib.kube.lookup import MAX_THREADS, Lookup
from lib.kube.objects import ControllerRef, LabelSelector, Namespace, PodGroupRef, Service, selector_of
from lib.kube.paths import path_of, paths_of, segment
from lib.kube.reading import Permission, Reading
from lib.kube.resources import Need, Resource, resource_of

if TYPE_CHECKING:
    from lib.kube.pod_groups import PodGroups

MAX_SELECTORS = 10_000
"""At most so many controllers' selectors are kept. The oldest is dropped first."""


def list_services(api: Api, namespace: str) -> Listing[Service]:
    """The services of a namespace, from the API server's cache: up to date, or nearly so.

    A read that must be up to date can take 0.1 s longer, if the last service was written long ago.
    """
    return api.list(path_of("services", namespace), Service, resourceVersion="0")


class Listers:
    """Looks up what decisions need. Answers are up to date, or nearly so; controllers' selectors are kept.

    Each need has keys of its own. The key of services is the name of their namespace. That of a controller's
    selector is a ControllerRef; the selector is None if there is none. It never changes, so it is looked up
    once. The key of a group's size is a PodGroupRef; see `PodGroups`. What all pods share has the key ALL:
    namespaces, only those that are served if others may not be listed; the disruption budgets of the pods
    that may be evicted; what nodes use.

    served: the namespaces that are served; empty for all. Rights in these are enough. services: how to look
    these up, if they aren't to be listed.
    """

    def __init__(
        self, api: Api, served: Sequence[str] = (), services: Lookup[str, Listing[Service]] | None = None
    ) -> None:
        self._api = api.with_short_timeouts()
        self._served = served
        self.system = system = api.system
        self._all_namespaces = Reading(self._api, resources.NAMESPACES, served)
        names = resources.NAMESPACES.path
        self._each_namespace = {
            name: Permission(f"{names}/{name}", system, f"going on without the labels of namespace {name}")
            for name in served
        }
        of_namespaces = partial(Lookup[Any, Any], threads=MAX_THREADS, system=system)
        selectors = of_namespaces("selectors", self._selector, keep=MAX_SELECTORS, alike=lambda key: key[:3])
        self._lookups: Mapping[Need, Lookup[Any, Any]] = {
            resources.PREEMPTION: Lookup("budgets", partial(self._list, resources.BUDGETS), system=system),
            resources.NAMESPACE_LABELS: Lookup("namespaces", self._namespaces, system=system),
            resources.OWN_SERVICES: services or of_namespaces("services", partial(list_services, self._api)),
            resources.CONTROLLERS: selectors,
            resources.GROUP_SIZES: of_namespaces("groups", self._group_size),
            resources.LOAD: Lookup(
                "node metrics", partial(self._list, resources.NODE_METRICS), system=system
            ),
        }

    def begin(self, needed: Mapping[Need, Iterable[Hashable]]) -> None:
        """Look up what has these keys; see `Lookup.begin`."""
        for need, lookup in self._lookups.items():
            lookup.begin(needed.get(need, ()))

    def wait(self, until: float) -> None:
        """Take all answers that have come; see `Lookup.wait`."""
        for lookup in self._lookups.values():
            lookup.wait(until)

    def of(self, need: Need, key: Hashable) -> Any | ApiError:
        """The answer for a key, or why there is none; see `Lookup.of`."""
        return self._lookups[need].of(key)

    # --- in a thread for each need ----------------------------------------------------------------------

    def _list(self, resource: Resource, _: str) -> Listing[Any]:
        return self._api.list_each(paths_of(resource, self._served if resource.inside else ()), resource.kind)

    def _namespaces(self, _: str) -> Listing[Namespace]:
        path = resources.NAMESPACES.path
        if all_of_them := self._all_namespaces.read(lambda: self._api.list(path, Namespace)):
            return all_of_them
        served = (right.read(partial(self._namespace, name)) for name, right in self._each_namespace.items())
        return Listing([namespace for namespace in served if namespace])

    def _namespace(self, name: str) -> Namespace | None:
        try:
            return self._api.get(f"{resources.NAMESPACES.path}/{segment(name)}", Namespace)
        except NotFoundError:
            return None

    @cached_property
    def _pod_groups(self) -> "PodGroups":
        from lib.kube.pod_groups import PodGroups  # here, as few clusters have any

        return PodGroups(self._api)

    def _group_size(self, group: PodGroupRef) -> int | None:
        return self._pod_groups.needed(group)

    def _selector(self, controller: ControllerRef) -> LabelSelector | None:
        resource = resource_of(controller)
        if not resource:
            return None
        try:
            path = path_of(resource.plural, controller.namespace, controller.name, api=resource.api)
            return selector_of(self._api.get(path, resource.kind))
        except (NotFoundError, InvalidNameError):
            return None
