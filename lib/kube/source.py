"""What the cluster looks like, as changes since the last time."""

import logging
import time
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Generic

from lib.kube.api import Api, paths_of
from lib.kube.changes import AnyChange, Change, Changed, Kind
from lib.kube.decoding import Listing
from lib.kube.errors import ForbiddenError, NotFoundError
from lib.kube.objects import (
    LabelSelector,
    Namespace,
    Node,
    ObjectMeta,
    OwnerReference,
    Pod,
    PodDisruptionBudget,
    PodGroup,
    ReplicaSet,
    ReplicationController,
    Service,
    StatefulSet,
)

log = logging.getLogger(__name__)

CONTROLLERS: Mapping[tuple[str, str], tuple[str, type[ReplicaSet | StatefulSet | ReplicationController]]] = {
    ("apps/v1", "ReplicaSet"): ("/apis/apps/v1/namespaces/{}/replicasets/{}", ReplicaSet),
    ("apps/v1", "StatefulSet"): ("/apis/apps/v1/namespaces/{}/statefulsets/{}", StatefulSet),
    ("v1", "ReplicationController"): (
        "/api/v1/namespaces/{}/replicationcontrollers/{}",
        ReplicationController,
    ),
}
"""The controllers whose pods are spread by default, by apiVersion and kind: where they are, and what."""

ALL_PODS = "/api/v1/pods"

UNCOUNTED = "what pods of other namespaces use on nodes is not counted"
"""What is said when they can't be seen."""

MAIN_SCHEDULER = "default-scheduler"
"""kube-scheduler's own name, which most pods have."""


@dataclass
class Delta:
    """What one poll found.

    changes: in the order in which they are to be applied. unreadable: a line for each object that can't be
    read; the first `unplaceable` of them are pods that wait. complete: whether all was looked at, and not
    only the pods that wait.
    """

    changes: list[AnyChange] = field(default_factory=list)
    unreadable: list[str] = field(default_factory=list)
    unplaceable: int = 0
    complete: bool = False


class Store(Generic[Changed]):
    """Objects as they were seen last, to find out what is different now."""

    def __init__(self) -> None:
        self._objects: dict[str, Changed] = {}

    def __iter__(self) -> Iterator[Changed]:
        return iter(self._objects.values())

    def replace(self, objects: Iterable[Changed]) -> Iterator[Change[Changed]]:
        """What is different now that there are these and no others."""
        new = {key_of(each.metadata): each for each in objects}
        for key in [key for key in self._objects if key not in new]:
            yield from self.update(key, None)
        for key, each in new.items():
            yield from self.update(key, each)

    def update(self, key: str, new: Changed | None) -> Iterator[Change[Changed]]:
        """What is different now that an object is so, or isn't there any more.

        Equal resource versions mean that nothing is; what was known stays, so that all hold the same object.
        """
        old = self._objects.get(key)
        if new is None:
            if old is not None:
                yield Change(Kind.DELETED, self._objects.pop(key), old)
        elif old is None:
            self._objects[key] = new
            yield Change(Kind.ADDED, new)
        elif old.metadata.resource_version != new.metadata.resource_version:
            self._objects[key] = new
            yield Change(Kind.MODIFIED, new, old)


def key_of(metadata: ObjectMeta) -> str:
    """What tells an object from all others, earlier ones of its name among them."""
    return metadata.uid or metadata.name


