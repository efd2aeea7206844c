"""The node that a pod names."""

from lib.kube.objects import Pod
from lib.scheduling.cache import Cache
from lib.scheduling.framework.interface import Lines
from lib.scheduling.node_info import NodeInfo
from lib.scheduling.status import CycleState, Status


class NodeNameExplainer:
    """Explains NodeName."""

    name = "NodeName"

    def explain(self, state: CycleState, pod: Pod, cache: Cache, node: NodeInfo, status: Status) -> Lines:
        """The requested node."""
        yield f"the pod names node {pod.spec.node_name}"
