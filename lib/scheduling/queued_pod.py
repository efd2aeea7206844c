"""A pod in the scheduling queue, and how long it backs off.

Counterpart in kube-scheduler: QueuedPodInfo in pkg/scheduler/framework/types.go, and
pkg/scheduler/backend/queue/backoff_queue.go
"""

from collections.abc import Collection
from dataclasses import dataclass, field
from enum import Enum

from lib.kube.objects import Pod


class Where(Enum):
    """Which part of the queue a pod is in."""

    ACTIVE = "active"
    BACKOFF = "backoff"
    UNSCHEDULABLE = "unschedulable"
    PERMIT_WAIT = "waiting"
    """A node is reserved for it; it waits until the Permit plugins agree."""


@dataclass
class QueuedPod:
    """A pod in the queue. Times are in seconds."""

    pod: Pod
    timestamp: float
    """When it was seen first, and later, when it was tried last. Of pods with the same priority, the earliest
    goes first."""
    since: float = 0.0
    """When it was queued for the first time."""
    where: Where = Where.ACTIVE
    attempts: int = 0
    """The number of attempts without success: `rejections`, and errors."""
    rejections: int = 0
    errors: int = 0
    """How many attempts in a row, up to the last one, have ended with an error."""
    rejected_by: Collection[str] = field(default_factory=frozenset)
    """The plugins that rejected it; their hints say what could help. Empty after an error."""
    reason: str = ""
    """Why it has no node."""
    victims: set[str] = field(default_factory=set)
    """The uids of the pods that have not yet left a node for it."""
    flushed: bool = False
    """Whether it is tried because it was unschedulable for too long, not because of a change."""


@dataclass(frozen=True)
class BackoffSettings:
    """In seconds.

    A pod backs off for `initial_backoff`, twice as long after each attempt, but `max_backoff` at most. An
    unschedulable pod is tried again after `unschedulable`, even without any change.
    """

    initial_backoff: float = 1.0
    max_backoff: float = 10.0
    unschedulable: float = 300.0

    def ends_at(self, queued: QueuedPod) -> float:
        """When a pod's backoff ends. Errors count by themselves, as long as there is no other result."""
        count = queued.errors or queued.rejections
        if not count:
            return 0.0
        # The limit keeps the float from overflowing.
        doubled = self.initial_backoff * 2.0 ** min(count - 1, 100)
        return queued.timestamp + min(doubled, self.max_backoff)
