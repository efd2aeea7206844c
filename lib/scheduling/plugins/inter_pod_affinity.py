"""InterPodAffinity: pods that want to be near others, or far from them.

A topology key says what is near: nodes with the same value of that label are one topology domain. Required
terms filter, preferred terms score. The terms of assigned pods count, too: their required anti-affinity keeps
a pod away, and their preferred terms score as the pod's own do.

Source: pkg/scheduler/framework/plugins/interpodaffinity/filtering.go, scoring.go
"""

from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from lib.kube.changes import AnyChange, Kind
from lib.kube.objects import Node, Pod
from lib.kube.resources import ALL, NAMESPACE_LABELS, Need
from lib.lazily import Lazy
from lib.scheduling.affinity import Terms, terms_of
from lib.scheduling.cache import Cache
from lib.scheduling.hints import before_itself, new_node, old_node, placed_pod
from lib.scheduling.node_info import NodeInfo, label_of
from lib.scheduling.node_slice import NodeSlice
from lib.scheduling.status import MAX_NODE_SCORE, SKIP, CycleState, Status, unresolvable, unschedulable

if TYPE_CHECKING:
    from lib.scheduling import affinity_counts
    from lib.scheduling.affinity_counts import ByTopology, Counts
else:
    affinity_counts = Lazy("lib.scheduling.affinity_counts")

TOO_FAR = unresolvable("node(s) didn't match pod affinity rules")
TOO_NEAR = unschedulable("node(s) didn't match pod anti-affinity rules")
UNWELCOME = unschedulable("node(s) didn't satisfy existing pods anti-affinity rules")

_WeightedTopology = tuple[str, "Counts", int]
"""A topology key, counts by its values, and the factor by which a count becomes a score."""


@dataclass(frozen=True)
class _Filtering:
    """PreFilter's result."""

    near: "Mapping[str, Counts]"
    """Counts of pods that match all terms of the pod's affinity."""
    far: "ByTopology"
    """Counts of pods that match a term of its anti-affinity."""
    unwelcome: "ByTopology"
    """Counts of assigned pods whose anti-affinity matches the pod."""
    first: bool
    """Whether no pod but the pod itself matches its affinity."""


