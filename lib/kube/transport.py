"""HTTP/1.1 over connections that are kept open, for httpx.

httpx's own transport takes 0.5 ms of CPU time for a request, most of it in a parser written in Python; to
decide on a pod takes less. Here httptools parses, in C.
"""

import select
import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from typing import Any

import httptools
import httpx

CHUNK = 1 << 16
"""Bytes to read at a time."""

MAX_HEAD = 1 << 20
"""Bytes that an answer may have before its body."""

SOON, FOREVER = 0.001, 1e6
"""Seconds to wait for what should be there, and where there is no limit."""

Connect = Callable[[float | None], socket.socket]
"""Opens a connection within so many seconds. OSError when that can't be done."""


AddressInfo = tuple[Any, ...]
"""An address of a host, as `socket.getaddrinfo` has it: family, kind, protocol, name and the address."""


class Addresses:
    """Looks up the addresses of a host, in a thread: to wait for an answer can't be ended otherwise."""

    def __init__(self, host: str, port: int) -> None:
        self._host, self._port = host, port
        self._lock = threading.Lock()
        self._lookup: Future[Sequence[AddressInfo]] | None = None

    def find(self, until: float) -> Sequence[AddressInfo]:
        """The addresses. TimeoutError when there is no answer until then; OSError when there are none."""
        try:
            return self._ask(socket.AI_NUMERICHOST)
        except socket.gaierror:  # it is a name
            pass
        with self._lock:
            lookup = self._lookup
            if lookup is None or lookup.done():  # else nobody has answered the last one yet
                lookup = self._lookup = Future()
                threading.Thread(target=self._look_up, args=(lookup,), daemon=True).start()
        try:
            return lookup.result(max(until - time.monotonic(), SOON))
        except TimeoutError:
            raise TimeoutError(f"{self._host}: its address was not found in time") from None

    def _look_up(self, lookup: "Future[Sequence[AddressInfo]]") -> None:
        try:
            lookup.set_result(self._ask())
        except Exception as error:
            lookup.set_exception(error)

    def _ask(self, flags: int = 0) -> Sequence[AddressInfo]:
        return socket.getaddrinfo(self._host, self._port, type=socket.SOCK_STREAM, flags=flags)


def to_host(host: str, port: int, tls: ssl.SSLContext | None = None, server_name: str = "") -> Connect:
    """Connections to a TCP port. server_name: that the certificate is to name, if it isn't the host's.

    The time to connect is for all of it: to look the host up, to try its addresses, and the handshake.
    """
    addresses = Addresses(host, port)

    def connect(timeout: float | None) -> socket.socket:
        until = time.monotonic() + (FOREVER if timeout is None else timeout)
        error = OSError(f"{host} has no address")
        for family, kind, protocol, _, address in addresses.find(until):
            connection = socket.socket(family, kind, protocol)
            try:
                connection.settimeout(max(until - time.monotonic(), SOON))
                connection.connect(address)
                connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                connection.settimeout(max(until - time.monotonic(), SOON))
                return tls.wrap_socket(connection, server_hostname=server_name or host) if tls else connection
            except OSError as failed:
                connection.close()
                error = failed
            except BaseException:
                connection.close()
                raise
        raise error

    return connect


def to_unix_socket(path: str) -> Connect:
    """Connections to a unix socket."""

    def connect(timeout: float | None) -> socket.socket:
        connection = socket.socket(socket.AF_UNIX)
        connection.settimeout(timeout)
        try:
            connection.connect(path)
        except BaseException:
            connection.close()
            raise
        return connection

    return connect


class KeepAliveTransport(httpx.BaseTransport):
    """Sends requests, several threads at a time if need be; opens as many connections as are in use at once.

    A request's extensions "timeout" and "target" are as httpx has them: the seconds for each step, of which
    "read" may still be changed while the answer is read; and what to ask for, if not for the URL's path. Its
    extension "deadline", if there is one, ends all steps, in `time.monotonic`'s seconds. Its
    extension "before_sending", if there is one, is called when all is ready to be sent; if that raises an
    error, nothing is. An answer's extension "socket" is where it comes from. What fails raises httpx's own
    errors.
    """

    def __init__(self, connect: Connect) -> None:
        self._connect = connect
        self._idle: list[_Connection] = []

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        """Send a request; its answer, of which only the head has been read."""
        return self.send(request).receive()

    def send(self, request: httpx.Request) -> "SentRequest":
        """Send a request, and don't wait for the answer."""
        connection = self._take() or self._open(request)
        try:
            connection.send(request)
        except BaseException:
            connection.close()
            raise
        return SentRequest(connection, self._idle)

    def close(self) -> None:
        """Close the connections that nobody uses."""
        while self._idle:
            self._idle.pop().close()

    def _take(self) -> "_Connection | None":
        """A connection that nobody uses, and that is still good."""
        while self._idle:
            try:
                connection = self._idle.pop()
            except IndexError:  # another thread was faster
                return None
            if connection.is_quiet:
                return connection
            connection.close()
        return None

    def _open(self, request: httpx.Request) -> "_Connection":
        try:
            return _Connection(self._connect(_left(request, request.extensions["timeout"]["connect"])))
        except TimeoutError as error:
            raise httpx.ConnectTimeout(str(error)) from error
        except OSError as error:
            raise httpx.ConnectError(str(error)) from error


