"""The API client: which RBAC rule is missing, what is retried, and which writes may have been made."""

import gzip
import json
import socket
import threading
from contextlib import closing
from itertools import count, repeat
from pathlib import Path
from typing import Any

import pytest
from faults import ALWAYS, Answer, Effect, Exchange, Fault, Stream, answer, faulty, lose_answer, refuse

from lib.kube import errors, refusals
from lib.kube.api import Api
from lib.kube.decoding import continue_of, decode_page
from lib.kube.errors import ApiError
from lib.kube.objects import Node, ObjectMeta, Pod
from lib.kube.pager import read_at_once
from lib.kube.write import Request

NOBODY = "http://127.0.0.1:9"
POD = "/api/v1/namespaces/default/pods/web"


def status(message: str) -> str:
    return json.dumps({"kind": "Status", "status": "Failure", "message": message})


@pytest.mark.parametrize(
    ("method", "path", "rule"),
    [
        ("GET", "/api/v1/pods", '{apiGroups: [""], resources: ["pods"], verbs: ["list"]}'),
        ("GET", "/api/v1/nodes/n1", '{apiGroups: [""], resources: ["nodes"], verbs: ["get"]}'),
        ("GET", POD, '{apiGroups: [""], resources: ["pods"], verbs: ["get"]}'),
        ("POST", f"{POD}/binding", '{apiGroups: [""], resources: ["pods/binding"], verbs: ["create"]}'),
        ("PATCH", f"{POD}/status", '{apiGroups: [""], resources: ["pods/status"], verbs: ["patch"]}'),
        (
            "POST",
            "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases",
            '{apiGroups: ["coordination.k8s.io"], resources: ["leases"], verbs: ["create"]}',
        ),
        (
            "PUT",
            "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/poller",
            '{apiGroups: ["coordination.k8s.io"], resources: ["leases"], verbs: ["update"],'
            ' resourceNames: ["poller"]}',
        ),
        ("WATCH", "/api/v1/pods", '{apiGroups: [""], resources: ["pods"], verbs: ["watch"]}'),
        ("GET", "/healthz", '{nonResourceURLs: ["/healthz"], verbs: ["get"]}'),
    ],
)
def test_a_forbidden_request_names_its_rule(method: str, path: str, rule: str) -> None:
    assert refusals.missing_rule(method, path) == rule


JSON, PROTOBUF = "application/json", "application/vnd.kubernetes.protobuf"


