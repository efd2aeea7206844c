"""A node with its pods, and the resources that they request.

Counterpart in kube-scheduler: NodeInfo in pkg/scheduler/framework/types.go
"""

from collections.abc import Iterator, Mapping, Set
from contextlib import contextmanager, nullcontext
from functools import lru_cache

from lib.kube.objects import BETA_REGION, BETA_ZONE, REGION, ZONE, Node, Pod, Taint
from lib.scheduling.affinity import Terms, terms_of
from lib.scheduling.disks import DiskUse, disks_of
from lib.scheduling.kept import Journal, NodeChange
from lib.scheduling.resources import Resources, add, amounts, counted_requests

HostPort = tuple[str, str, int]
"""Address, protocol, port."""

ANY_ADDRESS = "0.0.0.0"  # noqa: S104  # nothing listens there
"""The address of a host port that names none: all addresses of the node."""

SOME_ADDRESS = "*"
"""Under this address, each port is counted again, whatever its address."""


class NodeInfo:
    """A node with its pods.

    Amounts are by resource name: cpu in thousandths of a core, the rest in whole units.

    journal: gets an entry for each pod that is added or removed.
    """

    def __init__(self, node: Node, journal: Journal[NodeChange] | None = None) -> None:
        self.node = node
        self._journal = journal
        self.name = node.metadata.name
        self.labels: Mapping[str, str] = node.metadata.labels
        self.annotations: Mapping[str, str] = node.metadata.annotations
        self.zone = _zone_of(self.labels)
        self.taints: list[Taint] = node.spec.taints
        self.allocatable: Resources = amounts(node.status.allocatable)
        """The amounts of resources that the node has for pods."""
        self.requested: Resources = {}
        """The amounts that its pods request together."""
        self.non_zero_requested: Resources = {}
        """The same of cpu and memory, with defaults for containers that request nothing."""
        self.pods: list[Pod] = []
        self.pods_with_affinity: list[tuple[Pod, Terms]] = []
        """Those of its pods that have pod affinity or anti-affinity terms, with these."""
        self.ports: dict[HostPort, int] = {}
        """How often each host port is used."""
        self.disks: dict[DiskUse, int] = {}
        """How often each disk is used."""

    @property
    def images(self) -> dict[str, int]:
        """The size in bytes of each image, by each of its names."""
        return {name: image.size_bytes for image in self.node.status.images for name in image.names or ()}

    def add(self, pod: Pod) -> None:
        """Add a pod that is assigned to this node, or assumed to be."""
        self.pods.append(pod)
        if terms := terms_of(pod):
            self.pods_with_affinity.append((pod, terms))
        self._count(pod, 1)

    def remove(self, pod: Pod) -> None:
        """Remove a pod that was added before."""
        self.pods = [other for other in self.pods if other is not pod]
        if self.pods_with_affinity:
            self.pods_with_affinity = [entry for entry in self.pods_with_affinity if entry[0] is not pod]
        self._count(pod, -1)

    @contextmanager
    def trial(self) -> Iterator[None]:
        """A block that removes or adds pods for a try. It leaves no trace, here or in the journal."""
        pods, with_affinity = [*self.pods], [*self.pods_with_affinity]
        with self._journal.trial() if self._journal else nullcontext():
            try:
                yield
            finally:
                before, now = set(map(id, pods)), set(map(id, self.pods))
                for pod in self.pods:
                    if id(pod) not in before:
                        self.remove(pod)
                for pod in pods:
                    if id(pod) not in now:
                        self.add(pod)
                self.pods, self.pods_with_affinity = pods, with_affinity  # in the same order

    def _count(self, pod: Pod, sign: int) -> None:
        requested, non_zero = counted_requests(pod)
        for total, requests in ((self.requested, requested), (self.non_zero_requested, non_zero)):
            for name, amount in requests.items():
                if after := total.get(name, 0) + sign * amount:
                    total[name] = after
                else:
                    total.pop(name, None)
        for port in used_ports(pod):
            add(self.ports, port, sign)
        for disk in disks_of(pod) if pod.spec.volumes else ():
            add(self.disks, disk, sign)
        if self._journal:
            self._journal.add((self, pod, sign))


def _zone_of(labels: Mapping[str, str]) -> tuple[str, str]:
    """A node's region and zone; "" for what its labels don't say.

    Source: GetZoneKey in k8s.io/component-helpers/node/topology
    """
    return labels.get(BETA_REGION, labels.get(REGION, "")), labels.get(BETA_ZONE, labels.get(ZONE, ""))


def used_ports(pod: Pod) -> Iterator[HostPort]:
    """A pod's host ports, each a second time under SOME_ADDRESS."""
    containers = pod.spec.containers
    if pod.spec.init_containers:
        sidecars = [
            container for container in pod.spec.init_containers if container.restart_policy == "Always"
        ]
        containers = [*containers, *sidecars]
    for container in containers:
        for port in container.ports:
            if port.host_port > 0:
                protocol = port.protocol or "TCP"
                yield port.host_ip or ANY_ADDRESS, protocol, port.host_port
                yield SOME_ADDRESS, protocol, port.host_port


def host_ports(pod: Pod) -> list[HostPort]:
    """The ports of its node that a pod uses: those of its containers and sidecars."""
    return [port for port in used_ports(pod) if port[0] != SOME_ADDRESS]


@lru_cache(maxsize=1024)
def clashing_ports(pod: Pod) -> Set[HostPort]:
    """The used ports, as `NodeInfo.ports` has them, that keep a pod away: its own, if addresses overlap."""
    return {clashing for port in host_ports(pod) for clashing in clashes_of(port)}


def clashes_of(port: HostPort) -> set[HostPort]:
    """The used ports that one port clashes with."""
    address, protocol, number = port
    if address == ANY_ADDRESS:
        return {(SOME_ADDRESS, protocol, number)}
    return {(address, protocol, number), (ANY_ADDRESS, protocol, number)}


def described(node: Node) -> tuple[object, ...]:
    """The fields of a node that decisions depend on."""
    return node.spec, node.status, node.metadata.labels, node.metadata.annotations


def label_of(node: NodeInfo, key: str) -> str | None:
    """A node's value of a label; None if it has no such label."""
    return node.labels.get(key)


def capacity(node: NodeInfo, resource: str) -> int:
    """A node's allocatable amount of a resource."""
    return node.allocatable.get(resource, 0)


def amount_requested(node: NodeInfo, resource: str) -> int:
    """The requests of a node's pods for a resource."""
    return node.requested.get(resource, 0)


def amount_for_scores(node: NodeInfo, resource: str) -> int:
    """The requests of a node's pods for cpu or memory, with defaults for containers that request nothing."""
    return node.non_zero_requested.get(resource, 0)


def amount_left(node: NodeInfo, resource: str) -> int:
    """A node's allocatable amount of a resource, less its pods' requests."""
    return node.allocatable.get(resource, 0) - node.requested.get(resource, 0)


def pods_left(node: NodeInfo) -> int:
    """How many more pods a node can take."""
    return capacity(node, "pods") - len(node.pods)
