"""Counts, by topology value, pods that affinity terms match, and terms of assigned pods.

The counts are kept as pods come and go, so a pod's cycle needn't walk the cluster's pods or nodes.
kube-scheduler counts again for each pod, in parallel
(pkg/scheduler/framework/plugins/interpodaffinity/filtering.go).
"""

from collections import Counter
from collections.abc import Collection, Hashable, Iterator, Mapping, Sequence, Set

from lib.kube.matcher import Clue, Index, Matcher
from lib.kube.objects import Pod, Requirement
from lib.scheduling.affinity import KINDS, Namespaces, Term, Terms, terms_of
from lib.scheduling.cache import Cache
from lib.scheduling.kept import CountOfPods, Follower, NodeChange
from lib.scheduling.node_info import NodeInfo
from lib.scheduling.pod_limits import Comparisons
from lib.scheduling.pods_by_label import pods_with
from lib.scheduling.resources import add

Counts = Mapping[str, int]
"""A number for each value of a topology key; values with 0 are left out."""

ByTopology = Mapping[str, Counts]
"""Such counts by topology key; keys without any are left out."""

FEW = 8
"""To match so many terms with each pod is faster than to find out which pods are alike."""


# --- pods that terms match --------------------------------------------------------------------------------


def pods_of_all(cache: Cache, terms: tuple[Term, ...]) -> "PodsOfAll":
    """The pods that match all of these terms, counted by the topology keys of the terms."""
    return cache.kept.get(("pods of all", terms), PodsOfAll, cache, terms)


def pods_of_each(cache: Cache, terms: tuple[Term, ...]) -> ByTopology:
    """The pods that match each of these terms: the sums of the weights, or of 1 for terms without weight.

    Don't keep them: they change.
    """
    return cache.kept.get(("pods of each", terms), _PodsOfEach, cache, terms).counts if terms else {}


class _PodsByTopology(CountOfPods):
    """Counts pods by topology key, and by its value."""

    def __init__(self, cache: Cache, clues: Collection[Clue]) -> None:
        """clues: labels of which each pod that counts has one."""
        self.counts: dict[str, dict[str, int]] = {}
        self._namespaces = cache.looked_up.namespaces
        for node, pod in pods_with(cache, clues):
            self._count(node, pod, 1)

    def _amounts(self, pod: Pod) -> Mapping[str, int]:
        """What a pod counts, by topology key."""
        raise NotImplementedError

    def _count(self, node: NodeInfo, pod: Pod, sign: int) -> None:
        counts, labels = self.counts, node.labels
        if amounts := self._amounts(pod):
            for key in amounts if len(amounts) < len(labels) else labels:
                if key in amounts and key in labels:
                    add(counts.setdefault(key, {}), labels[key], sign * amounts[key])
                    if not counts[key]:
                        del counts[key]


class PodsOfAll(_PodsByTopology):
    """Counts the pods that match all of some terms. The terms' selectors become one matcher."""

    def __init__(self, cache: Cache, terms: tuple[Term, ...]) -> None:
        self._terms, self._matcher = terms, _all_of(terms)
        self._keys = dict.fromkeys((term.topology_key for term in terms), 1)
        self._about: dict[str, bool] = {}
        """By namespace, whether all terms are about it."""
        super().__init__(cache, [*self._matcher.clues] if self._matcher else ())

    def selects(self, pod: Pod) -> bool:
        """Whether all terms match a pod."""
        if self._matcher is None or not self._matcher.matches(pod.metadata.labels):
            return False
        namespace = pod.metadata.namespace
        if namespace not in self._about:
            self._about[namespace] = all(
                term.is_about_namespace(namespace, self._namespaces) for term in self._terms
            )
        return self._about[namespace]

    def _amounts(self, pod: Pod) -> Mapping[str, int]:
        return self._keys if self.selects(pod) else {}


