"""An httpx transport: HTTP/1.1 over connections that are kept open.

httpx's own transport takes 0.5 ms of CPU time for a request, most of it in a parser written in Python: that
is more than a decision on a pod. Here httptools parses, in C.
"""

import socket
import ssl
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import suppress
from functools import partial
from math import inf
from select import POLLIN
from typing import Any

import httptools
import httpx

from lib.kube.system import MACHINE, System

CHUNK = 1 << 16
"""Bytes to read at a time."""

LARGE = 1 << 20
"""An answer whose body has more bytes is read at once, as it comes."""

MAX_HEAD = 1 << 20
"""The most bytes of an answer before its body."""

KEEP_IDLE = 60.0
"""A connection that hasn't been used for so many seconds is closed: after a burst there are dozens."""

SOON, FOREVER = 0.001, 1e6
"""In seconds: a wait for something that should be there already; a wait without a limit."""

Connect = Callable[[float | None], socket.socket]
"""Opens a connection within so many seconds. OSError when that can't be done."""


AddressInfo = tuple[Any, ...]
"""An address of a host, as `socket.getaddrinfo` has it: family, kind, protocol, name and the address."""


class Addresses:
    """Looks up a host's addresses in a thread: otherwise the lookup couldn't have a time limit."""

    def __init__(self, host: str, port: int, system: System = MACHINE) -> None:
        self._host, self._port, self._system = host, port, system
        self._lock = threading.Lock()
        self._lookup: Future[Sequence[AddressInfo]] | None = None

    def find(self, until: float) -> Sequence[AddressInfo]:
        """The addresses. TimeoutError when there is no answer in time; OSError when the host has none."""
        try:
            return self._ask(socket.AI_NUMERICHOST)
        except socket.gaierror:  # it isn't an address but a name
            pass
        with self._lock:
            lookup = self._lookup
            if lookup is None or lookup.done():  # else the last lookup is still running
                lookup = self._lookup = self._system.future()
                self._system.start_thread(partial(self._look_up, lookup), f"look_up {self._host}")
        try:
            return lookup.result(max(until - self._system.monotonic(), SOON))
        except TimeoutError:
            raise TimeoutError(f"{self._host}: its address was not found in time") from None

    def _look_up(self, lookup: "Future[Sequence[AddressInfo]]") -> None:
        try:
            lookup.set_result(self._ask())
        except Exception as error:
            lookup.set_exception(error)

    def _ask(self, flags: int = 0) -> Sequence[AddressInfo]:
        return socket.getaddrinfo(self._host, self._port, type=socket.SOCK_STREAM, flags=flags)


def to_host(
    host: str,
    port: int,
    tls: ssl.SSLContext | None = None,
    server_name: str = "",
    system: System = MACHINE,
) -> Connect:
    """Connects to a TCP port. server_name: the name in the certificate, if it isn't the host's.

    The time limit is for all of it: the lookup, the tries of each address, and the TLS handshake.
    """
    addresses = Addresses(host, port, system)

    def connect(timeout: float | None) -> socket.socket:
        until = system.monotonic() + (FOREVER if timeout is None else timeout)
        error = OSError(f"{host} has no address")
        for family, kind, protocol, _, address in addresses.find(until):
            connection = system.socket(family, kind, protocol)
            try:
                connection.settimeout(max(until - system.monotonic(), SOON))
                connection.connect(address)
                connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                connection.settimeout(max(until - system.monotonic(), SOON))
                return tls.wrap_socket(connection, server_hostname=server_name or host) if tls else connection
            except OSError as failed:
                connection.close()
                error = failed
            except BaseException:
                connection.close()
                raise
        raise error

    return connect


def to_unix_socket(path: str, system: System = MACHINE) -> Connect:
    """Connects to a unix socket."""

    def connect(timeout: float | None) -> socket.socket:
        connection = system.socket(socket.AF_UNIX)
        connection.settimeout(timeout)
        try:
            connection.connect(path)
        except BaseException:
            connection.close()
            raise
        return connection

    return connect


