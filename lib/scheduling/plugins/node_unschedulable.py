"""NodeUnschedulable: a cordoned node gets no new pods.

Source: pkg/scheduler/framework/plugins/nodeunschedulable/node_unschedulable.go
"""

from collections.abc import Hashable

from lib.kube.changes import AnyChange
from lib.kube.objects import Pod, Taint
from lib.kube.selectors import tolerations_of
from lib.scheduling.framework.interface import CycleState, DependsOn, Status, unresolvable
from lib.scheduling.hints import before_itself, new_node, old_node
from lib.scheduling.node_info import NodeInfo

CORDONED = unresolvable("node(s) were unschedulable")

AS_A_TAINT = Taint(key="node.kubernetes.io/unschedulable", effect="NoSchedule")
"""`kubectl cordon` sets spec.unschedulable, which counts as this taint. A DaemonSet's pods tolerate it."""


class NodeUnschedulable:
    """Filters out nodes with spec.unschedulable, unless the pod tolerates that."""

    name = "NodeUnschedulable"
    reads = DependsOn.NODES

    def sign_pod(self, pod: Pod) -> Hashable:
        """The pod's tolerations."""
        return tuple(pod.spec.tolerations)

    def queueing_hint(self, pod: Pod, change: AnyChange) -> bool:
        """A schedulable node that is new or was cordoned before; a toleration of that."""
        if was := before_itself(pod, change):
            new = was.spec.tolerations != pod.spec.tolerations
            return new and tolerations_of(pod).tolerate(AS_A_TAINT)
        node, before = new_node(change), old_node(change)
        return (
            node is not None
            and not self._keeps_off(pod, node)
            and (before is None or self._keeps_off(pod, before))
        )

    def filter(self, state: CycleState, pod: Pod, node: NodeInfo) -> Status | None:
        """Reject a cordoned node."""
        return CORDONED if self._keeps_off(pod, node) else None

    def _keeps_off(self, pod: Pod, node: NodeInfo) -> bool:
        if not node.node.spec.unschedulable:
            return False
        return not tolerations_of(pod).tolerate(AS_A_TAINT)
