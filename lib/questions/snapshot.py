"""A snapshot of a cluster: all that decisions need, read once from its API server."""

import logging
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TypeVar, cast

import msgspec

from lib.kube import listers
from lib.kube.api import Api
from lib.kube.devices import DeviceClass, ResourceClaim, ResourceClaimTemplate, ResourceSlice
from lib.kube.errors import AnswerError, ApiError, ForbiddenError, NotFoundError
from lib.kube.objects import (
    COSCHEDULING,
    KUBERNETES,
    UNFINISHED,
    NamedObject,
    Namespace,
    Node,
    Object,
    Pod,
    PodDisruptionBudget,
    PodGroup,
    Service,
    Toleration,
)
from lib.kube.paths import DEVICES_API, STORAGE_PATHS, path_of
from lib.kube.pod_groups import path_of_pod_groups
from lib.kube.quantity import Quantity
from lib.kube.resource_claims import may_need_devices
from lib.kube.storage import PersistentVolumeClaim
from lib.questions.limits import LimitRange
from lib.questions.quota import ResourceQuota
from lib.scheduling.pod_groups import group_of
from lib.scheduling.workloads import controller_of

log = logging.getLogger(__name__)

T = TypeVar("T", bound=Object)


class PriorityClass(NamedObject):
    """scheduling.k8s.io/v1 PriorityClass."""

    value: int = 0
    global_default: bool = False
    preemption_policy: str = "PreemptLowerPriority"


class Overhead(Object):
    """The resources of a pod's sandbox."""

    pod_fixed: dict[str, Quantity] = msgspec.field(default_factory=dict)


class RuntimeClassScheduling(Object):
    """The nodes that have a runtime, and the tolerations of pods that use it."""

    node_selector: dict[str, str] = msgspec.field(default_factory=dict)
    tolerations: list[Toleration] = msgspec.field(default_factory=list)


class RuntimeClass(NamedObject):
    """node.k8s.io/v1 RuntimeClass."""

    overhead: Overhead = msgspec.field(default_factory=Overhead)
    scheduling: RuntimeClassScheduling = msgspec.field(default_factory=RuntimeClassScheduling)


@dataclass(frozen=True)
class Resource:
    """The resource of a kind.

    path: of the list. matters: what is ignored if it may not be listed; "" if it is required. manifests:
    whether only new pods need it.
    """

    kind: type[Object]
    path: str
    matters: str = ""
    manifests: bool = False


VOLUMES = "some of what pods with volumes depend on, so where they fit may be wrong"

RESOURCES = (
    Resource(Node, "/api/v1/nodes"),
    Resource(Pod, "/api/v1/pods"),
    Resource(Namespace, "/api/v1/namespaces", "the labels of namespaces"),
    Resource(Service, "/api/v1/services", "spreading the pods of a service by default"),
    Resource(PodDisruptionBudget, "/apis/policy/v1/poddisruptionbudgets", "disruption budgets"),
    Resource(PersistentVolumeClaim, "/api/v1/persistentvolumeclaims", VOLUMES),
    *(Resource(kind, path, VOLUMES) for path, kind in STORAGE_PATHS.items()),
    Resource(PriorityClass, "/apis/scheduling.k8s.io/v1/priorityclasses", "priority classes"),
    Resource(RuntimeClass, "/apis/node.k8s.io/v1/runtimeclasses", "runtime classes", manifests=True),
    Resource(LimitRange, "/api/v1/limitranges", "limit ranges", manifests=True),
    Resource(ResourceQuota, "/api/v1/resourcequotas", "resource quotas", manifests=True),
)
"""The resources that are listed."""

IN_USE = "what devices there are, and which are in use"

DEVICES = (
    Resource(ResourceClaim, f"{DEVICES_API}/resourceclaims", IN_USE),
    Resource(DeviceClass, f"{DEVICES_API}/deviceclasses", IN_USE),
    Resource(ResourceSlice, f"{DEVICES_API}/resourceslices", IN_USE),
    Resource(ResourceClaimTemplate, f"{DEVICES_API}/resourceclaimtemplates", "templates of resource claims"),
)
"""Listed only if a pod may need devices."""

GROUP_SIZES = "the sizes of pod groups"

POD_GROUPS = Resource(PodGroup, f"/apis/{COSCHEDULING}/v1alpha1/podgroups", GROUP_SIZES)
"""Listed, with Kubernetes' own, only if a pod names a PodGroup: few clusters have them."""

