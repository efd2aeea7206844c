"""Groups of pods: which group a pod is of, and how many of its pods must be placed together.

A label names a pod's group, and an annotation says how many pods the group has: all of them are placed, or
none is. With the label of the coscheduling plugin, a PodGroup says how many pods are needed.

Counterpart: pkg/coscheduling in sigs.k8s.io/scheduler-plugins
"""

from collections.abc import Sequence
from dataclasses import dataclass
from reprlib import repr as short

from lib.kube.objects import Pod

GROUP, SIZE = "poller/group", "poller/group-size"
POD_GROUP = "scheduling.x-k8s.io/pod-group"
COSCHEDULING = "scheduling.x-k8s.io"
"""The API group of the coscheduling plugin's PodGroups."""

REJECTING = "PodGroup"
"""Used instead of a plugin's name if a pod waits for other pods of its group."""

MAX_DIGITS = 9
"""A size with more digits is invalid: no cluster has that many pods."""


@dataclass(frozen=True)
class Group:
    """A group: its namespace and name, and the API group of its PodGroup; "" if it has none."""

    namespace: str
    name: str
    api: str = ""


def group_of(pod: Pod) -> Group | None:
    """The group of a pod; None if it has none."""
    labels = pod.metadata.labels
    if name := labels.get(GROUP):
        return Group(pod.metadata.namespace, name)
    if name := labels.get(POD_GROUP):
        return Group(pod.metadata.namespace, name, COSCHEDULING)
    return None


def annotated_size(pods: Sequence[Pod], group: Group) -> int | str:
    """The number of pods that a group has by its pods' annotations, or why it isn't known."""
    sizes = {pod.metadata.annotations.get(SIZE, "") for pod in pods}
    if len(sizes) > 1:
        different = ", ".join(size if len(size) <= MAX_DIGITS else short(size) for size in sorted(sizes))
        return f"annotation {SIZE} differs within group {group.name}: {different}"
    (size,) = sizes
    if not (size.isascii() and size.isdecimal() and len(size) <= MAX_DIGITS and int(size)):
        return f"annotation {SIZE} must say how many pods group {group.name} has, not {short(size)}"
    return int(size)