class KeepAliveTransport(httpx.BaseTransport):
    """Sends requests; several threads may do so at once. Each request in flight has its own connection.

    Extensions of a request, all optional. "timeout", as in httpx: the seconds for each step; "read" may still
    be changed while the answer is read. "target", as in httpx: what to request instead of the URL's path.
    "deadline": the end of all steps, in `System.monotonic`'s seconds. "before_sending": called immediately
    before the request is sent; if it raises an error, nothing is sent. An answer's extension "socket" is that
    of its connection. Failures raise httpx's errors.
    """

    def __init__(self, connect: Connect, system: System = MACHINE) -> None:
        self._connect, self._system = connect, system
        self._idle: list[_Connection] = []

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        """Send a request; returns the answer, of which only the head has been read."""
        return self.send(request).receive()

    def send(self, request: httpx.Request) -> "SentRequest":
        """Send a request without waiting for the answer."""
        connection = self._take() or self._open(request)
        try:
            connection.send(request)
        except BaseException:
            connection.close()
            raise
        return SentRequest(connection, self._idle)

    def close(self) -> None:
        """Close the idle connections."""
        with suppress(IndexError):  # another thread may have taken the last one
            while True:
                self._idle.pop().close()

    def _take(self) -> "_Connection | None":
        """An idle connection that is still open; None if there is none."""
        while self._idle:
            try:
                connection = self._idle.pop()
            except IndexError:  # another thread took the last one
                return None
            if connection.is_quiet:
                return connection
            connection.close()
        return None

    def _open(self, request: httpx.Request) -> "_Connection":
        try:
            within = _left(request, request.extensions["timeout"]["connect"], self._system)
            return _Connection(self._connect(within), self._system)
        except TimeoutError as error:
            raise httpx.ConnectTimeout(str(error)) from error
        except OSError as error:
            raise httpx.ConnectError(str(error)) from error


class SentRequest(httpx.SyncByteStream):
    """A request in flight; then, the body of its answer.

    When its `fileno` is readable, the answer has begun, or goes on. When the body was read to its end, the
    connection is idle again.
    """

    def __init__(self, connection: "_Connection", idle: "list[_Connection]") -> None:
        self._connection: _Connection | None = connection
        self._idle = idle
        self.fileno = connection.socket.fileno
        self.sent_at = connection.system.monotonic()

    @property
    def due(self) -> float:
        """When more of the answer must be there, in `System.monotonic`'s seconds."""
        return self._connection.due if self._connection else -inf

    def take_in(self) -> bool:
        """Read what has come, when `fileno` is readable.

        Returns whether the rest can be read without a long wait: the answer is complete, large or broken.
        """
        return self._connection is None or self._connection.take_in()

    def expire(self) -> None:
        """Wait for nothing more: what is still to be read fails, unless it is there."""
        if self._connection:
            self._connection.due = -inf

    def receive(self) -> httpx.Response:
        """Wait for the answer; only its head is read. To be called once."""
        connection = self._connection
        assert connection
        try:
            connection.read_head()
        except BaseException:
            self.close()
            raise
        return httpx.Response(
            connection.status,
            headers=connection.headers,
            stream=self,
            extensions={"reason_phrase": connection.reason, "socket": connection.socket},
            request=connection.request,
        )

    def __iter__(self) -> Iterator[bytes]:
        """The body, piece by piece as it comes."""
        if self._connection:
            yield from self._connection.read_body()

    def close(self) -> None:
        """Nothing more is needed of the answer."""
        connection, self._connection = self._connection, None
        if not connection:
            return
        if not connection.may_be_kept:
            connection.close()
            return
        connection.unused_since = now = connection.system.monotonic()
        self._idle.append(connection)
        with suppress(IndexError):  # another thread may have taken the last one
            if self._idle[0].unused_since < now - KEEP_IDLE:
                self._idle.pop(0).close()


