"""PrioritySort: the highest priority goes first; with equal priority, the pod that has waited longest.

Source: pkg/scheduler/framework/plugins/queuesort/priority_sort.go
"""

from datetime import UTC, datetime
from typing import Any

from lib.kube.objects import Pod

_NEVER = datetime.max.replace(tzinfo=UTC)


class PrioritySort:
    """Orders the queue."""

    name = "PrioritySort"

    def queue_sort(self, pod: Pod) -> Any:
        """By priority, then age; then by name, so that the order is always the same."""
        return -pod.spec.priority, pod.metadata.creation_timestamp or _NEVER, str(pod)
