"""NodeDeclaredFeatures: a pod that needs a feature of the kubelet goes to nodes that declare it.

Source: pkg/scheduler/framework/plugins/nodedeclaredfeatures/nodedeclaredfeatures.go; what a pod needs,
k8s.io/component-helpers/nodedeclaredfeatures/features
"""

from collections.abc import Hashable
from dataclasses import dataclass
from functools import lru_cache
from typing import ClassVar

from lib.kube.changes import AnyChange
from lib.kube.objects import Pod
from lib.scheduling.cache import Cache
from lib.scheduling.framework.interface import DependsOn
from lib.scheduling.hints import before_itself, is_new_or_changed_node
from lib.scheduling.node_info import NodeInfo
from lib.scheduling.status import SKIP, CycleState, Status, unresolvable

NOT_DECLARED = unresolvable("node(s) didn't match Pod's required features")

RESTART_ALL_CONTAINERS = "RestartAllContainersOnContainerExits"
USER_NAMESPACES_HOST_NETWORK = "UserNamespacesHostNetworkSupport"


@dataclass(frozen=True)
class NodeDeclaredFeatures:
    """Filters out nodes whose status doesn't declare all features that the pod needs."""

    name: str = "NodeDeclaredFeatures"
    reads: ClassVar = DependsOn.NODES

    def sign_pod(self, pod: Pod) -> Hashable:
        """The features that the pod needs."""
        return required_features(pod)

    events_to_register = ("NodeAdd", "NodeUpdate")

    def queueing_hint(self, pod: Pod, change: AnyChange) -> bool:
        """A new node, or one whose declared features have changed; a pod that needs other ones."""
        if was := before_itself(pod, change):
            return required_features(was) != required_features(pod)
        return is_new_or_changed_node(change, lambda node: node.node.status.declared_features)

    def pre_filter(self, state: CycleState, pod: Pod, cache: Cache) -> Status | None:
        """Find the features that the pod needs; most need none."""
        state[self.name] = required_features(pod)
        return None if state[self.name] else SKIP

    def filter(self, state: CycleState, pod: Pod, node: NodeInfo) -> Status | None:
        """Reject a node that lacks one of them."""
        return None if state[self.name].issubset(node.node.status.declared_features) else NOT_DECLARED


@lru_cache(maxsize=1024)
def required_features(pod: Pod) -> frozenset[str]:
    """The names of the features that a pod needs."""
    required = set()
    for container in (*pod.spec.containers, *pod.spec.init_containers):
        for rule in container.restart_policy_rules:
            if rule.action == "RestartAllContainers":
                required.add(RESTART_ALL_CONTAINERS)
    if pod.spec.host_network and pod.spec.host_users is False:
        required.add(USER_NAMESPACES_HOST_NETWORK)
    return frozenset(required)