class SentRequest:
    """A request that is under way. What can be read at its `fileno` is the beginning of the answer."""

    def __init__(self, connection: "_Connection", idle: "list[_Connection]") -> None:
        self._connection = connection
        self._idle = idle

    def fileno(self) -> int:
        """The number of its socket."""
        return self._connection.socket.fileno()

    @property
    def due(self) -> float:
        """When the answer should begin at the latest, in `time.monotonic`'s seconds."""
        return self._connection.due

    def close(self) -> None:
        """Hang up: nobody wants the answer."""
        self._connection.close()

    def receive(self) -> httpx.Response:
        """The answer, of which only the head has been read; to be asked for once."""
        connection = self._connection
        try:
            connection.read_head()
        except BaseException:
            connection.close()
            raise
        return httpx.Response(
            connection.status,
            headers=connection.headers,
            stream=_Body(connection, self._idle),
            extensions={"reason_phrase": connection.reason, "socket": connection.socket},
            request=connection.request,
        )


class _Connection:
    """A connection, and what has been read from it of the answer to the request that was sent last.

    may_be_kept: whether another request may follow, as the answer is complete.
    Those of its methods that begin with `on_` are called by the parser.
    """

    def __init__(self, connected: socket.socket) -> None:
        self.socket = connected
        self._parser = httptools.HttpResponseParser(self)
        self._readable = select.poll()
        self._readable.register(connected, select.POLLIN)

    def close(self) -> None:
        self.socket.close()

    @property
    def is_quiet(self) -> bool:
        """Whether there is nothing to read: between two answers, that would be the end."""
        return not self._readable.poll(0)

    def send(self, request: httpx.Request) -> None:
        """Send a request, and have what is read from now on be its answer."""
        self.request = request
        self._timeout: dict[str, float | None] = request.extensions["timeout"]
        self.status, self.reason = 0, b""
        self.headers: list[tuple[bytes, bytes]] = []
        self.is_complete = self.may_be_kept = self._has_head = self._ends_with_connection = False
        self._head_size = 0
        self._content: list[bytes] = []
        target = request.extensions.get("target", request.url.raw_path)
        lines = [
            b"%b %b HTTP/1.1" % (request.method.encode(), target),
            *(b"%b: %b" % header for header in request.headers.raw),
            b"\r\n",
        ]
        message = b"\r\n".join(lines) + request.read()
        self.socket.settimeout(_left(request, self._timeout["write"]))
        if check := request.extensions.get("before_sending"):
            check()
        try:
            self.socket.sendall(message)
        except TimeoutError as error:
            raise httpx.WriteTimeout(str(error)) from error
        except OSError as error:
            raise httpx.WriteError(str(error)) from error
        self.due = time.monotonic() + (self._timeout["read"] or FOREVER)

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

    def _read(self) -> None:
        """Read what there is; wait for it if there is nothing."""
        # Whoever comes late for an answer finds it there, or waits no longer than one who was in time.
        left = self._timeout["read"] if self._has_head else max(self.due - time.monotonic(), SOON)
        self.socket.settimeout(_left(self.request, left))
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

    # --- what the parser tells ---------------------------------------------------------------------------

    def on_status(self, reason: bytes) -> None:
        if self.is_complete:
            raise ValueError("there is more data than the response should have")
        self.reason += reason

    def on_header(self, name: bytes, value: bytes) -> None:
        self.headers.append((name, value))

    def on_headers_complete(self) -> None:
        self.status = self._parser.get_status_code()
        framing = {name.lower() for name, _ in self.headers} & {b"content-length", b"transfer-encoding"}
        self._ends_with_connection = not framing
        self._has_head = True

    def on_body(self, content: bytes) -> None:
        self._content.append(content)

    def on_message_complete(self) -> None:
        self.is_complete = True
        self.may_be_kept = self._parser.should_keep_alive()  # it knows only now


def _left(request: httpx.Request, seconds: float | None) -> float | None:
    """The seconds for a step of a request: no more than are left until its deadline."""
    deadline: float | None = request.extensions.get("deadline")
    if deadline is None:
        return seconds
    left = max(deadline - time.monotonic(), SOON)
    return left if seconds is None else min(left, seconds)


class _Body(httpx.SyncByteStream):
    """The body of an answer; when it is read to its end, its connection joins those that nobody uses."""

    def __init__(self, connection: _Connection, idle: list[_Connection]) -> None:
        self._connection: _Connection | None = connection
        self._idle = idle

    def __iter__(self) -> Iterator[bytes]:
        if self._connection:
            yield from self._connection.read_body()

    def close(self) -> None:
        connection, self._connection = self._connection, None
        if not connection:
            return
        if connection.may_be_kept:
            self._idle.append(connection)
        else:
            connection.close()