CONTROLLERS = {
    of: Resource(kind, f"{api}/{plural}", f"spreading the pods of a {of[1]} by default")
    for of, (api, plural, kind) in listers.CONTROLLERS.items()
}
"""By apiVersion and kind, the controllers whose pods are spread by default. A cluster has many: only those of
some pods are read."""


@dataclass
class Snapshot:
    """Objects by kind. forbidden: kinds that may not be listed. notes: lines to print for the user."""

    objects: dict[type[Object], list[Object]] = field(default_factory=dict)
    forbidden: set[type[Object]] = field(default_factory=set)
    notes: list[str] = field(default_factory=list)

    def of(self, kind: type[T]) -> list[T]:
        """All objects of a kind; it is the snapshot's own list."""
        return cast(list[T], self.objects.setdefault(kind, []))

    def note(self, text: str) -> None:
        """Add a note, once."""
        if text not in self.notes:
            self.notes.append(text)


def read_cluster(api: Api, *, manifests: bool = False, whole: bool = False) -> Snapshot:
    """Read all that decisions need from an API server.

    manifests: also what new pods need. whole: also all controllers; otherwise `look_up_controllers` reads
    them. ApiError when nodes or pods can't be listed; for others a note is added.
    """
    snapshot = Snapshot()
    wanted = [each for each in RESOURCES if manifests or whole or not each.manifests]
    for resource in [*wanted, *(CONTROLLERS.values() if whole else ())]:
        _list(api, snapshot, resource)
    if whole or any((group := group_of(pod)) and group.api for pod in snapshot.of(Pod)):
        look_up_pod_groups(api, snapshot)
    if whole or any(map(may_need_devices, snapshot.of(Pod))):
        look_up_devices(api, snapshot)
    return snapshot


def look_up_devices(api: Api, snapshot: Snapshot) -> None:
    """Add devices, and the claims that use them, to a snapshot that doesn't have them yet."""
    if ResourceClaim not in snapshot.objects and ResourceClaim not in snapshot.forbidden:
        for resource in DEVICES:
            _list(api, snapshot, resource)


def look_up_pod_groups(api: Api, snapshot: Snapshot) -> None:
    """Add the PodGroups to a snapshot that doesn't have them yet."""
    if PodGroup not in snapshot.objects and PodGroup not in snapshot.forbidden:
        resources = [POD_GROUPS]
        try:
            if path := path_of_pod_groups(api, KUBERNETES):
                resources.append(Resource(PodGroup, f"{path}/podgroups", GROUP_SIZES))
        except ForbiddenError as error:
            _forgo(snapshot, POD_GROUPS, error)
        for each in resources:
            _list(api, snapshot, each)


def _list(api: Api, snapshot: Snapshot, resource: Resource) -> None:
    try:
        selectors = {"fieldSelector": UNFINISHED} if resource.kind is Pod else {}
        listing = api.list(resource.path, resource.kind, **selectors)
    except NotFoundError as error:
        if not resource.matters:
            raise
        log.debug("%s", error)
    except ForbiddenError as error:
        _forgo(snapshot, resource, error)
    else:
        snapshot.of(resource.kind).extend(listing.items)
        for line in listing.malformed.values():
            snapshot.note(line)


def look_up_controllers(api: Api, snapshot: Snapshot, pods: Iterable[Pod]) -> None:
    """Add the controllers of some pods to a snapshot: default spreading depends on them."""
    for owner in {found for pod in pods if (found := controller_of(pod))}:
        resource = CONTROLLERS.get((owner.api_version, owner.kind))
        if resource is None or resource.kind in snapshot.forbidden:
            continue
        version, _, plural = resource.path.rpartition("/")
        path = path_of(plural, owner.namespace, owner.name, api=version)
        try:
            snapshot.of(resource.kind).append(api.get(path, resource.kind))
        except (NotFoundError, AnswerError) as error:
            log.debug("%s", error)
        except ForbiddenError as error:
            _forgo(snapshot, resource, error)


def _forgo(snapshot: Snapshot, resource: Resource, error: ApiError) -> None:
    if not resource.matters:
        raise error
    snapshot.forbidden.add(resource.kind)
    snapshot.note(f"going on without {resource.matters}: {error}")
