"""The HTTP server for /healthz, /livez and /readyz (probes) and /metrics (Prometheus).

Answers are as in k8s.io/apiserver's pkg/server/healthz, with the reason of a failure added.
"""

import asyncio
import logging
import socket
import threading
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from http import HTTPStatus
from urllib.parse import parse_qs, unquote
from wsgiref.types import StartResponse, WSGIApplication, WSGIEnvironment

from prometheus_client import make_wsgi_app

from lib.service.telemetry.health import LONGEST_SILENCE, Health
from lib.service.telemetry.metrics import Metrics
from lib.service.telemetry.observer import Address, ListenError

log = logging.getLogger("poller")

METRICS = "/metrics"

READINESS = "/readyz"

PATIENCE = 5
"""Seconds for a request and its answer."""

PROBE_PATIENCE = 4
"""Seconds for READINESS, which may ask the API server."""

MAX_CONNECTIONS = 32
"""The most open connections, and the most that wait to be accepted."""

MAX_REQUEST = 16 << 10
"""Bytes of a request."""

TOO_LARGE = b"HTTP/1.1 431 Request Header Fields Too Large\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"

Answer = tuple[HTTPStatus, str]


def answering(address: Address) -> Metrics:
    """Serve at an address, in a thread that ends with poller; returns the observer to report to.

    ListenError when the address is in use, or isn't an address of this machine.
    """
    health = Health()
    metrics = Metrics(health)
    try:
        server = _Server(address, _pages(health, metrics))
    except OSError as error:
        reason = (error.strerror or str(error)).partition(" (while attempting")[0]
        why = f"can't listen at {_shown(address)}: {reason}"
        raise ListenError(f"{why}; give --listen another address") from error
    paths = [*_checks(health), METRICS]
    log.info("answering %s at http://%s", ", ".join(paths), _shown(Address(address.host, server.port)))
    threading.Thread(target=server.serve_forever, name="listen", daemon=True).start()
    return metrics


def _shown(address: Address) -> str:
    host, port = address
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


class _Server:
    """Answers one request per connection, with a limit on open connections.

    One thread answers all but READINESS, for which another thread waits for the API server. A client that
    sends its request too slowly is disconnected. When there are too many clients, the slowest is
    disconnected. So a probe gets its answer, however many other connections there are.
    """

    def __init__(self, address: Address, pages: WSGIApplication) -> None:
        self._pages = pages
        self._socket = socket.create_server(
            address,
            family=socket.AF_INET6 if ":" in address.host else socket.AF_INET,
            backlog=MAX_CONNECTIONS,
        )
        self._open: dict[asyncio.Task[None], None] = {}  # the oldest first
        self._waiting = ThreadPoolExecutor(1, "readiness")
        self.port = int(self._socket.getsockname()[1])

    def serve_forever(self) -> None:
        """Accept connections until poller ends."""
        asyncio.run(self._serve())

    async def _serve(self) -> None:
        server = await asyncio.start_server(self._connected, sock=self._socket, limit=MAX_REQUEST)
        await server.serve_forever()

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task
        if len(self._open) >= MAX_CONNECTIONS:
            slowest = next(iter(self._open))
            del self._open[slowest]
            slowest.cancel()
        self._open[task] = None
        try:
            async with asyncio.timeout(PATIENCE):
                try:
                    answer = await self._answer(await reader.readuntil(b"\r\n\r\n"))
                except asyncio.LimitOverrunError:
                    answer = TOO_LARGE
                writer.write(answer)
                await writer.drain()
                writer.close()
                await writer.wait_closed()
        except (OSError, TimeoutError, asyncio.IncompleteReadError):
            log.debug("a request was not answered", exc_info=True)
        except asyncio.CancelledError:
            log.debug("a request was not answered: there are too many connections")
        finally:
            self._open.pop(task, None)
            writer.transport.abort()

    async def _answer(self, head: bytes) -> bytes:
        asked = head.partition(b" ")[2].partition(b" ")[0].partition(b"?")[0]
        if asked != READINESS.encode():
            return answer_to(head, self._pages)
        answering = asyncio.get_running_loop().run_in_executor(self._waiting, answer_to, head, self._pages)
        try:
            return await asyncio.wait_for(answering, PROBE_PATIENCE)
        except TimeoutError:
            return answer_to(head, _not_ready)


