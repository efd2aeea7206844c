"""What is written about pods: bindings, events, conditions, evictions, nominations.

Each function returns a write, in the name of the scheduler that the pod names. `now` is in UTC, in whole
seconds.
"""

import logging
import socket
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

from lib.kube.errors import ApiError, ConflictError, NotFoundError
from lib.kube.events import event_about
from lib.kube.objects import DISRUPTED, Binding, Event, ObjectMeta, ObjectReference, Pod, PodCondition, Status
from lib.kube.paths import path_of
from lib.kube.write import Pause, Request, Write

log = logging.getLogger(__name__)

REPEAT, LONGEST_REST = 30, 10
"""In seconds: an event with the same message isn't written more often than this; one whose message changes
with each attempt neither, but after less time, as long as there were fewer attempts."""

ACTIONS = {
    "Scheduled": "Binding",
    "FailedScheduling": "Scheduling",
    "Preempted": "Preempting",
    "BindingConditionsPending": "Scheduling",
}
"""What was done about the pod, by the event's reason: as kube-scheduler's events have it."""

HOST = socket.gethostname()

PREEMPTED = "Preempted by pod {} on node {}"

BOUND_BY_ANOTHER = "was bound by someone else"


def bind(
    pod: Pod, node_name: str, annotations: Mapping[str, str], may_repeat: Callable[[], bool] = lambda: True
) -> Write[tuple[str, Pod | None]]:
    """Assign a pod to a node. Returns "" if it is bound there; else what happened to it before.

    That completes "pod X …"; with it comes the pod as it is now, None if it is gone. ApiError when that could
    not be found out. annotations: set on the pod in the same write. The binding carries the pod's uid: the
    API server refuses it for another pod of the same name. may_repeat: whether a binding that has failed may
    be sent again; if not, its last error is raised.
    """
    named = pod.metadata
    metadata = ObjectMeta(
        name=named.name, namespace=named.namespace, uid=named.uid, annotations=dict(annotations)
    )
    body = Binding(metadata=metadata, target=ObjectReference(kind="Node", name=node_name, api_version="v1"))
    path = path_of("pods", named.namespace, named.name)
    create = Request("POST", f"{path}/binding", Status, body, repeatable=False)
    lost, refused = False, None  # lost: whether an earlier try may have bound the pod
    last: ApiError | None = None
    while True:
        try:
            if lost or refused:
                found = yield from _found(pod, node_name if lost else "")
                if found:
                    return found
                if refused:  # it still waits, and is refused for another reason: the server's words
                    raise refused
            if last and not may_repeat():
                break
            yield create
            return "", None
        except ApiError as error:
            last, may_pass = error, error.transient or error.may_be_written
            lost = error.may_be_written = lost or error.may_be_written
            if isinstance(error, ConflictError | NotFoundError) and error is not refused:
                refused = error
            elif may_pass:
                yield Pause(error)
            else:
                raise
    raise last


def _found(pod: Pod, node_name: str) -> Write[tuple[str, Pod | None] | None]:
    """What became of a pod that was to be bound; None if it still waits.

    node_name: where an earlier try may have bound it.
    """
    try:
        now = yield from look_up(pod)
    except ApiError as error:
        error.may_be_written = False  # a lookup that fails makes no binding ours
        raise
    if not now:
        return "was deleted, or deleted and recreated", None
    if now.spec.node_name:
        return "" if now.spec.node_name == node_name else BOUND_BY_ANOTHER, now
    if now.metadata.deletion_timestamp:
        return "is being deleted", now
    return ("has scheduling gates", now) if now.spec.scheduling_gates else None


def look_up(pod: Pod) -> Write[Pod | None]:
    """The pod as it is now; None if it is gone. ApiError when that can't be found out."""
    try:
        now: Pod = yield Request("GET", _path(pod), Pod)
    except NotFoundError:
        return None
    return now if now.metadata.uid == pod.metadata.uid else None


def record(pod: Pod, reason: str, message: str, now: datetime, preemptor: Pod | None = None) -> Write[bool]:
    """Write an event that tells of nothing bad, such as "Scheduled". Returns whether it is new."""
    return _create(pod_event(pod, "Normal", reason, message, now, preemptor))


def mark_unscheduled(
    pod: Pod, reason: str, message: str, now: datetime, nominated: str | None = None, version: str = ""
) -> Write[None]:
    """Set the condition PodScheduled=False, and the nominated node, in one request.

    reason: "Unschedulable", which autoscalers act on, or "SchedulerError". nominated: the node's name, "" for
    none, None to leave it unchanged. version: if given, the resource version that the pod must have. What the
    pod has already isn't written. NotFoundError or ConflictError when there is no such pod any more.
    """
    status: dict[str, object] = {}
    held = next((condition for condition in pod.status.conditions if condition.type == "PodScheduled"), None)
    if not held or (held.status, held.reason, held.message) != ("False", reason, message):
        since = held.last_transition_time if held and held.status == "False" else None
        generation = pod.metadata.generation
        condition = PodCondition("PodScheduled", "False", reason, message, since or now, generation)
        status["conditions"] = [condition]
    if nominated is not None:
        status["nominatedNodeName"] = nominated
    if status:
        yield patch_status(pod, status, version)


