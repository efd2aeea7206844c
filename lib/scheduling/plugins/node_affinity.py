"""NodeAffinity: a pod goes only to nodes that its nodeSelector and required node affinity match.

Preferred terms that match add their weights to the node's score.

Source: pkg/scheduler/framework/plugins/nodeaffinity/node_affinity.go
"""

from collections.abc import Hashable, Sequence, Set
from dataclasses import dataclass
from functools import lru_cache
from typing import ClassVar

from lib.kube import objects
from lib.kube.changes import AnyChange
from lib.kube.label_syntax import problems_of_term, together
from lib.kube.objects import NodeSelector, NodeSelectorTerm, Pod, PreferredSchedulingTerm
from lib.kube.selectors import matches_node
from lib.scheduling.cache import Cache
from lib.scheduling.framework.interface import DependsOn
from lib.scheduling.hints import fits_now
from lib.scheduling.node_info import NodeInfo
from lib.scheduling.node_terms import NodeTerms
from lib.scheduling.scoring import normalize_to_largest
from lib.scheduling.status import SKIP, CycleState, PluginError, Status, unresolvable

UNWANTED = unresolvable("node(s) didn't match Pod's node affinity/selector")
ENFORCED = unresolvable("node(s) didn't match scheduler-enforced node affinity")
CONFLICT = unresolvable("pod affinity terms conflict")


@dataclass(frozen=True)
class NodeAffinity:
    """Filters out nodes that the pod's required terms don't match, and scores by its preferred terms."""

    added_affinity: objects.NodeAffinity | None = None
    """Required and preferred terms for every pod, besides its own."""
    name: str = "NodeAffinity"
    equal_stay_equal: ClassVar = True
    reads: ClassVar = DependsOn.NODES

    def sign_pod(self, pod: Pod) -> Hashable:
        """The pod's nodeSelector and node affinity."""
        affinity = pod.spec.affinity.node_affinity
        return (
            frozenset(pod.spec.node_selector.items()),
            required_selector(affinity),
            tuple(_preferred(affinity)),
        )

    events_to_register = ("NodeAdd", "NodeUpdate")

    def queueing_hint(self, pod: Pod, change: AnyChange) -> bool:
        """A node that matches now, and that is new or didn't match before."""
        return fits_now(change, lambda node: self._rejection(pod, node) is None)

    def pre_filter(self, state: CycleState, pod: Pod, cache: Cache) -> Set[str] | Status | None:
        """If every required term names its nodes, only those can fit."""
        if not required_selector(pod.spec.affinity.node_affinity):
            return None if pod.spec.node_selector or self._enforced else SKIP
        named = _nodes_named_by(pod)
        return None if named is None else named or CONFLICT

    def filter(self, state: CycleState, pod: Pod, node: NodeInfo) -> Status | None:
        """Reject a node that the added terms, the nodeSelector or the required terms don't match."""
        return self._rejection(pod, node)

    def pre_score(
        self, state: CycleState, pod: Pod, cache: Cache, nodes: Sequence[NodeInfo]
    ) -> Status | None:
        """SKIP if neither the pod nor the added affinity has preferred terms.

        PluginError if a term of the pod is invalid.
        """
        wrong = [
            problem
            for i, term in enumerate(_preferred(pod.spec.affinity.node_affinity))
            if term.weight
            for problem in problems_of_term(term.preference, f"[{i}]")
        ]
        if wrong:
            raise PluginError(f'running PreScore plugin "NodeAffinity": {together(wrong)}')
        preferred = [*_preferred(self.added_affinity), *_preferred(pod.spec.affinity.node_affinity)]
        state[self.name] = NodeTerms((term.preference, term.weight) for term in preferred)
        return None if preferred else SKIP

    def score(self, state: CycleState, pod: Pod, node: NodeInfo) -> int:
        """The sum of the weights of the preferred terms that match."""
        terms: NodeTerms = state[self.name]
        return terms.weight_of(node)

    def normalize_score(self, state: CycleState, pod: Pod, scores: dict[str, int]) -> None:
        """The highest sum becomes 100."""
        normalize_to_largest(scores)

    @property
    def _enforced(self) -> NodeSelector | None:
        return required_selector(self.added_affinity)

    def _rejection(self, pod: Pod, node: NodeInfo) -> Status | None:
        if self._enforced and not matches_node(self._enforced, node.node):
            return ENFORCED
        return None if wants(pod, node) else UNWANTED


def wants(pod: Pod, node: NodeInfo) -> bool:
    """Whether a pod's nodeSelector and required node affinity match a node."""
    if not pod.spec.node_selector.items() <= node.labels.items():
        return False
    return required_selector(pod.spec.affinity.node_affinity) is None or required_terms(pod).match(node)


@lru_cache(maxsize=1024)
def required_terms(pod: Pod) -> NodeTerms:
    """The terms of a pod's required node affinity."""
    required = required_selector(pod.spec.affinity.node_affinity)
    return NodeTerms((term, 0) for term in (required.node_selector_terms if required else ()))


@lru_cache(maxsize=1024)
def _nodes_named_by(pod: Pod) -> Set[str] | None:
    """The nodes that the required terms name; None if a term names none, and so may match any node."""
    required = required_selector(pod.spec.affinity.node_affinity)
    named = [_named_nodes(term) for term in required.node_selector_terms] if required else []
    if not named or None in named:
        return None
    return set().union(*(names for names in named if names))


def required_selector(affinity: objects.NodeAffinity | None) -> NodeSelector | None:
    """What a pod's node affinity requires; None if it requires nothing."""
    return affinity.required_during_scheduling_ignored_during_execution if affinity else None


def _preferred(affinity: objects.NodeAffinity | None) -> Sequence[PreferredSchedulingTerm]:
    return affinity.preferred_during_scheduling_ignored_during_execution if affinity else ()


def _named_nodes(term: NodeSelectorTerm) -> set[str] | None:
    """The nodes that a term names; None when it names none, and so may match any node."""
    names = [
        set(field.values)
        for field in term.match_fields
        if field.key == "metadata.name" and field.operator == "In"
    ]
    return set.intersection(*names) if names else None
