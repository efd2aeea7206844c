"""Keeps the victims of preemption on each node, for pods that are alike.

Most pods of a burst are alike. They would have the same victims on a node until something on that node
changes. So after each nomination only one node is tried again.

kube-scheduler has no counterpart: it tries the nodes again for each pod, in parallel.
"""

from collections import OrderedDict
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from operator import is_
from typing import Generic, TypeVar

from lib.kube.objects import Pod
from lib.scheduling.affinity import terms_of
from lib.scheduling.cache import Cache
from lib.scheduling.volumes.claims import has_volumes

Answer = TypeVar("Answer")

MAX_KINDS = 16
"""Results are kept for this many kinds of pods; the least recently used are dropped."""


@dataclass(frozen=True, slots=True)
class _Kept(Generic[Answer]):
    """A result for one node. It is valid while the node's generation and its nominated pods are the same."""

    generation: int
    nominated: Sequence[Pod]
    answer: Answer


class KeptVictims(Generic[Answer]):
    """Results by the kind of pod, then by the node's name.

    All are dropped when the disruption budgets change, or a victim is charged to one. After a node is added,
    changed or deleted, pods are of another kind, as ALIKE then has another value.
    """

    def __init__(self) -> None:
        self._by_kind: OrderedDict[Hashable, dict[str, _Kept[Answer]]] = OrderedDict()
        self._budgets: object = None
        self._disruptions_left: object = None
        self._budgets_unread: object = None

    def of_kind(self, alike: Hashable | None, pod: Pod, cache: Cache) -> "KeptForKind[Answer]":
        """The results for pods like this one. alike: as in the CycleState (ALIKE); None keeps nothing."""
        if alike is None:
            return KeptForKind({}, pod, cache)
        self._drop_outdated(cache)
        kind = alike, pod.spec.priority
        kept = self._by_kind.pop(kind, {})
        self._by_kind[kind] = kept  # now the most recently used
        if len(self._by_kind) > MAX_KINDS:
            self._by_kind.popitem(last=False)
        return KeptForKind(kept, pod, cache)

    def _drop_outdated(self, cache: Cache) -> None:
        # Budgets are looked up in each tick: only the first comparison after that compares their fields.
        same = cache.budgets is self._budgets or cache.budgets == self._budgets
        now = cache.disruptions_left()
        if not same or cache.budgets_unread != self._budgets_unread or now != self._disruptions_left:
            self._by_kind.clear()
        self._budgets, self._budgets_unread = cache.budgets, cache.budgets_unread
        self._disruptions_left = now


class KeptForKind(Generic[Answer]):
    """Results for pods like this one, by the node's name."""

    def __init__(self, kept: dict[str, _Kept[Answer]], pod: Pod, cache: Cache) -> None:
        self._kept, self._pod, self._cache = kept, pod, cache

    def get(self, node_name: str) -> Answer | None:
        """The result for a node, if it is still valid."""
        kept = self._kept.get(node_name)
        if kept is None or kept.generation != self._cache.nodes[node_name].generation:
            return None
        nominated = self._nominated(node_name)
        same = len(nominated) == len(kept.nominated) and all(map(is_, nominated, kept.nominated))
        return kept.answer if same else None

    def put(self, node_name: str, answer: Answer) -> None:
        """Keep a result, unless a nominated pod has affinity terms or volumes.

        Pods are alike if no filter can tell them apart beside the pods in the cluster. The terms or volumes
        of another pod may tell them apart.
        """
        nominated = self._nominated(node_name)
        if not any(terms_of(each) or has_volumes(each) for each in nominated):
            generation = self._cache.nodes[node_name].generation
            self._kept[node_name] = _Kept(generation, nominated, answer)

    def _nominated(self, node_name: str) -> list[Pod]:
        return self._cache.nominator.nominated_before_on(node_name, self._pod)