def evict(
    victim: Pod, preemptor: Pod, node_name: str, now: datetime, has_room: Callable[[], bool] = lambda: True
) -> Write[None]:
    """Evict a pod for a more important one: write a condition that says why, and delete it gracefully.

    has_room: whether the victim still has room on the node. Once it has none, it isn't evicted.
    """
    if victim.metadata.deletion_timestamp or not has_room():  # it leaves, or has left
        return
    why = f"{preemptor.spec.scheduler_name}: preempting to accommodate a higher priority pod"
    condition = PodCondition(*DISRUPTED, why, now, victim.metadata.generation)
    options = {"kind": "DeleteOptions", "apiVersion": "v1", "preconditions": {"uid": victim.metadata.uid}}
    try:
        yield patch_status(victim, {"conditions": [condition]})
        if not has_room():
            return
        yield Request("DELETE", _path(victim), body=options)
    except (NotFoundError, ConflictError) as error:
        log.debug("%s has gone by itself: %s", victim, error)
        return
    yield from record(
        victim, "Preempted", PREEMPTED.format(preemptor.metadata.uid, node_name), now, preemptor
    )


def nominate(pod: Pod, node_name: str) -> Write[None]:
    """Write a pod's nominated node, unless the pod has it already; "" removes it."""
    if node_name and pod.status.nominated_node_name == node_name:
        return
    try:
        yield patch_status(pod, {"nominatedNodeName": node_name})
    except (NotFoundError, ConflictError) as error:
        log.debug("%s is not nominated: %s", pod, error)


@dataclass
class FailedSchedulingEvent:
    """A pod's event as it was written last, which counts the attempts. at: when; None if there is none."""

    message: str = ""
    count: int = 0
    at: datetime | None = None

    def record(self, pod: Pod, message: str, now: datetime) -> Write[None]:
        """Write the event when its message changes, otherwise every 30 s. Earlier runs are counted on."""
        event = pod_event(pod, "Warning", "FailedScheduling", message, now)
        path = path_of("events", pod.metadata.namespace, event.metadata.name)
        patch = {"message": message, "lastTimestamp": now}
        if self.at:
            self.count += 1
            rest = REPEAT if self.message == message else min(self.count - 2, LONGEST_REST)
            if abs(now - self.at) < timedelta(seconds=rest):
                return
            try:
                yield Request("PATCH", path, Event, {"count": self.count, **patch})
            except NotFoundError:  # events expire, after an hour as a rule
                self.at = None
        if not self.at:
            self.count = 1
            if not (yield from _create(event)):
                before: Event = yield Request("PATCH", path, Event, patch)
                self.count = before.count + 1
                yield Request("PATCH", path, Event, {"count": self.count})
        self.message, self.at = message, now


def pod_event(
    pod: Pod, kind: str, reason: str, message: str, now: datetime, preemptor: Pod | None = None
) -> Event:
    """An event about a pod, in the name of its scheduler, or of the preemptor's. kind: Normal or Warning.

    A pod has one FailedScheduling event, and one event of another reason for each message.
    """
    component = (preemptor or pod).spec.scheduler_name
    distinction = "" if reason == "FailedScheduling" else message
    event = event_about(_reference(pod), kind, reason, message, now, component, distinction)
    event.action = ACTIONS[reason]
    event.related = _reference(preemptor) if preemptor else None
    event.reporting_instance = f"{component}-{HOST}"
    return event


def _create(event: Event) -> Write[bool]:
    """Create an event; returns whether it is new. If not, an earlier run wrote it."""
    try:
        yield Request("POST", path_of("events", event.metadata.namespace), Event, event)
    except ConflictError as error:
        return error.may_be_written  # then an earlier try wrote it
    return True


def patch_status(pod: Pod, status: Mapping[str, object], version: str = "") -> Request:
    """The request that changes fields of a pod's status. version: the resource version that it must have."""
    metadata = {"uid": pod.metadata.uid} | ({"resourceVersion": version} if version else {})
    return Request("PATCH", f"{_path(pod)}/status", Pod, {"metadata": metadata, "status": status})


def _path(pod: Pod) -> str:
    return path_of("pods", pod.metadata.namespace, pod.metadata.name)


def _reference(pod: Pod) -> ObjectReference:
    named = pod.metadata
    return ObjectReference("Pod", named.name, named.namespace, named.uid, "v1", named.resource_version)