def _all_of(terms: tuple[Term, ...]) -> Matcher | None:
    """A matcher of what all terms match; None if there is nothing."""
    selectors = [term.selector for term in terms if term.selector is not None]
    if not terms or len(selectors) < len(terms):
        return None
    requirements: list[Requirement] = []
    for selector in selectors:
        requirements += [Requirement(key, "In", (value,)) for key, value in selector.match_labels.items()]
        requirements += selector.match_expressions
    return Matcher({}, requirements)


class _PodsOfEach(_PodsByTopology):
    """Counts the pods that match each of some terms. Pods count alike if the terms read equal labels."""

    def __init__(self, cache: Cache, terms: tuple[Term, ...]) -> None:
        self._index = Index[tuple[Term, int]]()
        weights = Counter[Term]()
        for term in terms:
            weights[term] += term.weight or 1
        self._few = len(weights) <= FEW
        self._keys: set[str] = set()
        """The keys of the labels that the terms read."""
        for term, weight in weights.items():
            if term.matcher is not None:
                self._index.add(term.matcher, term, (term, weight))
                if not self._few:
                    self._keys.update(term.matcher.keys)
        self._alike: dict[Hashable, Mapping[str, int]] = {}
        self._comparisons = Comparisons()
        super().__init__(cache, self._index.clues)

    def _amounts(self, pod: Pod) -> Mapping[str, int]:
        """The sum of the weights of the terms that match a pod, by their topology key."""
        if self._few:
            return self._match(pod)
        kind = pod.metadata.namespace, frozenset(some_labels(pod, self._keys).items())
        if kind not in self._alike:
            self._alike[kind] = self._match(pod)
        return self._alike[kind]

    def _match(self, pod: Pod) -> Mapping[str, int]:
        labels, namespace = pod.metadata.labels, pod.metadata.namespace
        if not self._few:
            self._comparisons.add(self._index.count(labels))
        sums: dict[str, int] = {}
        for term, weight in self._index.matching(labels):
            if term.is_about_namespace(namespace, self._namespaces):
                sums[term.topology_key] = sums.get(term.topology_key, 0) + weight
        return sums


def some_labels(pod: Pod, keys: Set[str] | Mapping[str, int]) -> dict[str, str]:
    """The labels of a pod that have these keys."""
    labels = pod.metadata.labels
    return {
        key: labels[key]
        for key in (keys if len(keys) < len(labels) else labels)
        if key in keys and key in labels
    }


# --- terms of assigned pods -------------------------------------------------------------------------------


def existing_pods_terms(cache: Cache) -> "ExistingPodsTerms":
    """The terms of the assigned pods."""
    return cache.kept.get("terms of existing pods", ExistingPodsTerms, cache)


class ExistingPodsTerms(Follower):
    """The distinct terms of assigned pods, and how many pods have each of them, by topology value.

    The terms that match a pod are kept for all pods of its namespace that have equal labels, as far as terms
    read labels.
    """

    def __init__(self, cache: Cache) -> None:
        self._cache = cache
        self._kinds = {kind: _TermsOfKind() for kind in KINDS}
        self._keys: dict[str, int] = {}
        """By the key of a label, how many terms read it."""
        self._namespace_selectors = 0
        for node in cache.node_list:
            for _, terms in node.pods_with_affinity:
                self._count(node, terms, 1)

    def follow(self, changes: Sequence[NodeChange]) -> bool:
        """Count the terms that came and went."""
        for node, terms, sign in _without_mere_updates(changes):
            self._count(node, terms, sign)
        return True

    @property
    def affect_scores(self) -> bool:
        """Whether there are terms by which nodes are scored: required affinity, and preferred terms."""
        kinds = self._kinds
        return bool(kinds["affinity"].known or kinds["preferred"].known or kinds["preferred_anti"].known)

    @property
    def read_namespaces(self) -> bool:
        """Whether a term selects namespaces by their labels."""
        return self._namespace_selectors > 0

    def that_match(self, pod: Pod, kind: str) -> ByTopology:
        """The sums of the weights of the terms that match a pod, or of 1 for terms without weight.

        kind: one of KINDS. Don't keep the counts: they change.
        """
        if not self._kinds[kind].known:
            return {}
        labels, namespace = some_labels(pod, self._keys), pod.metadata.namespace
        matching = self._cache.kept.get(
            ("terms that match", namespace, frozenset(labels.items())),
            _MatchingTerms,
            labels,
            namespace,
            self._cache.looked_up.namespaces,
            self._kinds,
        )
        return matching.counts[kind]

    def _count(self, node: NodeInfo, terms: Terms, sign: int) -> None:
        for kind, known in self._kinds.items():
            for term in getattr(terms, kind):
                value = node.labels.get(term.topology_key)
                if value is not None and term.matcher is not None:
                    known.count(term, term.matcher, value, sign, self._keys)
        if terms.look_at_namespaces:
            self._namespace_selectors += sign


