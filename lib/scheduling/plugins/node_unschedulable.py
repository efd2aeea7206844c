"""NodeUnschedulable: no new pods on a node that was cordoned.

Source: pkg/scheduler/framework/plugins/nodeunschedulable/node_unschedulable.go
"""

from lib.kube.objects import Pod, Taint
from lib.kube.selectors import tolerates
from lib.scheduling.cluster import NodeInfo
from lib.scheduling.framework import CycleState, Status, unresolvable

CORDONED = unresolvable("node(s) were unschedulable")

AS_A_TAINT = Taint(key="node.kubernetes.io/unschedulable", effect="NoSchedule")
"""`kubectl cordon` sets spec.unschedulable, which counts as this taint: a DaemonSet's pods tolerate it."""


class NodeUnschedulable:
    """Filters out nodes with spec.unschedulable, unless the pod tolerates that."""

    name = "NodeUnschedulable"

    def filter(self, state: CycleState, pod: Pod, node: NodeInfo) -> Status | None:
        """Reject a cordoned node."""
        if not node.node.spec.unschedulable:
            return None
        return None if any(tolerates(each, AS_A_TAINT) for each in pod.spec.tolerations) else CORDONED
