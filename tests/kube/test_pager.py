"""Lists that are read page by page, several at once. The pages are made here; no server is needed."""

import json
import os
import time
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any, cast

import pytest
from tenacity import Retrying, stop_after_attempt

from lib.kube.attempt import PendingResponse
from lib.kube.decoding import decode_page
from lib.kube.errors import AnswerError, ApiError, GoneError, TooLargeError
from lib.kube.objects import Node
from lib.kube.pager import LISTS_AT_ONCE, ListPager, read_at_once, together

Answer = str | Exception


def page(*names: str, token: str = "", version: str = "7") -> str:
    """A page with these nodes; one named "odd" can't be decoded."""
    items = [{"metadata": {"name": name, "labels": {"a": 5} if name == "odd" else {}}} for name in names]
    return json.dumps(
        {"kind": "NodeList", "metadata": {"resourceVersion": version, "continue": token}, "items": items},
        separators=(",", ":"),
    )


@pytest.fixture
def readable() -> Iterator[int]:
    """A file descriptor that can always be read."""
    end, other = os.pipe()
    os.write(other, b"x")
    yield end
    os.close(end)
    os.close(other)


class Server:
    """Answers each list's requests in order.

    asked: the limit and the token of each request. awaited: how many answers are to come; most: how many at
    most.
    """

    def __init__(self, number: int = -1) -> None:
        self._number = number
        self.asked: list[tuple[str, str]] = []
        self.awaited = self.most = 0

    def pager(self, *answers: Answer) -> ListPager[Node]:
        left = iter(answers)
        return ListPager(
            "GET /api/v1/nodes",
            {},
            partial(self._begin, lambda: next(left)),
            partial(Retrying, stop=stop_after_attempt(1), reraise=True),
            lambda body, malformed: decode_page(body, Node, "GET /api/v1/nodes", malformed),
        )

    def _begin(self, answer: Callable[[], Answer], query: Mapping[str, str]) -> PendingResponse[bytes]:
        self.asked.append((query["limit"], query.get("continue", "")))
        self.awaited += 1
        self.most = max(self.most, self.awaited)
        return cast(Any, Pending(self, answer, self._number))


class Pending:
    """In place of a response to come."""

    def __init__(self, server: Server, answer: Callable[[], Answer], number: int) -> None:
        self._server, self._answer = server, answer
        self._number = os.dup(number) if number >= 0 else -1
        self.due = time.monotonic() + 60

    def fileno(self) -> int:
        return self._number

    def answer(self) -> bytes:
        self._server.awaited -= 1
        if self._number >= 0:
            os.close(self._number)
        found = self._answer()
        if isinstance(found, Exception):
            raise found
        return found.encode()


def names(pager: ListPager[Node]) -> list[str]:
    return [node.metadata.name for node in pager.answer().items]


def test_a_list_may_have_as_many_pages_as_are_allowed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lib.kube.pager.MAX_PAGES", 3)
    pages = [page("a", token="1"), page("b", token="2"), page("c")]
    assert names(Server().pager(*pages)) == ["a", "b", "c"]
    with pytest.raises(AnswerError, match="after 3 pages there are more"):
        names(Server().pager(*pages[:2], page("c", token="3"), page("d")))


def test_a_server_that_always_gives_the_same_token_is_found_out() -> None:
    with pytest.raises(AnswerError, match="each page has the same continue token"):
        names(Server().pager(page("a", token="1"), page("b", token="1"), page("c")))


def test_a_page_that_is_too_large_is_asked_for_in_pieces_down_to_one_object() -> None:
    server, large = Server(), TooLargeError("too large")
    with pytest.raises(TooLargeError):
        names(server.pager(large, large, large, large))
    assert [limit for limit, _ in server.asked] == ["1000", "100", "10", "1"]
    server = Server()
    assert names(server.pager(large, large, page("a", token="1"), page("b", token="2"), page("c")))
    assert [limit for limit, _ in server.asked] == ["1000", "100", "10", "100", "1000"]


def test_a_list_that_begins_again_is_given_from_its_beginning() -> None:
    pager = Server().pager(page("a", token="1"), GoneError("expired"), page("a", token="2"), page("b"))
    pager.read_page()
    assert [node.metadata.name for node in pager.new_items()] == ["a"]
    pager.read_page()  # the token has expired
    pager.read_page()
    assert [node.metadata.name for node in pager.new_items()] == ["a"]
    assert names(pager) == ["a", "b"]
    assert [node.metadata.name for node in pager.new_items()] == ["b"]


def test_a_list_is_begun_three_times_at_most() -> None:
    expires = [page("a", token="1"), GoneError("expired")]
    assert names(Server().pager(*expires, *expires, page("b"))) == ["b"]
    with pytest.raises(GoneError):
        names(Server().pager(*expires, *expires, *expires, page("b")))


@pytest.mark.parametrize(("version", "together_at"), [("7", "7"), ("8", "")])
def test_several_lists_are_one(version: str, together_at: str) -> None:
    server = Server()
    found = together([server.pager(page("a", "odd")), server.pager(page("b", version=version))])
    assert [node.metadata.name for node in found.items] == ["a", "b"]
    assert [*found.malformed] == ["odd"]
    assert found.resource_version == together_at


def test_so_many_lists_are_read_at_once(readable: int) -> None:
    server = Server(readable)
    pagers = [server.pager(page(f"n{i}", token="1"), page(f"m{i}")) for i in range(LISTS_AT_ONCE + 2)]
    read_at_once(pagers)
    assert [names(pager) for pager in pagers] == [[f"n{i}", f"m{i}"] for i in range(LISTS_AT_ONCE + 2)]
    assert server.most == LISTS_AT_ONCE


def test_when_one_list_fails_the_others_are_left(readable: int) -> None:
    server = Server(readable)
    good, bad = server.pager(page("a", token="1"), page("b")), server.pager(ApiError("no"))
    read_at_once([bad, good])
    with pytest.raises(ApiError, match="no"):
        bad.answer()
    assert not good.is_complete
    read_at_once([bad, good])  # it stays so
    assert not good.is_complete
    assert names(good) == ["a", "b"]
