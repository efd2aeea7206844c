"""Nominations: the nodes on which room is kept for pods that preempted others there.

Counterpart in kube-scheduler: pkg/scheduler/backend/queue/nominator.go
"""

from lib.kube.objects import Pod


class Nominator:
    """The pods that are nominated to a node, and its name."""

    def __init__(self) -> None:
        self._nominated: dict[str, tuple[Pod, str]] = {}  # by uid

    def add(self, pod: Pod, node_name: str) -> None:
        """Keep room for a pod on a node; "" deletes its nomination."""
        self.delete(pod)
        if node_name:
            self._nominated[pod_key(pod)] = pod, node_name

    def delete(self, pod: Pod) -> None:
        """Keep room for a pod no longer."""
        self._nominated.pop(pod_key(pod), None)

    def node_of(self, pod: Pod) -> str | None:
        """The name of the node to which a pod is nominated."""
        return self._nominated.get(pod_key(pod), (pod, None))[1]

    def nominated_before(self, pod: Pod) -> dict[str, list[Pod]]:
        """By node name, the other nominated pods there whose priority isn't lower than this pod's."""
        found: dict[str, list[Pod]] = {}
        for other, node_name in self._nominated.values():
            if other.spec.priority >= pod.spec.priority and pod_key(other) != pod_key(pod):
                found.setdefault(node_name, []).append(other)
        return found

    def less_important(self, pod: Pod, node_name: str) -> list[Pod]:
        """The pods nominated to a node whose priority is lower than this pod's."""
        nominated = self._nominated.values()
        return [each for each, on in nominated if on == node_name and each.spec.priority < pod.spec.priority]


def pod_key(pod: Pod) -> str:
    """What pods are told apart by: the uid, or their name where they have none."""
    return pod.metadata.uid or str(pod)
