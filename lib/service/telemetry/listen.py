"""The HTTP server for probes (/healthz, /livez, /readyz), for Prometheus, and for operators.

Answers are as in k8s.io/apiserver's pkg/server/healthz, with the reason of a failure added. The port asks for
no credentials. So pages about the configuration and about pods are for clients on this machine, where
`kubectl port-forward` ends. A web page can lead a browser on this machine here: so these clients must call
the machine by a name that no web page has. This holds for metrics, too, if poller listens on loopback only.
On other addresses Prometheus asks for them, by names that poller doesn't know. Probes are answered whatever
name they use: they tell nothing of pods, and if one fails, poller is started again.
"""

import asyncio
import gzip
import json
import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from http import HTTPStatus
from ipaddress import ip_address
from urllib.parse import parse_qs, unquote

from prometheus_client import CollectorRegistry, Counter, Gauge
from prometheus_client.exposition import choose_encoder, gzip_accepted

from lib.kube.system import MACHINE, System
from lib.service.telemetry.bounded_server import (
    BoundedServer,
    Field,
    HttpRequest,
    answer_of,
    is_asked_by_loopback,
)
from lib.service.telemetry.collectors import PodResources
from lib.service.telemetry.health import LONGEST_SILENCE, Health
from lib.service.telemetry.metrics import Metrics
from lib.service.telemetry.observer import LOOPBACK, Address, ListenError
from lib.service.telemetry.zpages import TEXT, Page, statusz

log = logging.getLogger("poller")

METRICS, SLIS, RESOURCES = "/metrics", "/metrics/slis", "/metrics/resources"

READINESS, STATUSZ = "/readyz", "/statusz"

PROBE_PATIENCE = 4
"""Seconds for READINESS, which may ask the API server. The server waits for 5."""

PageAnswer = tuple[HTTPStatus, Sequence[Field], bytes]
"""Status, headers and body."""

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
    served = Pages(health, metrics, pages or {}, address.host, system, open_resources=open_resources)
    try:
        server = BoundedServer(address, served)
    except OSError as error:
        reason = (error.strerror or str(error)).partition(" (while attempting")[0]
        why = f"can't listen at {address.shown}: {reason}"
        raise ListenError(f"{why}; give --listen another address") from error
    paths = [*served.checks, METRICS]
    log.info("answering %s at http://%s", ", ".join(paths), Address(address.host, server.port).shown)
    server.start("listen")
    return metrics


def answer_to(request: HttpRequest, pages: Callable[[HttpRequest], PageAnswer]) -> bytes:
    """The answer to a request for a page."""
    if request.method not in ("GET", "HEAD"):
        return answer_of(HTTPStatus.METHOD_NOT_ALLOWED, [("Allow", "GET, HEAD")], b"")
    return answer_of(*pages(request), head_only=request.method == "HEAD")


# --- pages ----------------------------------------------------------------------------------------------


