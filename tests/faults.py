"""A proxy that misbehaves as told, to be put between a client and its API server in tests.

    with faulty(
        upstream,
        Fault("GET", r"/pods", delay(2)),
        Fault("POST", r"/binding$", answer(429, headers={"Retry-After": "1"}), times=2),
        Fault("POST", r"/binding$", lose_answer()),
    ) as proxy:
        ...  # talk to proxy.url

At most one fault applies to a request: the first in the table that matches it and isn't used up. Here two
bindings are refused; the third is made, but its client gets no answer.
"""

import json
import re
import socket
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import count
from typing import Any
from urllib.parse import urlsplit

import httpx

ALWAYS = sys.maxsize
UPSTREAM_TIMEOUT = 60.0

# About one connection and its encoding: httpx writes its own, and hands out decoded bodies.
HOP_BY_HOP = {
    "accept-encoding",
    "connection",
    "content-encoding",
    "content-length",
    "host",
    "transfer-encoding",
}


@dataclass(frozen=True)
class Answer:
    """An answer to a client. If the body is shorter than `content_length`, the connection is broken off."""

    status: int
    headers: tuple[tuple[str, str], ...]
    body: bytes
    content_length: int


@dataclass(frozen=True)
class Stream:
    """An answer that is sent line by line. An error of the iterator breaks the connection off."""

    status: int
    headers: tuple[tuple[str, str], ...]
    lines: Iterator[bytes]


@dataclass(frozen=True)
class Exchange:
    """What an effect can do with a request.

    forward: the upstream's whole answer. stream: its answer line by line, as for watches. wait: waits for so
    many seconds; true if the proxy ends.
    """

    forward: Callable[[], Answer]
    stream: Callable[[], Stream]
    wait: Callable[[float], bool]


Effect = Callable[[Exchange], Answer | Stream | None]  # None: close the connection without an answer


@dataclass(frozen=True)
class Fault:
    """An effect on requests with this method, and this regex in their path and query.

    The first `after` of them are passed on, then the effect applies to `times` of them.
    """

    method: str
    path: str
    effect: Effect
    times: int = 1
    after: int = 0

    def matches(self, method: str, path: str) -> bool:
        return method == self.method and re.search(self.path, path) is not None


def answer(status: int, body: str = "", headers: Mapping[str, str] | None = None) -> Effect:
    """Answer so; the upstream isn't asked."""
    content = body.encode()
    made = Answer(status, tuple((headers or {}).items()), content, len(content))
    return lambda exchange: made


def refuse() -> Effect:
    """Close the connection; the upstream isn't asked."""
    return lambda exchange: None


def lose_answer() -> Effect:
    """Close the connection once the upstream has answered: a write is done, but its client can't know."""

    def effect(exchange: Exchange) -> None:
        exchange.forward()

    return effect


def delay(seconds: float) -> Effect:
    """Wait, then forward."""

    def effect(exchange: Exchange) -> Answer | None:
        return None if exchange.wait(seconds) else exchange.forward()

    return effect


def drip(pause: float) -> Effect:
    """Answer byte by byte, with a pause of so many seconds before each."""

    def effect(exchange: Exchange) -> Stream:
        whole = exchange.forward()

        def pieces() -> Iterator[bytes]:
            for byte in whole.body:
                if exchange.wait(pause):
                    return
                yield bytes([byte])

        return Stream(whole.status, whole.headers, pieces())

    return effect


def hold(let_go: threading.Event) -> Effect:
    """Wait until this is set, then forward."""

    def effect(exchange: Exchange) -> Answer | None:
        while not let_go.is_set():
            if exchange.wait(0.02):
                return None
        return exchange.forward()

    return effect


