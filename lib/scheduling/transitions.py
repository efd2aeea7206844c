"""What follows from what is seen of a pod with room: three tables, a row for each phase.

Nothing is done here. lib/service/follow_up.py does what a row says, in its order.

A list or a watch may be from before the binding, so it leaves some things open; a look-up doesn't.

Counterpart in kube-scheduler: handleAssumedPodDeletion and its callers in pkg/scheduler/eventhandlers.go
"""

from collections.abc import Mapping
from enum import Enum

from lib.kube.changes import AnyChange, Kind, unassigned_pod
from lib.kube.objects import Pod
from lib.scheduling.pod_life import Phase
from lib.scheduling.queue import why_ended


class Seen(Enum):
    """How a pod with room was seen."""

    WAITING = "without a node"
    ENDING = "without a node, and being deleted or finished"
    GONE = "not at all: it is gone, or was left out of a list of pods without a node, as it has one now"
    PLACED = "on the node that was picked for it"
    ELSEWHERE = "on another node"
    LEFT = "deleted from a node"


class Step(Enum):
    """What is to be done."""

    APPLY = "apply the change to the cache and to the queue"
    FREE = "undo the decision: its room is free, and the pods that this could help are woken"
    FREE_GROUP = "do the same with the other pods of its group that are held"
    NOTE_GONE = "remember that no list has the pod any more, or that it ends"
    LOOK_UP = "look it up now"
    LOOK_UP_SOON = "look it up, unless an answer comes within a second"
    REPORT = "report that it is bound: the answer that said so was lost"
    WARN = "warn that the API server said that it is bound, and it isn't"
    KEEP = "count it as bound until a list shows it; it is looked up again, as it may be deleted before that"


Steps = tuple[Step, ...]

APPLY, FREE, KEEP = (Step.APPLY,), (Step.FREE, Step.APPLY), (Step.APPLY, Step.KEEP)
FREE_ALL = Step.FREE, Step.FREE_GROUP, Step.APPLY
MOVED = Step.FREE, Step.APPLY, Step.KEEP

UNSENT: Mapping[Seen, Steps] = {
    Seen.WAITING: APPLY,
    Seen.ENDING: FREE_ALL,
    Seen.GONE: FREE_ALL,
    Seen.PLACED: FREE,
    Seen.ELSEWHERE: FREE,
    Seen.LEFT: FREE_ALL,
}

SHOWN: Mapping[Phase, Mapping[Seen, Steps]] = {
    Phase.ASSUMED: UNSENT,
    Phase.HELD: UNSENT,
    Phase.BINDING: {
        Seen.WAITING: APPLY,
        Seen.ENDING: (Step.NOTE_GONE, Step.LOOK_UP_SOON),
        Seen.GONE: (Step.NOTE_GONE, Step.LOOK_UP_SOON),
        Seen.PLACED: APPLY,
        Seen.ELSEWHERE: FREE,
        Seen.LEFT: APPLY,
    },
    Phase.DOUBTFUL: {
        Seen.WAITING: APPLY,
        Seen.ENDING: (Step.LOOK_UP,),
        Seen.GONE: (Step.LOOK_UP,),
        Seen.PLACED: (Step.REPORT, Step.APPLY),
        Seen.ELSEWHERE: FREE,
        Seen.LEFT: APPLY,
    },
    Phase.BOUND: {
        Seen.WAITING: (),
        Seen.ENDING: (),
        Seen.GONE: (Step.NOTE_GONE, Step.APPLY),
        Seen.PLACED: APPLY,
        Seen.ELSEWHERE: APPLY,
        Seen.LEFT: APPLY,
    },
}
"""What follows from a change that a list or a watch has shown."""

NO_NODE = Seen.WAITING, Seen.ENDING, Seen.GONE

SHOWN_IN_DRY_RUN = {**SHOWN, Phase.BOUND: {**SHOWN[Phase.BOUND], **dict.fromkeys(NO_NODE, FREE)}}
"""The same in a dry run: no pod that counts as bound is ever seen on its node."""

FOUND: Mapping[Phase, Mapping[Seen, Steps]] = {
    Phase.BINDING: {
        Seen.WAITING: (),
        Seen.ENDING: FREE,
        Seen.GONE: FREE,
        Seen.PLACED: (),
        Seen.ELSEWHERE: MOVED,
    },
    Phase.DOUBTFUL: {
        Seen.WAITING: FREE,
        Seen.ENDING: FREE,
        Seen.GONE: FREE,
        Seen.PLACED: (Step.REPORT, Step.APPLY, Step.KEEP),
        Seen.ELSEWHERE: MOVED,
    },
    Phase.BOUND: {
        Seen.WAITING: (Step.FREE, Step.WARN, Step.APPLY),
        Seen.ENDING: FREE,
        Seen.GONE: APPLY,
        Seen.PLACED: KEEP,
        Seen.ELSEWHERE: KEEP,
    },
}
"""What follows from a look-up. A pod in another phase has moved on since the look-up began."""

REFUSED: Mapping[Seen, Steps] = {
    Seen.WAITING: FREE,
    Seen.ENDING: FREE,
    Seen.GONE: FREE,
    Seen.PLACED: MOVED,
    Seen.ELSEWHERE: MOVED,
}
"""What follows from the look-up after a refused binding. If the pod has a node, another client bound it."""


def seen_in(change: AnyChange, node_name: str) -> Seen:
    """How a change shows a pod. node_name: the node that was picked for it."""
    pod, is_gone = unassigned_pod(change), change.kind == Kind.DELETED
    if pod:
        return Seen.GONE if is_gone else seen_as(pod, node_name)
    assert isinstance(change.object, Pod)
    return Seen.LEFT if is_gone else seen_as(change.object, node_name)


def seen_as(pod: Pod | None, node_name: str) -> Seen:
    """How a look-up shows a pod, None if it is gone. node_name: the node that was picked for it."""
    if not pod:
        return Seen.GONE
    if pod.spec.node_name:
        return Seen.PLACED if pod.spec.node_name == node_name else Seen.ELSEWHERE
    return Seen.ENDING if why_ended(pod) else Seen.WAITING
