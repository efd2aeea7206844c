"""The HTTP server for /healthz, /livez and /readyz (probes) and /metrics (Prometheus).

Answers are as in k8s.io/apiserver's pkg/server/healthz, with the reason of a failure added.
"""

import asyncio
import logging
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from http import HTTPStatus
from urllib.parse import parse_qs, unquote
from wsgiref.types import StartResponse, WSGIApplication, WSGIEnvironment

from prometheus_client import make_wsgi_app

from lib.kube.system import MACHINE, System
from lib.service.telemetry.bounded_server import BoundedServer, Field, Request, answer_of
from lib.service.telemetry.health import LONGEST_SILENCE, Health
from lib.service.telemetry.metrics import Metrics
from lib.service.telemetry.observer import Address, ListenError

log = logging.getLogger("poller")

METRICS = "/metrics"

READINESS = "/readyz"

PROBE_PATIENCE = 4
"""Seconds for READINESS, which may ask the API server. The server waits for 5."""

Answer = tuple[HTTPStatus, str]


def answering(address: Address, system: System = MACHINE) -> Metrics:
    """Serve at an address, in a thread that ends with poller; returns the observer to report to.

    ListenError when the address is in use, or isn't an address of this machine.
    """
    health = Health(system)
    metrics = Metrics(health, system)
    try:
        server = BoundedServer(address, _Answers(_pages(health, metrics)))
    except OSError as error:
        reason = (error.strerror or str(error)).partition(" (while attempting")[0]
        why = f"can't listen at {_shown(address)}: {reason}"
        raise ListenError(f"{why}; give --listen another address") from error
    paths = [*_checks(health), METRICS]
    log.info("answering %s at http://%s", ", ".join(paths), _shown(Address(address.host, server.port)))
    server.start("listen")
    return metrics


def _shown(address: Address) -> str:
    host, port = address
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


class _Answers:
    """Answers requests in the server's thread; READINESS in another one, which waits for the API server."""

    def __init__(self, pages: WSGIApplication) -> None:
        self._pages = pages
        self._waiting = ThreadPoolExecutor(1, "readiness")

    async def __call__(self, request: Request) -> bytes:
        if request.path != READINESS:
            return answer_to(request, self._pages)
        loop = asyncio.get_running_loop()
        answering = loop.run_in_executor(self._waiting, answer_to, request, self._pages)
        try:
            return await asyncio.wait_for(answering, PROBE_PATIENCE)
        except TimeoutError:
            return answer_to(request, _not_ready)


def answer_to(request: Request, pages: WSGIApplication) -> bytes:
    """The answer to a request for a page."""
    environ = {f"HTTP_{name.upper().replace('-', '_')}": value for name, value in request.headers if name}
    environ |= {
        "REQUEST_METHOD": request.method,
        "PATH_INFO": unquote(request.path),
        "QUERY_STRING": request.query,
    }
    begun: list[tuple[str, list[Field]]] = []
    written: list[bytes] = []

    def start(status: str, fields: list[Field], _: object = None) -> Callable[[bytes], object]:
        begun.append((status, fields))
        return written.append

    if request.method not in ("GET", "HEAD"):
        return answer_of(HTTPStatus.METHOD_NOT_ALLOWED, [("Allow", "GET, HEAD")], b"")
    body = b"".join([*pages(environ, start), *written])
    return answer_of(*begun[-1], body, head_only=request.method == "HEAD")


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
