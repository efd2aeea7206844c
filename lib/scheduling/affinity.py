"""Pod affinity terms, and which pods they match.

Source: k8s.io/kube-scheduler/framework/types.go, AffinityTerm
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property, lru_cache

from lib.kube.matcher import EVERYTHING, matcher_of
from lib.kube.objects import LabelSelector, Pod, PodAffinity, PodAffinityTerm, Requirement

Namespaces = Mapping[str, Mapping[str, str]]
"""The labels of each namespace."""


class Term:
    """A pod affinity term: `selects` says which pods match. Its topology key and its weight (0: required).

    Terms are equal if they match the same pods in the same topology, with the same weight. matcher: the
    selector, compiled.
    """

    __slots__ = (
        "_hash",
        "_of_namespaces",
        "matcher",
        "namespace_selector",
        "namespaces",
        "selector",
        "topology_key",
        "weight",
    )

    def __init__(
        self,
        topology_key: str,
        selector: LabelSelector | None,
        namespaces: frozenset[str],
        namespace_selector: LabelSelector | None,
        weight: int,
    ) -> None:
        self.topology_key, self.weight = topology_key, weight
        self.selector, self.matcher = selector, matcher_of(selector)
        self.namespaces, self.namespace_selector = namespaces, namespace_selector
        self._of_namespaces = matcher_of(namespace_selector)
        self._hash = hash((topology_key, self.matcher, namespaces, self._of_namespaces, weight))

    def selects(self, pod: Pod, namespaces: Namespaces) -> bool:
        """Whether the term matches this pod."""
        return self.selects_labels(pod.metadata.labels, pod.metadata.namespace, namespaces)

    def selects_labels(self, labels: Mapping[str, str], namespace: str, namespaces: Namespaces) -> bool:
        """Whether the term matches pods with these labels in a namespace."""
        matcher = self.matcher
        if matcher is None or not matcher.matches(labels):
            return False
        return namespace in self.namespaces or self.is_about_namespace(namespace, namespaces)

    def may_select(self, pod: Pod) -> bool:
        """Whether the term matches this pod, or would if the labels of its namespace did."""
        if self.matcher is None or not self.matcher.matches(pod.metadata.labels):
            return False
        return pod.metadata.namespace in self.namespaces or self._of_namespaces is not None

    def is_about_namespace(self, namespace: str, namespaces: Namespaces) -> bool:
        """Whether pods of a namespace can match."""
        return (namespace in self.namespaces or self._of_namespaces is EVERYTHING) or (
            self._of_namespaces is not None and self._of_namespaces.matches(namespaces.get(namespace, {}))
        )

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> bool:
        return self is other or (
            isinstance(other, Term)
            and self._hash == other._hash
            and (self.topology_key, self.weight) == (other.topology_key, other.weight)
            and (self.matcher, self._of_namespaces) == (other.matcher, other._of_namespaces)
            and self.namespaces == other.namespaces
        )


class TermTuple(tuple[Term, ...]):
    """Terms. The hash is calculated once."""

    @cached_property
    def _hash(self) -> int:
        return super().__hash__()

    def __hash__(self) -> int:
        return self._hash


@dataclass(frozen=True)
class Terms:
    """All pod affinity and anti-affinity terms of a pod."""

    affinity: TermTuple
    anti_affinity: TermTuple
    preferred: TermTuple
    preferred_anti: TermTuple

    def __bool__(self) -> bool:
        return bool(self.affinity or self.anti_affinity or self.preferred or self.preferred_anti)

    @cached_property
    def look_at_namespaces(self) -> bool:
        """Whether one of them selects namespaces by their labels."""
        every = (*self.affinity, *self.anti_affinity, *self.preferred, *self.preferred_anti)
        return any(term.namespace_selector is not None for term in every)


NO_TERMS = Terms(TermTuple(), TermTuple(), TermTuple(), TermTuple())
"""The terms of most pods."""


def terms_of(pod: Pod) -> Terms:
    """The terms of a pod."""
    affinity = pod.spec.affinity
    return _terms_of(pod) if affinity.pod_affinity or affinity.pod_anti_affinity else NO_TERMS


@lru_cache(maxsize=1024)
def _terms_of(pod: Pod) -> Terms:
    near, far = pod.spec.affinity.pod_affinity, pod.spec.affinity.pod_anti_affinity
    return Terms(
        affinity=_required(pod, near),
        anti_affinity=_required(pod, far),
        preferred=_preferred(pod, near),
        preferred_anti=_preferred(pod, far),
    )


def _required(pod: Pod, affinity: PodAffinity | None) -> TermTuple:
    terms = affinity.required_during_scheduling_ignored_during_execution if affinity else []
    own = frozenset([pod.metadata.namespace])
    return TermTuple([_term(pod, term, 0, own) for term in terms])


def _preferred(pod: Pod, affinity: PodAffinity | None) -> TermTuple:
    terms = affinity.preferred_during_scheduling_ignored_during_execution if affinity else []
    own = frozenset([pod.metadata.namespace])
    return TermTuple([_term(pod, each.pod_affinity_term, each.weight, own) for each in terms])


def _term(pod: Pod, term: PodAffinityTerm, weight: int, own: frozenset[str]) -> Term:
    own_only = not term.namespaces and term.namespace_selector is None
    return Term(
        topology_key=term.topology_key,
        selector=with_label_keys(
            term.label_selector, pod.metadata.labels, term.match_label_keys, term.mismatch_label_keys
        ),
        namespaces=own if own_only else frozenset(term.namespaces),
        namespace_selector=term.namespace_selector,
        weight=weight,
    )


def with_label_keys(
    selector: LabelSelector | None,
    labels: Mapping[str, str],
    match: tuple[str, ...] = (),
    mismatch: tuple[str, ...] = (),
) -> LabelSelector | None:
    """The selector, which also requires the same (or another) value as `labels` have under these keys.

    The API server writes that into the selector when a pod is created. What it has written stays, even if the
    pod's labels have changed since.
    """
    if selector is None or not (match or mismatch):
        return selector
    said = {(each.key, each.operator) for each in selector.match_expressions}
    wanted = [(key, "In") for key in match] + [(key, "NotIn") for key in mismatch]
    extra = tuple(
        Requirement(key, operator, (labels[key],))
        for key, operator in wanted
        if key in labels and (key, operator) not in said
    )
    return LabelSelector(selector.match_labels, selector.match_expressions + extra)
