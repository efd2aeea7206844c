"""The assigned pods by their labels: to count the pods that a selector matches, few of them are looked at.

kube-scheduler has no counterpart: it looks at all pods, in parallel.
"""

from collections.abc import Collection, Iterable, Iterator, Sequence

from lib.kube.matcher import Clue
from lib.kube.objects import Pod
from lib.scheduling.cache import Cache
from lib.scheduling.kept import Follower, NodeChange
from lib.scheduling.node_info import NodeInfo

_Placed = dict[int, tuple[NodeInfo, Pod]]
"""Pods by their id in memory, with their nodes."""


def pods_with(cache: Cache, clues: Collection[Clue]) -> Iterator[tuple[NodeInfo, Pod]]:
    """The assigned pods that have one of these labels, each once, with their nodes. See `Matcher.clues`."""
    labels = [clue for clue in clues if clue and clue[1] is not None]
    if len(labels) < len(clues) or type(cache) is not Cache:  # a policy's view: what it shows isn't kept
        yield from _all_pods(cache)
    else:
        yield from cache.kept.get("pods by label", _PodsByLabel).having_one_of(labels, cache)


def _all_pods(cache: Cache) -> Iterator[tuple[NodeInfo, Pod]]:
    return ((node, pod) for node in cache.node_list for pod in node.pods)


class _PodsByLabel(Follower):
    """The pods by label, from the second time on that somebody asks: to look at all once is faster."""

    def __init__(self) -> None:
        self._was_asked = False
        self._by_label: dict[Clue, _Placed] | None = None

    def having_one_of(self, labels: Collection[Clue], cache: Cache) -> Iterable[tuple[NodeInfo, Pod]]:
        """The pods with one of these labels, or all pods."""
        if not self._was_asked:
            self._was_asked = True
            return _all_pods(cache)
        if self._by_label is None:
            self._by_label = {}
            for node, pod in _all_pods(cache):
                self._add(node, pod)
        seen: _Placed = {}
        for label in labels:
            seen |= self._by_label.get(label, {})
        return seen.values()

    def follow(self, changes: Sequence[NodeChange]) -> bool:
        """Take in the pods that came and went."""
        if self._by_label is None:
            return True
        for node, pod, sign in changes:
            if pod is None:
                continue
            if sign > 0:
                self._add(node, pod)
                continue
            for label in pod.metadata.labels.items():
                del self._by_label[label][id(pod)]
                if not self._by_label[label]:
                    del self._by_label[label]
        return True

    def _add(self, node: NodeInfo, pod: Pod) -> None:
        assert self._by_label is not None
        for label in pod.metadata.labels.items():
            self._by_label.setdefault(label, {})[id(pod)] = node, pod
