"""Reads the cluster, as changes since the last poll."""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from lib.kube.api import Api
from lib.kube.changes import AnyChange
from lib.kube.claims import Claims, PolledClaims
from lib.kube.decoding import Listing
from lib.kube.listers import Listers
from lib.kube.lookup import PATIENCE
from lib.kube.objects import UNFINISHED, Node, Pod
from lib.kube.pager import ListPager, pages_of, read_at_once
from lib.kube.paths import paths_of
from lib.kube.reading import Reading
from lib.kube.resources import DEVICES, NODES, PODS, VOLUMES
from lib.kube.store import Store, key_of
from lib.lazily import Lazy

if TYPE_CHECKING:
    from lib.kube import short_watch
else:
    short_watch = Lazy("lib.kube.short_watch")

MAIN_SCHEDULER = "default-scheduler"
"""kube-scheduler's name, which most pods name."""


@dataclass
class Delta:
    """What one poll found.

    changes: apply them in this order. unreadable: a line for each object that can't be decoded; the first
    `unplaceable` of them are unassigned pods. complete: whether everything was listed, not only the
    unassigned pods: after events of a watch, earlier ones may still follow.
    """

    changes: list[AnyChange] = field(default_factory=list)
    unreadable: list[str] = field(default_factory=list)
    unplaceable: int = 0
    complete: bool = False


class ClusterSource(ABC):
    """Polls for changes of nodes, assigned pods, and the unassigned pods of some schedulers.

    listers: look up what else decisions need. storage: how far claims and volumes are known. namespaces: pods
    of these are served; empty for all. Rights in these are enough, besides the right to read nodes.
    """

    listers: Listers
    storage: Claims
    devices: Claims

    def __init__(self, api: Api, scheduler_names: Sequence[str], namespaces: Sequence[str] = ()) -> None:
        self._api = api
        self._scheduler_names = scheduler_names
        self._namespaces = namespaces

    @abstractmethod
    def first_changes(self) -> Iterator[AnyChange]:
        """The nodes and assigned pods, when they are read for the first time; later nothing.

        Call it before each `poll`, which returns the other changes. The objects come page by page: they can
        be applied while the next pages are on their way.
        """

    @abstractmethod
    def poll(self, patience: float = PATIENCE) -> Delta:
        """The changes since the last poll. After an ApiError, the next poll returns them.

        patience: the seconds that it may wait for what only pods with claims need.
        """

    @abstractmethod
    def wait(self, seconds: float) -> None:
        """Wait until it is worth polling again, at most so many seconds."""

    def _is_ours(self, pod: Pod) -> bool:
        """Whether a pod is to be placed by one of our schedulers."""
        return (
            pod.spec.scheduler_name in self._scheduler_names
            and not pod.spec.node_name
            and (not self._namespaces or pod.metadata.namespace in self._namespaces)
        )


@dataclass
class _Lists:
    """The lists of one poll. nodes: None if only the unassigned pods are needed."""

    unassigned: Listing[Pod]
    nodes: ListPager[Node] | None = None
    assigned_pods: Sequence[ListPager[Pod]] = ()


