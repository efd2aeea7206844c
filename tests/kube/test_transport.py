"""The transport against a server that sends given bytes."""

import socket
import ssl
import threading
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import httpx
import pytest
import trustme

from lib.kube.transport import KeepAliveTransport, to_host, to_unix_socket

WHOLE = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello"
PIECES = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhe\r\n3\r\nllo\r\n0\r\n\r\n"
TO_THE_END = b"HTTP/1.1 200 OK\r\n\r\nhello"
HINTS = b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: <x>\r\nContent-Length: 3\r\n\r\n"
NO_MORE = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nConnection: close\r\n\r\nhello"


class Server:
    """Answers the first request of its first connection with the first answer, and so on.

    An answer is sent in its pieces. After None, the connection is closed. heard: by connection, the requests.
    closed: has one for each connection that was.
    """

    def __init__(self, listener: socket.socket, *connections: list[bytes | None]) -> None:
        self.listener = listener
        self.heard: list[list[bytes]] = []
        self.closed = threading.Semaphore(0)
        self._connections = connections
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    def _serve(self) -> None:
        for answers in self._connections:
            with suppress(OSError), self.listener.accept()[0] as accepted:
                self.heard.append([])
                for answer in answers:
                    if answer is None:
                        break
                    self.heard[-1].append(accepted.recv(1 << 16))
                    for byte in answer.split(b"|"):
                        accepted.sendall(byte)
                else:
                    accepted.recv(1)  # until the other side hangs up
            self.closed.release()


@contextmanager
def serving(*connections: list[bytes | None]) -> Iterator[tuple[Server, KeepAliveTransport]]:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        server = Server(listener, *connections)
        with closing(KeepAliveTransport(to_host(*listener.getsockname()[:2]))) as transport:
            yield server, transport


def a_request(timeout: float = 60.0, content: bytes = b"") -> httpx.Request:
    extensions = {"timeout": httpx.Timeout(timeout).as_dict()}
    return httpx.Request("GET", "http://server/path?x=1", content=content, extensions=extensions)


def get(transport: KeepAliveTransport, timeout: float = 60.0, content: bytes = b"") -> httpx.Response:
    answer = transport.handle_request(a_request(timeout, content))
    with closing(answer):
        answer.read()
    return answer


@pytest.mark.parametrize(
    "answer",
    [
        WHOLE,
        PIECES,
        NO_MORE,
        b"|".join(bytes([each]) for each in PIECES),
        HINTS + WHOLE,
        HINTS + b"|" + WHOLE,
        b"|".join(bytes([each]) for each in HINTS + PIECES),
    ],
)
def test_an_answer_is_read_however_it_comes(answer: bytes) -> None:
    with serving([answer]) as (server, transport):
        read = get(transport, content=b"body")
        assert (read.status_code, read.reason_phrase, read.content) == (200, "OK", b"hello")
        head, body = server.heard[0][0].split(b"\r\n\r\n")
        assert head.startswith(b"GET /path?x=1 HTTP/1.1\r\nHost: server\r\n")
        assert b"Content-Length: 4" in head
        assert body == b"body"


def test_an_answer_without_a_length_ends_with_its_connection() -> None:
    with serving([TO_THE_END, None], [WHOLE]) as (server, transport):
        assert get(transport).content == b"hello"
        assert get(transport).content == b"hello"
        assert [len(requests) for requests in server.heard] == [1, 1]


def test_a_connection_is_kept_for_the_next_request() -> None:
    with serving([WHOLE, PIECES, WHOLE]) as (server, transport):
        assert [get(transport).content for _ in range(3)] == [b"hello"] * 3
        assert [len(requests) for requests in server.heard] == [3]


def test_the_next_request_need_not_wait_for_the_answer_to_the_last() -> None:
    with serving([NO_MORE], [WHOLE]) as (server, transport):
        answers = [transport.send(a_request()), transport.send(a_request())]
        assert [sent.receive().read() for sent in answers] == [b"hello"] * 2
        assert [len(requests) for requests in server.heard] == [1, 1]


def test_the_time_for_an_answer_is_counted_from_the_request() -> None:
    with serving(*[[b""]] * 100) as (_, transport):
        late = [transport.send(a_request(timeout=1)) for _ in range(100)]
        began = time.monotonic()
        for each in late:
            with pytest.raises(httpx.ReadTimeout):
                each.receive()
        assert time.monotonic() - began < 60  # one after the other they would take 100 s


