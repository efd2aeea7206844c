"""Which pods belong together: those of one service, ReplicaSet, StatefulSet or such.

Source: pkg/scheduler/framework/plugins/helper/spread.go, DefaultSelector
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from lib.kube.objects import ControllerRef, LabelSelector, Pod, Service


@dataclass
class Workloads:
    """The known services, and the selectors of pods' controllers."""

    services: Iterable[Service] = ()
    selectors: Mapping[ControllerRef, LabelSelector] = field(default_factory=dict)

    def selector_for(self, pod: Pod) -> LabelSelector | None:
        """The selector of the pods that a pod belongs to; None if there is none."""
        labels: dict[str, str] = {}
        for service in self.services:
            chosen = service.spec.selector
            if (
                chosen
                and service.metadata.namespace == pod.metadata.namespace
                and chosen.items() <= pod.metadata.labels.items()
            ):
                labels |= chosen
        controller = controller_of(pod)
        selector = self.selectors.get(controller) if controller else None
        if selector:
            labels |= selector.match_labels
        expressions = selector.match_expressions if selector else ()
        return LabelSelector(labels, expressions) if labels or expressions else None


def controller_of(pod: Pod) -> ControllerRef | None:
    """The controller of a pod; None if it has none."""
    for owner in pod.metadata.owner_references:
        if owner.controller:
            namespace = pod.metadata.namespace
            return ControllerRef(namespace, owner.api_version, owner.kind, owner.name, owner.uid)
    return None


TEMPLATE_HASH = "pod-template-hash"
"""A label of the pods of a Deployment: those of another template have another value."""

MIRROR = "kubernetes.io/config.mirror"
"""An annotation of the pods that show a node's static pods."""


def belongs_to_node(pod: Pod) -> bool:
    """Whether a pod belongs to its node: a DaemonSet's pod, or a static one."""
    static = MIRROR in pod.metadata.annotations
    return static or any(owner.kind in ("DaemonSet", "Node") for owner in pod.metadata.owner_references)
