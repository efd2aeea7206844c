"""PrioritySort: the highest priority goes first; with equal priority, the pod that has waited longest.

Source: pkg/scheduler/framework/plugins/queuesort/priority_sort.go
"""

from typing import Any

from lib.kube.objects import Pod


class PrioritySort:
    """Orders the queue."""

    name = "PrioritySort"

    def queue_sort(self, pod: Pod) -> Any:
        """By priority. The queue puts pods with equal keys in the order in which they came, or came back."""
        return -pod.spec.priority
