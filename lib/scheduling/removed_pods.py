"""Pods that are removed from the cache for a try.

Counterpart in kube-scheduler: the NodeInfo that preemption copies (framework/preemption/preemption.go)
"""

from collections.abc import Callable, Mapping
from contextlib import ExitStack

from lib.kube.objects import Pod
from lib.scheduling.node_info import NodeInfo
from lib.scheduling.pod_life import pod_key


class RemovedPods:
    """Pods that are removed from the cache for a while.

    nodes, node_of: the cache's, by name and by pod. removed: the cache's dict of removed pods, by uid.
    """

    def __init__(
        self, nodes: Mapping[str, NodeInfo], node_of: Callable[[Pod], str], removed: dict[str, Pod]
    ) -> None:
        self._all_nodes, self._node_of, self._removed = nodes, node_of, removed
        self._nodes: dict[str, NodeInfo] = {}  # by the pod's uid
        self._pods: dict[str, Pod] = {}
        self._trials = ExitStack()

    def take(self, pod: Pod) -> None:
        """Remove a pod."""
        node = self._all_nodes[self._node_of(pod)]
        if node not in self._nodes.values():
            self._trials.enter_context(node.trial())
        node.remove(pod)
        self._nodes[pod_key(pod)], self._pods[pod_key(pod)] = node, pod
        self._removed[pod_key(pod)] = pod

    def give_back(self, pod: Pod) -> None:
        """Put a pod back."""
        self._nodes[pod_key(pod)].add(self._pods.pop(pod_key(pod)))
        del self._removed[pod_key(pod)]

    def give_all_back(self) -> None:
        """Put all pods back, and restore their nodes' state."""
        with self._trials:
            for pod in [*self._pods.values()]:
                self.give_back(pod)