def answer_to(head: bytes, pages: WSGIApplication) -> bytes:
    """The answer to a request without a body, given by its request line and headers."""
    line, *lines = head.decode("latin-1").split("\r\n")
    method, _, rest = line.partition(" ")
    path, _, query = rest.partition(" ")[0].partition("?")
    headers = [name_and_value.partition(":") for name_and_value in lines]
    environ = {f"HTTP_{name.upper().replace('-', '_')}": value.strip() for name, _, value in headers if name}
    environ |= {"REQUEST_METHOD": method, "PATH_INFO": unquote(path), "QUERY_STRING": query}
    begun: list[str] = []
    written: list[bytes] = []

    def start(status: str, fields: list[tuple[str, str]], _: object = None) -> Callable[[bytes], object]:
        begun.extend([f"HTTP/1.1 {status}", *(f"{name}: {value}" for name, value in fields)])
        return written.append

    if method in ("GET", "HEAD"):
        body = b"".join([*pages(environ, start), *written])
    else:
        body = b""
        start("405 Method Not Allowed", [("Allow", "GET, HEAD")])
    begun += [f"Content-Length: {len(body)}", "X-Content-Type-Options: nosniff", "Connection: close", "", ""]
    return "\r\n".join(begun).encode("latin-1") + (b"" if method == "HEAD" else body)


# --- pages ----------------------------------------------------------------------------------------------


def _checks(health: Health) -> Mapping[str, tuple[Callable[[float], Mapping[str, str]], HTTPStatus]]:
    """By path: the checks, and the status code of a failure."""
    return {
        "/healthz": (health.alive, HTTPStatus.INTERNAL_SERVER_ERROR),
        "/livez": (health.alive, HTTPStatus.INTERNAL_SERVER_ERROR),
        READINESS: (health.ready, HTTPStatus.SERVICE_UNAVAILABLE),
    }


def _pages(health: Health, metrics: Metrics) -> WSGIApplication:
    scraped, checks = make_wsgi_app(metrics.registry), _checks(health)

    def answer(path: str, query: Mapping[str, list[str]]) -> Answer:
        if path not in checks:
            there = "\n".join([*checks, METRICS])
            return HTTPStatus.NOT_FOUND, f"there is no {path}; there are\n{there}\n"
        try:
            within = float(query.get("within", [str(LONGEST_SILENCE)])[0])
        except ValueError:
            return HTTPStatus.BAD_REQUEST, "within must be a number of seconds\n"
        check, wrong = checks[path]
        return _as_text(path.strip("/"), check(within), wrong, verbose="verbose" in query)

    def pages(environ: WSGIEnvironment, start: StartResponse) -> Iterable[bytes]:
        path = environ["PATH_INFO"]
        if path == METRICS:
            try:
                return scraped(environ, start)  # type: ignore[no-any-return]
            except (TypeError, ValueError):  # the client can't expect a format that its Accept doesn't name
                del environ["HTTP_ACCEPT"]
                return scraped(environ, start)  # type: ignore[no-any-return]
        status, text = answer(path, parse_qs(environ["QUERY_STRING"], keep_blank_values=True))
        start(f"{status.value} {status.phrase}", [("Content-Type", "text/plain; charset=utf-8")])
        return [text.encode()]

    return pages


def _not_ready(_: WSGIEnvironment, start: StartResponse) -> Iterable[bytes]:
    """The page of READINESS if the API server doesn't answer."""
    why = {"api-server": f"no answer within {PROBE_PATIENCE} s"}
    status, text = _as_text(READINESS.strip("/"), why, HTTPStatus.SERVICE_UNAVAILABLE, verbose=True)
    start(f"{status.value} {status.phrase}", [("Content-Type", "text/plain; charset=utf-8")])
    return [text.encode()]


def _as_text(name: str, found: Mapping[str, str], wrong: HTTPStatus, *, verbose: bool) -> Answer:
    """The result of each check, if `?verbose` was given or a check failed; else "ok"."""
    lines = [f"[-]{check} failed: {why}" if why else f"[+]{check} ok" for check, why in found.items()]
    if any(found.values()):
        return wrong, "\n".join([*lines, f"{name} check failed\n"])
    return HTTPStatus.OK, "\n".join([*lines, f"{name} check passed\n"]) if verbose else "ok"
