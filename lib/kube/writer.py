"""Writes the results of decisions: bindings, events, pod conditions, evictions, nominations.

A write whose answer was lost may have happened: it is looked up before it is made again.
"""

import logging
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import Enum
from threading import Lock
from typing import TypeVar

from lib.kube.api import Api
from lib.kube.errors import ApiError, ConflictError, NotFoundError
from lib.kube.in_flight import PendingResponse
from lib.kube.objects import Binding, Event, EventSource, ObjectMeta, ObjectReference, Pod, Status
from lib.kube.paths import field_value, path_of, paths_of
from lib.kube.write import Write, Writes

log = logging.getLogger(__name__)

Created = TypeVar("Created")

REPEAT = timedelta(seconds=30)
"""An event with the same message isn't written more often than this."""


class BindResult(Enum):
    """The result of a binding; the value completes "pod X …"."""

    BOUND = "is bound"
    TAKEN = "was bound by someone else"
    GONE = "was deleted, or deleted and recreated"
    DELETING = "is being deleted"
    GATED = "has scheduling gates"
    STILL_PENDING = "still waits"


@dataclass
class _Failure:
    """The FailedScheduling event of a pod, as it was written last."""

    name: str
    message: str
    count: int
    written: datetime


class Writer:
    """Writes for several schedulers: each write is in the name of the scheduler that the pod names.

    namespaces: those of the pods; empty for all. `now` is in UTC, in whole seconds. Several threads may write
    at the same time, about different pods.
    """

    def __init__(self, api: Api, scheduler_names: Collection[str], namespaces: Sequence[str] = ()) -> None:
        self._api = api
        self._names = scheduler_names
        self._namespaces = namespaces
        self._earlier: dict[str, Event] | None = None
        self._listing = Lock()
        self._failures: dict[str, _Failure] = {}

    def begin_binding(
        self, pod: Pod, node_name: str, annotations: Mapping[str, str]
    ) -> PendingResponse[Status]:
        """Assign a pod to a node without waiting. After an ApiError, call `bind` with it."""
        return self._api.begin_create(*_binding(pod, node_name, annotations), Status)

    def bind(
        self, pod: Pod, node_name: str, annotations: Mapping[str, str], failed: ApiError | None = None
    ) -> tuple[BindResult, Pod | None]:
        """Assign a pod to a node; returns the result, and the pod if it was looked up.

        ApiError when the result could not be found out. annotations: set on the pod in the same write.
        failed: the error of a first try.

        The binding carries the pod's uid: the API server refuses it for another pod of the same name.
        """

        def refused(error: ApiError, lost: bool) -> tuple[BindResult, Pod | None]:
            found = self._look(pod, node_name, may_be_ours=lost)
            if found[0] == BindResult.STILL_PENDING:  # refused for another reason: the server's words
                raise error
            return found

        def look() -> tuple[BindResult, Pod | None] | None:
            found = self._look(pod, node_name, may_be_ours=True)
            return None if found[0] == BindResult.STILL_PENDING else found

        def bind() -> tuple[BindResult, Pod | None]:
            self._api.create(*_binding(pod, node_name, annotations), Status)
            return BindResult.BOUND, None

        return self._create_once(bind, look, refused, failed)

    def _create_once(
        self,
        create: Callable[[], Created],
        look: Callable[[], Created | None],
        refused: Callable[[ApiError, bool], Created],
        failed: ApiError | None,
    ) -> Created:
        """Create something, and retry as long as that is worth it. failed: the error of a first try.

        look: called before each retry; returns what an earlier try may have created, or None. refused: called
        at a conflict, with whether an earlier try may have succeeded; returns the result. The error raised in
        the end is `unsettled` if that of any try was.
        """
        lost = False
        try:
            for attempt in self._api.retrying(lambda error: error.transient or error.unsettled):
                with attempt:
                    if lost and (found := look()) is not None:
                        return found
                    try:
                        if failed:
                            first, failed = failed, None
                            raise first
                        return create()
                    except (ConflictError, NotFoundError) as error:
                        return refused(error, lost)
                    except ApiError as error:
                        lost = lost or error.unsettled
                        raise
        except ApiError as error:
            error.unsettled = error.unsettled or lost
            raise
        raise AssertionError("a retried call returns or raises")

    def _look(self, pod: Pod, node_name: str, *, may_be_ours: bool) -> tuple[BindResult, Pod | None]:
        """Look up what has become of a pod in the meantime."""
        now = self.look_up(pod)
        if not now:
            return BindResult.GONE, None
        if now.spec.node_name:
            ours = may_be_ours and now.spec.node_name == node_name
            return BindResult.BOUND if ours else BindResult.TAKEN, now
        if now.metadata.deletion_timestamp:
            return BindResult.DELETING, now
        return BindResult.GATED if now.spec.scheduling_gates else BindResult.STILL_PENDING, now

    def look_up(self, pod: Pod) -> Pod | None:
        """The pod as it is now; None if it is gone. ApiError when that can't be found out."""
        try:
            now = self._api.get(_path(pod), Pod)
        except NotFoundError:
            return None
        return now if now.metadata.uid == pod.metadata.uid else None

    def begin_scheduled(self, pod: Pod, message: str, now: datetime) -> PendingResponse[Event]:
        """Write, without waiting, the event that `kubectl describe pod` shows for a bound pod."""
        return self._api.begin_create(*_scheduled(pod, message, now), Event)

    def record_scheduled(self, pod: Pod, message: str, now: datetime, failed: ApiError | None = None) -> None:
        """Write that event, and wait. failed: the error of a first try."""
        self._create_event(pod, *_scheduled(pod, message, now), failed)

    def record_failed(self, pod: Pod, message: str, now: datetime) -> Writes:
        """Write the event of a pod that fits nowhere. Each pod has one, which counts the attempts.

        The event is written when its message changes, otherwise every 30 s. The event of an earlier run is
        counted on.
        """
        failure = self._failures.get(pod.metadata.uid) or self._failure_so_far(pod)
        if failure:
            failure.count += 1
            self._failures[pod.metadata.uid] = failure
            if failure.message == message and abs(now - failure.written) < REPEAT:
                return
            patch = {"count": failure.count, "message": message, "lastTimestamp": now}
            try:
                yield self._patch(path_of("events", pod.metadata.namespace, failure.name), patch, Event)
            except NotFoundError:  # events expire, after an hour as a rule
                failure = None
            else:
                failure.message, failure.written = message, now
        if not failure:
            create = self._event_write(pod, *_event(pod, "Warning", "FailedScheduling", message, now))
            yield create
            event = create.answer
            self._failures[pod.metadata.uid] = _Failure(event.metadata.name, message, event.count, now)

    def mark_unscheduled(
        self, pod: Pod, reason: str, message: str, now: datetime, nominated: str | None = None
    ) -> Writes:
        """Set the condition PodScheduled=False, and the nominated node, in one write.

        reason: "Unschedulable", which autoscalers act on, or "SchedulerError". nominated: the node's name, ""
        for none, None to leave it unchanged. What the pod has already isn't written. NotFoundError or
        ConflictError when there is no such pod any more.
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
            }
            status["conditions"] = [condition]
        if nominated is not None:
            status["nominatedNodeName"] = nominated
        if status:
            yield self._patch_status(pod, status)

    def evict(self, victim: Pod, preemptor: Pod, node_name: str, now: datetime) -> Writes:
        """Evict a pod for a more important one: write a condition that says why, and delete it gracefully."""
        if victim.metadata.deletion_timestamp:  # it is being deleted already
            return
        scheduler = preemptor.spec.scheduler_name
        condition = {
            "type": "DisruptionTarget",
            "status": "True",
            "reason": "PreemptionByScheduler",
            "message": f"{scheduler}: preempting to accommodate a higher priority pod",
            "lastTransitionTime": now,
        }
        try:
            yield self._patch_status(victim, {"conditions": [condition]})
            yield self._deletion(victim)
        except (NotFoundError, ConflictError) as error:
            log.debug("%s has gone by itself: %s", victim, error)
            return
        words = f"Preempted by pod {preemptor.metadata.uid} on node {node_name}"
        yield self._event_write(victim, *_event(victim, "Normal", "Preempted", words, now, scheduler))

    def nominate(self, pod: Pod, node_name: str) -> Writes:
        """Write a pod's nominated node; "" removes it."""
        try:
            yield self._patch_status(pod, {"nominatedNodeName": node_name})
        except (NotFoundError, ConflictError) as error:
            log.debug("%s is not nominated: %s", pod, error)

    def forget_all_but(self, waiting: Collection[str]) -> None:
        """Forget the events of pods whose uid isn't among those that wait."""
        for uid in self._failures.keys() - set(waiting):
            del self._failures[uid]

    def _patch_status(self, pod: Pod, status: Mapping[str, object]) -> Write:
        """Merge into a pod's status. ConflictError when another pod has its name by now."""
        patch = {"metadata": {"uid": pod.metadata.uid}, "status": status}
        return self._patch(f"{_path(pod)}/status", patch, Pod)

    def _patch(self, path: str, patch: Mapping[str, object], kind: type[Pod] | type[Event]) -> Write:
        return Write(
            lambda: self._api.begin_patch(path, patch, kind),
            lambda failed: self._api.patch(path, patch, kind, failed),
        )

    def _deletion(self, pod: Pod) -> Write:
        path, uid = _path(pod), pod.metadata.uid
        return Write(
            lambda: self._api.begin_delete(path, uid),
            lambda failed: self._api.delete(path, uid, failed),
        )

    def _event_write(self, pod: Pod, path: str, event: Event) -> Write:
        return Write(
            lambda: self._api.begin_create(path, event, Event),
            lambda failed: self._create_event(pod, path, event, failed),
        )

    def _create_event(self, pod: Pod, path: str, event: Event, failed: ApiError | None = None) -> Event:
        def refused(error: ApiError, _: bool) -> Event:
            raise error

        return self._create_once(
            lambda: self._api.create(path, event, Event),
            lambda: self._find_event(pod, event.reason),
            refused,
            failed,
        )

    def _find_event(self, pod: Pod, reason: str) -> Event | None:
        """The latest event with this reason that this scheduler wrote about a pod."""
        selector = f"involvedObject.uid={field_value(pod.metadata.uid)},reason={reason}"
        return self._latest_by_pod([_events_path(pod)], selector).get(pod.metadata.uid)

    def _latest_by_pod(self, paths: Iterable[str], selector: str) -> dict[str, Event]:
        events = self._api.list_each(paths, Event, fieldSelector=selector).items
        events.sort(key=_last_seen)
        return {event.involved_object.uid: event for event in events if event.source.component in self._names}

    def _failure_so_far(self, pod: Pod) -> _Failure | None:
        """The event that an earlier run wrote. Looked up once, for all pods together."""
        with self._listing:
            if self._earlier is None:
                paths = paths_of("events", self._namespaces)
                self._earlier = self._latest_by_pod(paths, "reason=FailedScheduling")
        event = self._earlier.pop(pod.metadata.uid, None)
        if not event:
            return None
        return _Failure(event.metadata.name, event.message, event.count, _last_seen(event))


