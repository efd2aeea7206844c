"""A proxy between a client and its API server that may do anything with a request.

class Slow(Proxy):
    def respond(self, exchange: Exchange) -> Answer | Stream | None:
        exchange.wait(1)
        return exchange.pass_on()

with running(Slow, upstream) as proxy:
    ...  # talk to proxy.url
"""

import re
import socket
import struct
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, TypeVar
from urllib.parse import urlsplit

import httpx

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

Headers = Sequence[tuple[str, str]]


class BrokenOffError(Exception):
    """Raised by the lines of a stream: the connection is broken off."""


@dataclass(frozen=True)
class Answer:
    """An answer to a client. If the body is shorter than `content_length`, the connection is broken off."""

    status: int
    headers: Headers
    body: bytes
    content_length: int


@dataclass(frozen=True)
class Stream:
    """An answer that is sent line by line. An error of the iterator breaks the connection off."""

    status: int
    headers: Headers
    lines: Iterator[bytes]


@dataclass(frozen=True)
class Exchange:
    """A request, and what can be done with it. path: with the query. connection: the client's."""

    proxy: "Proxy"
    method: str
    path: str
    headers: Headers
    body: bytes
    connection: socket.socket

    @property
    def is_watch(self) -> bool:
        """Whether it is answered line by line."""
        return re.search(r"[?&]watch=(1|true)\b", self.path) is not None

    def pass_on(self) -> Answer | Stream:
        """The upstream's answer."""
        return self.stream() if self.is_watch else self.forward()

    def forward(self, path: str = "") -> Answer:
        """The upstream's whole answer, perhaps for another path."""
        try:
            got = self.proxy.upstream.request(
                self.method, path or self.path, headers=_end_to_end(self.headers), content=self.body
            )
        except httpx.TransportError as error:
            message = f"{type(error).__name__}: {error}".encode()
            return Answer(502, (), message, len(message))
        return Answer(got.status_code, _end_to_end(got.headers.multi_items()), got.content, len(got.content))

    def stream(self, patience: float | None = None) -> Stream:
        """The upstream's answer line by line; patience: the most seconds from one to the next."""
        upstream, streams = self.proxy.upstream, self.proxy.streams
        timeout = httpx.Timeout(UPSTREAM_TIMEOUT, read=patience)
        request = upstream.build_request("GET", self.path, headers=_end_to_end(self.headers), timeout=timeout)
        got = upstream.send(request, stream=True)
        connection: socket.socket = got.extensions["network_stream"].get_extra_info("socket")
        streams.add(connection)

        def lines() -> Iterator[bytes]:
            try:
                rest = b""
                for chunk in got.iter_bytes():
                    *whole, rest = (rest + chunk).split(b"\n")
                    yield from (line + b"\n" for line in whole)
                if rest:
                    yield rest
            finally:
                streams.discard(connection)
                got.close()

        return Stream(got.status_code, _end_to_end(got.headers.multi_items()), lines())

    def wait(self, seconds: float) -> bool:
        """Wait for so many seconds; true if the proxy ends."""
        return self.proxy.stopping.wait(seconds)

    def keep(self, seconds: float) -> None:
        """Wait until the client gives up, but no longer than that."""
        self.connection.settimeout(seconds)
        with suppress(OSError):
            self.connection.recv(1)

    def reset(self) -> None:
        """Break the connection off so that the client sees an error, and not just its end."""
        self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.connection.close()


class Proxy:
    """A running proxy; this one passes everything on. url: where it listens."""

    def __init__(self, url: str, upstream: httpx.Client) -> None:
        self.url, self.upstream = url, upstream
        self.stopping = threading.Event()
        self.streams: set[socket.socket] = set()

    def respond(self, exchange: Exchange) -> Answer | Stream | None:
        """What the client gets; None: the connection is closed without an answer."""
        return exchange.pass_on()

    def stop_waiting(self) -> None:
        """End all delays, now and later, and all streams."""
        self.stopping.set()
        self.cut()

    def cut(self) -> None:
        """Break all streams off."""
        for each in self.streams.copy():
            with suppress(OSError):  # it has ended by itself
                each.shutdown(socket.SHUT_RDWR)


P = TypeVar("P", bound=Proxy)


@contextmanager
def running(make: Callable[[str, httpx.Client], P], upstream: str) -> Iterator[P]:
    """Run a proxy on loopback in front of its upstream, http:// or unix://.

    Answers are passed on when they are complete; those of watches line by line.
    """
    url = urlsplit(upstream)
    socket_path, base = (url.path, "http://localhost") if url.scheme == "unix" else (None, upstream)
    transport = httpx.HTTPTransport(  # without TLS: certificates take 50 ms to read
        uds=socket_path, verify=False, limits=httpx.Limits(max_connections=None)
    )
    with (
        httpx.Client(base_url=base, transport=transport, timeout=UPSTREAM_TIMEOUT, trust_env=False) as client,
        _Server(("127.0.0.1", 0), _Handler) as server,
    ):
        proxy = server.proxy = make(f"http://127.0.0.1:{server.server_port}", client)
        accepting = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
        accepting.start()
        try:
            yield proxy
        finally:
            proxy.stop_waiting()
            server.shutdown()
            accepting.join()


def _end_to_end(headers: Headers) -> list[tuple[str, str]]:
    return [(name, value) for name, value in headers if name.lower() not in HOP_BY_HOP]


class _Server(ThreadingHTTPServer):
    """One thread a connection; closing it hangs up on all clients, idle ones too, and joins the threads."""

    proxy: Proxy
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
        with suppress(OSError):  # a client may hang up at any time
            super().handle()

    def exchange(self) -> None:
        if "chunked" in self.headers.get("Transfer-Encoding", ""):
            body = b"".join(self._chunks())
            length = len(body)
        else:
            length = int(self.headers.get("Content-Length", 0))
            body = self.rfile.read(length)
        if len(body) < length:  # the client hung up in the middle of its request
            self.close_connection = True
            return
        exchange = Exchange(
            self.server.proxy, self.command, self.path, self.headers.items(), body, self.connection
        )
        answer = self.server.proxy.respond(exchange)
        if isinstance(answer, Stream):
            self._pass_on(answer)
            return
        self.close_connection |= answer is None or len(answer.body) < answer.content_length
        if answer is None:
            return
        self._head(answer, "Content-Length", str(answer.content_length))
        self.wfile.write(answer.body)

    def _chunks(self) -> Iterator[bytes]:
        """The body of a request whose length the client didn't know before."""
        while size := int(self.rfile.readline().partition(b";")[0].strip() or b"0", 16):
            yield self.rfile.read(size)
            self.rfile.readline()
        self.rfile.readline()

    def _head(self, answer: Answer | Stream, *last: str) -> None:
        self.send_response_only(answer.status)
        for name, value in (*answer.headers, last):
            self.send_header(name, value)
        self.end_headers()

    def _pass_on(self, stream: Stream) -> None:
        self._head(stream, "Transfer-Encoding", "chunked")
        try:
            for line in stream.lines:
                self.wfile.write(b"%x\r\n%b\r\n" % (len(line), line))
            self.wfile.write(b"0\r\n\r\n")
        except (httpx.TransportError, BrokenOffError):
            self.close_connection = True

    do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = exchange  # noqa: N815

    def log_message(self, format: str, *args: object) -> None:
        """Stay quiet: a proxy notes what it wants to know of requests."""
