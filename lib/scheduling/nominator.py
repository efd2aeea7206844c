"""Nominated nodes: room is kept there for pods that preempted others.

Counterpart in kube-scheduler: pkg/scheduler/backend/queue/nominator.go
"""

from collections.abc import Collection

from lib.kube.objects import Pod
from lib.scheduling.pod_life import PodLife, PodLives, pod_key


class Nominator:
    """Finds the nominated pods of a node. The pods' records say to which node each is nominated.

    A pod with reserved room keeps its nomination, as that room may be given back. Meanwhile no room is kept
    for it elsewhere.
    """

    def __init__(self, lives: PodLives) -> None:
        self._lives, self._by_node = lives, lives.nominated

    def add(self, pod: Pod, node_name: str) -> None:
        """Nominate a pod to a node; "" deletes its nomination."""
        if not node_name:
            self.delete(pod)
            return
        life = self._lives.of(pod)
        self._lives.forget_nomination(life)
        if life.pod is not pod:
            self._lives.update(life, pod)
        life.nominated = node_name
        self._lives.index_nomination(life)

    def delete(self, pod: Pod) -> None:
        """Delete a pod's nomination."""
        life = self._lives.get(pod_key(pod))
        if not (life and life.nominated):
            return
        self._lives.forget_nomination(life)
        life.nominated = ""
        self._lives.tidy(life)

    def node_of(self, pod: Pod) -> str | None:
        """The name of the node to which a pod is nominated, unless it has room already."""
        if not self._by_node:
            return None  # as nearly always
        life = self._lives.get(pod_key(pod))
        return life.nominated or None if life and not life.has_room else None

    def nominated_before(self, pod: Pod) -> dict[str, list[Pod]]:
        """By node name, the other pods nominated there whose priority isn't lower than this pod's."""
        if not self._by_node:
            return {}
        return {name: pods for name in self._by_node if (pods := self.nominated_before_on(name, pod))}

    def nominated_before_on(self, node_name: str, pod: Pod) -> list[Pod]:
        """The other pods nominated to a node whose priority isn't lower than this pod's."""
        key, priority = pod_key(pod), pod.spec.priority
        others = self._nominated_to(node_name)
        return [life.pod for life in others if life.pod.spec.priority >= priority and life.key != key]

    def less_important(self, pod: Pod, node_name: str) -> list[Pod]:
        """The pods nominated to a node whose priority is lower than this pod's."""
        others = self._nominated_to(node_name)
        return [life.pod for life in others if life.pod.spec.priority < pod.spec.priority]

    def _nominated_to(self, node_name: str) -> Collection[PodLife]:
        return self._by_node.get(node_name, {}).values()
