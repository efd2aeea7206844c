"""NodePorts: two pods can't have the same port of a node.

Source: pkg/scheduler/framework/plugins/nodeports/node_ports.go, and HostPortInfo in the framework's types.go
"""

from collections.abc import Hashable
from functools import partial

from lib.kube.changes import AnyChange
from lib.kube.objects import Pod
from lib.scheduling.cache import Cache
from lib.scheduling.framework.interface import DependsOn, Lines, Rejected, Remedies, Remedy
from lib.scheduling.hints import deleted_pod, new_node
from lib.scheduling.node_info import (
    ANY_ADDRESS,
    HostPort,
    NodeInfo,
    clashes_of,
    clashing_ports,
    host_ports,
    used_ports,
)
from lib.scheduling.status import SKIP, CycleState, Status, unschedulable
from lib.scheduling.text import pods_text

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

    def explain(self, state: CycleState, pod: Pod, cache: Cache, node: NodeInfo, status: Status) -> Lines:
        """The pods that have the ports."""
        for wanted in host_ports(pod):
            if holders := [
                other for other in node.pods if not clashes_of(wanted).isdisjoint(used_ports(other))
            ]:
                yield f"host port {_port_text(wanted)} is taken by {pods_text(holders)}"

    def remedies(self, state: CycleState, pod: Pod, cache: Cache, rejected: Rejected) -> Remedies:
        """Leave out a port."""
        from lib.scheduling import edits  # here, as few runs explain

        for port in host_ports(pod):
            yield Remedy(f"without host port {_port_text(port)}", partial(edits.without_port, port=port))


def _port_text(port: HostPort) -> str:
    """A host port as people write it: 8080/TCP, with its address if it has one."""
    address, protocol, number = port
    return f"{number}/{protocol}" if address == ANY_ADDRESS else f"{address}:{number}/{protocol}"
