"""A snapshot of a cluster: all that decisions need, read once from its API server."""

import logging
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, TypeVar, cast

import msgspec

from lib.kube import resources
from lib.kube.errors import AnswerError, ApiError, ForbiddenError, NotFoundError
from lib.kube.objects import FINISHED, KUBERNETES, UNFINISHED, NamedObject, Object, Pod, PodGroup, Toleration
from lib.kube.paths import path_of
from lib.kube.pod_groups import path_of_pod_groups
from lib.kube.quantity import Quantity
from lib.kube.resources import Need, Resource, resource_of
from lib.questions.limits import LimitRange
from lib.questions.quota import ResourceQuota
from lib.scheduling.pod_groups import group_of
from lib.scheduling.workloads import controller_of

if TYPE_CHECKING:
    from lib.kube.api import Api

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


class DaemonSet(NamedObject):
    """apps/v1 DaemonSet: whether it is there."""


DAEMON_SETS = Resource("daemonsets", DaemonSet, "apps")
RUNTIME_CLASSES = Resource("runtimeclasses", RuntimeClass, "node.k8s.io")
TEMPLATES = Resource("resourceclaimtemplates", "devices:ResourceClaimTemplate", resources.DYNAMIC)

LISTED = (
    resources.READING,
    resources.NAMESPACE_LABELS,
    resources.OWN_SERVICES,
    resources.PREEMPTION,
    resources.VOLUMES,
    Need((Resource("priorityclasses", PriorityClass, KUBERNETES),), unlisted="priority classes"),
)
"""What is listed in any case."""

FOR_RUNTIMES = Need((RUNTIME_CLASSES,), unlisted="runtime classes")
"""What is listed only if a pod that waits has a RuntimeClass."""

FOR_NEW_PODS = (
    FOR_RUNTIMES,
    Need((Resource("limitranges", LimitRange),), unlisted="limit ranges"),
    Need((Resource("resourcequotas", ResourceQuota),), unlisted="resource quotas"),
)
"""What is listed only for manifests."""

FOR_DEVICES = (resources.DEVICES, Need((TEMPLATES,), unlisted="templates of resource claims"))
"""What is listed only if a pod may need devices."""

RESOURCES = [
    resource
    for need in (*LISTED, *FOR_NEW_PODS, resources.GROUP_SIZES, resources.CONTROLLERS, *FOR_DEVICES)
    for resource in need.resources
] + [DAEMON_SETS]
"""All resources that a snapshot may have."""


@dataclass
class Snapshot:
    """Objects by kind. forbidden: kinds that may not be listed. notes: lines to print for the user.

    finished: pods that have ended, which use nothing of their nodes; as far as they were asked for.
    taken_at: when the cluster was so; None for now.
    """

    objects: dict[type[Object], list[Object]] = field(default_factory=dict)
    finished: list[Pod] = field(default_factory=list)
    forbidden: set[type[Object]] = field(default_factory=set)
    notes: list[str] = field(default_factory=list)
    taken_at: datetime | None = None

    def of(self, kind: type[T]) -> list[T]:
        """All objects of a kind; it is the snapshot's own list."""
        return cast(list[T], self.objects.setdefault(kind, []))

    def was_asked_for(self, kind: type[Object]) -> bool:
        """Whether the objects of a kind are known, or known not to be readable."""
        return kind in self.objects or kind in self.forbidden

    def note(self, text: str) -> None:
        """Add a note, once."""
        if text not in self.notes:
            self.notes.append(text)


def read_cluster(api: "Api", *, manifests: bool = False, whole: bool = False) -> Snapshot:
    """Read all that decisions need from an API server.

    manifests: also what new pods need. whole: also all controllers; otherwise `look_up_controllers` reads
    them. ApiError when nodes or pods can't be listed; for others a note is added.
    """
    snapshot = Snapshot()
    _list(api, snapshot, *LISTED)
    if manifests or whole:
        _list(api, snapshot, *FOR_NEW_PODS)
    elif any(pod.spec.runtime_class_name and not pod.spec.node_name for pod in snapshot.of(Pod)):
        _list(api, snapshot, FOR_RUNTIMES)
    if whole:
        _list(api, snapshot, resources.CONTROLLERS)
    if whole or any((group := group_of(pod)) and group.api for pod in snapshot.of(Pod)):
        look_up_pod_groups(api, snapshot)
    if whole or any(map(resources.DEVICES.of, snapshot.of(Pod))):
        look_up_devices(api, snapshot)
    return snapshot


