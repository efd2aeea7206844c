"""Which pods each node would give for a pod that preempts, kept for pods that are alike.

Most pods of a burst are alike. What one of them would do to a node, the others would do as well until
something of that node changes: so after each nomination only one node is tried again.

There is no counterpart in kube-scheduler, which tries the nodes anew for each pod, in parallel.
"""

from collections import OrderedDict
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from lib.kube.objects import Pod
from lib.scheduling.affinity import terms_of
from lib.scheduling.cache import Cache

Answer = TypeVar("Answer")

MAX_KINDS = 16
"""Answers are kept for this many kinds of pods; those not used for longest are dropped."""


@dataclass(frozen=True, slots=True)
class _Kept(Generic[Answer]):
    """An answer for one node. It holds as long as the node's generation and the pods nominated to it."""

    generation: int
    nominated: Sequence[Pod]
    answer: Answer


class KeptVictims(Generic[Answer]):
    """Answers by the kind of pod, then by the node's name.

    All are dropped when the disruption budgets change. When a node is added, changed or deleted, pods that
    come later are of another kind: ALIKE is another value then.
    """

    def __init__(self) -> None:
        self._by_kind: OrderedDict[Hashable, dict[str, _Kept[Answer]]] = OrderedDict()
        self._budgets: object = None
        self._budgets_unread: object = None

    def of_kind(self, alike: Hashable | None, pod: Pod, cache: Cache) -> "KeptForKind[Answer]":
        """What is kept for pods like this one. alike: as in the CycleState (ALIKE); None keeps nothing."""
        if alike is None:
            return KeptForKind({}, pod, cache)
        self._drop_outdated(cache)
        kind = alike, pod.spec.priority
        kept = self._by_kind.pop(kind, {})
        self._by_kind[kind] = kept  # as the one that was used last
        if len(self._by_kind) > MAX_KINDS:
            self._by_kind.popitem(last=False)
        return KeptForKind(kept, pod, cache)

    def _drop_outdated(self, cache: Cache) -> None:
        # They are looked up again in each tick: only the first comparison after that looks into them.
        same = cache.budgets is self._budgets or cache.budgets == self._budgets
        if not same or cache.budgets_unread != self._budgets_unread:
            self._by_kind.clear()
        self._budgets, self._budgets_unread = cache.budgets, cache.budgets_unread


class KeptForKind(Generic[Answer]):
    """Answers for pods like this one, by the node's name."""

    def __init__(self, kept: dict[str, _Kept[Answer]], pod: Pod, cache: Cache) -> None:
        self._kept, self._pod, self._cache = kept, pod, cache

    def get(self, node_name: str) -> Answer | None:
        """The answer for a node, if it still holds."""
        kept = self._kept.get(node_name)
        if kept is None or kept.generation != self._cache.nodes[node_name].generation:
            return None
        nominated = self._nominated(node_name)
        if len(nominated) != len(kept.nominated):
            return None
        same = all(one is other for one, other in zip(nominated, kept.nominated, strict=True))
        return kept.answer if same else None

    def put(self, node_name: str, answer: Answer) -> None:
        """Keep an answer; not where a nominated pod has affinity terms: they may mean this pod alone."""
        nominated = self._nominated(node_name)
        if not any(terms_of(each) for each in nominated):
            generation = self._cache.nodes[node_name].generation
            self._kept[node_name] = _Kept(generation, nominated, answer)

    def _nominated(self, node_name: str) -> list[Pod]:
        return self._cache.nominator.nominated_before_on(node_name, self._pod)
