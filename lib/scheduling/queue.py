"""Which pods are to be placed, and which goes first."""

from collections.abc import Iterable

from lib.kube.objects import Pod
from lib.scheduling.framework import PreEnqueuePlugin, Profile, QueueSortPlugin


def why_passed_over(pod: Pod, profile: Profile) -> str | None:
    """Why no scheduler may place this pod now; None when it waits for one."""
    if pod.metadata.deletion_timestamp:
        return "is being deleted"
    if pod.status.phase in ("Succeeded", "Failed"):
        return "has finished"
    for plugin in profile.with_point(PreEnqueuePlugin):
        if status := plugin.pre_enqueue(pod):
            return ", ".join(status.reasons)
    return None


def in_order(pods: Iterable[Pod], profile: Profile) -> list[Pod]:
    """The pods in the order in which a profile places them."""
    (plugin,) = profile.with_point(QueueSortPlugin)
    return sorted(pods, key=plugin.queue_sort)
