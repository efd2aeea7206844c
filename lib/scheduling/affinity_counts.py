"""Counts, by topology value, pods that affinity terms match, and terms of assigned pods.

The counts are kept as pods come and go, so a pod's cycle needn't walk the cluster's pods or nodes.
kube-scheduler counts again for each pod, in parallel
(pkg/scheduler/framework/plugins/interpodaffinity/filtering.go).
"""

from collections.abc import Hashable, Iterator, Mapping, Sequence

from lib.kube.objects import LabelSelector, Pod
from lib.scheduling.affinity import Namespaces, Term, Terms, terms_of
from lib.scheduling.cache import Cache, PodChanges
from lib.scheduling.node_info import NodeInfo

Counts = Mapping[str, int]
"""A number for each value of a topology key; values with 0 are left out."""

Label = tuple[str, str]


def meant_pods(cache: Cache, terms: Sequence[Term]) -> list[Counts]:
    """For each term, by the values of its topology key: how many pods match all of these terms."""
    if not terms:
        return []
    key = "meant pods", *map(_key, terms)
    return cache.remember(key, lambda: MeantPods(cache, terms), catches_up=True).counts()


def held_terms(cache: Cache) -> "HeldTerms":
    """The terms of the assigned pods."""
    found = cache.remember("held terms", lambda: HeldTerms(cache), catches_up=True)
    found.catch_up()
    return found


class MeantPods:
    """Counts the pods that match all of some terms."""

    def __init__(self, cache: Cache, terms: Sequence[Term]) -> None:
        self._cache, self._terms = cache, terms
        self._reads_namespaces = any(term.namespace_selector is not None for term in terms)
        self._namespaces: Namespaces = {}
        self._changes = PodChanges(cache)
        self._counts: list[dict[str, int]] = []
        self._count_all()

    def counts(self) -> list[Counts]:
        """For each term, by topology value. Don't keep them: they change."""
        if self._reads_namespaces and self._namespaces is not self._cache.namespaces:
            if self._namespaces != self._cache.namespaces:
                self._count_all()
            self._namespaces = self._cache.namespaces
        for node, pod, sign in self._changes.new():
            self._count(node, pod, sign)
        return list(self._counts)

    def _count_all(self) -> None:
        self._namespaces = self._cache.namespaces
        self._changes = PodChanges(self._cache)
        self._counts = [{} for _ in self._terms]
        for node in self._cache.node_list:
            for pod in node.pods:
                self._count(node, pod, 1)

    def _count(self, node: NodeInfo, pod: Pod, sign: int) -> None:
        if all(term.selects(pod, self._namespaces) for term in self._terms):
            for term, counts in zip(self._terms, self._counts, strict=True):
                add(counts, node.labels.get(term.topology_key), sign)


class HeldTerms:
    """The distinct terms of assigned pods, and how many pods have each, by topology value.

    Terms are indexed by one of the labels that they require: a pod without it doesn't match.
    """

    def __init__(self, cache: Cache) -> None:
        self._changes = PodChanges(cache)
        self._cache = cache
        self._required = _Index()
        self._required_anti = _Index()
        self._preferred = _Index()
        self._preferred_anti = _Index()
        self._namespace_selectors = 0
        for node in cache.with_affinity.values():
            for _, terms in node.pods_with_affinity:
                self._count(node, terms, 1)

    def catch_up(self) -> None:
        """Count the changes since the last call."""
        for node, pod, sign in self._changes.new():
            if terms := terms_of(pod):
                self._count(node, terms, sign)

    @property
    def affect_scores(self) -> bool:
        """Whether there are terms by which nodes are scored: required affinity, and preferred terms."""
        return bool(self._required or self._preferred or self._preferred_anti)

    @property
    def read_namespaces(self) -> bool:
        """Whether a term selects namespaces by their labels."""
        return self._namespace_selectors > 0

    def required_anti(self, pod: Pod) -> Iterator[tuple[Term, Counts]]:
        """Required anti-affinity terms that match a pod, and their counts."""
        return self._required_anti.meaning(pod, self._cache)

    def required(self, pod: Pod) -> Iterator[tuple[Term, Counts]]:
        """Required affinity terms that match a pod, and their counts."""
        return self._required.meaning(pod, self._cache)

    def preferred(self, pod: Pod) -> Iterator[tuple[Term, Counts]]:
        """Preferred affinity terms that match a pod, and their counts."""
        return self._preferred.meaning(pod, self._cache)

    def preferred_anti(self, pod: Pod) -> Iterator[tuple[Term, Counts]]:
        """Preferred anti-affinity terms that match a pod, and their counts."""
        return self._preferred_anti.meaning(pod, self._cache)

    def _count(self, node: NodeInfo, terms: Terms, sign: int) -> None:
        for index, some in (
            (self._required, terms.affinity),
            (self._required_anti, terms.anti_affinity),
            (self._preferred, terms.preferred),
            (self._preferred_anti, terms.preferred_anti),
        ):
            for term in some:
                index.count(term, node.labels.get(term.topology_key), sign)
        if terms.look_at_namespaces:
            self._namespace_selectors += sign


class _Index:
    """Terms of one kind, by one of the labels that their selectors require; None if they require no label."""

    def __init__(self) -> None:
        self._by_label: dict[Label | None, dict[Hashable, tuple[Term, dict[str, int]]]] = {}

    def __bool__(self) -> bool:
        return bool(self._by_label)

    def count(self, term: Term, value: str | None, sign: int) -> None:
        label = next(iter(term.selector.match_labels.items()), None) if term.selector else None
        found = self._by_label.setdefault(label, {})
        key = _key(term)
        _, counts = found.setdefault(key, (term, {}))
        add(counts, value, sign)
        if not counts:
            del found[key]
            if not found:
                del self._by_label[label]

    def meaning(self, pod: Pod, cache: Cache) -> Iterator[tuple[Term, Counts]]:
        for label in (None, *pod.metadata.labels.items()) if self._by_label else ():
            for term, counts in self._by_label.get(label, {}).values():
                if term.selects(pod, cache.namespaces):
                    yield term, counts


def add(counts: dict[str, int], value: str | None, amount: int) -> None:
    """Add to a count; a count of 0 is removed. None, for a node without the label, isn't counted."""
    if value is None:
        return
    if after := counts.get(value, 0) + amount:
        counts[value] = after
    else:
        counts.pop(value, None)


def _key(term: Term) -> Hashable:
    """Equal for terms that match the same pods in the same topology, with the same weight."""
    return (
        term.topology_key,
        selector_key(term.selector),
        term.namespaces,
        selector_key(term.namespace_selector),
        term.weight,
    )


def selector_key(selector: LabelSelector | None) -> Hashable:
    """Equal for selectors that are written alike."""
    return (
        None if selector is None else (frozenset(selector.match_labels.items()), selector.match_expressions)
    )
