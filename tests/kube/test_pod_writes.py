"""Each write, answered by a script: what it asks for, and what it makes of the answers."""

from datetime import timedelta
from typing import Any

import msgspec
import pytest
from objects import read
from service.writes.scripted import AWAY, CONFLICT, LOST, NOT_FOUND, NOW, broken, busy, play, web

from lib.kube.errors import ApiError, ConflictError, ForbiddenError
from lib.kube.objects import Event, Pod
from lib.kube.pod_writes import (
    BOUND_BY_ANOTHER,
    FailedSchedulingEvent,
    bind,
    evict,
    mark_unscheduled,
    nominate,
    pod_event,
    record,
)
from lib.kube.storage import BOUND_BY_CONTROLLER, PersistentVolume, PersistentVolumeClaim
from lib.kube.storage_writes import write_assumed

POST, GET, EVENT = "POST pods/web/binding", "GET pods/web", "POST events"
STATUS, DELETE = "PATCH pods/web/status", "DELETE pods/web"
FORBIDDEN = ForbiddenError("403")
BOUND, GONE, DELETING = "", "was deleted, or deleted and recreated", "is being deleted"
GATED: Pod = read(
    Pod,
    {
        "metadata": {"namespace": "default", "name": "web", "uid": "web"},
        "spec": {"schedulingGates": [{"name": "not-yet"}]},
    },
)
LEAVING = web(deletionTimestamp="2026-01-01T00:00:00Z")


@pytest.mark.parametrize(
    ("answers", "requests", "why"),
    [
        pytest.param([None], [POST], BOUND, id="answered"),
        pytest.param([LOST, web("n1")], [POST, GET], BOUND, id="the answer is lost, and it was written"),
        pytest.param([LOST, web(), None], [POST, GET, POST], BOUND, id="lost, and not written"),
        pytest.param([LOST, web(), CONFLICT, web("n1")], [POST, GET, POST, GET], BOUND, id="late"),
        pytest.param([LOST, web("n2")], [POST, GET], BOUND_BY_ANOTHER, id="lost, and another was faster"),
        pytest.param([CONFLICT, web("n1")], [POST, GET], BOUND_BY_ANOTHER, id="another, the same node"),
        pytest.param([CONFLICT, web("n2")], [POST, GET], BOUND_BY_ANOTHER, id="another, another node"),
        pytest.param([CONFLICT, NOT_FOUND], [POST, GET], GONE, id="refused: it is gone"),
        pytest.param([NOT_FOUND, NOT_FOUND], [POST, GET], GONE, id="404: it is gone"),
        pytest.param([CONFLICT, web(uid="new")], [POST, GET], GONE, id="it was made again"),
        pytest.param(
            [CONFLICT, web(deletionTimestamp="2026-01-01T00:00:00Z")],
            [POST, GET],
            DELETING,
            id="deleting",
        ),
        pytest.param([CONFLICT, GATED], [POST, GET], "has scheduling gates", id="gated"),
        pytest.param([busy(), None], [POST, POST], BOUND, id="429, then written: nothing to look up"),
        pytest.param([AWAY, None], [POST, POST], BOUND, id="not sent, then written"),
        pytest.param([broken(), web("n1")], [POST, GET], BOUND, id="500, and it was written"),
        pytest.param([broken(), web(), None], [POST, GET, POST], BOUND, id="500, then written"),
        pytest.param(
            [CONFLICT, broken(), web("n1")],
            [POST, GET, GET],
            BOUND_BY_ANOTHER,
            id="a lookup that fails makes no binding ours",
        ),
    ],
)
def test_what_comes_of_a_binding(answers: list[Any], requests: list[str], why: str) -> None:
    sent, result = play(bind(web(), "n1", {}), *answers)
    assert sent == requests
    assert result[0] == why


@pytest.mark.parametrize(
    ("answers", "may_be_written"),
    [
        pytest.param([FORBIDDEN], False, id="refused for good"),
        pytest.param([CONFLICT, web()], False, id="a conflict, though it still waits"),
        pytest.param([LOST, FORBIDDEN], True, id="lost, and it may not be looked up"),
        pytest.param([LOST, web(), FORBIDDEN], True, id="lost, then refused"),
    ],
)
def test_a_binding_that_fails_says_whether_it_may_have_been_written(
    answers: list[Any], may_be_written: bool
) -> None:
    _, error = play(bind(web(), "n1", {}), *answers)
    assert isinstance(error, ApiError)
    assert error.may_be_written is may_be_written


@pytest.mark.parametrize(
    ("answers", "requests"),
    [
        pytest.param([broken(), web()], [POST, GET], id="500, and not written"),
        pytest.param([busy()], [POST], id="429"),
        pytest.param([AWAY], [POST], id="not sent"),
    ],
)
def test_a_binding_that_is_not_recent_is_not_sent_again(answers: list[Any], requests: list[str]) -> None:
    sent, error = play(bind(web(), "n1", {}, lambda: False), *answers)
    assert (sent, str(error)) == (requests, str(answers[0]))