def cut_answer(keep: int, honest_length: bool = False) -> Effect:
    """Send only so many bytes of the body.

    Content-Length is that of the whole body, and the connection is broken off; with `honest_length` it is
    that of the sent part, and the answer looks whole.
    """

    def effect(exchange: Exchange) -> Answer:
        whole = exchange.forward()
        body = whole.body[:keep]
        return replace(whole, body=body, content_length=len(body) if honest_length else whole.content_length)

    return effect


def change_json(change: Callable[[Any], Any]) -> Effect:
    """Send what `change` makes of the upstream's decoded JSON body."""

    def effect(exchange: Exchange) -> Answer:
        original = exchange.forward()
        body = json.dumps(change(json.loads(original.body))).encode()
        return replace(original, body=body, content_length=len(body))

    return effect


def change_events(change: Callable[[Any], Any]) -> Effect:
    """Send what `change` makes of each event of a watch."""

    def effect(exchange: Exchange) -> Stream:
        original = exchange.stream()
        lines = (json.dumps(change(json.loads(line))).encode() + b"\n" for line in original.lines)
        return replace(original, lines=lines)

    return effect


class FaultyProxy:
    """The running proxy: its URL, and the requests in order, as (method, path with query).

    requests: all but SelfSubjectAccessReviews.
    """

    def __init__(self, url: str, upstream: httpx.Client, faults: tuple[Fault, ...]) -> None:
        self.url = url
        self.requests: list[tuple[str, str]] = []
        self._upstream = upstream
        self._lock = threading.Lock()
        self._stopping = threading.Event()
        self._streams: set[socket.socket] = set()
        self._table: list[tuple[Fault, Iterator[int]]] = []  # each with a count of matching requests
        self.add(*faults)

    def add(self, *faults: Fault) -> None:
        """Put more faults at the end of the table."""
        with self._lock:
            self._table += [(fault, count()) for fault in faults]

    def stop_waiting(self) -> None:
        """End all delays, now and later, and all streams."""
        self._stopping.set()
        self.cut()

    def cut(self) -> None:
        """Break all streams off."""
        for each in self._streams.copy():
            with suppress(OSError):  # it has ended by itself
                each.shutdown(socket.SHUT_RDWR)

    def respond(
        self, method: str, path: str, headers: list[tuple[str, str]], body: bytes
    ) -> Answer | Stream | None:
        """The upstream's answer, or what a fault makes of it."""

        def forward() -> Answer:
            return self._forward(method, path, headers, body)

        def stream() -> Stream:
            return self._stream(path, headers)

        if effect := self._effect_on(method, path):
            return effect(Exchange(forward, stream, self._stopping.wait))
        return stream() if re.search(r"[?&]watch=(1|true)\b", path) else forward()

    def _effect_on(self, method: str, path: str) -> Effect | None:
        with self._lock:
            if not path.endswith(
                "/selfsubjectaccessreviews"
            ):  # poller sends these at each start; they write nothing
                self.requests.append((method, path))
            for fault, seen in self._table:
                if fault.matches(method, path) and 0 <= next(seen) - fault.after < fault.times:
                    return fault.effect
        return None

    def _forward(self, method: str, path: str, headers: list[tuple[str, str]], body: bytes) -> Answer:
        try:
            got = self._upstream.request(method, path, headers=_end_to_end(headers), content=body)
        except httpx.TransportError as error:
            message = f"{type(error).__name__}: {error}".encode()
            return Answer(502, (), message, len(message))
        return Answer(
            got.status_code, tuple(_end_to_end(got.headers.multi_items())), got.content, len(got.content)
        )

    def _stream(self, path: str, headers: list[tuple[str, str]]) -> Stream:
        request = self._upstream.build_request(
            "GET", path, headers=_end_to_end(headers), timeout=httpx.Timeout(UPSTREAM_TIMEOUT, read=None)
        )
        got = self._upstream.send(request, stream=True)
        connection: socket.socket = got.extensions["network_stream"].get_extra_info("socket")
        self._streams.add(connection)

        def lines() -> Iterator[bytes]:
            try:
                rest = b""
                for chunk in got.iter_bytes():
                    *whole, rest = (rest + chunk).split(b"\n")
                    yield from (line + b"\n" for line in whole)
                if rest:
                    yield rest
            finally:
                self._streams.discard(connection)
                got.close()

        return Stream(got.status_code, tuple(_end_to_end(got.headers.multi_items())), lines())


