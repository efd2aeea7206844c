"""Which pods belong together: all pods of a group are placed in one tick, or none is.

A label names a pod's group, and an annotation says how many pods the group has. Or the label is that of the
coscheduling plugin, and a PodGroup says how many pods are needed.

Counterpart: pkg/coscheduling in sigs.k8s.io/scheduler-plugins
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from lib.kube.objects import Pod

GROUP, SIZE = "poller/group", "poller/group-size"
POD_GROUP = "scheduling.x-k8s.io/pod-group"
REJECTING = "PodGroup"
"""Stands where a plugin's name would, if a pod waits for other pods of its group."""


@dataclass(frozen=True)
class Group:
    """A group: its namespace, its name, and the label that names it."""

    namespace: str
    name: str
    label: str


def group_of(pod: Pod) -> Group | None:
    """The group of a pod; None if it is in none."""
    for label in (GROUP, POD_GROUP):
        if name := pod.metadata.labels.get(label):
            return Group(pod.metadata.namespace, name, label)
    return None


def present_in(pod: Pod) -> Group | None:
    """The group in which a pod counts as present: one that is being deleted doesn't."""
    return None if pod.metadata.deletion_timestamp else group_of(pod)


def batches(pods: Iterable[Pod]) -> Iterator[list[Pod]]:
    """The pods in order, one by one, but all pods of a group together, at the place of the first."""
    together: dict[object, list[Pod]] = {}
    for pod in pods:
        together.setdefault(group_of(pod) or pod.metadata.uid, []).append(pod)
    yield from together.values()
