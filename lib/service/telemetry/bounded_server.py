"""An HTTP server in a thread that ends with poller: one request per connection, and few connections."""

import asyncio
import logging
import re
import socket
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator, Sequence
from contextlib import aclosing, contextmanager
from http import HTTPStatus
from typing import NamedTuple

from lib.kube.system import MACHINE
from lib.service.telemetry.observer import Address

log = logging.getLogger("poller")

PATIENCE = 5
"""Seconds for a request and its answer; of a stream, for the request."""

STALL = 30
"""Seconds for which the client of a stream may read nothing, though there is more for it."""

MAX_CONNECTIONS = 32
"""The most connections without an answer, the most streams, and the most that wait to be accepted."""

MAX_REQUEST = 16 << 10
"""Bytes of a request."""

CHUNK = 1 << 16

LOOPBACK_HOST = re.compile(r"(?:127(?:\.\d{1,3}){3}|localhost|\[::1\])(?::(\d+))?", re.IGNORECASE)
"""A Host that is this machine, with its port. Nobody's DNS server can let another machine have this name."""

Field = tuple[str, str]

Stream = AsyncGenerator[bytes, None]

Answer = bytes | Stream
"""An answer as it is sent: whole, or piece by piece as it comes. A stream ends when its client hangs up."""


class HttpRequest(NamedTuple):
    """A request without its body."""

    method: str
    path: str
    """As it was sent, with escapes; so is `query`."""
    query: str
    headers: Sequence[Field]
    client: str
    """The client's IP address."""

    def values(self, name: str) -> list[str]:
        """The values of all headers of this name, which is given in small letters."""
        return [value for header, value in self.headers if header.lower() == name]


def is_asked_by_loopback(request: HttpRequest, port: int | None = None) -> bool:
    """Whether a client calls this machine 127.0.0.1, localhost or [::1], with this port; None for any port.

    A web page can make a browser ask here, and read the answer, by a name of its own that its DNS server has
    led to 127.0.0.1 (DNS rebinding). Its requests come from this machine, but they have that name as Host.
    """
    hosts = request.values("host")
    found = LOOPBACK_HOST.fullmatch(hosts[0]) if len(hosts) == 1 else None
    return bool(found and (port is None or found[1] == str(port)))


def answer_of(status: HTTPStatus, fields: Sequence[Field], body: bytes, *, head_only: bool = False) -> bytes:
    """A whole answer."""
    head = head_of(f"{status.value} {status.phrase}", [*fields, ("Content-Length", str(len(body)))])
    return head if head_only else head + body


def head_of(status: str, fields: Sequence[Field]) -> bytes:
    """The status line and the headers of an answer."""
    always = [("X-Content-Type-Options", "nosniff"), ("Connection", "close")]
    lines = [f"HTTP/1.1 {status}", *(f"{name}: {value}" for name, value in (*fields, *always)), "", ""]
    return "\r\n".join(lines).encode("latin-1")


TOO_LARGE = answer_of(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE, [], b"")


class BoundedServer:
    """Answers one request per connection, with a limit on open connections.

    A client that sends its request too slowly, or doesn't read its stream, is disconnected. When there are
    too many clients, the one that came first is disconnected. So a new client gets its answer, however many
    other connections there are; and those without an answer don't end streams.

    answer: makes the answer to a request. It must not block. OSError when the address can't be listened at.
    """

    def __init__(self, address: Address, answer: Callable[[HttpRequest], Awaitable[Answer]]) -> None:
        self._make_answer = answer
        self._socket = socket.create_server(
            address,
            family=socket.AF_INET6 if ":" in address.host else socket.AF_INET,
            backlog=MAX_CONNECTIONS,
        )
        self._asking: dict[asyncio.Task[None], None] = {}  # the oldest first
        self._streaming: dict[asyncio.Task[None], None] = {}
        self.port = int(self._socket.getsockname()[1])

    def start(self, name: str) -> None:
        """Accept connections until poller ends, in a thread of this name."""
        MACHINE.start_thread(lambda: asyncio.run(self._serve()), name)

    async def _serve(self) -> None:
        server = await asyncio.start_server(self._connected, sock=self._socket, limit=MAX_REQUEST)
        await server.serve_forever()

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            with _one_of(self._asking):
                async with asyncio.timeout(PATIENCE):
                    answer = await self._answer_to(reader, writer.get_extra_info("peername")[0])
                    if isinstance(answer, bytes):
                        await _end(writer, answer)
                        return
            with _one_of(self._streaming), _while_connected(reader):
                async with aclosing(answer):
                    await _send(writer, answer)
        except (OSError, asyncio.IncompleteReadError):
            log.debug("a request was not answered to its end", exc_info=True)
        except asyncio.CancelledError:
            log.debug("a request was not answered to its end: its client has gone, or there are too many")
        finally:
            writer.transport.abort()

    async def _answer_to(self, reader: asyncio.StreamReader, client: str) -> Answer:
        try:
            head = await reader.readuntil(b"\r\n\r\n")
        except asyncio.LimitOverrunError:
            return TOO_LARGE
        return await self._make_answer(_request(head, client))


def _request(head: bytes, client: str) -> HttpRequest:
    first, *lines = head.decode("latin-1").split("\r\n")
    method, _, rest = first.partition(" ")
    path, _, query = rest.partition(" ")[0].partition("?")
    headers = [line.partition(":") for line in lines if line]
    return HttpRequest(method, path, query, [(name, value.strip()) for name, _, value in headers], client)


async def _end(writer: asyncio.StreamWriter, last: bytes) -> None:
    writer.write(last)
    await writer.drain()
    writer.close()
    await writer.wait_closed()


async def _send(writer: asyncio.StreamWriter, stream: Stream) -> None:
    async for piece in stream:
        writer.write(piece)
        async with asyncio.timeout(STALL):
            await writer.drain()
    async with asyncio.timeout(STALL):
        await _end(writer, b"")


@contextmanager
def _one_of(tasks: dict[asyncio.Task[None], None]) -> Iterator[None]:
    """A block in which the current task is one of these. If they are too many, the oldest is cancelled."""
    task = asyncio.current_task()
    assert task
    if len(tasks) >= MAX_CONNECTIONS:
        oldest = next(iter(tasks))
        del tasks[oldest]
        oldest.cancel()
    tasks[task] = None
    try:
        yield
    finally:
        tasks.pop(task, None)


@contextmanager
def _while_connected(reader: asyncio.StreamReader) -> Iterator[None]:
    """A block that is cancelled when the client hangs up. What the client still says is not read."""
    task = asyncio.current_task()
    assert task

    async def hang_up() -> None:
        try:
            while await reader.read(CHUNK):
                pass
        except OSError:
            pass
        task.cancel()

    listening = asyncio.ensure_future(hang_up())
    try:
        yield
    finally:
        listening.cancel()
