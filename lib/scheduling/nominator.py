"""Nominated nodes: room is kept there for pods that preempted others.

Counterpart in kube-scheduler: pkg/scheduler/backend/queue/nominator.go
"""

from lib.kube.objects import Pod


class Nominator:
    """The nominated pods, each with its node's name."""

    def __init__(self) -> None:
        self._node_names: dict[str, str] = {}  # by the pod's uid
        self._by_node: dict[str, dict[str, Pod]] = {}  # by node name, then by uid; never an empty one

    def add(self, pod: Pod, node_name: str) -> None:
        """Nominate a pod to a node; "" deletes its nomination."""
        self.delete(pod)
        if node_name:
            self._node_names[pod_key(pod)] = node_name
            self._by_node.setdefault(node_name, {})[pod_key(pod)] = pod

    def delete(self, pod: Pod) -> None:
        """Delete a pod's nomination."""
        node_name = self._node_names.pop(pod_key(pod), None)
        if node_name is None:
            return
        del self._by_node[node_name][pod_key(pod)]
        if not self._by_node[node_name]:
            del self._by_node[node_name]

    def node_of(self, pod: Pod) -> str | None:
        """The name of the node to which a pod is nominated."""
        return self._node_names.get(pod_key(pod))

    def nominated_before(self, pod: Pod) -> dict[str, list[Pod]]:
        """By node name, the other pods nominated there whose priority isn't lower than this pod's."""
        return {name: found for name in self._by_node if (found := self.nominated_before_on(name, pod))}

    def nominated_before_on(self, node_name: str, pod: Pod) -> list[Pod]:
        """The same, for one node."""
        return [
            other
            for uid, other in self._by_node.get(node_name, {}).items()
            if other.spec.priority >= pod.spec.priority and uid != pod_key(pod)
        ]

    def less_important(self, pod: Pod, node_name: str) -> list[Pod]:
        """The pods nominated to a node whose priority is lower than this pod's."""
        nominated = self._by_node.get(node_name, {}).values()
        return [each for each in nominated if each.spec.priority < pod.spec.priority]


def pod_key(pod: Pod) -> str:
    """A pod's key: its uid, or its name if it has no uid."""
    return pod.metadata.uid or str(pod)