def _last_seen(event: Event) -> datetime:
    return event.last_timestamp or datetime.min.replace(tzinfo=UTC)


def _binding(pod: Pod, node_name: str, annotations: Mapping[str, str]) -> tuple[str, Binding]:
    """The path and the body of a binding."""
    metadata = ObjectMeta(
        name=pod.metadata.name,
        namespace=pod.metadata.namespace,
        uid=pod.metadata.uid,
        annotations=dict(annotations),
    )
    target = ObjectReference(kind="Node", name=node_name, api_version="v1")
    return f"{_path(pod)}/binding", Binding(metadata=metadata, target=target)


def _scheduled(pod: Pod, message: str, now: datetime) -> tuple[str, Event]:
    return _event(pod, "Normal", "Scheduled", message, now)


def _event(
    pod: Pod, kind: str, reason: str, message: str, now: datetime, component: str = ""
) -> tuple[str, Event]:
    """The path and the body of an event, in the name of the pod's scheduler unless another is given."""
    about = ObjectReference(
        kind="Pod",
        name=pod.metadata.name,
        namespace=pod.metadata.namespace,
        uid=pod.metadata.uid,
        api_version="v1",
    )
    return _events_path(pod), Event(
        metadata=ObjectMeta(generate_name=f"{pod.metadata.name}-", namespace=pod.metadata.namespace),
        involved_object=about,
        reason=reason,
        message=message,
        type=kind,
        source=EventSource(component=component or pod.spec.scheduler_name),
        count=1,
        first_timestamp=now,
        last_timestamp=now,
    )


def _path(pod: Pod) -> str:
    return path_of("pods", pod.metadata.namespace, pod.metadata.name)


def _events_path(pod: Pod) -> str:
    return path_of("events", pod.metadata.namespace)
