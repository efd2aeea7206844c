"""What the cluster looks like, as changes since the last time."""

import logging
import time
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from lib.kube.api import Api
from lib.kube.changes import AnyChange
from lib.kube.decoding import Listing
from lib.kube.errors import ForbiddenError
from lib.kube.listers import Listers
from lib.kube.objects import Node, Pod
from lib.kube.pager import ListPager, read_at_once, together
from lib.kube.paths import NODES, PODS, paths_of
from lib.kube.polled_storage import PolledStorage
from lib.kube.storage import needs_storage
from lib.kube.store import Store

log = logging.getLogger(__name__)

UNCOUNTED = "what pods of other namespaces request is not counted"
"""What is said when they can't be seen."""

MAIN_SCHEDULER = "default-scheduler"
"""kube-scheduler's own name, which most pods have."""


@dataclass
class Delta:
    """What one poll found.

    changes: in the order in which they are to be applied. unreadable: a line for each object that can't be
    read; the first `unplaceable` of them are pods that wait. complete: whether all was looked at, and not
    only the pods that wait. storage_unseen: why volumes and such can't be seen, if they can't.
    """

    changes: list[AnyChange] = field(default_factory=list)
    unreadable: list[str] = field(default_factory=list)
    unplaceable: int = 0
    complete: bool = False
    storage_unseen: str = ""


class ClusterSource(ABC):
    """Tells what has changed among the unassigned pods of some schedulers, and among nodes and assigned pods.

    listers: look up what else pods need. namespaces: those to serve pods of; all, if none are named. Rights
    in these are enough, but for nodes.
    """

    listers: Listers

    def __init__(self, api: Api, scheduler_names: Sequence[str], namespaces: Sequence[str] = ()) -> None:
        self._api = api
        self._scheduler_names = scheduler_names
        self._namespaces = namespaces
        self._forbidden: set[str] = set()  # paths that may not be read

    @abstractmethod
    def poll(self) -> Delta:
        """What has changed since the last poll. ApiError when that can't be found out: nothing is lost."""

    @abstractmethod
    def wait(self, seconds: float) -> None:
        """Return when it is worth polling again, after so many seconds at the latest."""

    def _is_ours(self, pod: Pod) -> bool:
        """Whether a pod is to be placed by one of our schedulers."""
        return (
            pod.spec.scheduler_name in self._scheduler_names
            and not pod.spec.node_name
            and (not self._namespaces or pod.metadata.namespace in self._namespaces)
        )

    def _do_without(self, path: str, error: ForbiddenError, without: str) -> None:
        """Go on without what may not be read, and say so once; the error, if it can't be done without."""
        if not self._namespaces or path in self._forbidden:
            raise error
        self._forbidden.add(path)
        log.warning("%s: %s", without, error)


class PollingSource(ClusterSource):
    """Asks for everything each time, and compares."""

    def __init__(self, api: Api, scheduler_names: Sequence[str], namespaces: Sequence[str] = ()) -> None:
        super().__init__(api, scheduler_names, namespaces)
        self.listers = Listers(api, namespaces)
        self._unassigned, self._nodes = Store[Pod](), Store[Node]()
        self._assigned = Store[Pod](keeps_unreadable=True)
        self._storage = PolledStorage(api, namespaces)
        self._complete_at: str | None = None  # a resource version of which all lists were seen

    def poll(self) -> Delta:
        """What has changed since the last poll.

        Costs one list while nothing waits, or while nothing at all has changed in the cluster: the resource
        version of any list is that of the whole cluster's last write.
        """
        unassigned = self._unassigned_pods()
        if not unassigned.items or unassigned.resource_version == self._complete_at:
            changes: list[AnyChange] = [*self._unassigned.replace(unassigned.items)]
            unreadable, unplaceable = [*unassigned.malformed.values()], len(unassigned.malformed)
            return Delta(changes, unreadable, unplaceable, storage_unseen=self._storage.unseen)
        pager = self._api.pager(NODES, Node)
        assigned_pods = self._assigned_pods()
        read_at_once([pager, *assigned_pods])
        nodes = pager.answer()
        assigned = self._together(assigned_pods)
        storage = self._storage.list() if any(map(needs_storage, unassigned.items)) else {}
        # Only now that all lists are here: a change is told once, and may not be lost with a failed one.
        listings: list[Listing[Any]] = [unassigned, nodes, assigned, *storage.values()]
        unreadable = [line for each in listings for line in each.malformed.values()]
        delta = Delta([], unreadable, len(unassigned.malformed), True, self._storage.unseen)
        delta.changes += self._nodes.replace(nodes.items)
        # A pod that runs takes its room, whether it can be read any more or not.
        delta.changes += self._assigned.replace(assigned.items, assigned.malformed)
        delta.changes += self._storage.changes(storage)
        delta.changes += self._unassigned.replace(unassigned.items)
        # Lists that are read at once may be of different moments: the next poll sees what came between.
        versions = {nodes.resource_version, assigned.resource_version}
        self._complete_at = nodes.resource_version if len(versions) == 1 and nodes.resource_version else None
        return delta

    def wait(self, seconds: float) -> None:
        """Sleep: there is no way to know sooner."""
        time.sleep(seconds)

    def _unassigned_pods(self) -> Listing[Pod]:
        """The pods that name one of the schedulers and have no node yet; the server filters."""
        names, selector = self._scheduler_names, "spec.nodeName="
        if len(names) == 1:
            selector += f",spec.schedulerName={names[0]}"
        elif MAIN_SCHEDULER not in names:  # two names can't be asked for, but the crowd can be left out
            selector += f",spec.schedulerName!={MAIN_SCHEDULER}"
        found = self._api.list_each(paths_of("pods", self._namespaces), Pod, fieldSelector=selector)
        found.items = [pod for pod in found.items if self._is_ours(pod)]
        return found

    def _assigned_pods(self) -> list[ListPager[Pod]]:
        """The lists of pods that have a node: of all namespaces, if we may see them."""
        # Pods that have finished use nothing any more, whoever placed them.
        selector = "spec.nodeName!=,status.phase!=Succeeded,status.phase!=Failed"
        paths = paths_of("pods", self._namespaces) if PODS in self._forbidden else [PODS]
        return [self._api.pager(path, Pod, fieldSelector=selector) for path in paths]

    def _together(self, assigned_pods: list[ListPager[Pod]]) -> Listing[Pod]:
        """What these lists say; those of our namespaces, if others may not be seen."""
        try:
            return together(assigned_pods)
        except ForbiddenError as error:
            self._do_without(PODS, error, UNCOUNTED)
        return self._together(self._assigned_pods())