@dataclass(frozen=True)
class InterPodAffinity:
    """Filters and scores by pod affinity and anti-affinity."""

    hard_pod_affinity_weight: int = 1
    """The score of an assigned pod's required affinity to this pod, 0 to 100."""
    ignore_preferred_terms_of_existing_pods: bool = False
    """Whether nodes aren't scored if the pod itself has no preferred terms."""
    name: str = "InterPodAffinity"
    needs: ClassVar = (NAMESPACE_LABELS,)

    def needed_for(self, pod: Pod, cache: Cache, scores: bool) -> Iterator[tuple[Need, Hashable]]:
        """The labels of namespaces, if the pod's affinity, or an assigned pod's, selects by them."""
        own, others = terms_of(pod).look_at_namespaces, cache.pods_with_terms
        if own or (others and affinity_counts.existing_pods_terms(cache).read_namespaces):
            yield NAMESPACE_LABELS, ALL

    events_to_register = (
        "NodeAdd",
        "NodeUpdate",
        "NodeDelete",
        "AssignedPodAdd",
        "AssignedPodUpdate",
        "AssignedPodDelete",
    )

    def sign_for_hint(self, pod: Pod) -> Hashable:
        """The pod's namespace, labels and terms."""
        return pod.metadata.namespace, frozenset(pod.metadata.labels.items()), terms_of(pod)

    def queueing_hint(self, pod: Pod, change: AnyChange) -> bool:
        """New labels of the pod; a pod that terms match came, went or was labelled; a node's new domain.

        A node that was deleted counts, too: its pods may have been in the way. When the last pod that the
        terms match has gone, a pod that its own terms match may be placed as the first.
        """
        if before := before_itself(pod, change):
            return before.metadata.labels != pod.metadata.labels
        if placed := placed_pod(change):
            return _may_be_helped_by_pod(pod, placed, change)
        old, node = old_node(change), new_node(change)
        if node is None:
            return isinstance(change.object, Node)
        terms = terms_of(pod)
        if terms.affinity or terms.anti_affinity:
            return _has_new_domain(terms, old, node, may_be_first=_attracts(pod, pod))
        return old is None or old.labels != node.labels  # other pods' anti-affinity keeps it off

    def pre_filter(self, state: CycleState, pod: Pod, cache: Cache) -> Status | None:
        """Count the pods that must be near, and those that must not be."""
        terms = terms_of(pod)
        if terms.invalid:
            return unresolvable(f"parsing pod: {terms.invalid}")
        if not terms and not cache.pods_with_terms:
            return SKIP
        unwelcome = affinity_counts.existing_pods_terms(cache).that_match(pod, "anti_affinity")
        if not unwelcome and not terms.affinity and not terms.anti_affinity:
            return SKIP
        near: dict[str, Counts] = {}
        first = False
        if terms.affinity:
            pods = affinity_counts.pods_of_all(cache, terms.affinity)
            near = {term.topology_key: pods.counts.get(term.topology_key, {}) for term in terms.affinity}
            first = not pods.counts and pods.selects(pod)
        far = affinity_counts.pods_of_each(cache, terms.anti_affinity)
        state[f"{self.name}/filter"] = _Filtering(near, far, unwelcome, first)
        return None

    def filter_nodes(self, state: CycleState, pod: Pod, nodes: NodeSlice) -> Sequence[Status | None]:
        """Reject nodes that violate the pod's terms, or an assigned pod's anti-affinity."""
        known: _Filtering = state[f"{self.name}/filter"]
        statuses: list[Status | None] = [None] * len(nodes)
        for key, counts in known.near.items():
            if None not in statuses:
                break
            values = nodes.values(label_of, key)
            if known.first:
                statuses = _rejected(statuses, TOO_FAR, [value is None for value in values])
            else:
                statuses = _rejected(statuses, TOO_FAR, [value not in counts for value in values])
        for topologies, rejection in ((known.far, TOO_NEAR), (known.unwelcome, UNWELCOME)):
            for key, counts in topologies.items():
                values = nodes.values(label_of, key)
                statuses = _rejected(statuses, rejection, [value in counts for value in values])
        return statuses

    def pre_score(
        self, state: CycleState, pod: Pod, cache: Cache, nodes: Sequence[NodeInfo]
    ) -> Status | None:
        """Find the score of each topology domain, by the terms of the pod and of assigned pods."""
        own = terms_of(pod)
        if not own and not cache.pods_with_terms:
            return SKIP
        has_wishes = bool(own.preferred or own.preferred_anti)
        if self.ignore_preferred_terms_of_existing_pods and not has_wishes:
            return SKIP
        existing = affinity_counts.existing_pods_terms(cache)
        if not has_wishes and not existing.affect_scores:
            return SKIP
        hard_weight, topologies = self.hard_pod_affinity_weight, list[_WeightedTopology]()
        for counted, factor in (
            (affinity_counts.pods_of_each(cache, own.preferred), 1),
            (affinity_counts.pods_of_each(cache, own.preferred_anti), -1),
            (existing.that_match(pod, "affinity") if hard_weight else {}, hard_weight),
            (existing.that_match(pod, "preferred"), 1),
            (existing.that_match(pod, "preferred_anti"), -1),
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


def _may_be_helped_by_pod(pod: Pod, placed: Pod, change: AnyChange) -> bool:
    """Whether a pod may fit after a change of a pod that has a node."""
    if change.kind == Kind.DELETED:
        return _keeps_off(placed, pod) or _keeps_off(pod, placed) or _attracts(pod, placed)
    before = change.before if change.kind == Kind.MODIFIED else None
    if not isinstance(before, Pod):
        return _attracts(pod, placed)
    if before.metadata.labels == placed.metadata.labels:
        return False
    far = terms_of(pod).anti_affinity
    if any(term.may_select(before) and not term.may_select(placed) for term in far):
        return True  # another term may still match it, and rule out fewer nodes
    if _attracts(pod, before) == _attracts(pod, placed):
        return False
    return _attracts(pod, placed) or _attracts(pod, pod)


def _attracts(pod: Pod, other: Pod) -> bool:
    """Whether the pod may be placed near another, by all of its required affinity."""
    terms = terms_of(pod).affinity
    return bool(terms) and all(term.may_select(other) for term in terms)


def _keeps_off(pod: Pod, other: Pod) -> bool:
    """Whether the pod's required anti-affinity keeps the two apart."""
    return any(term.may_select(other) for term in terms_of(pod).anti_affinity)


def _has_new_domain(terms: Terms, before: NodeInfo | None, node: NodeInfo, *, may_be_first: bool) -> bool:
    """Whether a node has come into a domain of a term, or has left a domain that it must not be in.

    may_be_first: the pod may be the first one that its terms match. Then a node counts also if it left a
    domain that it should be in: the last pod that a term matches may have left with it.
    """

    def domains(key: str) -> tuple[str | None, str | None]:
        return before.labels.get(key) if before else None, node.labels.get(key)

    near = [domains(term.topology_key) for term in terms.affinity]
    far = [domains(term.topology_key) for term in terms.anti_affinity]
    return any(new != old and (new is not None or may_be_first) for old, new in near) or any(
        before is None or old not in (None, new) for old, new in far
    )


def _rejected(
    statuses: Sequence[Status | None], rejection: Status, applies: Sequence[bool]
) -> list[Status | None]:
    """The statuses, with a rejection for each node to which it applies and that wasn't rejected before."""
    return [
        status or (rejection if is_rejected else None)
        for status, is_rejected in zip(statuses, applies, strict=True)
    ]
