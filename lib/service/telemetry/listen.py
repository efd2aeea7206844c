"""Answers over HTTP how poller fares: /healthz, /livez and /readyz for probes, /metrics for Prometheus.

In the words of k8s.io/apiserver's pkg/server/healthz, but for that it says why.
"""

import logging
import socket
import threading
from collections.abc import Callable, Iterable, Mapping
from http import HTTPStatus
from socketserver import TCPServer, ThreadingMixIn
from typing import Any
from urllib.parse import parse_qs
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer
from wsgiref.types import StartResponse, WSGIApplication, WSGIEnvironment

from prometheus_client import make_wsgi_app

from lib.service.telemetry.health import LONGEST_SILENCE, Health
from lib.service.telemetry.metrics import Metrics
from lib.service.telemetry.observer import Address, ListenError

log = logging.getLogger("poller")

METRICS = "/metrics"

PATIENCE = 10
"""Seconds that a client may be silent for in the middle of its request."""

Answer = tuple[HTTPStatus, str]


def answering(address: Address) -> Metrics:
    """Answer at an address from now on, in a thread that ends with poller; who is to be told what happens.

    ListenError when something else listens there, or it isn't an address of this machine.
    """
    health = Health()
    metrics = Metrics(health)
    try:
        server = _Server(address, _pages(health, metrics))
    except OSError as error:
        why = f"can't listen at {_shown(address)}: {error.strerror}"
        raise ListenError(f"{why}; give --listen another address") from error
    paths = [*_checks(health), METRICS]
    log.info("answering %s at http://%s", ", ".join(paths), _shown(Address(address.host, server.server_port)))
    threading.Thread(target=server.serve_forever, name="listen", daemon=True).start()
    return metrics


def _shown(address: Address) -> str:
    host, port = address
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


class _Handler(WSGIRequestHandler):
    """One request; its log is nobody's concern."""

    timeout = PATIENCE

    def log_message(self, *_: Any) -> None:
        pass


class _Server(ThreadingMixIn, WSGIServer):
    """A thread for each request; none of them keeps poller from ending."""

    daemon_threads = True
    block_on_close = False
    allow_reuse_port = False

    def __init__(self, address: Address, pages: WSGIApplication) -> None:
        if ":" in address.host:
            self.address_family = socket.AF_INET6
        super().__init__(address, _Handler)
        self.set_app(pages)

    def server_bind(self) -> None:
        """Listen; without asking DNS for our name, which may take long, and which nobody wants to know."""
        TCPServer.server_bind(self)
        self.server_name, self.server_port = "poller", self.socket.getsockname()[1]
        self.setup_environ()

    def handle_error(self, *_: Any) -> None:
        """Say so: a client went away in the middle of its request."""
        log.debug("a request was not answered", exc_info=True)


# --- pages ----------------------------------------------------------------------------------------------


def _checks(health: Health) -> Mapping[str, tuple[Callable[[float], Mapping[str, str]], HTTPStatus]]:
    """By path: what to ask, and the code that says that something is wrong."""
    return {
        "/healthz": (health.alive, HTTPStatus.INTERNAL_SERVER_ERROR),
        "/livez": (health.alive, HTTPStatus.INTERNAL_SERVER_ERROR),
        "/readyz": (health.ready, HTTPStatus.SERVICE_UNAVAILABLE),
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
            return HTTPStatus.BAD_REQUEST, "within is to be a number of seconds\n"
        check, wrong = checks[path]
        return _as_text(path.strip("/"), check(within), wrong, verbose="verbose" in query)

    def pages(environ: WSGIEnvironment, start: StartResponse) -> Iterable[bytes]:
        path = environ["PATH_INFO"]
        if path == METRICS:
            return scraped(environ, start)  # type: ignore[no-any-return]
        status, text = answer(path, parse_qs(environ["QUERY_STRING"], keep_blank_values=True))
        start(f"{status.value} {status.phrase}", [("Content-Type", "text/plain; charset=utf-8")])
        return [text.encode()]

    return pages


def _as_text(name: str, found: Mapping[str, str], wrong: HTTPStatus, *, verbose: bool) -> Answer:
    """What was found, check by check, if someone asked or something is wrong; else "ok"."""
    lines = [f"[-]{check} failed: {why}" if why else f"[+]{check} ok" for check, why in found.items()]
    if any(found.values()):
        return wrong, "\n".join([*lines, f"{name} check failed\n"])
    return HTTPStatus.OK, "\n".join([*lines, f"{name} check passed\n"]) if verbose else "ok"
