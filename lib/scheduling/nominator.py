"""Nominated nodes: room is kept there for pods that preempted others.

Counterpart in kube-scheduler: pkg/scheduler/backend/queue/nominator.go
"""

from lib.kube.objects import Pod
from lib.scheduling.pod_life import PodLives, pod_key


class Nominator:
    """Finds the nominated pods of a node. A pod's record says to which node it is nominated.

    A pod with reserved room keeps its nomination on its record, for when that room is given back; meanwhile
    no room is kept for it elsewhere.
    """

    def __init__(self, lives: PodLives) -> None:
        self._lives = lives
        self._by_node: dict[str, dict[str, Pod]] = {}  # by node name, then by uid; never an empty one

    def add(self, pod: Pod, node_name: str) -> None:
        """Nominate a pod to a node; "" deletes its nomination."""
        self.delete(pod)
        if node_name:
            life = self._lives.of(pod)
            life.nominated = node_name
            self.restore(pod)

    def delete(self, pod: Pod) -> None:
        """Delete a pod's nomination."""
        if life := self._lives.get(pod_key(pod)):
            self.suspend(pod)
            life.nominated = ""
            self._lives.tidy(life)

    def suspend(self, pod: Pod) -> None:
        """Keep no room for a pod that has room already."""
        node_name = self._lives.of(pod).nominated
        if self._by_node.get(node_name, {}).pop(pod_key(pod), None) and not self._by_node[node_name]:
            del self._by_node[node_name]

    def restore(self, pod: Pod) -> None:
        """Keep room for a pod again that has given its room back."""
        life = self._lives.of(pod)
        if life.nominated and not life.has_room:
            self._by_node.setdefault(life.nominated, {})[pod_key(pod)] = pod

    def node_of(self, pod: Pod) -> str | None:
        """The name of the node to which a pod is nominated, unless it has room already."""
        life = self._lives.get(pod_key(pod))
        return life.nominated or None if life and not life.has_room else None

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
