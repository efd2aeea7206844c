"""Matches label selectors, node selector terms, taints and tolerations."""

from collections.abc import Iterable, Mapping
from functools import lru_cache

from lib.kube.matcher import Matcher
from lib.kube.objects import (
    LabelSelector,
    Node,
    NodeSelector,
    NodeSelectorTerm,
    Pod,
    Requirement,
    Taint,
    Toleration,
)


class Tolerations:
    """Tolerations, compiled: to look a taint up takes as long for many as for one.

    Source: k8s.io/api/core/v1/toleration.go, ToleratesTaint
    """

    def __init__(self, tolerations: Iterable[Toleration]) -> None:
        self._known = {
            (toleration.key, toleration.effect, None if toleration.operator == "Exists" else toleration.value)
            for toleration in tolerations
            if toleration.operator in ("", "Equal", "Exists")
        }

    def tolerate(self, taint: Taint) -> bool:
        """Whether one of them matches a taint; an empty key, or effect, matches all."""
        known = self._known
        for key in (taint.key, "") if known else ():
            for effect in (taint.effect, ""):
                if (key, effect, None) in known or (key, effect, taint.value) in known:
                    return True
        return False


@lru_cache(maxsize=32)  # of the pods that are decided on now: this cache holds them
def tolerations_of(pod: Pod) -> Tolerations:
    """A pod's tolerations."""
    return Tolerations(pod.spec.tolerations)


def untolerated(pod: Pod, taints: Iterable[Taint], effects: tuple[str, ...]) -> Taint | None:
    """The first taint with one of these effects that a pod doesn't tolerate; None if there is none."""
    for taint in taints:
        if taint.effect in effects and not tolerations_of(pod).tolerate(taint):
            return taint
    return None


def matches_node(selector: NodeSelector, node: Node) -> bool:
    """Whether one of the selector's terms matches (component-helpers/scheduling/corev1/nodeaffinity)."""
    return any(matches_term(term, node) for term in selector.node_selector_terms)


def matches_term(term: NodeSelectorTerm, node: Node) -> bool:
    """Whether a node matches all of a term; an empty term matches no node."""
    if not term.match_expressions and not term.match_fields:
        return False
    fields = {"metadata.name": node.metadata.name}
    return all(matches(expression, node.metadata.labels) for expression in term.match_expressions) and all(
        matches(expression, fields) for expression in term.match_fields
    )


def selects(selector: LabelSelector | None, labels: Mapping[str, str]) -> bool:
    """Whether a selector matches labels. An empty one matches all, None nothing (LabelSelectorAsSelector)."""
    if selector is None:
        return False
    return all(labels.get(key) == value for key, value in selector.match_labels.items()) and all(
        matches(expression, labels) for expression in selector.match_expressions
    )


def matches(requirement: Requirement, labels: Mapping[str, str]) -> bool:
    """Whether labels satisfy one expression (apimachinery/pkg/labels/selector.go, Requirement.Matches).

    `NotIn` matches also if the label is missing. An unknown operator matches nothing.
    """
    return _compiled(requirement).matches(labels)


@lru_cache(maxsize=1024)
def _compiled(requirement: Requirement) -> Matcher:
    return Matcher({}, (requirement,))
