"""InterPodAffinity: pods that want to be near others, or far from them.

A topology key says what is near: nodes with the same value of that label are one topology domain. Required
terms filter, preferred terms score. The terms of assigned pods count, too: their required anti-affinity keeps
a pod away, and their preferred terms score as the pod's own do.

Source: pkg/scheduler/framework/plugins/interpodaffinity/filtering.go, scoring.go
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

from lib.kube.changes import AnyChange, Kind
from lib.kube.objects import Pod
from lib.scheduling.affinity import Terms, terms_of
from lib.scheduling.affinity_counts import ByTopology, Counts, existing_pods_terms, pods_of_all, pods_of_each
from lib.scheduling.cache import Cache
from lib.scheduling.framework.arguments import (
    Args,
    not_between,
)
from lib.scheduling.framework.interface import (
    MAX_NODE_SCORE,
    SKIP,
    CycleState,
    Status,
    unresolvable,
    unschedulable,
)
from lib.scheduling.hints import before_itself, new_node, old_node, placed_pod
from lib.scheduling.node_info import NodeInfo, label_of
from lib.scheduling.node_slice import NodeSlice

TOO_FAR = unresolvable("node(s) didn't match pod affinity rules")
TOO_NEAR = unschedulable("node(s) didn't match pod anti-affinity rules")
UNWELCOME = unschedulable("node(s) didn't satisfy existing pods anti-affinity rules")

_WeightedTopology = tuple[str, Counts, int]
"""A topology key, counts by its values, and the score for each of the count."""


@dataclass(frozen=True)
class _Filtering:
    """PreFilter's result. near, far: counts of pods that match the pod's own terms.

    unwelcome: counts of assigned pods whose anti-affinity matches the pod. first: no pod matches its affinity
    but the pod itself.
    """

    near: Mapping[str, Counts]
    far: ByTopology
    unwelcome: ByTopology
    first: bool


class InterPodAffinityArgs(Args):
    """The weights of assigned pods' affinity."""

    hard_pod_affinity_weight: int = 1
    ignore_preferred_terms_of_existing_pods: bool = False

    def problems(self, path: str) -> Iterator[str]:
        """A line for each invalid field: `PATH: why`."""
        yield from not_between(f"{path}.hardPodAffinityWeight", self.hard_pod_affinity_weight, 0, 100)


