"""Looks up what decisions need besides nodes and pods: namespaces, services, budgets and controllers."""

import logging
import time
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from typing import TypeVar

from lib.kube.api import Api
from lib.kube.decoding import Listing
from lib.kube.errors import ApiError, ForbiddenError, InvalidNameError, NotFoundError, UnreachableError
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
from lib.kube.paths import NAMESPACES, path_of, paths_of, segment

log = logging.getLogger(__name__)

CONTROLLERS: Mapping[
    tuple[str, str], tuple[str, str, type[ReplicaSet | StatefulSet | ReplicationController]]
] = {
    ("apps/v1", "ReplicaSet"): ("/apis/apps/v1", "replicasets", ReplicaSet),
    ("apps/v1", "StatefulSet"): ("/apis/apps/v1", "statefulsets", StatefulSet),
    ("v1", "ReplicationController"): ("/api/v1", "replicationcontrollers", ReplicationController),
}
"""The controllers whose pods are spread by default, by apiVersion and kind: path, resource, and class."""

MAX_SELECTORS = 10_000
"""At most so many controllers' selectors are kept. The oldest is dropped first."""


MAX_FAILED = 10_000
"""At most so many failed lookups are remembered."""

MAX_SECONDS = 5.0
"""After so many seconds, no further lookup of a kind is begun in a tick."""

Key = TypeVar("Key", bound=Hashable)
Found = TypeVar("Found")


class PutOffError(ApiError):
    """A lookup is put off to the next tick: there was no time left for it."""


class Listers:
    """Looks up what decisions need. Answers are always up to date; only controllers' selectors are kept.

    A failed lookup raises an ApiError, or the ApiError is one of the answers: only the pods that need it have
    to wait. UnreachableError is always raised: then nothing can be looked up.

    namespaces: those that are served; empty for all. Rights in these are enough.
    """

    def __init__(self, api: Api, namespaces: Sequence[str] = ()) -> None:
        self._api = api.hurried()
        self._namespaces = namespaces
        self._forbidden: set[str] = set()  # paths that may not be read
        self._selectors: dict[ControllerRef, LabelSelector | None] = {}
        self._failed: dict[Hashable, None] = {}  # what failed the last time

    def budgets(self) -> Listing[PodDisruptionBudget]:
        """The disruption budgets of the pods that may be evicted."""
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
        path = f"{NAMESPACES}/{segment(name)}"
        try:
            return None if path in self._forbidden else self._api.get(path, Namespace)
        except NotFoundError:
            return None
        except ForbiddenError as error:
            self._do_without(path, error, f"going on without the labels of namespace {name}")
            return None

    def _do_without(self, path: str, error: ForbiddenError, without: str) -> None:
        """Go on without what may not be read; log that once. Raise the error if all namespaces are served."""
        if not self._namespaces:
            raise error
        self._forbidden.add(path)
        log.warning("%s: %s", without, error)

    def services(self, namespaces: Iterable[str]) -> dict[str, Listing[Service] | ApiError]:
        """The services of some namespaces, from the API server's cache: up to date, or nearly so.

        A read that must be up to date can take 0.1 s longer, if the last service was written long ago.
        """
        return self._each(namespaces, self._services)

    def _services(self, namespace: str) -> Listing[Service]:
        return self._api.list(path_of("services", namespace), Service, resourceVersion="0")

    def min_members(self, groups: Iterable[tuple[str, str]]) -> dict[tuple[str, str], int | ApiError | None]:
        """How many pods each PodGroup needs (`minMember`), by namespace and name.

        None if there is no such PodGroup, or its CRD isn't installed.
        """
        return self._each(groups, self._min_member)

    def _min_member(self, group: tuple[str, str]) -> int | None:
        try:
            path = path_of("podgroups", *group, api="/apis/scheduling.x-k8s.io/v1alpha1")
            return self._api.get(path, PodGroup).spec.min_member
        except (NotFoundError, InvalidNameError):
            return None

    def selectors_of(
        self, controllers: Iterable[ControllerRef]
    ) -> dict[ControllerRef, LabelSelector | ApiError | None]:
        """The selectors of controllers; None where there is none. Looked up once: they can't be changed."""
        forbidden: dict[tuple[str, ...], ForbiddenError] = {}

        def look_up(controller: ControllerRef) -> LabelSelector | None:
            of_its_kind = controller[:3]
            if error := forbidden.get(of_its_kind):  # there may be thousands: one refusal is enough
                raise error
            try:
                return self._selector_of(controller)
            except ForbiddenError as error:
                forbidden[of_its_kind] = error
                raise

        return self._each(controllers, look_up)

    def _selector_of(self, controller: ControllerRef) -> LabelSelector | None:
        if controller not in self._selectors:
            self._selectors[controller] = self._find_selector(controller)
            if len(self._selectors) > MAX_SELECTORS:
                del self._selectors[next(iter(self._selectors))]
        return self._selectors[controller]

    def _find_selector(self, controller: ControllerRef) -> LabelSelector | None:
        if (controller.api_version, controller.kind) not in CONTROLLERS:
            return None
        api, resource, kind = CONTROLLERS[controller.api_version, controller.kind]
        try:
            found = self._api.get(path_of(resource, controller.namespace, controller.name, api=api), kind)
        except (NotFoundError, InvalidNameError):
            return None
        if isinstance(found, ReplicationController):
            return LabelSelector(found.spec.selector)
        return found.spec.selector

    def _each(self, keys: Iterable[Key], look_up: Callable[[Key], Found]) -> dict[Key, Found | ApiError]:
        """The result of each lookup, or its error.

        Lookups that failed the last time come last: they may fail slowly, and time is limited.
        """
        answers: dict[Key, Found | ApiError] = {}
        until = time.monotonic() + MAX_SECONDS
        for key in sorted(keys, key=self._failed.__contains__):
            try:
                if time.monotonic() > until:
                    raise PutOffError("other lookups have taken too long")
                answers[key] = look_up(key)
                self._failed.pop(key, None)
            except UnreachableError:
                raise
            except PutOffError as error:
                answers[key] = error
            except ApiError as error:
                answers[key] = error
                self._failed[key] = None
                if len(self._failed) > MAX_FAILED:
                    del self._failed[next(iter(self._failed))]
        return answers
