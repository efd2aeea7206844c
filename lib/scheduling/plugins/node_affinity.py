"""NodeAffinity: a pod goes only to nodes that its nodeSelector and required node affinity match.

Preferred terms that match add their weights to the node's score.

Source: pkg/scheduler/framework/plugins/nodeaffinity/node_affinity.go
"""

from collections.abc import Hashable, Sequence

from lib.kube.changes import AnyChange
from lib.kube.objects import NodeSelectorTerm, Pod
from lib.kube.selectors import matches_node, matches_term
from lib.scheduling.cluster import Cluster, NodeInfo
from lib.scheduling.framework import SKIP, CycleState, Reads, Status, unresolvable
from lib.scheduling.hints import new_node, old_node
from lib.scheduling.plugins.scores import normalize_to_largest

UNWANTED = unresolvable("node(s) didn't match Pod's node affinity/selector")
CONFLICT = unresolvable("pod affinity terms conflict")


class NodeAffinity:
    """Filters out nodes that the pod doesn't want, and prefers those it likes."""

    name = "NodeAffinity"
    reads = Reads.NODES

    def sign_pod(self, pod: Pod) -> Hashable:
        """Its nodeSelector, and its node affinity."""
        affinity = pod.spec.affinity.node_affinity
        required = affinity.required_during_scheduling_ignored_during_execution if affinity else None
        preferred = affinity.preferred_during_scheduling_ignored_during_execution if affinity else ()
        return frozenset(pod.spec.node_selector.items()), required, tuple(preferred)

    def queueing_hint(self, pod: Pod, change: AnyChange) -> bool:
        """A node that the pod wants, and that came or was another before."""
        node, before = new_node(change), old_node(change)
        return node is not None and wants(pod, node) and (before is None or not wants(pod, before))

    def pre_filter(self, state: CycleState, pod: Pod, cluster: Cluster) -> set[str] | Status | None:
        """If every required term names its nodes, only those are worth a look."""
        affinity = pod.spec.affinity.node_affinity
        required = affinity.required_during_scheduling_ignored_during_execution if affinity else None
        if not required:
            return None if pod.spec.node_selector else SKIP
        named = [_named_nodes(term) for term in required.node_selector_terms]
        if not named or None in named:
            return None
        return set().union(*(names for names in named if names)) or CONFLICT

    def filter(self, state: CycleState, pod: Pod, node: NodeInfo) -> Status | None:
        """Reject a node that the nodeSelector or the required terms don't match."""
        return None if wants(pod, node) else UNWANTED

    def pre_score(
        self, state: CycleState, pod: Pod, cluster: Cluster, nodes: Sequence[NodeInfo]
    ) -> Status | None:
        """Nothing to score for a pod that prefers nothing."""
        affinity = pod.spec.affinity.node_affinity
        preferred = affinity.preferred_during_scheduling_ignored_during_execution if affinity else []
        state[self.name] = preferred
        return None if preferred else SKIP

    def score(self, state: CycleState, pod: Pod, node: NodeInfo) -> int:
        """The weights of the preferred terms that match."""
        return sum(term.weight for term in state[self.name] if matches_term(term.preference, node.node))

    def normalize_score(self, state: CycleState, pod: Pod, scores: dict[str, int]) -> None:
        """The more, the better."""
        normalize_to_largest(scores)


def wants(pod: Pod, node: NodeInfo) -> bool:
    """Whether a pod's nodeSelector and required node affinity match a node."""
    if any(node.labels.get(key) != value for key, value in pod.spec.node_selector.items()):
        return False
    affinity = pod.spec.affinity.node_affinity
    required = affinity.required_during_scheduling_ignored_during_execution if affinity else None
    return required is None or matches_node(required, node.node)


def _named_nodes(term: NodeSelectorTerm) -> set[str] | None:
    """The nodes that a term names; None when it names none, and so may mean any."""
    names = [
        set(field.values)
        for field in term.match_fields
        if field.key == "metadata.name" and field.operator == "In"
    ]
    return set.intersection(*names) if names else None
