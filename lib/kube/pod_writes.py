"""What is written about pods: bindings, events, conditions, evictions, nominations.

Each function returns a write, in the name of the scheduler that the pod names. `now` is in UTC, in whole
seconds.
"""

import logging
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import Enum

from lib.kube.errors import ApiError, ConflictError, NotFoundError
from lib.kube.events import pod_event
from lib.kube.objects import Binding, Event, ObjectMeta, ObjectReference, Pod, Status
from lib.kube.paths import path_of
from lib.kube.write import Request, Write, once

log = logging.getLogger(__name__)

REPEAT = timedelta(seconds=30)
"""An event with the same message isn't written more often than this."""

LONGEST_REST = 10
"""An event whose message changes with each attempt isn't written more often than after so many seconds: after
fewer, as long as there were fewer attempts."""


class Fate(Enum):
    """What became of a pod that was to be bound; the value completes "pod X …"."""

    BOUND = "is bound"
    TAKEN = "was bound by someone else"
    GONE = "was deleted, or deleted and recreated"
    DELETING = "is being deleted"
    GATED = "has scheduling gates"


def bind(pod: Pod, node_name: str, annotations: Mapping[str, str]) -> Write[tuple[Fate, Pod | None]]:
    """Assign a pod to a node; returns what became of the pod, and the pod if it was looked up.

    ApiError when that could not be found out. annotations: set on the pod in the same write. The binding
    carries the pod's uid: the API server refuses it for another pod of the same name.
    """
    metadata = ObjectMeta(
        name=pod.metadata.name,
        namespace=pod.metadata.namespace,
        uid=pod.metadata.uid,
        annotations=dict(annotations),
    )
    target = ObjectReference(kind="Node", name=node_name, api_version="v1")
    body = Binding(metadata=metadata, target=target)

    def found(may_be_ours: bool) -> Write[tuple[Fate, Pod | None] | None]:
        now = yield from look_up(pod)
        if not now:
            return Fate.GONE, None
        if now.spec.node_name:
            ours = may_be_ours and now.spec.node_name == node_name
            return Fate.BOUND if ours else Fate.TAKEN, now
        if now.metadata.deletion_timestamp:
            return Fate.DELETING, now
        return (Fate.GATED, now) if now.spec.scheduling_gates else None

    def refused(error: ApiError, lost: bool) -> Write[tuple[Fate, Pod | None]]:
        fate = yield from found(may_be_ours=lost)
        if fate is None:  # it still waits, and is refused for another reason: the server's words
            raise error
        return fate

    create = Request("POST", f"{_path(pod)}/binding", Status, body)
    return once(create, lambda: found(may_be_ours=True), refused, lambda _: (Fate.BOUND, None))


def look_up(pod: Pod) -> Write[Pod | None]:
    """The pod as it is now; None if it is gone. ApiError when that can't be found out."""
    try:
        now: Pod = yield Request("GET", _path(pod), Pod)
    except NotFoundError:
        return None
    return now if now.metadata.uid == pod.metadata.uid else None


def record_scheduled(pod: Pod, message: str, now: datetime) -> Write[Event]:
    """Write the event that `kubectl describe pod` shows for a bound pod."""
    return _create_event(pod_event(pod, "Normal", "Scheduled", message, now))


def mark_unscheduled(
    pod: Pod, reason: str, message: str, now: datetime, nominated: str | None = None, version: str = ""
) -> Write[None]:
    """Set the condition PodScheduled=False, and the nominated node, in one request.

    reason: "Unschedulable", which autoscalers act on, or "SchedulerError". nominated: the node's name, "" for
    none, None to leave it unchanged. version: if given, the resource version that the pod must have. What the
    pod has already isn't written. NotFoundError or ConflictError when there is no such pod any more.
    """
    status: dict[str, object] = {}
    held = next((each for each in pod.status.conditions if each.type == "PodScheduled"), None)
    if not held or (held.status, held.reason, held.message) != ("False", reason, message):
        since = held.last_transition_time if held and held.status == "False" else None
        condition = {
            "type": "PodScheduled",
            "status": "False",
            "reason": reason,
            "message": message,
            "lastTransitionTime": since or now,
            "observedGeneration": pod.metadata.generation,
        }
        status["conditions"] = [condition]
    if nominated is not None:
        status["nominatedNodeName"] = nominated
    if status:
        yield _patch_status(pod, status, version)