class _Connection:
    """A connection, and what was read of the answer to its last request.

    may_be_kept: whether the answer is complete and another request may follow. unused_since: since when it is
    idle. The parser calls the methods whose names begin with `on_`.
    """

    def __init__(self, connected: socket.socket, system: System) -> None:
        self.socket, self.system = connected, system
        self.unused_since = 0.0
        self._parser = httptools.HttpResponseParser(self)
        self._readable = system.poll()
        self._readable.register(connected, POLLIN)

    def close(self) -> None:
        self.socket.close()

    @property
    def is_quiet(self) -> bool:
        """Whether there is nothing to read. If there is, between two answers, the server has closed it."""
        return not self._readable.poll(0)

    def send(self, request: httpx.Request) -> None:
        """Send a request. What is read from now on is its answer."""
        self.request = request
        self._timeout: dict[str, float | None] = request.extensions["timeout"]
        self.status, self.reason = 0, b""
        self.headers: list[tuple[bytes, bytes]] = []
        self.is_complete = self.may_be_kept = self._has_head = self._ends_with_connection = False
        self._head_size = self._size = 0
        self._content: list[bytes] = []
        self._broken: httpx.TransportError | None = None
        target = request.extensions.get("target", request.url.raw_path)
        lines = [
            b"%b %b HTTP/1.1" % (request.method.encode(), target),
            *(b"%b: %b" % header for header in request.headers.raw),
            b"\r\n",
        ]
        message = b"\r\n".join(lines) + request.read()
        self.socket.settimeout(_left(request, self._timeout["write"], self.system))
        if check := request.extensions.get("before_sending"):
            check()
        try:
            self.socket.sendall(message)
        except TimeoutError as error:
            raise httpx.WriteTimeout(str(error)) from error
        except OSError as error:
            raise httpx.WriteError(str(error)) from error
        self.due = self.system.monotonic() + (self._timeout["read"] or FOREVER)

    def read_head(self) -> None:
        """Read until the body begins."""
        while not self._has_head:
            self._read()

    def read_body(self) -> Iterator[bytes]:
        """The body, piece by piece as it comes."""
        while True:
            content, self._content = self._content, []
            yield from content
            if self.is_complete:
                return
            self._read()

    def take_in(self) -> bool:
        """Read what is there. Returns whether the answer is complete, large or broken.

        A server, or a proxy, may send an answer slowly: nobody waits for the rest of it meanwhile.
        """
        try:
            self._read()
            while not self.is_complete and isinstance(self.socket, ssl.SSLSocket) and self.socket.pending():
                self._read()
        except httpx.TransportError as error:
            self._broken = error  # raised when the answer is read
            return True
        self.due = self.system.monotonic() + (self._timeout["read"] or FOREVER)
        return self.is_complete or self._size > LARGE

    def _read(self) -> None:
        """Read what is there; if nothing is, wait for it."""
        if self._broken:
            raise self._broken
        # A late caller finds the answer there, or waits no longer than a caller in time would.
        ends_at_due = not self._has_head or self.due == -inf  # see `expire`
        left = max(self.due - self.system.monotonic(), SOON) if ends_at_due else self._timeout["read"]
        self.socket.settimeout(_left(self.request, left, self.system))
        try:
            read = self.socket.recv(CHUNK)
        except TimeoutError as error:
            raise httpx.ReadTimeout(str(error)) from error
        except OSError as error:
            raise httpx.ReadError(str(error)) from error
        if not read:
            if not (self._has_head and self._ends_with_connection):
                raise httpx.RemoteProtocolError("closed before the answer was complete")
            self.is_complete = True
            return
        if not self._has_head:
            self._head_size += len(read)
            if self._head_size > MAX_HEAD:
                raise httpx.RemoteProtocolError("the response's headers never end")
        try:
            self._parser.feed_data(read)
        except (httptools.HttpParserError, httptools.HttpParserUpgrade) as error:
            self.may_be_kept = False
            raise httpx.RemoteProtocolError(f"not HTTP: {error}") from error

    # --- the parser's callbacks --------------------------------------------------------------------------

    def on_status(self, reason: bytes) -> None:
        if self.is_complete:
            raise ValueError("there is more data than the response should have")
        self.reason += reason

    def on_header(self, name: bytes, value: bytes) -> None:
        self.headers.append((name, value))

    def on_headers_complete(self) -> None:
        self.status = self._parser.get_status_code()
        if self.status < 200:  # "100 Continue" and its like: the answer is still to come
            return
        framing = {name.lower() for name, _ in self.headers} & {b"content-length", b"transfer-encoding"}
        self._ends_with_connection = not framing
        self._has_head = True

    def on_body(self, content: bytes) -> None:
        self._content.append(content)
        self._size += len(content)

    def on_message_complete(self) -> None:
        if self.status < 200:
            self.reason, self.headers = b"", []
            return
        self.is_complete = True
        self.may_be_kept = self._parser.should_keep_alive()  # it is known only now


def _left(request: httpx.Request, seconds: float | None, system: System) -> float | None:
    """The seconds for a step of a request: at most what is left until its deadline."""
    deadline: float | None = request.extensions.get("deadline")
    if deadline is None:
        return seconds
    left = max(deadline - system.monotonic(), SOON)
    return left if seconds is None else min(left, seconds)
