"""Requests in flight: whose answer is there, whose is overdue, and how long a wait for them lasts."""

import socket
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager

import httpx

from lib.kube.api import Api
from lib.kube.errors import LostAnswerError, UnreachableError
from lib.kube.in_flight import InFlight
from lib.kube.system import MACHINE
from lib.kube.write import Request

HEAD = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n"
LONG = 60.0


@contextmanager
def a_server(timeout: float = LONG) -> Iterator[tuple[socket.socket, InFlight]]:
    """A server that answers nothing by itself, and a client of it."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        address = f"http://127.0.0.1:{listener.getsockname()[1]}"
        with Api(address, threading.Event(), timeout=httpx.Timeout(timeout)) as api:
            yield listener, InFlight(api.begin, MACHINE)


def sent(in_flight: InFlight, listener: socket.socket, about: str) -> socket.socket:
    """Send a request; returns the server's side of its connection."""
    in_flight.send(Request("GET", "/readyz"), about)
    return listener.accept()[0]


def answers(in_flight: InFlight, within: float = LONG) -> list[tuple[str, object]]:
    return list(in_flight.answers(MACHINE.monotonic() + within))


def test_an_answer_that_is_there_waits_for_no_other() -> None:
    with a_server() as (listener, in_flight):
        slow, whole = (sent(in_flight, listener, about) for about in ("slow", "whole"))
        with closing(slow), closing(whole):
            slow.sendall(HEAD + b"he")
            whole.sendall(HEAD + b"hello")
            got: list[tuple[str, object]] = []
            while not got:  # the first look may find only a part of the slow one
                got = answers(in_flight)
            assert (got, len(in_flight)) == ([("whole", b"hello")], 1)
            slow.sendall(b"llo")
            assert (answers(in_flight), len(in_flight)) == ([("slow", b"hello")], 0)


def test_a_connection_is_used_again_after_its_answer() -> None:
    with a_server() as (listener, in_flight), closing(sent(in_flight, listener, "first")) as server:
        for about in ("first", "second"):
            server.sendall(HEAD + b"hello")
            assert answers(in_flight) == [(about, b"hello")]
            in_flight.send(Request("GET", "/readyz"), "second")


def test_an_answer_that_does_not_come_in_time_is_lost() -> None:
    with a_server(timeout=0.02) as (listener, in_flight), closing(sent(in_flight, listener, "late")):
        ((about, error),) = answers(in_flight)
        assert (about, type(error), len(in_flight)) == ("late", LostAnswerError, 0)


def test_a_wait_ends_in_time_and_the_request_stays_in_flight() -> None:
    with a_server() as (listener, in_flight), closing(sent(in_flight, listener, "slow")):
        assert (answers(in_flight, within=0.01), len(in_flight)) == ([], 1)


def test_a_request_that_was_not_sent_is_answered_before_others_are_waited_for() -> None:
    with a_server() as (listener, in_flight), closing(sent(in_flight, listener, "slow")):
        listener.close()
        in_flight.send(Request("GET", "/readyz"), "nobody there")
        ((about, error),) = answers(in_flight)
        assert (about, type(error), len(in_flight)) == ("nobody there", UnreachableError, 1)


def test_a_connection_that_is_closed_after_its_answer_is_no_answer_of_another() -> None:
    with a_server() as (listener, in_flight):
        quick, slow = (sent(in_flight, listener, about) for about in ("quick", "slow"))
        with closing(slow):
            quick.sendall(HEAD + b"hello")
            assert answers(in_flight) == [("quick", b"hello")]
            quick.close()
            assert answers(in_flight, within=0.01) == []