class ClusterSource(ABC):
    """Tells what has changed among the pods that wait for some schedulers, and what they could be placed on.

    What else can be asked of the cluster, it looks up at once. namespaces: those to serve pods of; all, if
    there are none named. Rights in these are enough, but for nodes.
    """

    def __init__(self, api: Api, scheduler_names: Sequence[str], namespaces: Sequence[str] = ()) -> None:
        self._api = api
        self._scheduler_names = scheduler_names
        self._namespaces = namespaces
        self._unverified = list(namespaces)
        self._forbidden: set[str] = set()  # what can't be looked at
        self._selectors: dict[str, LabelSelector | None] = {}

    @abstractmethod
    def poll(self) -> Delta:
        """What has changed since the last poll. ApiError when that can't be found out: nothing is lost."""

    @abstractmethod
    def wait(self, seconds: float) -> None:
        """Return when it is worth polling again, after so many seconds at the latest."""

    def _waits_for_us(self, pod: Pod) -> bool:
        return (
            pod.spec.scheduler_name in self._scheduler_names
            and not pod.spec.node_name
            and (not self._namespaces or pod.metadata.namespace in self._namespaces)
        )

    def _verify_namespaces(self) -> None:
        """Warn, once, of namespaces that aren't there: their names may be wrong."""
        while self._unverified:
            name = self._unverified[-1]
            try:
                self._api.get(f"/api/v1/namespaces/{name}", Namespace)
            except NotFoundError:
                log.warning("there is no namespace %s, which --namespace names", name)
            except ForbiddenError as error:
                log.debug("whether there is a namespace %s can't be seen: %s", name, error)
            self._unverified.pop()

    def _forgo(self, path: str, error: ForbiddenError, without: str) -> None:
        """Go on without what may not be looked at, and say so; the error, if it can't be done without."""
        if not self._namespaces or path in self._forbidden:
            raise error
        self._forbidden.add(path)
        log.warning("%s: %s", without, error)

    def budgets(self) -> Listing[PodDisruptionBudget]:
        """The disruption budgets of the pods that may have to leave."""
        paths = paths_of("poddisruptionbudgets", self._namespaces, "/apis/policy/v1")
        return self._api.list_each(paths, PodDisruptionBudget)

    def namespaces(self) -> Listing[Namespace]:
        """All namespaces; if they may not be listed, those that are served."""
        everything = "/api/v1/namespaces"
        if everything not in self._forbidden:
            try:
                return self._api.list(everything, Namespace)
            except ForbiddenError as error:
                self._forgo(everything, error, "the labels of other namespaces are not known")
        found = (self._find_namespace(name) for name in self._namespaces)
        return Listing([each for each in found if each])

    def _find_namespace(self, name: str) -> Namespace | None:
        path = f"/api/v1/namespaces/{name}"
        try:
            return None if path in self._forbidden else self._api.get(path, Namespace)
        except NotFoundError:
            return None
        except ForbiddenError as error:
            self._forgo(path, error, f"going on without the labels of namespace {name}")
            return None

    def services(self, namespaces: Iterable[str]) -> Listing[Service]:
        """The services of some namespaces, as the API server has them in memory, up to date or nearly so.

        To be sure that it is, a server waits for up to 0.1 s where the last service was written long ago.
        """
        wanted = sorted(set(namespaces))
        if not wanted:
            return Listing()
        return self._api.list_each(paths_of("services", wanted), Service, resourceVersion="0")

    def min_member(self, namespace: str, name: str) -> int | None:
        """How many pods a PodGroup needs; None if there is no such group, or its CRD isn't installed."""
        path = f"/apis/scheduling.x-k8s.io/v1alpha1/namespaces/{namespace}/podgroups/{name}"
        try:
            return self._api.get(path, PodGroup).spec.min_member
        except NotFoundError:
            return None

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


class PollingSource(ClusterSource):
    """Asks for everything each time, and compares."""

    def __init__(self, api: Api, scheduler_names: Sequence[str], namespaces: Sequence[str] = ()) -> None:
        super().__init__(api, scheduler_names, namespaces)
        self._waiting, self._nodes, self._assigned = Store[Pod](), Store[Node](), Store[Pod]()
        self._complete_at = ""

    def poll(self) -> Delta:
        """What has changed since the last poll.

        Costs one list while nothing waits, or while nothing at all has changed in the cluster: the resource
        version of any list is that of the whole cluster's last write.
        """
        self._verify_namespaces()
        waiting = self._waiting_pods()
        if not waiting.items or waiting.resource_version == self._complete_at:
            changes: list[AnyChange] = [*self._waiting.replace(waiting.items)]
            return Delta(changes, [*waiting.malformed.values()], unplaceable=len(waiting.malformed))
        nodes = self._api.list("/api/v1/nodes", Node)
        assigned = self._assigned_pods()
        # Only now that all lists are here: a change is told once, and may not be lost with a failed one.
        unreadable = [line for each in (waiting, nodes, assigned) for line in each.malformed.values()]
        delta = Delta([], unreadable, unplaceable=len(waiting.malformed), complete=True)
        delta.changes += self._nodes.replace(nodes.items)
        delta.changes += self._assigned.replace(assigned.items)
        delta.changes += self._waiting.replace(waiting.items)
        self._complete_at = nodes.resource_version  # what came after the first of these lists isn't in it
        return delta

    def wait(self, seconds: float) -> None:
        """Sleep: there is no way to know sooner."""
        time.sleep(seconds)

    def _waiting_pods(self) -> Listing[Pod]:
        """The pods that name one of the schedulers and have no node yet; the server filters."""
        names, selector = self._scheduler_names, "spec.nodeName="
        if len(names) == 1:
            selector += f",spec.schedulerName={names[0]}"
        elif MAIN_SCHEDULER not in names:  # two names can't be asked for, but the crowd can be left out
            selector += f",spec.schedulerName!={MAIN_SCHEDULER}"
        found = self._api.list_each(paths_of("pods", self._namespaces), Pod, fieldSelector=selector)
        found.items = [pod for pod in found.items if self._waits_for_us(pod)]
        return found

    def _assigned_pods(self) -> Listing[Pod]:
        """The pods that have a node: of all namespaces, if we may see them."""
        # Pods that have finished use nothing any more, whoever placed them.
        selector = "spec.nodeName!=,status.phase!=Succeeded,status.phase!=Failed"
        if ALL_PODS not in self._forbidden:
            try:
                return self._api.list(ALL_PODS, Pod, fieldSelector=selector)
            except ForbiddenError as error:
                self._forgo(ALL_PODS, error, UNCOUNTED)
        return self._api.list_each(paths_of("pods", self._namespaces), Pod, fieldSelector=selector)
