"""Reads what has changed since a list, by watches that last for a moment: it costs little in a large cluster.

A watch never says that it has told all. So nodes are asked for their latest version, and all watches are read
until they have come to it, or are silent. When an API server answers, its cache has that version (since
Kubernetes 1.31), and it serves watches from there.
"""

import logging
from collections.abc import Callable, Mapping, Sequence
from math import inf
from queue import Empty, Queue
from typing import Any

from lib.kube.changes import AnyChange
from lib.kube.decoding import Listing
from lib.kube.errors import ApiError, GoneError
from lib.kube.objects import UNFINISHED, Node, Pod
from lib.kube.pager import ListPager
from lib.kube.paths import is_listed_at, paths_of
from lib.kube.reading import ASK_AGAIN, Reading
from lib.kube.reflector import Reflector, WatchLine
from lib.kube.resources import NODES, PODS
from lib.kube.store import Store

log = logging.getLogger(__name__)

SILENCE = 0.05
"""Seconds of silence after which nothing more is awaited. On a machine with more work than cores, what had
happened came 2 ms after the latest version at most."""

LONGEST = 1.0
"""Seconds to wait for what must come, or for a silence. Then all is listed instead."""

NOBODY = "asked-for-the-version-alone"
"""A list of the nodes with this name is small, and as new as any."""


class ShortWatches:
    """Follows nodes and assigned pods from one poll to the next. No watch is open in between.

    pods: how the pods are listed. nodes, assigned: where the objects of the lists are kept.
    """

    def __init__(self, pods: Reading, nodes: Store[Node], assigned: Store[Pod]) -> None:
        self._pods, self._api = pods, pods.api.with_short_timeouts()
        self._now = pods.api.system.monotonic
        self._of_nodes, self._of_pods = [(nodes, bool)], [(assigned, _has_node)]
        self._lines: Queue[WatchLine] = self._api.system.queue()
        self._reflectors: list[Reflector[Any]] = []  # none if all must be listed
        self._is_everywhere = True  # whether pods of all namespaces are followed
        self._failed_at = -inf  # when a watch was refused, or didn't tell what it must

    def follow(self, of_nodes: ListPager[Node], of_pods: Sequence[ListPager[Pod]]) -> None:
        """Go on from lists that have just been read, unless a watch has failed a while ago."""
        self._reflectors = []
        if self._now() < self._failed_at + ASK_AGAIN or any(pager.failed for pager in of_pods):
            return
        api, lines = self._api, self._api.system.queue()
        self._lines = lines  # without late lines of other watches
        self._is_everywhere = self._pods.is_everywhere
        self._reflectors.append(Reflector(api, NODES, NODES.path, self._of_nodes, lines))
        for path in paths_of(PODS, () if self._is_everywhere else self._pods.served):
            # Pods without a node, too: they are listed before, and the watch must tell the same.
            pods = Reflector[Pod](api, PODS, path, self._of_pods, lines, fieldSelector=UNFINISHED)
            self._reflectors.append(pods)
        pagers: list[ListPager[Any]] = [of_nodes, *of_pods]
        for reflector, pager in zip(self._reflectors, pagers, strict=True):
            reflector.go_on_from(pager.answer())

    def read(self, unassigned: Listing[Pod], changes: list[AnyChange]) -> Listing[Any] | None:
        """Append what has changed since the last call; None if all must be listed.

        unassigned: the pods without a node, listed just before. The answer has only what can't be read, and
        no version: silence is no proof that nothing has changed.
        """
        reflectors, self._reflectors = self._reflectors, []
        if not reflectors or self._pods.is_everywhere != self._is_everywhere:
            return None
        try:
            for reflector in reflectors:
                reflector.open()
            of_nodes = self._api.list(NODES.path, Node, fieldSelector=f"metadata.name={NOBODY}")
            latest = dict.fromkeys(reflectors, unassigned) | {reflectors[0]: of_nodes}
            read_until_silent(self._lines, latest, self._now, changes)
        except ApiError as error:
            log.debug("all is listed: %s", error)
            if not isinstance(error, GoneError):
                self._failed_at = self._now()
            return None
        finally:
            for reflector in reflectors:
                reflector.suspend()
        self._reflectors = reflectors
        return Listing(
            [], {name: line for reflector in reflectors for name, line in reflector.unreadable.items()}
        )


def read_until_silent(
    lines: "Queue[WatchLine]",
    latest: "Mapping[Reflector[Any], Listing[Any]]",
    now: Callable[[], float],
    changes: list[AnyChange],
) -> None:
    """Append the changes that open watches tell, until these have come to the latest versions, or are silent.

    lines: what the watches tell. latest: by reflector, a list of this poll, with the latest version.
    GoneError if all must be listed, another ApiError if watches don't serve here.
    """
    silent_at, ends = now() + SILENCE, now() + LONGEST
    goals = {reflector: _number(listing.resource_version) for reflector, listing in latest.items()}
    due = {reflector: _newest(listing, reflector.path) for reflector, listing in latest.items()}
    while behind := [reflector for reflector in latest if _number(reflector.version) < goals[reflector]]:
        untold = [reflector.path for reflector in behind if _number(reflector.version) < due[reflector]]
        try:
            until = ends if untold else silent_at
            reflector, watch, line = lines.get(timeout=max(until - now(), 0.0))
        except Empty:
            if not untold:
                return
            raise ApiError(f"WATCH {untold[0]}: it doesn't tell what was listed before") from None
        changes += reflector.handle_event(watch, line)
        if reflector.pause is not None:
            raise reflector.trouble or GoneError(f"WATCH {reflector.path}: it ended before it was silent")
        if now() >= ends:
            raise GoneError(f"WATCH {reflector.path}: it tells more than can be read in {LONGEST:g} s")
        if reflector in behind:
            silent_at = now() + SILENCE


def _has_node(pod: Pod) -> bool:
    return bool(pod.spec.node_name)


def _newest(listed: Listing[Pod], path: str) -> float:
    """The newest version of the listed pods that a watch of this path must have told."""
    pods = [
        pod for pod in listed.items if not pod.has_finished and is_listed_at(path, pod.metadata.namespace)
    ]
    return max((_number(pod.metadata.resource_version) for pod in pods), default=0.0)


def _number(version: str) -> float:
    return int(version) if version.isdecimal() else inf
