"""Pod affinity terms, and which pods they match.

Source: k8s.io/kube-scheduler/framework/types.go, AffinityTerm
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache

from lib.kube.objects import LabelSelector, Pod, PodAffinity, PodAffinityTerm, Requirement
from lib.kube.selectors import selects

Namespaces = Mapping[str, Mapping[str, str]]
"""The labels of each namespace."""


@dataclass(frozen=True)
class Term:
    """A pod affinity term: `selects` says which pods match. Its topology key and its weight (0: required)."""

    topology_key: str
    selector: LabelSelector | None
    namespaces: frozenset[str]
    namespace_selector: LabelSelector | None
    weight: int

    def selects(self, pod: Pod, namespaces: Namespaces) -> bool:
        """Whether the term matches this pod."""
        namespace = pod.metadata.namespace
        if namespace not in self.namespaces and not selects(
            self.namespace_selector, namespaces.get(namespace, {})
        ):
            return False
        return selects(self.selector, pod.metadata.labels)


@dataclass(frozen=True)
class Terms:
    """All pod affinity and anti-affinity terms of a pod."""

    affinity: tuple[Term, ...]
    anti_affinity: tuple[Term, ...]
    preferred: tuple[Term, ...]
    preferred_anti: tuple[Term, ...]

    def __bool__(self) -> bool:
        return bool(self.affinity or self.anti_affinity or self.preferred or self.preferred_anti)

    @property
    def look_at_namespaces(self) -> bool:
        """Whether one of them selects namespaces by their labels."""
        every = (*self.affinity, *self.anti_affinity, *self.preferred, *self.preferred_anti)
        return any(term.namespace_selector is not None for term in every)


NO_TERMS = Terms((), (), (), ())
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


def _required(pod: Pod, affinity: PodAffinity | None) -> tuple[Term, ...]:
    terms = affinity.required_during_scheduling_ignored_during_execution if affinity else []
    return tuple(_term(pod, term, 0) for term in terms)


def _preferred(pod: Pod, affinity: PodAffinity | None) -> tuple[Term, ...]:
    terms = affinity.preferred_during_scheduling_ignored_during_execution if affinity else []
    return tuple(_term(pod, each.pod_affinity_term, each.weight) for each in terms)


def _term(pod: Pod, term: PodAffinityTerm, weight: int) -> Term:
    own_only = not term.namespaces and term.namespace_selector is None
    return Term(
        topology_key=term.topology_key,
        selector=with_label_keys(
            term.label_selector, pod.metadata.labels, term.match_label_keys, term.mismatch_label_keys
        ),
        namespaces=frozenset([pod.metadata.namespace] if own_only else term.namespaces),
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
    if selector is None:
        return None
    said = {(each.key, each.operator) for each in selector.match_expressions}
    wanted = [(key, "In") for key in match] + [(key, "NotIn") for key in mismatch]
    extra = tuple(
        Requirement(key, operator, (labels[key],))
        for key, operator in wanted
        if key in labels and (key, operator) not in said
    )
    return LabelSelector(selector.match_labels, selector.match_expressions + extra)