@dataclass(frozen=True)
class InterPodAffinity:
    """Filters and scores by pod affinity and anti-affinity.

    hard_pod_affinity_weight: the score of an assigned pod's required affinity to this pod, 0 to 100.
    ignore_preferred_terms_of_existing_pods: score only by the pod's own preferred terms, if it has any.
    """

    hard_pod_affinity_weight: int = 1
    ignore_preferred_terms_of_existing_pods: bool = False
    name: str = "InterPodAffinity"
    args: ClassVar = InterPodAffinityArgs

    def queueing_hint(self, pod: Pod, change: AnyChange) -> bool:
        """New labels of the pod; a pod that terms match came, went or was labelled; a node's new domain."""
        if before := before_itself(pod, change):
            return before.metadata.labels != pod.metadata.labels
        if placed := placed_pod(change):
            was = change.before if change.kind == Kind.MODIFIED else None
            if change.kind == Kind.DELETED:
                return _keeps_off(placed, pod) or _keeps_off(pod, placed) or _attracts(pod, placed)
            if not isinstance(was, Pod):
                return _attracts(pod, placed)
            if was.metadata.labels == placed.metadata.labels:
                return False
            return (_attracts(pod, placed) and not _attracts(pod, was)) or (
                _keeps_off(pod, was) and not _keeps_off(pod, placed)
            )
        node = new_node(change)
        return node is not None and _has_new_domain(terms_of(pod), old_node(change), node)

    def pre_filter(self, state: CycleState, pod: Pod, cache: Cache) -> Status | None:
        """Count the pods that must be near, and those that must not be."""
        terms = terms_of(pod)
        unwelcome = existing_pods_terms(cache).required_anti(pod)
        if not unwelcome and not terms.affinity and not terms.anti_affinity:
            return SKIP
        near: dict[str, Counts] = {}
        first = False
        if terms.affinity:
            pods = pods_of_all(cache, terms.affinity)
            near = {term.topology_key: pods.counts.get(term.topology_key, {}) for term in terms.affinity}
            first = not pods.counts and pods.selects(pod)
        far = pods_of_each(cache, terms.anti_affinity)
        state[f"{self.name}/filter"] = _Filtering(near, far, unwelcome, first)
        return None

    def filter_nodes(self, state: CycleState, pod: Pod, nodes: NodeSlice) -> Sequence[Status | None]:
        """Reject nodes that violate the pod's terms, or an assigned pod's anti-affinity."""
        known: _Filtering = state[f"{self.name}/filter"]
        found: list[Status | None] = [None] * len(nodes)
        for key, counts in known.near.items():
            if None not in found:
                break
            values = nodes.values(label_of, key)
            if known.first:
                found = _rejected(found, TOO_FAR, [value is None for value in values])
            else:
                found = _rejected(found, TOO_FAR, [value not in counts for value in values])
        for topologies, rejection in ((known.far, TOO_NEAR), (known.unwelcome, UNWELCOME)):
            for key, counts in topologies.items():
                found = _rejected(
                    found, rejection, [value in counts for value in nodes.values(label_of, key)]
                )
        return found

    def pre_score(
        self, state: CycleState, pod: Pod, cache: Cache, nodes: Sequence[NodeInfo]
    ) -> Status | None:
        """Find the score of each topology domain, by the terms of the pod and of assigned pods."""
        own = terms_of(pod)
        has_wishes = bool(own.preferred or own.preferred_anti)
        if self.ignore_preferred_terms_of_existing_pods and not has_wishes:
            return SKIP
        held = existing_pods_terms(cache)
        if not has_wishes and not held.affect_scores:
            return SKIP
        topologies: list[_WeightedTopology] = []
        for counted, factor in (
            (pods_of_each(cache, own.preferred), 1),
            (pods_of_each(cache, own.preferred_anti), -1),
            (held.required(pod) if self.hard_pod_affinity_weight else {}, self.hard_pod_affinity_weight),
            (held.preferred(pod), 1),
            (held.preferred_anti(pod), -1),
        ):
            topologies += [(key, counts, factor) for key, counts in counted.items()]
        state[f"{self.name}/score"] = topologies
        return None if topologies else SKIP

    def score_nodes(self, state: CycleState, pod: Pod, nodes: NodeSlice) -> Sequence[int]:
        """The sums of the scores of the nodes' topology domains; they may be negative."""
        topologies: list[_WeightedTopology] = state[f"{self.name}/score"]
        scores = [0] * len(nodes)
        for key, counts, weight in topologies:
            values = nodes.values(label_of, key)
            scores = [
                score + counts.get(value or "", 0) * weight
                for score, value in zip(scores, values, strict=True)
            ]
        return scores

    def normalize_score(self, state: CycleState, pod: Pod, scores: dict[str, int]) -> None:
        """The best becomes 100, the worst 0."""
        best, worst = max(scores.values()), min(scores.values())
        for node, score in scores.items():
            scores[node] = int(MAX_NODE_SCORE * ((score - worst) / (best - worst))) if best > worst else 0


def _attracts(pod: Pod, other: Pod) -> bool:
    """Whether the pod may be placed near another, by all of its required affinity."""
    terms = terms_of(pod).affinity
    return bool(terms) and all(term.may_select(other) for term in terms)


def _keeps_off(pod: Pod, other: Pod) -> bool:
    """Whether the pod's required anti-affinity keeps the two apart."""
    return any(term.may_select(other) for term in terms_of(pod).anti_affinity)


def _has_new_domain(terms: Terms, before: NodeInfo | None, node: NodeInfo) -> bool:
    """Whether a node has come into a domain of a term, or has left a domain that it must not be in."""

    def domains(key: str) -> tuple[str | None, str | None]:
        return before.labels.get(key) if before else None, node.labels.get(key)

    near = [domains(term.topology_key) for term in terms.affinity]
    far = [domains(term.topology_key) for term in terms.anti_affinity]
    return any(new not in (None, old) for old, new in near) or any(
        before is None or old not in (None, new) for old, new in far
    )


def _rejected(
    found: Sequence[Status | None], rejection: Status, which: Sequence[bool]
) -> list[Status | None]:
    """The rejections found before; this one where it applies and none was found."""
    return [before or (rejection if each else None) for before, each in zip(found, which, strict=True)]