def look_up_devices(api: "Api", snapshot: Snapshot) -> None:
    """Add devices, and the claims that use them, to a snapshot that doesn't have them yet."""
    if not snapshot.was_asked_for(resources.RESOURCE_CLAIMS.kind):
        _list(api, snapshot, *FOR_DEVICES)


def look_up_pod_groups(api: "Api", snapshot: Snapshot) -> None:
    """Add the PodGroups to a snapshot that doesn't have them yet: few clusters have any."""
    if snapshot.was_asked_for(PodGroup):
        return
    paths = [resources.POD_GROUPS.path]
    try:
        if path := path_of_pod_groups(api, KUBERNETES):
            paths.append(f"{path}/podgroups")
    except ForbiddenError as error:
        _forgo(snapshot, PodGroup, resources.GROUP_SIZES, error)
    for path in paths:
        _list_at(path, api, snapshot, PodGroup, resources.GROUP_SIZES)


def _list(api: "Api", snapshot: Snapshot, *needs: Need) -> None:
    for need in needs:
        for resource in need.resources:
            _list_at(resource.path, api, snapshot, resource.kind, need)


def _list_at(path: str, api: "Api", snapshot: Snapshot, kind: type[Object], need: Need) -> None:
    try:
        selectors = {"fieldSelector": UNFINISHED} if kind is Pod else {}
        listing = api.list(path, kind, **selectors)
    except NotFoundError as error:
        if not need.unlisted:
            raise
        log.debug("%s", error)
    except ForbiddenError as error:
        _forgo(snapshot, kind, need, error)
    else:
        snapshot.of(kind).extend(listing.items)
        for line in listing.malformed.values():
            snapshot.note(line)


def look_up_controllers(api: "Api", snapshot: Snapshot, pods: Iterable[Pod]) -> None:
    """Add the controllers of some pods to a snapshot: default spreading depends on them."""
    for owner in {found for pod in pods if (found := controller_of(pod))}:
        resource = resource_of(owner)
        if resource is None or resource.kind in snapshot.forbidden:
            continue
        path = path_of(resource.plural, owner.namespace, owner.name, api=resource.api)
        try:
            snapshot.of(resource.kind).append(api.get(path, resource.kind))
        except (NotFoundError, AnswerError) as error:
            log.debug("%s", error)
        except ForbiddenError as error:
            _forgo(snapshot, resource.kind, resources.CONTROLLERS, error)


def look_up_for_drain(api: "Api", snapshot: Snapshot, nodes: Iterable[str]) -> None:
    """Add what only a drain asks for: pods of these nodes that have ended, and which DaemonSets are there."""
    of_nodes = {*nodes}
    snapshot.of(DaemonSet)
    for name in of_nodes:
        snapshot.finished += api.list(
            "/api/v1/pods", Pod, fieldSelector=f"spec.nodeName={name},{FINISHED}"
        ).items
    pods = [pod for pod in snapshot.of(Pod) if pod.spec.node_name in of_nodes]
    look_up_controllers(api, snapshot, pods)
    owners = {owner for pod in pods if (owner := controller_of(pod)) and owner.kind == "DaemonSet"}
    for owner in owners:
        path = path_of(DAEMON_SETS.plural, owner.namespace, owner.name, api=DAEMON_SETS.api)
        try:
            snapshot.of(DaemonSet).append(api.get(path, DaemonSet))
        except NotFoundError:
            continue
        except ForbiddenError as error:
            snapshot.objects.pop(DaemonSet)
            snapshot.note(f"going on as if no DaemonSet were gone: {error}")
            return


def _forgo(snapshot: Snapshot, kind: type[Object], need: Need, error: ApiError) -> None:
    if not need.unlisted:
        raise error
    snapshot.forbidden.add(kind)
    snapshot.note(f"going on without {need.unlisted.format(kind.__name__)}: {error}")
