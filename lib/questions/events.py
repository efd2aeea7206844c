"""A scheduler's messages about a pod: its events, and its condition PodScheduled."""

from collections.abc import Container
from dataclasses import dataclass
from datetime import datetime

from lib.kube.api import Api
from lib.kube.errors import ForbiddenError, NotFoundError
from lib.kube.objects import Event, NamedObject, Pod
from lib.kube.system import MACHINE
from lib.questions.snapshot import Snapshot

REASONS = ("FailedScheduling", "Scheduled", "Preempted", "WaitingForPodScheduled")
"""The reasons of events that schedulers write."""


@dataclass(frozen=True)
class Said:
    """The last message about a pod: by whom, how often, and when, if that is known."""

    by: str
    reason: str
    message: str
    at: datetime | None
    times: int = 1

    @classmethod
    def of(cls, event: Event) -> "Said":
        """What an event says."""
        return cls(event.said_by, event.reason, event.message, event.said_at, event.times)

    @property
    def ago(self) -> str:
        """The time since then, as kubectl writes it: 12s ago, 5m ago, 3h ago, 9d ago; "" if unknown."""
        if self.at is None:
            return ""
        seconds = max(int((MACHINE.now() - self.at).total_seconds()), 0)
        for unit, size in (("d", 86400), ("h", 3600), ("m", 60)):
            if seconds >= 2 * size:
                return f"{seconds // size}{unit} ago"
        return f"{seconds}s ago"


def read_events(api: Api, snapshot: Snapshot, thing: NamedObject) -> None:
    """Add the events of a pod, or of a claim, to a snapshot."""
    namespace, uid = thing.metadata.namespace, thing.metadata.uid
    path = f"/api/v1/namespaces/{namespace}/events"
    try:
        found = api.list(path, Event, fieldSelector=f"involvedObject.uid={uid}")
    except (ForbiddenError, NotFoundError) as error:
        snapshot.note(f"going on without the events of {thing}: {error}")
        return
    snapshot.of(Event).extend(found.items)


def last_said(snapshot: Snapshot, pod: Pod) -> Said | None:
    """A scheduler's last message about a pod: its newest event, else its condition PodScheduled."""
    said = last_said_of(snapshot, pod.metadata.uid, REASONS)
    for condition in pod.status.conditions if said is None else ():
        if condition.type == "PodScheduled" and condition.status == "False":
            return Said(
                pod.spec.scheduler_name, condition.reason, condition.message, condition.last_transition_time
            )
    return said


def last_said_of(snapshot: Snapshot, uid: str, reasons: Container[str] | None = None) -> Said | None:
    """The newest event of the object with this uid; only for these reasons, if there are any."""
    dated = [
        (event.said_at, event)
        for event in snapshot.of(Event)
        if event.involved_object.uid == uid and event.said_at and (reasons is None or event.reason in reasons)
    ]
    return Said.of(max(dated, key=lambda event: event[0])[1]) if dated else None
