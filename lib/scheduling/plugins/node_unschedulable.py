"""NodeUnschedulable: a cordoned node gets no new pods.

Source: pkg/scheduler/framework/plugins/nodeunschedulable/node_unschedulable.go
"""

from collections.abc import Hashable

from lib.kube.changes import AnyChange
from lib.kube.objects import CORDON_TAINT, Pod, Taint
from lib.kube.selectors import tolerations_of
from lib.scheduling.framework.interface import DependsOn
from lib.scheduling.hints import before_itself, fits_now
from lib.scheduling.node_info import NodeInfo
from lib.scheduling.status import CycleState, Status, unresolvable

CORDONED = unresolvable("node(s) were unschedulable")

AS_A_TAINT = Taint(key=CORDON_TAINT, effect="NoSchedule")
"""`kubectl cordon` sets spec.unschedulable, which counts as this taint. A DaemonSet's pods tolerate it."""


class NodeUnschedulable:
    """Filters out nodes with spec.unschedulable, unless the pod tolerates that."""

    name = "NodeUnschedulable"
    reads = DependsOn.NODES

    def sign_pod(self, pod: Pod) -> Hashable:
        """The pod's tolerations."""
        return tuple(pod.spec.tolerations)

    events_to_register = ("NodeAdd", "NodeUpdate")

    def queueing_hint(self, pod: Pod, change: AnyChange) -> bool:
        """A schedulable node that is new or was cordoned before; a toleration of that."""
        if before_itself(pod, change):  # which had no such toleration, as it was rejected
            return tolerations_of(pod).tolerate(AS_A_TAINT)
        return fits_now(change, lambda node: not _keeps_off(pod, node))

    def filter(self, state: CycleState, pod: Pod, node: NodeInfo) -> Status | None:
        """Reject a cordoned node."""
        return CORDONED if _keeps_off(pod, node) else None


def _keeps_off(pod: Pod, node: NodeInfo) -> bool:
    return node.node.spec.unschedulable and not tolerations_of(pod).tolerate(AS_A_TAINT)
