"""Pods that are removed from the cache for a try.

Counterpart in kube-scheduler: the NodeInfo that preemption copies (framework/preemption/preemption.go)
"""

from collections.abc import Callable, Mapping
from contextlib import ExitStack

from lib.kube.objects import Pod
from lib.scheduling.node_info import NodeInfo
from lib.scheduling.pod_life import pod_key


class RemovedPods(ExitStack):
    """Pods that are removed from the cache; they are back when the block ends.

    nodes, node_of: the cache's, by name and by pod. removed: the cache's dict of removed pods, by uid.
    """

    def __init__(
        self, nodes: Mapping[str, NodeInfo], node_of: Callable[[Pod], str], removed: dict[str, Pod]
    ) -> None:
        super().__init__()
        self._nodes, self._node_of, self._removed = nodes, node_of, removed
        self._tried: set[str] = set()  # names of nodes

    def take(self, pod: Pod) -> None:
        """Remove a pod."""
        name = self._node_of(pod)
        if name not in self._tried:
            self._tried.add(name)
            self.enter_context(self._nodes[name].trial())
        self.callback(self._removed.pop, pod_key(pod), None)
        self._nodes[name].remove(pod)
        self._removed[pod_key(pod)] = pod

    def give_back(self, pod: Pod) -> None:
        """Put a pod back."""
        self._nodes[self._node_of(pod)].add(pod)
        del self._removed[pod_key(pod)]
