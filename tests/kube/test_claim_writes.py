"""Each write of a claim, answered by a script: what it asks for, and what it makes of the answers."""

from typing import Any

import pytest
from objects import read
from service.writes.scripted import AWAY, CONFLICT, LOST, NOT_FOUND, NOW, broken, busy, claim, play, web

from lib.kube.claim_writes import ClaimError, announce_wait, look_up, reserve_claim, undo_claim
from lib.kube.devices import AllocationResult, ResourceClaim
from lib.kube.errors import ApiError, ConflictError, ForbiddenError, StatusError
from lib.kube.protobuf import with_metadata
from lib.kube.resource_claims import (
    UNNAMED,
    DeallocateClaim,
    DeleteClaim,
    ReleaseClaim,
    RequestMapping,
    ReserveClaim,
)

CLAIMS = "/apis/resource.k8s.io/v1/namespaces/default/resourceclaims"
PATCH, STATUS = f"PATCH {CLAIMS}/gpu", f"PATCH {CLAIMS}/gpu/status"
PUT = f"PUT {CLAIMS}/gpu"
GET, POST, DELETE = f"GET {CLAIMS}/gpu", f"POST {CLAIMS}", f"DELETE {CLAIMS}/gpu"


def allocation(device: str = "gpu-0") -> AllocationResult:
    result = {"driver": "d", "pool": "p", "device": device, "request": "r"}
    made: AllocationResult = read(AllocationResult, {"devices": {"results": [result]}})
    return made


def refused(words: str) -> StatusError:
    """The API server's 422."""
    error = StatusError(f"422 {words}")
    error.said = words
    return error


MARKED, DONE = claim(finalizer=True), claim("gpu-0", "web", finalizer=True)
TAKEN = claim("gpu-1", "other", finalizer=True)
ALLOCATED_ELSEWHERE = "claim default/gpu got allocated elsewhere in the meantime"
DELETED = "claim default/gpu got deleted in the meantime"


@pytest.mark.parametrize(
    ("answers", "requests"),
    [
        pytest.param([MARKED, DONE], [PATCH, STATUS], id="answered"),
        pytest.param(
            [LOST, CONFLICT, MARKED, DONE], [PATCH, PATCH, GET, STATUS], id="the mark's answer lost"
        ),
        pytest.param([MARKED, LOST, CONFLICT, DONE], [PATCH, STATUS, STATUS, GET], id="lost, and written"),
        pytest.param([MARKED, LOST, DONE], [PATCH, STATUS, STATUS], id="lost, and not written"),
        pytest.param(
            [MARKED, CONFLICT, MARKED, DONE], [PATCH, STATUS, GET, STATUS], id="another wrote at once"
        ),
        pytest.param([busy(), MARKED, DONE], [PATCH, PATCH, STATUS], id="429"),
        pytest.param([AWAY, MARKED, broken(), DONE], [PATCH, PATCH, STATUS, STATUS], id="not sent; 500"),
    ],
)
def test_a_claim_gets_its_devices_and_its_user(answers: list[Any], requests: list[str]) -> None:
    sent, result = play(reserve_claim(ReserveClaim(claim(), web(), "n1", allocation()), NOW), *answers)
    assert sent == requests
    assert result == DONE


