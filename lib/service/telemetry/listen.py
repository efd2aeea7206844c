"""The HTTP server for probes (/healthz, /livez, /readyz), for Prometheus, and for operators.

Answers are as in k8s.io/apiserver's pkg/server/healthz, with the reason of a failure added. The port asks
for no credentials. So pages about the configuration and about pods are for clients on this machine, where
`kubectl port-forward` ends.
"""

import asyncio
import json
import logging
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from http import HTTPStatus
from ipaddress import ip_address
from urllib.parse import parse_qs, unquote
from wsgiref.types import StartResponse, WSGIApplication, WSGIEnvironment

from prometheus_client import CollectorRegistry, Counter, Gauge, make_wsgi_app

from lib.kube.system import MACHINE, System
from lib.service.telemetry.bounded_server import BoundedServer, Field, Request, answer_of
from lib.service.telemetry.health import LONGEST_SILENCE, Health
from lib.service.telemetry.metrics import Metrics
from lib.service.telemetry.observer import Address, ListenError
from lib.service.telemetry.pod_resources import registry_of
from lib.service.telemetry.zpages import TEXT, Page, statusz

log = logging.getLogger("poller")

METRICS, SLIS, RESOURCES = "/metrics", "/metrics/slis", "/metrics/resources"

READINESS, STATUSZ = "/readyz", "/statusz"

PROBE_PATIENCE = 4
"""Seconds for READINESS, which may ask the API server. The server waits for 5."""

Answer = tuple[HTTPStatus, str]

Checks = Mapping[str, Callable[[float], str]]
"""By name, functions that return what is wrong, or "". They take the seconds that the loop may need."""


def answering(
    address: Address,
    system: System = MACHINE,
    pages: Mapping[str, Page] | None = None,
    *,
    open_resources: bool = False,
) -> Metrics:
    """Serve at an address, in a thread that ends with poller; returns the observer to report to.

    pages: more pages, by path, for clients on this machine. open_resources: whether RESOURCES is for all.
    ListenError when the address is in use, or isn't an address of this machine.
    """
    health = Health(system)
    metrics = Metrics(health, system)
    served = Pages(health, metrics, pages or {}, system, open_resources=open_resources)
    try:
        server = BoundedServer(address, Answers(served))
    except OSError as error:
        reason = (error.strerror or str(error)).partition(" (while attempting")[0]
        why = f"can't listen at {address.shown}: {reason}"
        raise ListenError(f"{why}; give --listen another address") from error
    paths = [*served.checks, METRICS]
    log.info("answering %s at http://%s", ", ".join(paths), Address(address.host, server.port).shown)
    server.start("listen")
    return metrics


class Answers:
    """Answers requests in the server's thread; slow ones in threads of their own.

    READINESS may wait for the API server, and RESOURCES takes time if there are many pods.
    """

    def __init__(self, pages: "Pages") -> None:
        self._pages = pages
        self._waiting = ThreadPoolExecutor(1, "readiness")
        self._listing = ThreadPoolExecutor(1, "resources")

    async def __call__(self, request: Request) -> bytes:
        """The answer to a request."""
        answer = partial(answer_to, request, partial(self._pages, request.client))
        loop = asyncio.get_running_loop()
        if request.path == RESOURCES:
            return await loop.run_in_executor(self._listing, answer)
        if not f"{request.path}/".startswith(f"{READINESS}/"):
            return answer()
        try:
            return await asyncio.wait_for(loop.run_in_executor(self._waiting, answer), PROBE_PATIENCE)
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


