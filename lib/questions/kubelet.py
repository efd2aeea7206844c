"""What the kubelet checks of a pod whose spec.nodeName names its node: no scheduler is asked about it.

Sources: pkg/kubelet/lifecycle/predicate.go; AdmissionCheck in pkg/scheduler/eventhandlers.go
"""

from collections.abc import Iterator

from lib.kube.objects import Pod
from lib.kube.selectors import untolerated
from lib.scheduling.node_info import NodeInfo, amount_requested, capacity, clashing_ports
from lib.scheduling.plugins.node_affinity import wants
from lib.scheduling.resources import NATIVE, pod_requests

NAME = "kubelet"
"""What stands where the name of a plugin does."""

NO_NODE = "there is no node {}: no kubelet starts the pod, and it is deleted soon"

TOO_LITTLE = "OutOf{0}: Node didn't have enough resource: {0}, requested: {1}, used: {2}, capacity: {3}"
FAILED = "{0}: Predicate {0} failed: {1}"


def refusals(pod: Pod, node: NodeInfo) -> Iterator[str]:
    """Why the kubelet of a node fails a pod, in its words; none if it takes it. The pod has the first."""
    if len(node.pods) + 1 > (most := capacity(node, "pods")):
        yield TOO_LITTLE.format("pods", 1, len(node.pods), most)
    requests = pod_requests(pod)
    for name in sorted(requests, key=lambda resource: (resource not in NATIVE, resource)):
        used, most = amount_requested(node, name), capacity(node, name)
        is_unknown = "/" in name and name not in node.allocatable  # others than the node may serve it
        if not is_unknown and 0 < requests[name] > most - used:
            yield TOO_LITTLE.format(name, requests[name], used, most)
    if not wants(pod, node):
        yield FAILED.format("NodeAffinity", "node(s) didn't match Pod's node affinity/selector")
    if not node.ports.keys().isdisjoint(clashing_ports(pod)):
        yield FAILED.format("NodePorts", "node(s) didn't have free ports for the requested pod ports")
    if untolerated(pod, node.taints, ("NoExecute",)):
        yield FAILED.format("TaintToleration", "node(s) had untolerated taint(s)")
