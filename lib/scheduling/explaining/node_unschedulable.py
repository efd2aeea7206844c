"""Which nodes are cordoned."""

from lib.kube.objects import Pod
from lib.scheduling import edits
from lib.scheduling.cache import Cache
from lib.scheduling.framework.interface import Lines, Rejected, Remedies, Remedy
from lib.scheduling.node_info import NodeInfo
from lib.scheduling.status import CycleState, Status

NAMED = 3
"""At most so many cordoned nodes are named as remedies."""


class NodeUnschedulableExplainer:
    """Explains NodeUnschedulable."""

    name = "NodeUnschedulable"

    def explain(self, state: CycleState, pod: Pod, cache: Cache, node: NodeInfo, status: Status) -> Lines:
        """That it is cordoned."""
        yield "cordoned (spec.unschedulable)"

    def remedies(self, state: CycleState, pod: Pod, cache: Cache, rejected: Rejected) -> Remedies:
        """Uncordon a node; or all, if they are many."""
        cordoned = [node.node for node in cache.node_list if node.node.spec.unschedulable]
        if len(cordoned) > NAMED:
            words = f"with the {len(cordoned)} cordoned nodes uncordoned"
            yield Remedy(words, nodes=tuple(map(edits.uncordoned, cordoned)))
            return
        for node in cordoned:
            yield Remedy(f"with {node.metadata.name} uncordoned", nodes=(edits.uncordoned(node),))