def test_connections_of_a_burst_are_closed_when_they_are_not_used_any_more(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("lib.kube.transport.KEEP_IDLE", 0.05)
    there: set[tuple[str, int]] = set()

    class Answers(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def handle(self) -> None:
            there.add(self.client_address)
            super().handle()
            there.discard(self.client_address)

        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Answers) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        with closing(KeepAliveTransport(to_host("127.0.0.1", server.server_port))) as transport:
            for sent in [transport.send(a_request()) for _ in range(9)]:
                with closing(sent.receive()) as answer:
                    answer.read()
            assert len(there) == 9
            until = time.monotonic() + 10
            while len(there) > 1 and time.monotonic() < until:
                get(transport)
                time.sleep(0.01)
            assert len(there) == 1
        server.shutdown()


def test_one_that_the_server_closes_is_not_used_again() -> None:
    with serving([WHOLE, None], [NO_MORE, None], [WHOLE, None]) as (server, transport):
        for _ in range(3):
            assert get(transport).content == b"hello"
            assert server.closed.acquire(timeout=60)
        assert [len(requests) for requests in server.heard] == [1, 1, 1]


def test_an_answer_that_nobody_reads_to_its_end_costs_its_connection() -> None:
    with serving([b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhello"], [WHOLE]) as (server, transport):
        transport.handle_request(a_request()).close()
        assert get(transport).content == b"hello"
        assert [len(requests) for requests in server.heard] == [1, 1]


@pytest.mark.parametrize(
    ("answer", "error"),
    [
        (b"", httpx.RemoteProtocolError),
        (b"HTTP/1.1 200 OK\r\nContent-", httpx.RemoteProtocolError),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhello", httpx.RemoteProtocolError),
        (PIECES[:-5], httpx.RemoteProtocolError),
        (b"SSH-2.0-OpenSSH_9.2\r\n", httpx.RemoteProtocolError),
        (b"HTTP/1.1 101 Switching\r\nUpgrade: h2c\r\nConnection: Upgrade\r\n\r\n", httpx.RemoteProtocolError),
    ],
    ids=["nothing", "half a head", "half a body", "no last chunk", "not HTTP", "another protocol"],
)
def test_what_is_no_whole_answer_is_an_error(answer: bytes, error: type[Exception]) -> None:
    with serving([answer, None]) as (_, transport), pytest.raises(error):
        get(transport)


@pytest.mark.parametrize("more", [b"GARBAGE", WHOLE], ids=["no HTTP", "a second answer"])
def test_more_than_was_asked_for_costs_the_connection(more: bytes) -> None:
    with serving([WHOLE + more], [WHOLE]) as (server, transport):
        with pytest.raises(httpx.RemoteProtocolError):
            get(transport)
        assert get(transport).content == b"hello"
        assert [len(requests) for requests in server.heard] == [1, 1]


@pytest.mark.parametrize("answer", [b"", b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhello"])
def test_an_answer_must_come_in_time(answer: bytes) -> None:
    with serving([answer]) as (_, transport), pytest.raises(httpx.ReadTimeout):
        get(transport, timeout=0.1)


def test_where_nobody_listens() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        address = listener.getsockname()
    with pytest.raises(httpx.ConnectError):
        get(KeepAliveTransport(to_host(*address)))


def test_a_name_that_is_not_resolved_in_time_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """The resolver waits for longer than anyone should; that can't be had without its configuration."""
    told, resolve = threading.Event(), socket.getaddrinfo

    def slow(host: str, *rest: Any, **flags: Any) -> Any:
        if host == "slow.example" and not flags.get("flags"):
            told.wait(30)
            raise socket.gaierror(socket.EAI_AGAIN, "no answer")
        return resolve(host, *rest, **flags)

    monkeypatch.setattr(socket, "getaddrinfo", slow)
    transport = KeepAliveTransport(to_host("slow.example", 80))
    with httpx.Client(transport=transport, timeout=0.05) as client:
        for _ in range(2):  # and the second waits for what the first has asked
            with pytest.raises(
                httpx.ConnectTimeout, match=r"slow\.example: its address was not found in time"
            ):
                client.get("http://slow.example/")
        assert sum("look_up" in each.name for each in threading.enumerate()) == 1
        told.set()


def test_where_nobody_listens_at_a_names_first_address_the_next_is_tried(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        port, resolve = listening.getsockname()[1], socket.getaddrinfo
        found = [
            each for ip in ("127.0.0.2", "127.0.0.1") for each in resolve(ip, port, type=socket.SOCK_STREAM)
        ]
        monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: found)
        to_host("two.example", port)(5).close()
        found.pop()
        with pytest.raises(ConnectionRefusedError):
            to_host("two.example", port)(5)


def test_over_a_unix_socket(tmp_path: Path) -> None:
    path = str(tmp_path / "socket")
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(path)
        listener.listen()
        Server(listener, [WHOLE])
        with closing(KeepAliveTransport(to_unix_socket(path))) as transport:
            assert get(transport).content == b"hello"
    with pytest.raises(httpx.ConnectError):
        get(KeepAliveTransport(to_unix_socket(str(tmp_path / "nobody"))))


def test_over_tls() -> None:
    ca = trustme.CA()
    ours, theirs = ssl.create_default_context(), ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    ca.issue_cert("127.0.0.1").configure_cert(theirs)
    with (
        socket.create_server(("127.0.0.1", 0)) as plain,
        theirs.wrap_socket(plain, server_side=True) as listener,
    ):
        address = listener.getsockname()
        Server(listener, [], [WHOLE, WHOLE])
        with pytest.raises(httpx.ConnectError, match="certificate"):
            get(KeepAliveTransport(to_host(*address, ours)))
        ca.configure_trust(ours)
        with closing(KeepAliveTransport(to_host(*address, ours))) as transport:
            assert [get(transport).content for _ in range(2)] == [b"hello"] * 2


def test_headers_have_an_end() -> None:
    endless = b"HTTP/1.1 200 OK\r\n" + b"X-More: and more\r\n" * (1 << 17)
    with serving([endless]) as (_, transport), pytest.raises(httpx.RemoteProtocolError, match="never end"):
        get(transport)
