"""What is said of an answer other than 2xx: who refused, why, and what to do."""

import json

import httpx
import pytest

from lib.kube.errors import (
    LONGEST_WAIT,
    AnswerError,
    ApiError,
    ForbiddenError,
    NotFoundError,
    OverloadedError,
    RefusedError,
    ServerError,
    StartingError,
    StatusError,
)
from lib.kube.refusals import LONGEST_TEXT, refusal

POD = "/api/v1/namespaces/default/pods/web"
TEXT, HTML, JSON = "text/plain; charset=utf-8", "text/html", "application/json"
NO_RIGHT = 'pods "web" is forbidden: User "june" cannot patch resource "pods"'
QUOTA = 'pods "web" is forbidden: exceeded quota: small'
RULE = 'the rule that is missing: {apiGroups: [""], resources: ["pods"], verbs: ["patch"]}'
OF_CLAIMS = (
    'changing status.allocation requires resource="resourceclaims/binding", verb="patch" permission:'
    " resourceclaims.resource.k8s.io is forbidden"
)
CLAIM_RULE = '{apiGroups: ["resource.k8s.io"], resources: ["resourceclaims/binding"], verbs: ["patch"]}'
DIAL = "error trying to reach service: dial tcp 10.0.0.1:6443: connect: connection refused"


def status(message: str) -> str:
    return json.dumps({"kind": "Status", "status": "Failure", "message": message})


def refused(
    code: int, sort: str, body: str, method: str = "PATCH", starting: bool = False, after: str = ""
) -> ApiError:
    answer = httpx.Response(code, headers={"Content-Type": sort, "Retry-After": after})
    return refusal(f"{method} {POD}", method, POD, answer, body.encode(), lambda: starting)


@pytest.mark.parametrize(
    ("code", "sort", "body", "error", "says"),
    [
        (403, TEXT, "Forbidden\n", ForbiddenError, "403 Forbidden: kubectl proxy itself refuses it; see its"),
        (403, TEXT, "Go away", AnswerError, "'Go away') is not a Kubernetes API response; is kubectl proxy"),
        (404, TEXT, "404 page not found\n", NotFoundError, "; the API server has no such resource"),
        (404, HTML, "<html>", AnswerError, f"404 Not Found ({HTML}: '<html>') is not a Kubernetes API"),
        (502, TEXT, DIAL, RefusedError, "connection to the API server at 10.0.0.1:6443 was refused: is it"),
        (500, TEXT, "no  route\nto host", ServerError, "500 Internal Server Error: no route to host"),
        (500, HTML, "<html>", ServerError, "'<html>'); the proxy may not reach its API server"),
        (429, HTML, "<html>", OverloadedError, f"429 Too Many Requests ({HTML}: '<html>')"),
        (500, JSON, status("etcd is away"), ServerError, "500 etcd is away"),
        (
            401,
            JSON,
            status("Unauthorized"),
            StatusError,
            "Unauthorized; the credentials of kubectl's context are wrong or have expired: log in again",
        ),
        (422, JSON, status("is invalid"), StatusError, "422 is invalid"),
        (422, JSON, status(OF_CLAIMS), ForbiddenError, f"; the rule that is missing: {CLAIM_RULE}"),
        (403, JSON, status(NO_RIGHT), ForbiddenError, f"403 {NO_RIGHT}; {RULE}"),
        (403, JSON, status(QUOTA), ForbiddenError, f"403 {QUOTA}"),
    ],
)
def test_who_refused_and_why(code: int, sort: str, body: str, error: type[ApiError], says: str) -> None:
    told = refused(code, sort, body)
    assert type(told) is error
    assert says in str(told)
    assert ("the rule that is missing" in str(told)) == ("the rule that is missing" in says)
    for advice in ("may not reach its API server", "log in again"):  # is for these cases alone
        assert (advice in str(told)) == (advice in says)


@pytest.mark.parametrize(
    ("method", "code", "message"), [("PATCH", 403, NO_RIGHT), ("GET", 403, "no"), ("PATCH", 422, OF_CLAIMS)]
)
def test_an_api_server_that_still_starts_does_not_know_the_rights_yet(
    method: str, code: int, message: str
) -> None:
    told = refused(code, JSON, status(message), method, starting=True)
    assert type(told) is StartingError
    assert str(told).endswith(f"{message}; the API server is still starting")
    assert type(refused(403, JSON, status(QUOTA), starting=True)) is ForbiddenError


def test_the_words_of_the_server_are_told_apart_from_ours() -> None:
    told = refused(403, JSON, status(NO_RIGHT))
    assert isinstance(told, StatusError)
    assert told.said == NO_RIGHT
    told = refused(502, TEXT, "no route")
    assert isinstance(told, StatusError)
    assert told.said == ""


def test_of_a_long_text_the_beginning_is_told() -> None:
    assert len(str(refused(502, TEXT, "x" * 10 * LONGEST_TEXT))) < LONGEST_TEXT + 100


@pytest.mark.parametrize(
    ("asked", "seconds"), [("7", 7.0), ("99999", LONGEST_WAIT), ("soon", None), ("-1", None), ("", None)]
)
def test_a_server_may_ask_for_a_pause_but_not_for_any(asked: str, seconds: float | None) -> None:
    told = refused(429, JSON, status("busy"), after=asked)
    assert told.retry_after == seconds