@pytest.mark.parametrize(
    ("answers", "requests", "why"),
    [
        pytest.param(
            [MARKED, CONFLICT, TAKEN], [PATCH, STATUS, GET], ALLOCATED_ELSEWHERE, id="others use it"
        ),
        pytest.param(
            [MARKED, CONFLICT, claim("gpu-0", "other", finalizer=True)],
            [PATCH, STATUS, GET],
            ALLOCATED_ELSEWHERE,
            id="another pod got the same device",
        ),
        pytest.param(
            [MARKED, CONFLICT, claim("gpu-1", "web", finalizer=True)],
            [PATCH, STATUS, GET],
            ALLOCATED_ELSEWHERE,
            id="another poller gave this pod another device",
        ),
        pytest.param(
            [MARKED, CONFLICT, claim(deletionTimestamp="2026-01-01T00:00:00Z")],
            [PATCH, STATUS, GET],
            DELETED,
            id="it is being deleted",
        ),
        pytest.param([CONFLICT, claim(uid="new")], [PATCH, GET], "409", id="it was made again"),
        pytest.param([CONFLICT, claim()] * 5, [PATCH, GET] * 5, "409", id="others write again and again"),
    ],
)
def test_a_claim_that_has_changed_is_left_alone(answers: list[Any], requests: list[str], why: str) -> None:
    sent, error = play(reserve_claim(ReserveClaim(claim(), web(), "n1", allocation()), NOW), *answers)
    assert sent == requests
    assert isinstance(error, ApiError)
    assert str(error) == why


STORED = b"k8s\0" + b"\x0a\x04type" + b"\x12\x0a" + b"\x0a\x03\x0a\x01c" + b"\x12\x03a b"
"""A claim in protobuf: an envelope with a type, and in it an object with the name c and a spec."""


def immutable() -> StatusError:
    return refused("spec: Invalid value: ...: field is immutable")


@pytest.mark.parametrize(
    ("answers", "requests"),
    [
        pytest.param([immutable(), STORED, MARKED, DONE], [PATCH, GET, PUT, STATUS], id="answered"),
        pytest.param(
            [immutable(), STORED, LOST, CONFLICT, MARKED, DONE],
            [PATCH, GET, PUT, PUT, GET, STATUS],
            id="lost, and written",
        ),
    ],
)
def test_a_claim_that_a_patch_would_change_gets_its_finalizer_as_protobuf(
    answers: list[Any], requests: list[str]
) -> None:
    sent, result = play(reserve_claim(ReserveClaim(claim(), web(), "n1", allocation()), NOW), *answers)
    assert (sent, result) == (requests, DONE)


def test_metadata_is_added_to_an_object_in_protobuf_and_all_else_stays() -> None:
    """The number of each field is written with its type, 2, in the lowest three bits; then comes its size."""
    finalizer = "resource.kubernetes.io/delete-protection"
    more = b"\x2a\x03gpu" + b"\x32\x017" + b"\x72\x28" + finalizer.encode()
    assert len(more) == 0x32
    found = with_metadata(STORED + b"\x1a\x01e", uid="gpu", resourceVersion="7", finalizers=finalizer)
    assert found == STORED[:10] + b"\x12\x3e" + STORED[12:] + b"\x0a\x32" + more + b"\x1a\x01e"


@pytest.mark.parametrize("other", [b"{}", b"k8s\0\x08\x01", b"k8s\0\x12\x7fshort", b"k8s\0\xff"])
def test_a_server_that_answers_in_another_form_has_refused(other: bytes) -> None:
    write = reserve_claim(ReserveClaim(claim(), web(), "n1", allocation()), NOW)
    sent, error = play(write, immutable(), other)
    assert sent == [PATCH, GET]
    assert str(error) == f"add finalizer to claim default/gpu: {immutable().said}"


def test_a_claim_that_has_devices_gets_one_more_user() -> None:
    has = claim("gpu-0", "other", finalizer=True)
    both = claim("gpu-0", "other", "web", finalizer=True)
    assert play(reserve_claim(ReserveClaim(has, web(), "n1"), NOW), both) == ([STATUS], both)
    _, error = play(reserve_claim(ReserveClaim(has, web(), "n1"), NOW), CONFLICT, claim())
    assert str(error) == "claim default/gpu got deallocated elsewhere in the meantime"


@pytest.mark.parametrize(
    ("now", "requests"),
    [
        pytest.param(claim("gpu-0", "other", "web"), [STATUS, GET], id="it was written"),
        pytest.param(claim("gpu-1", "other"), [STATUS, GET, STATUS], id="others wrote, and it has devices"),
    ],
)
def test_a_user_that_may_be_written_is_looked_for(now: ResourceClaim, requests: list[str]) -> None:
    both = claim("gpu-0", "other", "web")
    step = ReserveClaim(claim("gpu-0", "other"), web(), "n1")
    sent, found = play(reserve_claim(step, NOW), CONFLICT, now, *([both] * (len(requests) - 2)))
    assert (sent, found) == (requests, both)


