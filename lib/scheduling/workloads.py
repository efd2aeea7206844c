"""Which pods belong together: those of one service, or of one ReplicaSet, StatefulSet or such.

Source: pkg/scheduler/framework/plugins/helper/spread.go, DefaultSelector
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from lib.kube.objects import LabelSelector, OwnerReference, Pod, Service


@dataclass
class Workloads:
    """What is known of services, and of the selectors of pods' controllers, by the controller's uid."""

    services: Iterable[Service] = ()
    selectors: Mapping[str, LabelSelector] = field(default_factory=dict)

    def selector_for(self, pod: Pod) -> LabelSelector | None:
        """What selects the pods that a pod belongs with; None when it belongs with none."""
        labels: dict[str, str] = {}
        for service in self.services:
            chosen = service.spec.selector
            if (
                chosen
                and service.metadata.namespace == pod.metadata.namespace
                and chosen.items() <= pod.metadata.labels.items()
            ):
                labels |= chosen
        owner = controller_of(pod)
        selector = self.selectors.get(owner.uid) if owner else None
        if selector:
            labels |= selector.match_labels
        expressions = selector.match_expressions if selector else ()
        return LabelSelector(labels, expressions) if labels or expressions else None


def controller_of(pod: Pod) -> OwnerReference | None:
    """The object that made a pod and looks after it."""
    return next((owner for owner in pod.metadata.owner_references if owner.controller), None)