class _TermsOfKind:
    """The distinct terms of one kind."""

    def __init__(self) -> None:
        self.known: dict[Term, dict[str, int]] = {}
        """Each term with the number of pods that have it, by topology value."""
        self.index = Index[tuple[Term, dict[str, int]]]()

    def count(self, term: Term, matcher: Matcher, value: str, sign: int, keys: dict[str, int]) -> None:
        """Count a term. keys: by the key of a label, how many terms of all kinds read it."""
        counts = self.known.get(term)
        if counts is None:
            counts = self.known[term] = {}
            self.index.add(matcher, term, (term, counts))
            for key in matcher.keys:
                add(keys, key, 1)
        add(counts, value, sign)
        if not counts:
            del self.known[term]
            self.index.remove(matcher, term)
            for key in matcher.keys:
                add(keys, key, -1)


class _MatchingTerms(Follower):
    """The sums of the weights of the terms that match pods with certain labels in a namespace.

    By the kind of term, the topology key, and its value.
    """

    def __init__(
        self,
        labels: Mapping[str, str],
        namespace: str,
        namespaces: Namespaces,
        kinds: Mapping[str, _TermsOfKind],
    ) -> None:
        self._about = labels, namespace, namespaces
        self.counts: dict[str, dict[str, dict[str, int]]] = {kind: {} for kind in kinds}
        for by_key, kind in zip(self.counts.values(), kinds.values(), strict=True):
            for term, by_value in kind.index.matching(labels):
                if namespace in term.namespaces or term.is_about_namespace(namespace, namespaces):
                    counts = by_key.get(term.topology_key)
                    if counts is None:
                        counts = by_key[term.topology_key] = {}
                    weight = term.weight or 1
                    for value, count in by_value.items():
                        counts[value] = counts.get(value, 0) + count * weight

    def follow(self, changes: Sequence[NodeChange]) -> bool:
        """Match the terms that came and went."""
        for node, terms, sign in _without_mere_updates(changes):
            for kind, by_key in self.counts.items():
                for term in getattr(terms, kind):
                    value = node.labels.get(term.topology_key)
                    if value is not None and term.selects_labels(*self._about):
                        by_value = by_key.setdefault(term.topology_key, {})
                        add(by_value, value, sign * (term.weight or 1))
                        if not by_value:
                            del by_key[term.topology_key]
        return True


def _without_mere_updates(changes: Sequence[NodeChange]) -> Iterator[tuple[NodeInfo, Terms, int]]:
    """The terms that came and went, with their nodes.

    An update of a pod removes the old pod and adds the new one: if its terms stay the same, these are left
    out.
    """
    removed: tuple[NodeInfo, Pod] | None = None
    for node, pod, sign in changes:
        if removed:
            old_node, old = removed
            removed = None
            if pod and sign == 1 and node is old_node and _has_same_terms(pod, old):
                continue
            yield old_node, terms_of(old), -1
        if pod is None or not (terms := terms_of(pod)):
            continue
        if sign == -1:
            removed = node, pod
        else:
            yield node, terms, sign
    if removed:
        yield removed[0], terms_of(removed[1]), -1


def _has_same_terms(one: Pod, other: Pod) -> bool:
    return (
        one.metadata.uid == other.metadata.uid
        and one.metadata.labels == other.metadata.labels  # matchLabelKeys reads them
        and one.spec.affinity == other.spec.affinity
    )