@pytest.mark.parametrize(
    ("request_", "of_body", "of_answer", "content"),
    [
        (Request("GET", POD), None, JSON, b""),
        (Request("GET", POD, media_type=PROTOBUF), None, PROTOBUF, b""),
        (Request("POST", POD, body={"a": 1}), JSON, JSON, b'{"a":1}'),
        (Request("PUT", POD, body=b"k8s", media_type=PROTOBUF), PROTOBUF, JSON, b"k8s"),
        (Request("PATCH", POD, body={}), "application/strategic-merge-patch+json", JSON, b"{}"),
    ],
)
def test_a_request_says_of_which_media_type_its_body_is_and_its_answer_is_to_be(
    request_: Request, of_body: str | None, of_answer: str, content: bytes
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        host = f"127.0.0.1:{listener.getsockname()[1]}"
        with Api(f"http://{host}/prefix/", threading.Event()) as api:
            pending = api.begin(request_)
            with closing(listener.accept()[0]) as server:
                head, body = server.recv(1 << 16).split(b"\r\n\r\n")
                server.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
                assert pending.answer() == b"ok"
    line, *lines = head.decode().split("\r\n")
    headers = dict(each.split(": ", 1) for each in lines)
    assert line == f"{request_.method} /prefix{POD} HTTP/1.1"
    assert (headers.get("Content-Type"), headers["Accept"], headers["Host"]) == (of_body, of_answer, host)
    assert (headers.get("Content-Length"), body) == (str(len(content)) if content else None, content)


@pytest.mark.parametrize(
    ("effect", "error", "transient", "may_be_written"),
    [
        (answer(403, status("no")), errors.ForbiddenError, False, False),
        (answer(404, status("no")), errors.NotFoundError, False, False),
        (answer(409, status("no")), errors.ConflictError, False, False),
        (answer(410, status("no")), errors.GoneError, False, False),
        (answer(422, status("no")), errors.StatusError, False, False),
        (answer(429, status("no")), errors.OverloadedError, True, False),
        (answer(429, "a proxy's own words"), errors.OverloadedError, True, False),
        (answer(500, status("no")), errors.ServerError, True, True),
        (answer(504, "<html>"), errors.ServerError, True, True),
        (answer(404, "404 page not found\n"), errors.NotFoundError, False, False),
        (answer(404, "<html>"), errors.AnswerError, False, True),
        (answer(200, "<html>"), errors.AnswerError, False, True),
        (answer(200, '{"kind":"Node","metadata":{}}'), errors.AnswerError, False, True),
        (refuse(), errors.LostAnswerError, True, True),
        (lose_answer(), errors.LostAnswerError, True, True),
    ],
)
def test_each_failure_has_its_error(
    effect: Effect, error: type[ApiError], transient: bool, may_be_written: bool
) -> None:
    with (
        faulty(NOBODY, Fault("POST", "/pods", effect, ALWAYS)) as server,
        Api(server.url, threading.Event()) as client,
    ):
        with pytest.raises(error) as raised:
            client.send(Request("POST", POD, Pod, Pod(ObjectMeta())))
        assert type(raised.value) is error
        assert (raised.value.transient, raised.value.may_be_written) == (transient, may_be_written)
        assert f"POST {POD}" in str(raised.value)
        assert [each for each, _ in server.requests].count(
            "POST"
        ) == 1  # whether a POST is to be repeated is for those who made it


@pytest.mark.parametrize("value", [Path("web"), "caf\udce9.txt", {(): ""}])
def test_what_json_cannot_hold_is_an_error_of_its_write(value: object) -> None:
    with Api(NOBODY, threading.Event()) as client, pytest.raises(ApiError, match=f"POST {POD} is not sent: "):
        client.begin(Request("POST", POD, Pod, {"value": value}))


@pytest.mark.parametrize("answers", [[False], [True, False]], ids=["at first", "when connected"])
def test_a_write_that_may_not_be_made_is_not_sent(answers: list[bool]) -> None:
    asked = iter(answers)
    with (
        faulty(NOBODY, Fault("POST", "", answer(201)), Fault("GET", "", answer(200, "{}"))) as server,
        Api(server.url, threading.Event(), may_write=lambda: next(asked)) as client,
    ):
        assert client.get_whole(POD)  # reads aren't asked about
        with pytest.raises(errors.NotLeadingError, match=f"POST {POD} is not sent"):
            client.send(Request("POST", POD, Pod, Pod(ObjectMeta())))
    assert list(asked) == []
    assert server.requests == [("GET", POD)]


def test_reads_are_repeated_until_they_work() -> None:
    good = answer(200, '{"kind":"Pod","metadata":{"name":"web"}}')
    faults = [Fault("GET", POD, each) for each in (refuse(), answer(503), answer(429), lose_answer(), good)]
    with faulty(NOBODY, *faults) as server, Api(server.url, threading.Event()) as client:
        assert client.get(POD, Pod).metadata.name == "web"
        assert len(server.requests) == 5


def test_once_it_is_to_stop_nothing_is_tried_again() -> None:
    stopping = threading.Event()
    stopping.set()
    with (
        faulty(NOBODY, Fault("GET", POD, answer(503), ALWAYS)) as server,
        Api(server.url, stopping) as client,
    ):
        with pytest.raises(errors.ServerError):
            client.get(POD, Pod)
        assert len(server.requests) == 1


def page(names: str, token: str = "") -> Effect:
    """A page of a list of nodes, one for each letter."""
    items = [{"metadata": {"name": name}} for name in names]
    return answer(200, json.dumps({"kind": "NodeList", "metadata": {"continue": token}, "items": items}))


def test_a_list_is_read_page_by_page() -> None:
    faults = [
        Fault("GET", r"limit=1000$", page("ab", "next")),
        Fault("GET", r"continue=next", page("c")),
    ]
    with faulty(NOBODY, *faults) as server, Api(server.url, threading.Event()) as client:
        listing = client.list("/api/v1/nodes", Node)
    assert [each.metadata.name for each in listing.items] == ["a", "b", "c"]


def test_a_list_that_expired_between_two_pages_begins_again() -> None:
    faults = [
        Fault("GET", r"continue=old", answer(410, status("The provided continue parameter is too old"))),
        Fault("GET", r"limit=1000$", page("a", "old")),
        Fault("GET", r"limit=1000$", page("ab")),
    ]
    with faulty(NOBODY, *faults) as server, Api(server.url, threading.Event()) as client:
        listing = client.list("/api/v1/nodes", Node)
    assert [each.metadata.name for each in listing.items] == ["a", "b"]


def test_an_empty_list_may_be_null() -> None:
    body = '{"kind": "NodeList", "metadata": {"resourceVersion": "1"}, "items": null}'
    with (
        faulty(NOBODY, Fault("GET", "nodes", answer(200, body))) as server,
        Api(server.url, threading.Event()) as client,
    ):
        assert client.list("/api/v1/nodes", Node).items == []


# --- answers without an end -----------------------------------------------------------------------------


def test_a_list_whose_tokens_always_differ_ends_with_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lib.kube.pager.MAX_PAGES", 5)
    tokens = count()

    def next_page(exchange: Exchange) -> Answer | Stream | None:
        return page("a", f"token-{next(tokens)}")(exchange)

    with (
        faulty(NOBODY, Fault("GET", "nodes", next_page, ALWAYS)) as server,
        Api(server.url, threading.Event()) as client,
        pytest.raises(errors.AnswerError, match="the list never ends: after 5 pages there are more"),
    ):
        client.list("/api/v1/nodes", Node)


def test_only_a_page_that_is_too_large_is_asked_for_in_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lib.kube.attempt.MAX_BODY", 1000)
    faults = [
        Fault("GET", r"limit=1000$", page("a" * 100)),
        Fault("GET", r"limit=100$", page("a", "next")),
        Fault("GET", r"limit=1000&continue=next$", page("b")),
    ]
    with faulty(NOBODY, *faults) as server, Api(server.url, threading.Event()) as client:
        listing = client.list("/api/v1/nodes", Node)
    assert [each.metadata.name for each in listing.items] == ["a", "b"]


@pytest.mark.parametrize(
    ("headers", "error", "said"),
    [
        ({}, errors.TooLargeError, "larger than 1 MiB"),
        ({"Content-Encoding": "gzip"}, errors.TooLargeError, "larger than 1 MiB"),
        ({"Content-Encoding": "gzip, gzip"}, errors.AnswerError, "can't be decompressed"),
        ({"Content-Encoding": "br"}, errors.AnswerError, "can't be decompressed"),
    ],
    ids=["plain", "packed", "packed twice", "packed otherwise"],
)
def test_an_object_has_a_size_limit(
    monkeypatch: pytest.MonkeyPatch, headers: dict[str, str], error: type[ApiError], said: str
) -> None:
    monkeypatch.setattr("lib.kube.attempt.MAX_BODY", 1 << 20)
    body = b"x" * (2 << 20)
    if headers:
        body = gzip.compress(body)
        assert len(body) < 1 << 20
    made = Answer(200, tuple(headers.items()), body, len(body))
    with (
        faulty(NOBODY, Fault("GET", POD, lambda _: made, ALWAYS)) as server,
        Api(server.url, threading.Event()) as client,
        pytest.raises(error, match=said),
    ):
        client.get(POD, Pod)


def test_a_line_of_a_watch_has_a_size_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lib.kube.api.MAX_LINE", 1 << 20)
    endless = Stream(200, (), repeat(b"x" * (1 << 16)))
    with (
        faulty(NOBODY, Fault("GET", "pods", lambda _: endless)) as server,
        Api(server.url, threading.Event()) as client,
    ):
        watch = client.watch("/api/v1/pods", "1")
        with pytest.raises(errors.TooLargeError, match="a line is longer than 1 MiB"):
            list(watch)


def test_a_read_that_others_wait_for_is_given_up_soon() -> None:
    later = answer(429, status("later"), {"Retry-After": "60"})
    with (
        faulty(NOBODY, Fault("GET", POD, later, ALWAYS)) as server,
        Api(server.url, threading.Event()) as client,
    ):
        with pytest.raises(errors.OverloadedError):
            client.with_short_timeouts().get(POD, Pod)
        assert len(server.requests) == 1
    with (
        faulty(NOBODY, Fault("GET", POD, answer(503), ALWAYS)) as server,
        Api(server.url, threading.Event()) as client,
    ):
        with pytest.raises(errors.ServerError):
            client.with_short_timeouts().get(POD, Pod)
        assert len(server.requests) == 2


# --- lists that are read at once --------------------------------------------------------------------------


def test_lists_are_asked_for_at_once() -> None:
    both = threading.Barrier(2)

    def meet(exchange: Exchange) -> Answer | Stream | None:
        both.wait(30)  # for the other list's request
        return page("a")(exchange)

    faults = [Fault("GET", "/one", meet), Fault("GET", "/two", meet)]
    with faulty(NOBODY, *faults) as server, Api(server.url, threading.Event()) as client:
        listing = client.list_each(["/one", "/two"], Node)
    assert [each.metadata.name for each in listing.items] == ["a", "a"]


def test_the_next_page_is_asked_for_before_one_is_decoded(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = threading.Event()

    def second(exchange: Exchange) -> Answer | Stream | None:
        asked.set()
        return page("b")(exchange)

    def decode(body: bytes, *more: Any) -> Any:
        assert asked.wait(30)
        return decode_page(body, *more)

    monkeypatch.setattr("lib.kube.api.decode_page", decode)
    faults = [Fault("GET", "limit=1000$", page("a", "next")), Fault("GET", "continue=next", second)]
    with faulty(NOBODY, *faults) as server, Api(server.url, threading.Event()) as client:
        listing = client.list("/api/v1/nodes", Node)
    assert [each.metadata.name for each in listing.items] == ["a", "b"]


def test_when_one_list_fails_its_error_is_told_and_the_others_can_still_be_read() -> None:
    faults = [Fault("GET", "/one", answer(403, status("no"))), Fault("GET", "/two", page("ab"))]
    with faulty(NOBODY, *faults) as server, Api(server.url, threading.Event()) as client:
        one, two = client.pager("/one", Node), client.pager("/two", Node)
        read_at_once([one, two])
        with pytest.raises(errors.ForbiddenError):
            one.answer()
        assert [each.metadata.name for each in two.answer().items] == ["a", "b"]


@pytest.mark.parametrize(
    ("body", "token"),
    [
        (
            b'{"kind":"PodList","metadata":{"continue":"more"},"items":[{"metadata":{"continue":"no"}}]}',
            "more",
        ),
        (b'{"kind":"PodList","items":[{"metadata":{}}],"metadata":{"continue":"more"}}', "more"),
        (b'{"metadata": {"continue": "more"}, "items": []}', "more"),
        (b'{"metadata":{"resourceVersion":"7"},"items":[]}', ""),
        (b'{"metadata":{"continue":"more"},"items":[', "more"),
        (b"no JSON", ""),
    ],
)
def test_the_token_of_the_next_page_is_found_wherever_a_server_writes_it(body: bytes, token: str) -> None:
    assert continue_of(body) == token