class PollingSource(ClusterSource):
    """Lists the pods without a node at each poll. If there are any, it reads all else, and compares.

    A small cluster is listed; in a large one, short watches tell what has changed.
    """

    storage: PolledClaims
    devices: PolledClaims

    def __init__(self, api: Api, scheduler_names: Sequence[str], namespaces: Sequence[str] = ()) -> None:
        super().__init__(api, scheduler_names, namespaces)
        self.listers = Listers(api, namespaces)
        self._unassigned, self._nodes = Store[Pod](oldest_first=True), Store[Node]()
        self._assigned = Store[Pod](keeps_unreadable=True)
        selector = f"spec.nodeName!=,{UNFINISHED}"
        self._assigned_pods = Reading(api, PODS, namespaces, fieldSelector=selector)
        self.storage = PolledClaims(api, namespaces, VOLUMES)
        self.devices = PolledClaims(api, namespaces, DEVICES)
        self._complete_at: str | None = None  # the resource version at which all lists were read
        self._listed_once = False
        self._begun: _Lists | None = None  # by `first_changes`, for the next poll
        self._untold: list[AnyChange] = []  # for the next delta
        self._watches: short_watch.ShortWatches | None = None

    def first_changes(self) -> Iterator[AnyChange]:
        """Nodes and assigned pods, before the first poll that lists them: if no pod waits, it doesn't."""
        if not self._listed_once:
            self._begun = lists = self._begin()
            if lists.nodes:
                self._listed_once = True
                assigned = [(self._assigned, pager) for pager in lists.assigned_pods]
                yield from changes_by_page([(self._nodes, lists.nodes), *assigned])

    def poll(self, patience: float = PATIENCE) -> Delta:
        """What has changed since the last poll.

        It makes one list only if no pod waits, or if nothing in the cluster has changed: any list's resource
        version is that of the last write to the whole cluster.
        """
        lists, self._begun = self._begun or self._begin(), None
        unassigned, nodes = lists.unassigned, lists.nodes
        watched = self._watches.read(unassigned, self._untold) if nodes and self._watches else None
        listings: list[Listing[Any]] = [unassigned]
        claims: list[tuple[PolledClaims, Mapping[str, Listing[Any]]]] = []
        if nodes:
            listings.append(watched or self._listed(nodes, lists.assigned_pods))
            claims = [
                (polled, polled.list(patience))
                for polled in (self.storage, self.devices)
                if any(map(polled.need.of, unassigned.items))
            ]
            listings += [listing for _, found in claims for listing in found.values()]
        # Only now, with all lists complete: a change is returned once, so a failed list must not lose it.
        unreadable = [line for listing in listings for line in listing.malformed.values()]
        complete = bool(nodes and not watched)
        delta = Delta(self._untold, unreadable, len(unassigned.malformed), complete)
        self._untold = []
        for polled, found in claims:
            delta.changes += polled.changes(found)
        waiting = unassigned.items
        if nodes:  # a pod in both lists was bound after the first list was read
            waiting = [pod for pod in waiting if key_of(pod.metadata) not in self._assigned]
            # Lists that are read at once may differ in time: the next poll finds what came between.
            versions = {listing.resource_version for listing in listings}
            known = len(versions) == 1 and all(polled.is_known for polled, _ in claims)
            self._complete_at = (known and unassigned.resource_version) or None
        delta.changes += self._unassigned.replace(waiting)
        return delta

    def _listed(self, of_nodes: ListPager[Node], of_pods: Sequence[ListPager[Pod]]) -> Listing[Any]:
        """List nodes and assigned pods: what can't be read, and the version of both; "" if they have two."""
        read_at_once([of_nodes, *of_pods])
        nodes, assigned = of_nodes.answer(), self._assigned_pods.together(of_pods)
        self._untold += self._nodes.replace(nodes.items)
        # A running pod uses its node's resources even if it can't be decoded any more.
        self._untold += self._assigned.replace(assigned.items, assigned.malformed)
        if not self._watches and (of_nodes.pages > 1 or any(pager.pages > 1 for pager in of_pods)):
            self._watches = short_watch.ShortWatches(self._assigned_pods, self._nodes, self._assigned)
        if self._watches:
            self._watches.follow(of_nodes, of_pods)
        version = nodes.resource_version if nodes.resource_version == assigned.resource_version else ""
        return Listing([], {**nodes.malformed, **assigned.malformed}, version)

    def wait(self, seconds: float) -> None:
        """Sleep: without a watch, nothing tells sooner."""
        self._api.system.sleep(seconds)

    def _begin(self) -> _Lists:
        """List the unassigned pods that name one of the schedulers; the others only if they are needed."""
        paths, selector = paths_of(PODS, self._namespaces), f"spec.nodeName={self._of_our_schedulers}"
        unassigned = self._api.list_each(paths, Pod, fieldSelector=selector)
        unassigned.items = [pod for pod in unassigned.items if self._is_ours(pod)]
        if not unassigned.items or unassigned.resource_version == self._complete_at:
            return _Lists(unassigned)
        return _Lists(unassigned, self._api.pager(NODES.path, Node), self._assigned_pods.pagers())

    @property
    def _of_our_schedulers(self) -> str:
        """The part of the selector by which the server leaves out the pods of other schedulers."""
        names = self._scheduler_names
        if len(names) == 1:
            return f",spec.schedulerName={names[0]}"
        # It can't name two, but it can exclude the one that most pods name.
        return "" if MAIN_SCHEDULER in names else f",spec.schedulerName!={MAIN_SCHEDULER}"


def changes_by_page(lists: Sequence[tuple[Store[Any], ListPager[Any]]]) -> Iterator[AnyChange]:
    """Read the first lists at once, of nodes and then of pods; yields the nodes and the assigned pods.

    If a list fails or begins again, `poll` returns the differences.
    """
    for _ in pages_of(pager for _, pager in lists):
        for store, pager in lists:
            for item in pager.new_items():
                if isinstance(item, Node) or item.spec.node_name:
                    yield from store.update(key_of(item.metadata), item)
            if not pager.is_complete:
                break  # nodes first: for a new node, the cache looks through all assigned pods
