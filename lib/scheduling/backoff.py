"""How long a pod backs off.

Counterpart in kube-scheduler: pkg/scheduler/backend/queue/backoff_queue.go
"""

from dataclasses import dataclass

from lib.scheduling.pod_life import PodLife


@dataclass(frozen=True)
class BackoffSettings:
    """In seconds.

    A pod backs off for `initial_backoff`, twice as long after each attempt, but `max_backoff` at most. An
    unschedulable pod is tried again after `unschedulable`, even without any change.
    """

    initial_backoff: float = 1.0
    max_backoff: float = 10.0
    unschedulable: float = 300.0

    def ends_at(self, life: PodLife) -> float:
        """When a pod's backoff ends. Errors count by themselves, as long as there is no other result."""
        count = life.errors or life.rejections
        if not count:
            return 0.0
        # The limit keeps the float from overflowing.
        doubled = self.initial_backoff * 2.0 ** min(count - 1, 100)
        return life.timestamp + min(doubled, self.max_backoff)
