"""Watches the cluster: changes are known as soon as they happen.

Counterpart: k8s.io/client-go, tools/cache/shared_informer.go
"""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from functools import partial
from queue import Empty, Queue
from typing import Any

from lib.kube.api import Api
from lib.kube.changes import AnyChange, unassigned_pod
from lib.kube.errors import ForbiddenError
from lib.kube.listers import Listers
from lib.kube.lookup import PATIENCE
from lib.kube.objects import UNFINISHED, Pod
from lib.kube.pager import read_at_once
from lib.kube.reflector import Reflector, WatchLine
from lib.kube.resources import DEVICES, NODES, PODS, VOLUMES
from lib.kube.source import ClusterSource, Delta, changes_by_page
from lib.kube.store import Store
from lib.kube.watched import Watched
from lib.kube.watched_claims import WatchedClaims
from lib.kube.watched_services import WatchedServices

LONGEST_DOZE = 0.5
"""The longest single wait, in seconds. A signal that comes just before a wait begins is handled only when
that wait ends."""


class Informer(ClusterSource):
    """Lists nodes and pods once, then watches them."""

    def __init__(self, api: Api, scheduler_names: Sequence[str], namespaces: Sequence[str] = ()) -> None:
        super().__init__(api, scheduler_names, namespaces)
        self._delta = Delta()  # for the next poll to return
        self._listed_once = False
        self._lines: Queue[WatchLine] = api.system.queue()
        self._services = WatchedServices(api, namespaces, self._lines)
        self.listers = Listers(api, namespaces, self._services)
        self._nodes = Watched(api, NODES, (), self._lines)
        # The store that a pod joins comes before the one that it leaves, as when polling.
        assigned, unassigned = Store[Pod](keeps_unreadable=True), Store[Pod](oldest_first=True)
        by_node = [(assigned, _has_node), (unassigned, self._is_ours)]
        self._pods = Watched(api, PODS, namespaces, self._lines, by_node, fieldSelector=UNFINISHED)
        self._claims = [WatchedClaims(api, namespaces, need, self._lines) for need in (VOLUMES, DEVICES)]
        self.storage, self.devices = self._claims

    @property
    def _nodes_and_pods(self) -> "list[Reflector[Any]]":
        return [*self._nodes.reflectors, *self._pods.reflectors]

    @property
    def _all(self) -> "list[Reflector[Any]]":
        """The reflectors whose changes a poll returns."""
        return [
            *self._nodes_and_pods,
            *(reflector for claims in self._claims for reflector in claims.reflectors),
        ]

    def first_changes(self) -> Iterator[AnyChange]:
        """The nodes and the pods on them, before the first poll: they are in the lists that it uses."""
        if not self._listed_once:
            lists = [
                (watched.stores[0][0], pager)
                for watched in self._nodes_and_pods
                if (pager := watched.pager())
            ]
            yield from changes_by_page(lists)

    def poll(self, patience: float = PATIENCE) -> Delta:
        """The changes since the last poll. A request is made only to open a watch.

        A delta is complete only when the pods were listed: after events alone, earlier ones may still follow.
        ApiError when a watch can't be opened.
        """
        self._take_lines()
        if self._listed_once:  # else `first_changes` has read them
            read_at_once(pager for watched in self._nodes_and_pods if (pager := watched.pager()))
        self._listed_once = True
        self._open(self._nodes)
        self._open(self._pods)
        due = self._claims
        while due:
            for claims in due:
                self._tell(claims.open_due_watches(patience))
            self._take_lines()  # what was listed; a pod that has just come may be the first in need
            due = [claims for claims in self._claims if claims.is_due]
        delta, self._delta = self._delta, Delta()
        if self.devices.is_known:  # a claim comes before the pod that waits for it
            delta.changes.sort(key=lambda change: unassigned_pod(change) is not None)
        delta.unreadable = [line for reflector in self._all for line in reflector.unreadable.values()]
        return delta

    def wait(self, seconds: float) -> None:
        """Return at the first change, when a watch must be opened, or after so many seconds."""
        if any(claims.is_opening for claims in self._claims):
            seconds = min(seconds, PATIENCE)
        until = self._api.system.monotonic() + seconds
        while not self._delta.changes:
            to_open = self._nodes_and_pods
            to_open += (reflector for claims in self._claims for reflector in claims.to_open)
            pauses = [reflector.pause for reflector in to_open if reflector.pause is not None]
            left = min([until - self._api.system.monotonic(), *pauses])
            if left <= 0:
                return
            with suppress(Empty):
                self._take(self._lines.get(timeout=min(left, LONGEST_DOZE)))

    def _open(self, watched: Watched) -> None:
        """Open the watches that are due: of all namespaces if we may, else of the served ones.

        ApiError when one can't be opened.
        """
        watched.widen()
        try:
            self._go_on(watched.reflectors)
        except ForbiddenError as error:
            watched.do_without(error)
            self._tell(watched.narrow())
            self._go_on(watched.reflectors)
        watched.note_open()

    def _go_on(self, reflectors: Iterable[Reflector[Any]]) -> None:
        for reflector in reflectors:
            if trouble := reflector.trouble:
                reflector.trouble = None
                raise trouble
            if reflector.pause == 0:
                reflector.resume(partial(self._list, reflector))

    def _tell(self, changes: Iterable[AnyChange]) -> None:
        """Let the next poll return changes."""
        before = len(self._delta.changes)
        self._delta.changes += changes
        for claims in self._claims:
            claims.note_needs(self._delta.changes[before:])

    def _take_lines(self) -> None:
        while not self._lines.empty():
            self._take(self._lines.get())

    def _take(self, from_queue: WatchLine) -> None:
        reflector, watch, line = from_queue
        changes = reflector.handle_event(watch, line)
        if reflector not in self._services.reflectors.values():
            self._tell(changes)

    def _list(self, reflector: Reflector[Any]) -> None:
        """List again: the pods of all served namespaces together, as only then the delta is complete."""
        is_of_pods = reflector in self._pods.reflectors
        for other in self._pods.reflectors if is_of_pods else [reflector]:
            self._tell(other.list())
        self._delta.complete |= is_of_pods


def _has_node(pod: Pod) -> bool:
    return bool(pod.spec.node_name)