class Pages:
    """All pages, as a WSGI application that also takes the client's address.

    checks: by path. paths: all that are served. pages: more of them, for clients on this machine.
    """

    def __init__(
        self,
        health: Health,
        metrics: Metrics,
        pages: Mapping[str, Page],
        system: System = MACHINE,
        *,
        open_resources: bool = False,
    ) -> None:
        loop: Checks = {"loop": health.why_stuck}
        api_server: Checks = {"api-server": lambda _: health.why_unreached()}
        self.checks = {"/healthz": loop, "/livez": loop, READINESS: {**loop, **api_server}}
        self._slis = _Slis()
        self._scraped = {
            METRICS: make_wsgi_app(metrics.registry),
            SLIS: make_wsgi_app(self._slis.registry),
            RESOURCES: make_wsgi_app(registry_of(lambda: metrics.pods())),
        }
        self._pages = pages
        self._local = {*pages, STATUSZ, *(() if open_resources else (RESOURCES,))}
        self._system, self._began = system, system.now()
        self.paths = [*self.checks, *self._scraped, *pages, STATUSZ]

    def __call__(self, client: str, environ: WSGIEnvironment, start: StartResponse) -> Iterable[bytes]:
        """Answer a request. client: its IP address."""
        path, query = environ["PATH_INFO"], environ["QUERY_STRING"]
        kind = TEXT
        if path in self._local and not ip_address(client).is_loopback:
            why = f"{path} is for clients on the machine where poller runs: use kubectl port-forward"
            status, text = HTTPStatus.FORBIDDEN, f"{why}\n"
        elif path in self._scraped:
            return _scraped(self._scraped[path], environ, start)
        elif path == STATUSZ or path in self._pages:
            status, (kind, text) = HTTPStatus.OK, self._page(path)
        else:
            status, text = self._checked(path, parse_qs(query, keep_blank_values=True))
        start(f"{status.value} {status.phrase}", [("Content-Type", kind)])
        return [text.encode()]

    def _page(self, path: str) -> Page:
        if path == STATUSZ:
            return statusz(self._began, self._system.now(), self.paths)
        return self._pages[path]

    def _checked(self, path: str, query: Mapping[str, list[str]]) -> Answer:
        """The result of all checks of a path, or of one: /readyz/CHECK."""
        name, _, only = path[1:].partition("/")
        checks = self.checks.get(f"/{name}", {})
        if not checks or (path != f"/{name}" and only not in checks):
            return HTTPStatus.NOT_FOUND, "\n".join([f"there is no {path}; there are", *self.paths, ""])
        try:
            within = float(query.get("within", [str(LONGEST_SILENCE)])[0])
        except ValueError:
            return HTTPStatus.BAD_REQUEST, "within must be a number of seconds\n"
        if only:
            why = checks[only](within)
            return (
                (HTTPStatus.INTERNAL_SERVER_ERROR, f"{only} failed: {why}\n")
                if why
                else (HTTPStatus.OK, "ok")
            )
        excluded = set(query.get("exclude", ()))
        found = {check: why(within) for check, why in checks.items() if check not in excluded}
        for check, why in found.items():
            self._slis.note(check, name, ok=not why)
        unknown = sorted(excluded - checks.keys())
        lines = [_result(check, found) for check in checks]
        if unknown:
            quoted = ",".join(map(json.dumps, unknown))
            lines.append(f"warn: some health checks cannot be excluded: no matches for {quoted}")
        return _as_text(name, lines, failed=any(found.values()), verbose="verbose" in query)


class _Slis:
    """Counts the results of checks (component-base/metrics/prometheus/slis)."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self._last = Gauge(
            "kubernetes_healthcheck",
            "The last result of each health check that was asked for: 1, or 0 if it failed.",
            ["name", "type"],
            registry=self.registry,
        )
        self._all = Counter(
            "kubernetes_healthchecks_total",
            "The results of health checks.",
            ["name", "type", "status"],
            registry=self.registry,
        )

    def note(self, check: str, kind: str, *, ok: bool) -> None:
        """Count a result."""
        self._last.labels(check, kind).set(ok)
        self._all.labels(check, kind, "success" if ok else "error").inc()


def _scraped(application: WSGIApplication, environ: WSGIEnvironment, start: StartResponse) -> Iterable[bytes]:
    try:
        return application(environ, start)
    except (TypeError, ValueError):  # the client can't expect a format that its Accept doesn't name
        del environ["HTTP_ACCEPT"]
        return application(environ, start)


def _not_ready(_: WSGIEnvironment, start: StartResponse) -> Iterable[bytes]:
    """The page of READINESS if the API server doesn't answer."""
    lines = [f"[-]api-server failed: no answer within {PROBE_PATIENCE} s"]
    status, text = _as_text(READINESS.strip("/"), lines, failed=True, verbose=True)
    start(f"{status.value} {status.phrase}", [("Content-Type", TEXT)])
    return [text.encode()]


def _result(check: str, found: Mapping[str, str]) -> str:
    if check not in found:
        return f"[+]{check} excluded: ok"
    return f"[-]{check} failed: {found[check]}" if found[check] else f"[+]{check} ok"


def _as_text(name: str, lines: Iterable[str], *, failed: bool, verbose: bool) -> Answer:
    """The result of each check, if `?verbose` was given or a check failed; else "ok"."""
    if failed:
        return HTTPStatus.INTERNAL_SERVER_ERROR, "\n".join([*lines, f"{name} check failed\n"])
    return HTTPStatus.OK, "\n".join([*lines, f"{name} check passed\n"]) if verbose else "ok"