def evict(victim: Pod, preemptor: Pod, node_name: str, now: datetime) -> Write[None]:
    """Evict a pod for a more important one: write a condition that says why, and delete it gracefully."""
    if victim.metadata.deletion_timestamp:  # it is being deleted already
        return
    condition = {
        "type": "DisruptionTarget",
        "status": "True",
        "reason": "PreemptionByScheduler",
        "message": f"{preemptor.spec.scheduler_name}: preempting to accommodate a higher priority pod",
        "lastTransitionTime": now,
        "observedGeneration": victim.metadata.generation,
    }
    options = {"kind": "DeleteOptions", "apiVersion": "v1", "preconditions": {"uid": victim.metadata.uid}}
    try:
        yield _patch_status(victim, {"conditions": [condition]})
        yield Request("DELETE", _path(victim), body=options)
    except (NotFoundError, ConflictError) as error:
        log.debug("%s has gone by itself: %s", victim, error)
        return
    yield from record_preempted(victim, preemptor, node_name, now)


def record_preempted(
    victim: Pod, preemptor: Pod, node_name: str, now: datetime, how: str = ""
) -> Write[None]:
    """Write the event of a pod that gives way to a more important one. how: words that end the message."""
    words = f"Preempted by pod {preemptor.metadata.uid} on node {node_name}{how}"
    yield from _create_event(pod_event(victim, "Normal", "Preempted", words, now, preemptor))


def nominate(pod: Pod, node_name: str) -> Write[None]:
    """Write a pod's nominated node; "" removes it."""
    try:
        yield _patch_status(pod, {"nominatedNodeName": node_name})
    except (NotFoundError, ConflictError) as error:
        log.debug("%s is not nominated: %s", pod, error)


@dataclass
class _Written:
    """The FailedScheduling event of a pod, as it was written last."""

    name: str
    message: str
    count: int
    at: datetime


class FailedSchedulingEvent:
    """The event of a pod that fits nowhere. A pod has one, which counts the attempts."""

    def __init__(self) -> None:
        self._written: _Written | None = None

    def record(self, pod: Pod, message: str, now: datetime) -> Write[None]:
        """Write the event when its message changes, otherwise every 30 s.

        The event of an earlier run has the same name, and is counted on.
        """
        if written := self._written:
            written.count += 1
            rest = timedelta(seconds=min(written.count - 2, LONGEST_REST))
            if abs(now - written.at) < (REPEAT if written.message == message else rest):
                return
            patch = {"count": written.count, "message": message, "lastTimestamp": now}
            try:
                yield Request("PATCH", _event_path(pod, written.name), Event, patch)
            except NotFoundError:  # events expire, after an hour as a rule
                self._written = None
            else:
                written.message, written.at = message, now
                return
        event = pod_event(pod, "Warning", "FailedScheduling", message, now)
        count = 1
        try:
            yield from _create_event(event)
        except ConflictError:  # an earlier run wrote it
            path = _event_path(pod, event.metadata.name)
            before: Event = yield Request("PATCH", path, Event, {"message": message, "lastTimestamp": now})
            count = before.count + 1
            yield Request("PATCH", path, Event, {"count": count})
        self._written = _Written(event.metadata.name, message, count, now)


def _create_event(event: Event) -> Write[Event]:
    """Create an event, or find that an earlier try did. ConflictError when another write did."""

    def refused(error: ApiError, lost: bool) -> Write[Event]:
        is_ours = lost or event.reason != "FailedScheduling"  # each attempt counts on that one
        if is_ours and isinstance(error, ConflictError):
            return event
        raise error
        yield  # a generator, as all writes

    def not_looked_up() -> Write[Event | None]:  # a second one is refused, by its name
        return None
        yield

    create = Request("POST", path_of("events", event.metadata.namespace), Event, event)
    return once(create, not_looked_up, refused, lambda _: event)


def _patch_status(pod: Pod, status: Mapping[str, object], version: str = "") -> Request:
    metadata = {"uid": pod.metadata.uid} | ({"resourceVersion": version} if version else {})
    return Request("PATCH", f"{_path(pod)}/status", Pod, {"metadata": metadata, "status": status})


def _path(pod: Pod) -> str:
    return path_of("pods", pod.metadata.namespace, pod.metadata.name)


def _event_path(pod: Pod, name: str) -> str:
    return path_of("events", pod.metadata.namespace, name)