@contextmanager
def faulty(upstream: str, *faults: Fault) -> Iterator[FaultyProxy]:
    """Run a proxy on loopback that passes requests on to its upstream, http:// or unix://, except for faults.

    Answers are passed on when they are complete; those of watches line by line.
    """
    url = urlsplit(upstream)
    socket_path, base = (url.path, "http://localhost") if url.scheme == "unix" else (None, upstream)
    transport = httpx.HTTPTransport(uds=socket_path, verify=False)  # no TLS; certificates take 50 ms to read
    with (
        httpx.Client(base_url=base, transport=transport, timeout=UPSTREAM_TIMEOUT, trust_env=False) as client,
        _Server(("127.0.0.1", 0), _Handler) as server,
    ):
        server.proxy = FaultyProxy(f"http://127.0.0.1:{server.server_port}", client, faults)
        accepting = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
        accepting.start()
        try:
            yield server.proxy
        finally:
            server.proxy.stop_waiting()
            server.shutdown()
            accepting.join()


def _end_to_end(headers: list[tuple[str, str]]) -> list[tuple[str, str]]:
    return [(name, value) for name, value in headers if name.lower() not in HOP_BY_HOP]


class _Server(ThreadingHTTPServer):
    """One thread a connection; closing it hangs up on all clients, idle ones too, and joins the threads."""

    proxy: FaultyProxy
    daemon_threads = False
    request_queue_size = 128

    def __init__(self, address: tuple[str, int], handler: type[BaseHTTPRequestHandler]) -> None:
        self._open: set[socket.socket] = set()
        super().__init__(address, handler)

    def process_request(self, request: Any, client_address: Any) -> None:
        self._open.add(request)
        super().process_request(request, client_address)

    def shutdown_request(self, request: Any) -> None:
        self._open.discard(request)
        super().shutdown_request(request)

    def server_close(self) -> None:
        for connection in self._open.copy():
            with suppress(OSError):  # the client was faster
                connection.shutdown(socket.SHUT_RDWR)
        super().server_close()


class _Handler(BaseHTTPRequestHandler):
    server: _Server
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True  # otherwise a body isn't sent until the client has acknowledged the head

    def handle(self) -> None:
        with suppress(ConnectionError):  # a client may hang up at any time
            super().handle()

    def exchange(self) -> None:
        length = int(self.headers.get("Content-Length", 0))
        body = self.rfile.read(length)
        if len(body) < length:  # the client hung up in the middle of its request
            self.close_connection = True
            return
        answer = self.server.proxy.respond(self.command, self.path, self.headers.items(), body)
        if isinstance(answer, Stream):
            self._pass_on(answer)
            return
        self.close_connection |= answer is None or len(answer.body) < answer.content_length
        if answer is None:
            return
        self.send_response_only(answer.status)
        for name, value in answer.headers:
            self.send_header(name, value)
        self.send_header("Content-Length", str(answer.content_length))
        self.end_headers()
        self.wfile.write(answer.body)

    def _pass_on(self, stream: Stream) -> None:
        self.send_response_only(stream.status)
        for name, value in (*stream.headers, ("Transfer-Encoding", "chunked")):
            self.send_header(name, value)
        self.end_headers()
        try:
            for line in stream.lines:
                self.wfile.write(b"%x\r\n%b\r\n" % (len(line), line))
            self.wfile.write(b"0\r\n\r\n")
        except httpx.TransportError:
            self.close_connection = True

    do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = exchange  # noqa: N815

    def log_message(self, format: str, *args: object) -> None:
        """Stay quiet: `requests` is the log."""
