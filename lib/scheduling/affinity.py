"""Pod affinity terms, and which pods they match.

Source: k8s.io/kube-scheduler/framework/types.go, AffinityTerm
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property, lru_cache

from lib.kube.label_syntax import problem_of_selector, together
from lib.kube.matcher import EVERYTHING, Matcher, matcher_of
from lib.kube.objects import LabelSelector, Pod, PodAffinity, PodAffinityTerm, Requirement

Namespaces = Mapping[str, Mapping[str, str]]
"""The labels of each namespace."""


@dataclass(frozen=True, slots=True)
class Term:
    """A pod affinity term. `selects` says which pods match.

    Terms are equal if they match the same pods in the same topology, with the same weight.
    """

    topology_key: str
    selector: LabelSelector | None = field(compare=False)
    matcher: Matcher | None
    """The selector, compiled."""
    namespaces: frozenset[str]
    of_namespaces: Matcher | None
    """The namespace selector, compiled."""
    weight: int
    """0 for a required term."""

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
        return pod.metadata.namespace in self.namespaces or self.of_namespaces is not None

    def is_about_namespace(self, namespace: str, namespaces: Namespaces) -> bool:
        """Whether pods of a namespace can match."""
        return (namespace in self.namespaces or self.of_namespaces is EVERYTHING) or (
            self.of_namespaces is not None and self.of_namespaces.matches(namespaces.get(namespace, {}))
        )


KINDS = ("affinity", "anti_affinity", "preferred", "preferred_anti")
"""The kinds of terms, as Terms calls them."""

FIELDS = (
    "requiredAffinityTerms",
    "requiredAntiAffinityTerms",
    "preferredAffinityTerms",
    "preferredAntiAffinityTerms",
)
"""The same, as kube-scheduler's errors call them."""


@dataclass(frozen=True)
class Terms:
    """All pod affinity and anti-affinity terms of a pod.

    If a selector of one kind is invalid, there are none of this kind, and `invalid` says why.
    """

    affinity: tuple[Term, ...] = ()
    anti_affinity: tuple[Term, ...] = ()
    preferred: tuple[Term, ...] = ()
    preferred_anti: tuple[Term, ...] = ()
    invalid: str = ""

    def __bool__(self) -> bool:
        return bool(self.affinity or self.anti_affinity or self.preferred or self.preferred_anti)

    @cached_property
    def look_at_namespaces(self) -> bool:
        """Whether one of them selects namespaces by their labels."""
        return any(term.of_namespaces is not None for kind in KINDS for term in getattr(self, kind))


NO_TERMS = Terms()
"""The terms of most pods."""


def terms_of(pod: Pod) -> Terms:
    """The terms of a pod."""
    affinity = pod.spec.affinity
    return _terms_of(pod) if affinity.pod_affinity or affinity.pod_anti_affinity else NO_TERMS


@lru_cache(maxsize=1024)
def _terms_of(pod: Pod) -> Terms:
    """Source: PodInfo.Update in pkg/scheduler/framework/types.go."""
    fields = terms_by_field(pod)
    problems = [next(filter(None, map(_problem, terms)), "") for terms in fields]
    affinity, anti_affinity, preferred, preferred_anti = (
        () if problem else tuple([_term(pod, term, weight) for term, weight in terms])
        for terms, problem in zip(fields, problems, strict=True)
    )
    lines = [f"{name}: {problem}" for name, problem in zip(FIELDS, problems, strict=True) if problem]
    invalid = together(lines) if lines else ""
    return Terms(affinity, anti_affinity, preferred, preferred_anti, invalid)


def terms_by_field(pod: Pod) -> tuple[list[tuple[PodAffinityTerm, int]], ...]:
    """The terms of each of FIELDS, as the pod has them, each with its weight."""
    near, far = pod.spec.affinity.pod_affinity, pod.spec.affinity.pod_anti_affinity
    return _required(near), _required(far), _preferred(near), _preferred(far)


def _problem(weighted: tuple[PodAffinityTerm, int]) -> str:
    term, _ = weighted
    return problem_of_selector(term.label_selector) or problem_of_selector(term.namespace_selector)


def _required(affinity: PodAffinity | None) -> list[tuple[PodAffinityTerm, int]]:
    terms = affinity.required_during_scheduling_ignored_during_execution if affinity else []
    return [(term, 0) for term in terms]


def _preferred(affinity: PodAffinity | None) -> list[tuple[PodAffinityTerm, int]]:
    terms = affinity.preferred_during_scheduling_ignored_during_execution if affinity else []
    return [(term.pod_affinity_term, term.weight) for term in terms]


def _term(pod: Pod, term: PodAffinityTerm, weight: int) -> Term:
    own_only = not term.namespaces and term.namespace_selector is None
    selector = with_label_keys(
        term.label_selector, pod.metadata.labels, term.match_label_keys, term.mismatch_label_keys
    )
    return Term(
        topology_key=term.topology_key,
        selector=selector,
        matcher=matcher_of(selector),
        namespaces=frozenset([pod.metadata.namespace] if own_only else term.namespaces),
        of_namespaces=matcher_of(term.namespace_selector),
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
    written = {(expression.key, expression.operator) for expression in selector.match_expressions}
    wanted = [(key, "In") for key in match] + [(key, "NotIn") for key in mismatch]
    extra = tuple(
        Requirement(key, operator, (labels[key],))
        for key, operator in wanted
        if key in labels and (key, operator) not in written
    )
    return LabelSelector(selector.match_labels, selector.match_expressions + extra)
