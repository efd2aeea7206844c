"""Groups of pods: all pods of a group are scheduled in one tick, or none is.

A label names a pod's group, and an annotation says how many pods the group has. With the label of the
coscheduling plugin, a PodGroup says how many pods are needed.

Counterpart: pkg/coscheduling in sigs.k8s.io/scheduler-plugins
"""

from dataclasses import dataclass

from lib.kube.objects import Pod

GROUP, SIZE = "poller/group", "poller/group-size"
POD_GROUP = "scheduling.x-k8s.io/pod-group"
REJECTING = "PodGroup"
"""Used instead of a plugin's name if a pod waits for other pods of its group."""


@dataclass(frozen=True)
class Group:
    """A group: its namespace, its name, and the label that names it."""

    namespace: str
    name: str
    label: str


def group_of(pod: Pod) -> Group | None:
    """The group of a pod; None if it has none."""
    for label in (GROUP, POD_GROUP):
        if name := pod.metadata.labels.get(label):
            return Group(pod.metadata.namespace, name, label)
    return None