@pytest.mark.parametrize(
    ("asked", "answers", "requests", "found"),
    [
        pytest.param(claim(), [DONE], [GET], DONE, id="it is there"),
        pytest.param(claim(), [claim(uid="new")], [GET], None, id="it was made again"),
        pytest.param(claim(), [NOT_FOUND], [GET], None, id="it is gone"),
        pytest.param(claim(name=UNNAMED), [], [], None, id="it was never made"),
    ],
)
def test_a_claim_is_looked_up_as_it_is_now(
    asked: ResourceClaim, answers: list[Any], requests: list[str], found: ResourceClaim | None
) -> None:
    assert play(look_up(asked), *answers) == (requests, found)


def test_a_pod_that_waits_for_its_devices_is_nominated_and_has_an_event() -> None:
    sent, _ = play(announce_wait(web(), "n1", NOW), web(), None)
    assert sent == ["PATCH pods/web/status", "POST events"]


@pytest.mark.parametrize(
    ("answers", "why"),
    [
        ([refused("no quota")], f"create claim for extended resources default/{UNNAMED}: no quota"),
        ([claim(), refused("bad name")], "add finalizer to claim default/gpu: bad name"),
        ([claim(), MARKED, refused("late")], "add allocation and reservation to claim default/gpu: late"),
    ],
)
def test_a_refusal_says_what_was_tried(answers: list[Any], why: str) -> None:
    step = ReserveClaim(claim(name=UNNAMED), web(), "n1", allocation())
    _, error = play(reserve_claim(step, NOW), *answers)
    assert isinstance(error, ClaimError)
    assert str(error) == why


def test_a_missing_right_is_named_as_it_is() -> None:
    forbidden = ForbiddenError("PATCH ...: 403")
    forbidden.said = "resourceclaims is forbidden"
    _, error = play(reserve_claim(ReserveClaim(claim("gpu-0"), web(), "n1"), NOW), forbidden)
    assert isinstance(error, ForbiddenError)
    assert str(error) == "PATCH ...: 403"


def test_a_refusal_has_kube_schedulers_words() -> None:
    said = "status.reservedFor: Too many: 257: must have at most 256 items"
    _, error = play(reserve_claim(ReserveClaim(claim("gpu-0"), web(), "n1"), NOW), refused(said))
    assert isinstance(error, ClaimError)
    assert str(error) == f"add reservation to claim default/gpu: {said}"


def test_a_claim_for_extended_resources_is_made_and_the_pod_is_told_of_it() -> None:
    step = ReserveClaim(claim(name=UNNAMED), web(), "n1", allocation(), (RequestMapping("c", "gpu", "r"),))
    sent, result = play(reserve_claim(step, NOW), claim(), MARKED, DONE, web())
    assert sent == [POST, PATCH, STATUS, "PATCH pods/web/status"]
    assert result == DONE


@pytest.mark.parametrize(
    ("step", "requests", "now"),
    [
        (ReleaseClaim(DONE, web()), [STATUS], claim()),
        (DeallocateClaim(DONE), [STATUS], claim()),
        (DeleteClaim(DONE), [PATCH, DELETE], None),
    ],
)
def test_what_is_undone_stays_undone(step: Any, requests: list[str], now: Any) -> None:
    assert play(undo_claim(step), *(claim() for _ in requests)) == (requests, now)
    assert play(undo_claim(step), LOST, *(claim() for _ in requests)) == ([requests[0], *requests], now)
    for gone in (NOT_FOUND, CONFLICT):
        assert play(undo_claim(step), gone) == (requests[:1], None)
    _, error = play(undo_claim(step), StatusError("422"))
    assert isinstance(error, StatusError)
    assert not isinstance(error, ConflictError)