def test_an_old_binding_that_was_written_is_found() -> None:
    sent, result = play(bind(web(), "n1", {}, lambda: False), broken(), web("n1"))
    assert (sent, result[0]) == ([POST, GET], BOUND)


def test_a_binding_carries_the_uid_of_the_pod_and_the_annotations() -> None:
    request = next(bind(web(), "n1", {"why": "best"}))
    body: Any = request.body  # type: ignore[union-attr]
    assert (body.metadata.uid, body.target.name, body.metadata.annotations) == ("web", "n1", {"why": "best"})


@pytest.mark.parametrize(
    ("answers", "requests"),
    [
        pytest.param([None], [EVENT], id="answered"),
        pytest.param([LOST, CONFLICT], [EVENT, EVENT], id="lost, and written: its name is taken"),
        pytest.param([LOST, None], [EVENT, EVENT], id="lost, and not written"),
        pytest.param([CONFLICT], [EVENT], id="an earlier run wrote it"),
        pytest.param([busy(), None], [EVENT, EVENT], id="429, then written"),
    ],
)
def test_the_event_of_a_bound_pod_is_written_once(answers: list[Any], requests: list[str]) -> None:
    sent, result = play(record(web(), "Scheduled", "Successfully assigned", NOW), *answers)
    assert sent == requests
    assert isinstance(result, bool)


def test_an_eviction_names_the_reason_deletes_that_pod_only_and_tells_of_it() -> None:
    sent, _ = play(evict(web("n1"), web(uid="vip"), "n1", NOW), None, None, None)
    assert sent == [STATUS, DELETE, EVENT]
    status, deletion, _ = list(requests_of(evict(web("n1"), web(uid="vip"), "n1", NOW)))
    assert status.body["metadata"] == {"uid": "web"}
    assert deletion.body["preconditions"] == {"uid": "web"}


def requests_of(write: Any) -> Any:
    while True:
        try:
            yield write.send(None)
        except StopIteration:
            return


@pytest.mark.parametrize(
    ("answers", "requests"),
    [
        pytest.param([NOT_FOUND], [STATUS], id="it has gone"),
        pytest.param([CONFLICT], [STATUS], id="another has its name"),
        pytest.param([None, NOT_FOUND], [STATUS, DELETE], id="it goes meanwhile"),
    ],
)
def test_of_a_victim_that_goes_by_itself_nothing_more_is_written(
    answers: list[Any], requests: list[str]
) -> None:
    assert play(evict(web("n1"), web(uid="vip"), "n1", NOW), *answers) == (requests, None)


def test_a_victim_that_is_being_deleted_is_left_alone() -> None:
    leaving = web("n1", deletionTimestamp="2026-01-01T00:00:00Z")
    assert play(evict(leaving, web(uid="vip"), "n1", NOW)) == ([], None)


def test_what_a_pod_has_already_is_not_written() -> None:
    mark = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "no room"}
    body = {"metadata": {"namespace": "default", "name": "web"}, "spec": {}, "status": {"conditions": [mark]}}
    marked: Pod = read(Pod, body)
    assert play(mark_unscheduled(marked, "Unschedulable", "no room", NOW))[0] == []
    assert play(mark_unscheduled(marked, "Unschedulable", "another", NOW), None)[0] == [STATUS]


def test_a_condition_says_since_when_the_pod_waits_and_for_which_of_its_versions() -> None:
    mark = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "no room"}
    for before, since in (
        ({**mark, "lastTransitionTime": "2025-12-31T23:00:00Z"}, NOW - timedelta(hours=1)),
        ({**mark, "lastTransitionTime": "2025-12-31T23:00:00Z", "status": "Unknown"}, NOW),
    ):
        names = {"namespace": "default", "name": "web", "generation": 3}
        marked: Pod = read(Pod, {"metadata": names, "spec": {}, "status": {"conditions": [before]}})
        (request,) = requests_of(mark_unscheduled(marked, "Unschedulable", "no cpu", NOW))
        (now,) = msgspec.to_builtins(request.body)["status"]["conditions"]
        assert now["observedGeneration"] == 3
        assert now["lastTransitionTime"] == f"{since:%Y-%m-%dT%H:%M:%SZ}"


def test_a_condition_may_ask_for_the_version_that_was_seen() -> None:
    (request,) = requests_of(mark_unscheduled(web(), "SchedulerError", "why", NOW, None, "7"))
    assert request.body["metadata"] == {"uid": "web", "resourceVersion": "7"}


