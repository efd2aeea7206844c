"""Which pod is next."""

from collections.abc import Iterable
from datetime import UTC, datetime

from lib.kube.objects import Pod

_NEVER = datetime.max.replace(tzinfo=UTC)


def by_priority_then_age(pods: Iterable[Pod]) -> list[Pod]:
    """Highest priority first, among equals the oldest, as PrioritySort orders kube-scheduler's queue."""
    return sorted(
        pods, key=lambda pod: (-pod.spec.priority, pod.metadata.creation_timestamp or _NEVER, str(pod))
    )


def why_passed_over(pod: Pod) -> str | None:
    """Why no scheduler may place this pod now; None when it waits for one."""
    if pod.metadata.deletion_timestamp:
        return "is being deleted"
    if pod.spec.scheduling_gates:
        return "has scheduling gates"
    if pod.status.phase in ("Succeeded", "Failed"):
        return "has finished"
    return None
