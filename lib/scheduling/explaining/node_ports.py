"""Which pods have the host ports that a pod wants."""

from functools import partial

from lib.kube.objects import Pod
from lib.scheduling import edits
from lib.scheduling.cache import Cache
from lib.scheduling.framework.interface import Lines, Rejected, Remedies, Remedy
from lib.scheduling.node_info import ANY_ADDRESS, HostPort, NodeInfo, clashes_of, host_ports, used_ports
from lib.scheduling.status import CycleState, Status
from lib.scheduling.text import pods_text


class NodePortsExplainer:
    """Explains NodePorts."""

    name = "NodePorts"

    def explain(self, state: CycleState, pod: Pod, cache: Cache, node: NodeInfo, status: Status) -> Lines:
        """The pods that have the ports."""
        for wanted in host_ports(pod):
            if holders := [
                other for other in node.pods if not clashes_of(wanted).isdisjoint(used_ports(other))
            ]:
                yield f"host port {_port_text(wanted)} is taken by {pods_text(holders)}"

    def remedies(self, state: CycleState, pod: Pod, cache: Cache, rejected: Rejected) -> Remedies:
        """Leave out a port."""
        for port in host_ports(pod):
            yield Remedy(f"without host port {_port_text(port)}", partial(edits.without_port, port=port))


def _port_text(port: HostPort) -> str:
    """A host port as people write it: 8080/TCP, with its address if it has one."""
    address, protocol, number = port
    return f"{number}/{protocol}" if address == ANY_ADDRESS else f"{address}:{number}/{protocol}"
