"""NodePorts: two pods can't have the same port of a node.

Source: pkg/scheduler/framework/plugins/nodeports/node_ports.go, and HostPortInfo in the framework's types.go
"""

from collections.abc import Hashable

from lib.kube.changes import AnyChange
from lib.kube.objects import Pod
from lib.scheduling.cache import Cache
from lib.scheduling.framework.interface import DependsOn
from lib.scheduling.hints import deleted_pod, new_node
from lib.scheduling.node_info import (
    NodeInfo,
    clashing_ports,
    used_ports,
)
from lib.scheduling.status import SKIP, CycleState, Status, unschedulable

TAKEN = unschedulable("node(s) didn't have free ports for the requested pod ports")


class NodePorts:
    """Filters out nodes where a host port that the pod wants is taken."""

    name = "NodePorts"
    reads = DependsOn.PODS

    def sign_pod(self, pod: Pod) -> Hashable:
        """The pod's host ports."""
        return tuple(used_ports(pod))

    events_to_register = ("NodeAdd", "NodeUpdate", "AssignedPodDelete")

    def queueing_hint(self, pod: Pod, change: AnyChange) -> bool:
        """A new node, or a deleted pod that had one of the ports."""
        gone = deleted_pod(change)
        if gone is None:
            return new_node(change) is not None and change.before is None
        return not clashing_ports(pod).isdisjoint(used_ports(gone))

    def pre_filter(self, state: CycleState, pod: Pod, cache: Cache) -> Status | None:
        """Find out whether the pod has host ports; most pods have none."""
        return SKIP if next(used_ports(pod), None) is None else None

    def filter(self, state: CycleState, pod: Pod, node: NodeInfo) -> Status | None:
        """Reject a node with a conflict."""
        return None if node.ports.keys().isdisjoint(clashing_ports(pod)) else TAKEN
