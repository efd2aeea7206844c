"""What came of a decision: `finish` in poller.py shows what follows from each result."""

from dataclasses import dataclass
from enum import Enum, auto

from lib.kube.errors import ApiError
from lib.kube.objects import Pod
from lib.scheduling.decision import Decision


class Result(Enum):
    """The result of a decision."""

    BOUND = auto()
    """Bound, as the API server, a Bind plugin or an extender says."""
    NOT_WRITTEN = auto()
    """A dry run: it would be bound, but nothing is written."""
    WAITING = auto()
    """A Permit or PreBind plugin says: not yet."""
    UNSCHEDULABLE = auto()
    """The scheduling cycle found no node, or a plugin failed in it."""
    TAKEN = auto()
    """Another program bound, changed or deleted the pod."""
    FAILED = auto()
    """The binding was not written, or a PreBind or Bind plugin rejected the node."""
    DOUBTFUL = auto()
    """Whether the binding was written isn't known."""
    NOT_SENT = auto()
    """The API server could not be reached, or poller is shutting down."""
    OVERTAKEN = auto()
    """The binding failed, or was not sent: what became of the pod was seen before that."""
    FOUND = auto()
    """A pod that may be bound was looked up."""
    NOT_FOUND_OUT = auto()
    """A pod that may be bound could not be looked up."""
    NOT_RECORDED = auto()
    """The pod was not scheduled, and that could not be written: no API server, or a victim that stays."""


@dataclass(frozen=True)
class Completed:
    """A decision with its result."""

    decision: Decision
    result: Result
    why: str = ""
    """What happened to a pod that is TAKEN."""
    error: ApiError | None = None
    """Why the result is FAILED, DOUBTFUL or NOT_FOUND_OUT."""
    now: Pod | None = None
    """A pod that is TAKEN or FOUND, as it is now; None if it is gone."""