class Pages:
    """All pages. Slow ones are made in threads of their own.

    READINESS may wait for the API server, and RESOURCES takes time if there are many pods.

    pages: more of them, by path, for clients on this machine. host: the address, or name, that is listened
    at.
    """

    def __init__(
        self,
        health: Health,
        metrics: Metrics,
        pages: Mapping[str, Page],
        host: str = LOOPBACK,
        system: System = MACHINE,
        *,
        open_resources: bool = False,
    ) -> None:
        loop: Checks = {"loop": health.why_stuck}
        api_server: Checks = {"api-server": lambda _: health.why_unreached()}
        self.checks = {"/healthz": loop, "/livez": loop, READINESS: {**loop, **api_server}}
        """The health checks, by path."""
        self._slis, resources = _Slis(), CollectorRegistry(auto_describe=True)
        resources.register(PodResources(lambda: metrics.pods()))
        self._scraped = {
            METRICS: metrics.registry,
            SLIS: self._slis.registry,
            RESOURCES: resources,
        }
        self._pages = pages
        self._local = {*pages, STATUSZ, *(() if open_resources else (RESOURCES,))}
        if _is_loopback(host):
            self._local |= self._scraped.keys()
        self._system, self._began = system, system.now()
        self.paths = [*self.checks, *self._scraped, *pages, STATUSZ]
        """All paths that are served."""
        self._waiting = ThreadPoolExecutor(1, "readiness")
        self._listing = ThreadPoolExecutor(1, "resources")

    async def __call__(self, request: HttpRequest) -> bytes:
        """The answer to a request."""
        request = request._replace(path=unquote(request.path))
        answer = partial(answer_to, request, self._page)
        loop = asyncio.get_running_loop()
        if request.path == RESOURCES:
            return await loop.run_in_executor(self._listing, answer)
        if not f"{request.path}/".startswith(f"{READINESS}/"):
            return answer()
        try:
            return await asyncio.wait_for(loop.run_in_executor(self._waiting, answer), PROBE_PATIENCE)
        except TimeoutError:
            return answer_to(request, _not_ready)

    def _page(self, request: HttpRequest) -> PageAnswer:
        path = request.path
        if path in self._local and (why := _why_foreign(request)):
            text = f"{path} is for clients on the machine where poller runs: {why}\n"
            return _text(HTTPStatus.FORBIDDEN, text)
        if path in self._scraped:
            return _scraped(self._scraped[path], request)
        if path == STATUSZ or path in self._pages:
            kind, text = (
                statusz(self._began, self._system.now(), self.paths) if path == STATUSZ else self._pages[path]
            )
            return _text(HTTPStatus.OK, text, kind)
        return self._checked(path, parse_qs(request.query, keep_blank_values=True))

    def _checked(self, path: str, query: Mapping[str, list[str]]) -> PageAnswer:
        """The result of all checks of a path, or of one: /readyz/CHECK."""
        name, _, only = path[1:].partition("/")
        checks = self.checks.get(f"/{name}", {})
        if not checks or (path != f"/{name}" and only not in checks):
            return _text(HTTPStatus.NOT_FOUND, "\n".join([f"there is no {path}; there are", *self.paths, ""]))
        try:
            within = float(query.get("within", [str(LONGEST_SILENCE)])[0])
        except ValueError:
            return _text(HTTPStatus.BAD_REQUEST, "within must be a number of seconds\n")
        if only:
            why = checks[only](within)
            failed = HTTPStatus.INTERNAL_SERVER_ERROR, f"{only} failed: {why}\n"
            return _text(*failed) if why else _text(HTTPStatus.OK, "ok")
        excluded = set(query.get("exclude", ()))
        found = {check: why(within) for check, why in checks.items() if check not in excluded}
        for check, why in found.items():
            self._slis.note(check, name, ok=not why)
        unknown = sorted(excluded - checks.keys())
        lines = [_result(check, found) for check in checks]
        if unknown:
            quoted = ",".join(map(json.dumps, unknown))
            lines.append(f"warn: some health checks cannot be excluded: no matches for {quoted}")
        return _results(name, lines, failed=any(found.values()), verbose="verbose" in query)


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


def _is_loopback(host: str) -> bool:
    """Whether an address, or a name, is known to be this machine's own."""
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host.lower() == "localhost"


def _why_foreign(request: HttpRequest) -> str:
    """Why a request isn't from a client on this machine, or may come from a web page; with what to do."""
    if not _is_loopback(request.client):
        return "use kubectl port-forward"
    if not is_asked_by_loopback(request):
        return "ask for it at 127.0.0.1 or localhost, as a web page may have any other name"
    return ""


def _scraped(registry: CollectorRegistry, request: HttpRequest) -> PageAnswer:
    """Metrics in the format that Accept asks for; with `?name[]=NAME`, only the named ones."""
    try:
        encode, kind = choose_encoder(",".join(request.values("accept")))
    except (TypeError, ValueError):  # the client can't expect a format that its Accept doesn't name
        encode, kind = choose_encoder("")
    names = parse_qs(request.query).get("name[]")
    body, fields = (
        encode(registry.restricted_registry(names) if names else registry),
        [("Content-Type", kind)],
    )
    if gzip_accepted(",".join(request.values("accept-encoding"))):
        body, fields = gzip.compress(body), [*fields, ("Content-Encoding", "gzip")]
    return HTTPStatus.OK, fields, body


def _not_ready(_: HttpRequest) -> PageAnswer:
    """The page of READINESS if the API server doesn't answer."""
    lines = [f"[-]api-server failed: no answer within {PROBE_PATIENCE} s"]
    return _results(READINESS.strip("/"), lines, failed=True, verbose=True)


def _result(check: str, found: Mapping[str, str]) -> str:
    if check not in found:
        return f"[+]{check} excluded: ok"
    return f"[-]{check} failed: {found[check]}" if found[check] else f"[+]{check} ok"


def _results(name: str, lines: Iterable[str], *, failed: bool, verbose: bool) -> PageAnswer:
    """The result of each check, if `?verbose` was given or a check failed; else "ok"."""
    if failed:
        return _text(HTTPStatus.INTERNAL_SERVER_ERROR, "\n".join([*lines, f"{name} check failed\n"]))
    return _text(HTTPStatus.OK, "\n".join([*lines, f"{name} check passed\n"]) if verbose else "ok")


def _text(status: HTTPStatus, text: str, kind: str = TEXT) -> PageAnswer:
    return status, [("Content-Type", kind)], text.encode()
