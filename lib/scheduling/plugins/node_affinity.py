"""NodeAffinity: a pod goes only to nodes that its nodeSelector and its required node affinity match.

Source: pkg/scheduler/framework/plugins/nodeaffinity/node_affinity.go
"""

from collections.abc import Sequence

from lib.kube.objects import Pod
from lib.kube.selectors import matches_node
from lib.scheduling.cluster import NodeInfo
from lib.scheduling.framework import FITS, CycleState

REASON = "node(s) didn't match Pod's node affinity/selector"


class NodeAffinity:
    """Filters out nodes that the pod doesn't want."""

    name = "NodeAffinity"

    def filter(self, state: CycleState, pod: Pod, node: NodeInfo) -> Sequence[str]:
        """Reject a node that lacks a label of the nodeSelector, or that no required term matches."""
        labels = node.node.metadata.labels
        if any(labels.get(key) != value for key, value in pod.spec.node_selector.items()):
            return (REASON,)
        affinity = pod.spec.affinity.node_affinity
        required = affinity and affinity.required_during_scheduling_ignored_during_execution
        return (REASON,) if required and not matches_node(required, node.node) else FITS
