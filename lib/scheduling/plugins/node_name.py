"""NodeName: a pod with spec.nodeName goes only to that node.

Source: pkg/scheduler/framework/plugins/nodename/node_name.go
"""

from collections.abc import Hashable

from lib.kube.changes import AnyChange
from lib.kube.objects import Pod
from lib.scheduling.framework.interface import DependsOn
from lib.scheduling.hints import new_node
from lib.scheduling.node_info import NodeInfo
from lib.scheduling.status import CycleState, Status, unresolvable

OTHER_NODE = unresolvable("node(s) didn't match the requested node name")


class NodeName:
    """Filters out all nodes but the one that spec.nodeName names."""

    name = "NodeName"
    reads = DependsOn.NODES

    def sign_pod(self, pod: Pod) -> Hashable:
        """The pod's spec.nodeName."""
        return pod.spec.node_name

    events_to_register = ("NodeAdd", "NodeUpdate")

    def queueing_hint(self, pod: Pod, change: AnyChange) -> bool:
        """The node with that name."""
        node = new_node(change)
        return node is not None and node.name == pod.spec.node_name

    def filter(self, state: CycleState, pod: Pod, node: NodeInfo) -> Status | None:
        """Reject every other node."""
        return OTHER_NODE if pod.spec.node_name not in ("", node.name) else None
