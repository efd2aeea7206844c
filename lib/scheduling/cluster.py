"""The local picture: each node with what its pods use of it."""

from collections import Counter
from collections.abc import Iterable, Mapping
from functools import cached_property

from lib.kube.objects import Node, Pod, Taint
from lib.scheduling.affinity import Namespaces, Terms, terms_of
from lib.scheduling.resources import Resources, amounts, non_zero_requests, pod_requests
from lib.scheduling.workloads import Workloads

HostPort = tuple[str, str, int]
"""Address, protocol, port."""


class NodeInfo:
    """A node, what it has (`allocatable`), its pods, and what these request of that (`requested`).

    Amounts are by resource name: cpu in thousandths of a core, the rest in whole units.
    """

    def __init__(self, node: Node) -> None:
        self.node = node
        self.name = node.metadata.name
        self.labels: Mapping[str, str] = node.metadata.labels
        self.annotations: Mapping[str, str] = node.metadata.annotations
        self.taints: list[Taint] = node.spec.taints
        self.allocatable: Resources = amounts(node.status.allocatable)
        self.requested: Resources = {}
        self.non_zero_requested: Resources = {}
        self.pods: list[Pod] = []
        self.pods_with_affinity: list[tuple[Pod, Terms]] = []
        self.ports: Counter[HostPort] = Counter()

    @cached_property
    def images(self) -> dict[str, int]:
        """The size in bytes of each image, by each of its names."""
        return {name: image.size_bytes for image in self.node.status.images for name in image.names or ()}

    def add(self, pod: Pod) -> None:
        """Count a pod that runs here, or is going to."""
        self.pods.append(pod)
        if terms := terms_of(pod):
            self.pods_with_affinity.append((pod, terms))
        self._count(pod, 1)

    def remove(self, pod: Pod) -> None:
        """Count a pod no longer; it must be one that was added."""
        self.pods = [each for each in self.pods if each is not pod]
        self.pods_with_affinity = [each for each in self.pods_with_affinity if each[0] is not pod]
        self._count(pod, -1)

    def _count(self, pod: Pod, sign: int) -> None:
        for total, requests in (
            (self.requested, pod_requests(pod)),
            (self.non_zero_requested, non_zero_requests(pod)),
        ):
            for name, amount in requests.items():
                total[name] = total.get(name, 0) + sign * amount
        for port in host_ports(pod):
            self.ports[port] += sign


class Cluster:
    """The nodes by name, in the API server's order, which is that of their names; and what pods belong to."""

    def __init__(
        self,
        nodes: Iterable[Node],
        assigned: Iterable[Pod],
        namespaces: Namespaces | None = None,
        workloads: Workloads | None = None,
    ) -> None:
        self.nodes = {node.metadata.name: NodeInfo(node) for node in nodes}
        self.namespaces: Namespaces = namespaces or {}
        self.workloads = workloads or Workloads()
        for pod in assigned:
            self.assume(pod, pod.spec.node_name)

    @cached_property
    def image_spread(self) -> Counter[str]:
        """On how many nodes each image is, by each of its names."""
        return Counter(name for node in self.nodes.values() for name in node.images)

    def assume(self, pod: Pod, node_name: str) -> None:
        """Count a pod on a node before the API server confirms it, so that the next decision knows."""
        if node_name in self.nodes:  # a pod may still name a node that has been deleted
            self.nodes[node_name].add(pod)

    def forget(self, pod: Pod, node_name: str) -> None:
        """Count an assumed pod no longer."""
        self.nodes[node_name].remove(pod)


def host_ports(pod: Pod) -> list[HostPort]:
    """The ports of its node that a pod takes; sidecars' too, other init containers' not."""
    sidecars = [each for each in pod.spec.init_containers if each.restart_policy == "Always"]
    return [
        (port.host_ip or ANY_ADDRESS, port.protocol or "TCP", port.host_port)
        for container in [*pod.spec.containers, *sidecars]
        for port in container.ports
        if port.host_port > 0
    ]


ANY_ADDRESS = "0.0.0.0"
"""What a host port listens on that names no address: all of them."""
