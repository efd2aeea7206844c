"""The local picture: each node with what its pods use of it."""

from collections.abc import Iterable

from lib.kube.objects import Node, Pod
from lib.scheduling.resources import Resources, amounts, pod_requests


class NodeInfo:
    """A node, what it has (`allocatable`), and what its pods request of that (`requested`)."""

    def __init__(self, node: Node) -> None:
        self.node = node
        self.name = node.metadata.name
        self.allocatable: Resources = amounts(node.status.allocatable)
        self.requested: Resources = {}
        self.pods: list[Pod] = []

    def add(self, pod: Pod) -> None:
        """Count a pod that runs here, or is going to."""
        self.pods.append(pod)
        for name, amount in pod_requests(pod).items():
            self.requested[name] = self.requested.get(name, 0) + amount


class Cluster:
    """The nodes by name, in the API server's order, which is that of their names."""

    def __init__(self, nodes: Iterable[Node], assigned: Iterable[Pod]) -> None:
        self.nodes = {node.metadata.name: NodeInfo(node) for node in nodes}
        for pod in assigned:
            self.assume(pod, pod.spec.node_name)

    def assume(self, pod: Pod, node_name: str) -> None:
        """Count a pod on a node before the API server confirms it, so that the next decision knows."""
        if node_name in self.nodes:  # a pod may still name a node that has been deleted
            self.nodes[node_name].add(pod)
