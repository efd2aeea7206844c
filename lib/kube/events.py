"""Events: what `kubectl describe` shows of a pod, and of the lease.

Source: client-go/tools/events/event_recorder.go, makeEvent
"""

import socket
from datetime import datetime
from hashlib import blake2b

from lib.kube.objects import Event, EventSource, ObjectMeta, ObjectReference, Pod

ACTIONS = {
    "Scheduled": "Binding",
    "FailedScheduling": "Scheduling",
    "Preempted": "Preempting",
    "BindingConditionsPending": "Scheduling",
}
"""What was done about the pod, by the event's reason: as kube-scheduler's events have it."""

MAX_NAME = 253
"""The longest name of an event; and of a pod."""

HOST = socket.gethostname()


def pod_event(
    pod: Pod, kind: str, reason: str, message: str, now: datetime, preemptor: Pod | None = None
) -> Event:
    """An event about a pod, in the name of its scheduler, or of the preemptor's. kind: Normal or Warning.

    A pod has one FailedScheduling event, and one event of another reason for each message.
    """
    component = (preemptor or pod).spec.scheduler_name
    event = event_about(
        _reference(pod),
        kind,
        reason,
        message,
        now,
        component,
        "" if reason == "FailedScheduling" else message,
    )
    event.action = ACTIONS[reason]
    event.related = _reference(preemptor) if preemptor else None
    event.reporting_instance = f"{component}-{HOST}"
    return event


def event_about(
    about: ObjectReference,
    kind: str,
    reason: str,
    message: str,
    now: datetime,
    component: str,
    distinction: str,
) -> Event:
    """An event about any object. Those that differ in their distinction have different names.

    The name is made of what the event says: so the API server refuses to create it twice.
    """
    parts = "\n".join((about.uid, component, reason, distinction))
    suffix = "." + blake2b(parts.encode(), digest_size=8).hexdigest()
    name = about.name[: MAX_NAME - len(suffix)].rstrip("-.") + suffix
    return Event(
        metadata=ObjectMeta(name=name, namespace=about.namespace),
        involved_object=about,
        reason=reason,
        message=message,
        type=kind,
        source=EventSource(component=component),
        count=1,
        first_timestamp=now,
        last_timestamp=now,
        reporting_component=component,
    )


def _reference(pod: Pod) -> ObjectReference:
    return ObjectReference(
        kind="Pod",
        name=pod.metadata.name,
        namespace=pod.metadata.namespace,
        uid=pod.metadata.uid,
        api_version="v1",
        resource_version=pod.metadata.resource_version,
    )
