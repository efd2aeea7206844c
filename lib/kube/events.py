"""Events: what `kubectl describe` shows of a pod, and of the lease.

Source: client-go/tools/events/event_recorder.go, makeEvent
"""

from datetime import datetime
from hashlib import blake2b

from lib.kube.objects import MAX_NAME, Event, EventSource, ObjectMeta, ObjectReference


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
