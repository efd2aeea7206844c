"""InterPodAffinity: pods that want to be near others, or far from them.

Near and far are told by a topology key: nodes with the same value of that label are one place. What is
required filters; what is preferred scores. Pods that run already have a say, too: their anti-affinity keeps
a pod away, and their wishes count as the pod's own do.

Source: pkg/scheduler/framework/plugins/interpodaffinity/filtering.go, scoring.go
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from lib.kube.changes import AnyChange, Kind
from lib.kube.objects import Pod
from lib.scheduling.affinity import Namespaces, Term, Terms, terms_of
from lib.scheduling.cache import Cache
from lib.scheduling.framework.interface import (
    MAX_NODE_SCORE,
    SKIP,
    CycleState,
    Status,
    unresolvable,
    unschedulable,
)
from lib.scheduling.hints import new_node, old_node, placed_pod
from lib.scheduling.node_info import NodeInfo

TOO_FAR = unresolvable("node(s) didn't match pod affinity rules")
TOO_NEAR = unschedulable("node(s) didn't match pod anti-affinity rules")
UNWELCOME = unschedulable("node(s) didn't satisfy existing pods anti-affinity rules")

Places = Counter[tuple[str, str]]
"""Something counted by topology key and value."""


@dataclass
class _Filtering:
    """What is known when nodes are filtered. near, far: pods that the pod's own terms mean, by place.

    unwelcome: terms of running pods that mean the pod. first: no pod matches its affinity, but it would.
    """

    terms: Terms
    near: Places
    far: Places
    unwelcome: Places
    first: bool


@dataclass(frozen=True)
class InterPodAffinity:
    """Filters and scores by the pods that are near.

    hard_pod_affinity_weight: what a running pod's required affinity to this one is worth, 0 to 100.
    ignore_preferred_terms_of_existing_pods: ask only what the pod itself prefers, if it does.
    """

    hard_pod_affinity_weight: int = 1
    ignore_preferred_terms_of_existing_pods: bool = False
    name: str = "InterPodAffinity"

    def queueing_hint(self, pod: Pod, change: AnyChange) -> bool:
        """A pod that came or went or has other labels; a node that came or has another place."""
        placed = placed_pod(change)
        if placed is not None:
            if change.kind == Kind.MODIFIED and isinstance(change.before, Pod):
                return change.before.metadata.labels != placed.metadata.labels
            return True
        node, before = new_node(change), old_node(change)
        return node is not None and (before is None or before.labels != node.labels)

    def pre_filter(self, state: CycleState, pod: Pod, cache: Cache) -> Status | None:
        """Find the places that the pod must be in, and those it must not."""
        terms, namespaces = terms_of(pod), cache.namespaces
        near, far, unwelcome = Places(), Places(), Places()
        for node in cache.with_affinity.values():
            for _, others_terms in node.pods_with_affinity:
                _count(unwelcome, node, others_terms.anti_affinity, pod, namespaces)
        if terms.affinity or terms.anti_affinity:
            for node in cache.nodes.values():
                for other in node.pods:
                    if _all_select(terms.affinity, other, namespaces):
                        for term in terms.affinity:
                            _count_one(near, node, term)
                    _count(far, node, terms.anti_affinity, other, namespaces)
        if not unwelcome and not terms.affinity and not terms.anti_affinity:
            return SKIP
        first = not near and _all_select(terms.affinity, pod, namespaces)
        state[f"{self.name}/filter"] = _Filtering(terms, near, far, unwelcome, first)
        return None

    def filter(self, state: CycleState, pod: Pod, node: NodeInfo) -> Status | None:
        """Reject a node that isn't near what it must be near to, or is near what it mustn't be."""
        known: _Filtering = state[f"{self.name}/filter"]
        keys = [term.topology_key for term in known.terms.affinity]
        if not all(key in node.labels for key in keys):
            return TOO_FAR
        if not all(known.near[key, node.labels[key]] for key in keys) and not known.first:
            return TOO_FAR
        if any(
            known.far[term.topology_key, node.labels[term.topology_key]]
            for term in known.terms.anti_affinity
            if term.topology_key in node.labels
        ):
            return TOO_NEAR
        if known.unwelcome and any(known.unwelcome[place] for place in node.labels.items()):
            return UNWELCOME
        return None

    def pre_score(
        self, state: CycleState, pod: Pod, cache: Cache, nodes: Sequence[NodeInfo]
    ) -> Status | None:
        """Find what each place is worth, to the pod and to the pods that run there."""
        own, namespaces = terms_of(pod), cache.namespaces
        has_wishes = bool(own.preferred or own.preferred_anti)
        if self.ignore_preferred_terms_of_existing_pods and not has_wishes:
            return SKIP
        worth = Places()
        if has_wishes:
            for node in cache.nodes.values():
                for other in node.pods:
                    _count(worth, node, own.preferred, other, namespaces)
                    _count(worth, node, own.preferred_anti, other, namespaces, sign=-1)
        for node in cache.with_affinity.values():
            for _, terms in node.pods_with_affinity:
                for term in terms.affinity:
                    if self.hard_pod_affinity_weight and term.selects(pod, namespaces):
                        _count_one(worth, node, term, self.hard_pod_affinity_weight)
                _count(worth, node, terms.preferred, pod, namespaces)
                _count(worth, node, terms.preferred_anti, pod, namespaces, sign=-1)
        state[f"{self.name}/score"] = worth
        return None if worth else SKIP

    def score(self, state: CycleState, pod: Pod, node: NodeInfo) -> int:
        """What the places that a node is in are worth; less than nothing, too."""
        worth: Places = state[f"{self.name}/score"]
        return sum(worth[place] for place in node.labels.items())

    def normalize_score(self, state: CycleState, pod: Pod, scores: dict[str, int]) -> None:
        """The best becomes 100, the worst 0."""
        best, worst = max(scores.values()), min(scores.values())
        for node, score in scores.items():
            scores[node] = int(MAX_NODE_SCORE * ((score - worst) / (best - worst))) if best > worst else 0


def _all_select(terms: Iterable[Term], pod: Pod, namespaces: Namespaces) -> bool:
    """Whether there are terms, and all of them mean the pod."""
    terms = tuple(terms)
    return bool(terms) and all(term.selects(pod, namespaces) for term in terms)


def _count(
    places: Places, node: NodeInfo, terms: Iterable[Term], pod: Pod, namespaces: Namespaces, sign: int = 1
) -> None:
    """Count a node's places for each term that means the pod."""
    for term in terms:
        if term.selects(pod, namespaces):
            _count_one(places, node, term, sign * (term.weight or 1))


def _count_one(places: Places, node: NodeInfo, term: Term, amount: int = 1) -> None:
    value = node.labels.get(term.topology_key)
    if value is not None:
        places[term.topology_key, value] += amount
