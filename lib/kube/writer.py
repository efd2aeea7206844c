"""Writes the results of decisions: bindings, events, pod conditions, evictions, nominations.

A write whose answer was lost may have happened: it is looked up before it is made again.
"""

import logging
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import Enum
from typing import TypeVar

from lib.kube.api import Api
from lib.kube.errors import ApiError, ConflictError, NotFoundError
from lib.kube.events import pod_event
from lib.kube.in_flight import PendingResponse
from lib.kube.objects import Binding, Event, ObjectMeta, ObjectReference, Pod, Status
from lib.kube.paths import path_of
from lib.kube.write import Write, Writes

log = logging.getLogger(__name__)

Created = TypeVar("Created")

REPEAT = timedelta(seconds=30)
"""An event with the same message isn't written more often than this."""

LONGEST_REST = 10
"""An event whose message changes with each attempt isn't written more often than after so many seconds: after
fewer, as long as there were fewer attempts."""


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

    `now` is in UTC, in whole seconds. Several threads may write at the same time, about different pods.
    """

    def __init__(self, api: Api) -> None:
        self._api = api
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
        self._create_event(*_scheduled(pod, message, now), failed)

    def record_failed(self, pod: Pod, message: str, now: datetime) -> Writes:
        """Write the event of a pod that fits nowhere. Each pod has one, which counts the attempts.

        The event is written when its message changes, otherwise every 30 s. The event of an earlier run has
        the same name, and is counted on.
        """
        failure = self._failures.get(pod.metadata.uid)
        if failure:
            failure.count += 1
            self._failures[pod.metadata.uid] = failure
            rest = timedelta(seconds=min(failure.count - 2, LONGEST_REST))
            if abs(now - failure.written) < (REPEAT if failure.message == message else rest):
                return
            patch = {"count": failure.count, "message": message, "lastTimestamp": now}
            try:
                yield self._patch(path_of("events", pod.metadata.namespace, failure.name), patch, Event)
            except NotFoundError:  # events expire, after an hour as a rule
                failure = None
            else:
                failure.message, failure.written = message, now
        if not failure:
            path, event = _event(pod, "Warning", "FailedScheduling", message, now)
            name, count = event.metadata.name, event.count
            try:
                yield self._event_write(path, event)
            except ConflictError:  # an earlier run wrote it
                update = self._patch(f"{path}/{name}", {"message": message, "lastTimestamp": now}, Event)
                yield update
                count = update.answer.count + 1
                yield self._patch(f"{path}/{name}", {"count": count}, Event)
            self._failures[pod.metadata.uid] = _Failure(name, message, count, now)

    def mark_unscheduled(
        self,
        pod: Pod,
        reason: str,
        message: str,
        now: datetime,
        nominated: str | None = None,
        version: str = "",
    ) -> Writes:
        """Set the condition PodScheduled=False, and the nominated node, in one write.

        reason: "Unschedulable", which autoscalers act on, or "SchedulerError". nominated: the node's name, ""
        for none, None to leave it unchanged. version: if given, the resource version that the pod must have.
        What the pod has already isn't written. NotFoundError or ConflictError when there is no such pod any
        more.
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
            yield self._patch_status(pod, status, version)

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
            "observedGeneration": victim.metadata.generation,
        }
        try:
            yield self._patch_status(victim, {"conditions": [condition]})
            yield self._deletion(victim)
        except (NotFoundError, ConflictError) as error:
            log.debug("%s has gone by itself: %s", victim, error)
            return
        words = f"Preempted by pod {preemptor.metadata.uid} on node {node_name}"
        yield self._event_write(*_event(victim, "Normal", "Preempted", words, now, preemptor))

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

    def _patch_status(self, pod: Pod, status: Mapping[str, object], version: str = "") -> Write:
        """Merge into a pod's status. ConflictError when another pod, or version, has its name by now."""
        same = {"uid": pod.metadata.uid, **({"resourceVersion": version} if version else {})}
        patch = {"metadata": same, "status": status}
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

    def _event_write(self, path: str, event: Event) -> Write:
        return Write(
            lambda: self._api.begin_create(path, event, Event),
            lambda failed: self._create_event(path, event, failed),
        )

    def _create_event(self, path: str, event: Event, failed: ApiError | None = None) -> Event:
        """Create an event, or find that an earlier try did. ConflictError when another write did."""

        def refused(error: ApiError, lost: bool) -> Event:
            is_ours = lost or event.reason != "FailedScheduling"  # each attempt counts on that one
            if is_ours and isinstance(error, ConflictError):
                return event
            raise error

        return self._create_once(lambda: self._api.create(path, event, Event), lambda: None, refused, failed)


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
    pod: Pod, kind: str, reason: str, message: str, now: datetime, preemptor: Pod | None = None
) -> tuple[str, Event]:
    """The path and the body of an event."""
    return _events_path(pod), pod_event(pod, kind, reason, message, now, preemptor)


def _path(pod: Pod) -> str:
    return path_of("pods", pod.metadata.namespace, pod.metadata.name)


def _events_path(pod: Pod) -> str:
    return path_of("events", pod.metadata.namespace)