@pytest.mark.parametrize(
    ("has", "wanted", "requests"),
    [
        ("", "n1", [STATUS]),
        ("n2", "n1", [STATUS]),
        ("n1", "n1", []),
        ("n1", "", [STATUS]),
        ("", "", [STATUS]),
    ],
)
def test_a_nomination_is_written_unless_it_is_there(has: str, wanted: str, requests: list[str]) -> None:
    """One is always removed: it may be written, though the pod wasn't seen with it yet."""
    names = {"namespace": "default", "name": "web"}
    waits: Pod = read(Pod, {"metadata": names, "spec": {}, "status": {"nominatedNodeName": has}})
    assert play(nominate(waits, wanted), *[None] * len(requests)) == (requests, None)


def test_a_nomination_of_a_pod_that_has_gone_is_no_failure() -> None:
    assert play(nominate(web(), "n1"), NOT_FOUND) == ([STATUS], None)


def event_of(count: int) -> Event:
    event = pod_event(web(), "Warning", "FailedScheduling", "no room", NOW)
    event.count = count
    return event


def test_a_pod_that_fits_nowhere_has_one_event() -> None:
    events, later = FailedSchedulingEvent(), NOW + timedelta(seconds=40)
    patch = f"PATCH events/{event_of(1).metadata.name}"
    assert play(events.record(web(), "no room", NOW), None)[0] == [EVENT]
    assert play(events.record(web(), "no room", NOW))[0] == []  # so soon, and the same
    assert play(events.record(web(), "no cpu", NOW + timedelta(seconds=2)), None)[0] == [patch]
    assert play(events.record(web(), "no room", NOW + timedelta(seconds=3)))[0] == []  # too soon again
    assert play(events.record(web(), "no cpu", later), NOT_FOUND, None)[0] == [patch, EVENT]  # it has expired


def test_the_event_of_an_earlier_run_is_counted_on() -> None:
    events, patch = FailedSchedulingEvent(), f"PATCH events/{event_of(1).metadata.name}"
    requests, _ = play(events.record(web(), "no room", NOW), CONFLICT, event_of(5), None)
    assert requests == [EVENT, patch, patch]


def test_a_try_whose_answer_was_lost_is_not_counted_as_an_earlier_run() -> None:
    events = FailedSchedulingEvent()
    assert play(events.record(web(), "no room", NOW), LOST, CONFLICT)[0] == [EVENT, EVENT]
    assert events.count == 1


CLAIM: PersistentVolumeClaim = read(
    PersistentVolumeClaim,
    {
        "metadata": {
            "namespace": "default",
            "name": "data",
            "uid": "c",
            "resourceVersion": "7",
            "annotations": {"volume.kubernetes.io/selected-node": "n1"},
        },
        "spec": {},
    },
)


def test_a_claim_that_has_changed_is_not_overwritten_unless_it_was_us() -> None:
    patch, get = "PATCH persistentvolumeclaims/data", "GET persistentvolumeclaims/data"
    assert play(write_assumed(CLAIM), CLAIM) == ([patch], CLAIM)
    assert play(write_assumed(CLAIM), CONFLICT, CLAIM) == ([patch, get], CLAIM)
    other: PersistentVolumeClaim = read(
        PersistentVolumeClaim, {"metadata": {"namespace": "default", "name": "data", "uid": "c"}, "spec": {}}
    )
    requests, error = play(write_assumed(CLAIM), CONFLICT, other)
    assert (requests, type(error)) == ([patch, get], ConflictError)


def a_volume(claim: str, uid: str = "v", **annotations: str) -> PersistentVolume:
    """A volume with a claim of this uid."""
    metadata = {"name": "disk", "uid": uid, "resourceVersion": "7", "annotations": annotations}
    ref = {"namespace": "default", "name": "data", "uid": claim}
    made: PersistentVolume = read(PersistentVolume, {"metadata": metadata, "spec": {"claimRef": ref}})
    return made


@pytest.mark.parametrize("by", ["", "yes"])
def test_a_volume_is_written_with_its_claim_and_who_chose_it(by: str) -> None:
    volume = a_volume("c", **({BOUND_BY_CONTROLLER: by} if by else {}))
    (request,) = requests_of(write_assumed(volume))
    assert request.path == "/api/v1/persistentvolumes/disk"
    claim = {"kind": "PersistentVolumeClaim", "apiVersion": "v1"}
    assert request.body["spec"]["claimRef"] == {**claim, "namespace": "default", "name": "data", "uid": "c"}
    annotations = {"annotations": {BOUND_BY_CONTROLLER: by}} if by else {}
    assert request.body["metadata"] == {"uid": "v", "resourceVersion": "7", **annotations}


def test_a_volume_that_has_changed_is_not_overwritten_unless_it_was_us() -> None:
    volume, of_another, made_again = a_volume("c"), a_volume("other"), a_volume("c", uid="new")
    assert play(write_assumed(volume), CONFLICT, volume)[1] == volume
    for now in (of_another, made_again):
        assert type(play(write_assumed(volume), CONFLICT, now)[1]) is ConflictError
