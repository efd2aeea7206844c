"""Lists that are older than what was seen before."""

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from lib.kube.api import Api
from lib.kube.errors import StaleListError
from lib.kube.freshness import LONGEST_LAG, Freshness
from lib.kube.source import PollingSource
from lib.kube.system import System

PODS = "/api/v1/pods"
NODES, METRICS = "/api/v1/nodes", "/apis/metrics.k8s.io/v1beta1/nodes"


class Clock(System):
    def __init__(self) -> None:
        self.seconds = 0.0
        self.monotonic = lambda: self.seconds


def listed(freshness: Freshness, path: str, version: str) -> None:
    """A list is requested, and answered before anything else happens."""
    freshness.check(path, version, freshness.newest(path))


def test_a_list_that_is_older_than_one_before_is_refused() -> None:
    freshness = Freshness(Clock())
    listed(freshness, PODS, "99")
    listed(freshness, PODS, "100")
    listed(freshness, PODS, "100")
    with pytest.raises(StaleListError, match=r"GET /api/v1/pods: .* version 99, but 100 was seen"):
        listed(freshness, PODS, "99")


def test_a_list_that_is_older_than_a_watch_is_refused() -> None:
    freshness = Freshness(Clock())
    freshness.note(PODS, "100")
    with pytest.raises(StaleListError):
        listed(freshness, "/api/v1/namespaces/default/pods", "99")


def test_a_list_that_was_requested_before_newer_ones_were_seen_is_taken() -> None:
    freshness = Freshness(Clock())
    listed(freshness, PODS, "99")
    seen = freshness.newest(PODS)
    listed(freshness, "/api/v1/namespaces/small/pods", "101")
    freshness.check("/api/v1/namespaces/big/pods", "100", seen)
    with pytest.raises(StaleListError, match="version 98, but 99 was seen"):
        freshness.check("/api/v1/namespaces/big/pods", "98", seen)
    with pytest.raises(StaleListError, match="version 100, but 101 was seen"):  # the newest is still known
        listed(freshness, "/api/v1/namespaces/big/pods", "100")


@pytest.mark.parametrize(
    ("path", "version"), [(NODES, "5"), ("/api/v1/namespaces", "5"), (PODS, ""), (PODS, "opaque")]
)
def test_what_cannot_be_compared_is_taken(path: str, version: str) -> None:
    freshness = Freshness(Clock())
    listed(freshness, PODS, "100")
    listed(freshness, METRICS, "100")
    listed(freshness, "/api/v1/namespaces/default/pods", "100")
    listed(freshness, path, version)


def test_a_cluster_that_was_restored_is_believed_after_a_while() -> None:
    clock = Clock()
    freshness = Freshness(clock)
    listed(freshness, PODS, "100")
    seen = freshness.newest(PODS)
    for clock.seconds in (0.0, LONGEST_LAG - 1):
        with pytest.raises(StaleListError):
            listed(freshness, PODS, "7")
    clock.seconds = LONGEST_LAG
    listed(freshness, PODS, "7")
    listed(freshness, PODS, "8")
    freshness.check(PODS, "9", seen)


# --- from an API server ---------------------------------------------------------------------------------


class _Server(ThreadingHTTPServer):
    """Lists without objects. Somebody writes between any two requests, so each has a newer version.

    pages: how many pages a list has. lags: by how many versions the server lags behind. answered: set by the
    last page of the namespace `small`, for which the first page of `big` waits.
    """

    pages, lags, version = 1, 0, 100

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.lock, self.answered = threading.Lock(), threading.Event()

    def handle_error(self, *_: object) -> None:
        """Say nothing: a client may go away in the middle."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: _Server

    def do_GET(self) -> None:
        page = int(self.path.partition("continue=")[2] or 1)
        with self.server.lock:
            self.server.version += 1
            version = self.server.version - self.server.lags
        last = page >= self.server.pages
        if "/big/" in self.path and page == 1:
            self.server.answered.wait(1)
        metadata = {"resourceVersion": str(version), **({} if last else {"continue": str(page + 1)})}
        body = json.dumps({"kind": "PodList", "apiVersion": "v1", "metadata": metadata, "items": []}).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
        if "/small/" in self.path and last:
            self.server.answered.set()

    def log_message(self, *_: object) -> None:
        pass


@contextmanager
def polling() -> Iterator[tuple[_Server, PollingSource]]:
    """A server, and who polls two of its namespaces."""
    with _Server() as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.05,))
        thread.start()
        try:
            with Api(f"http://127.0.0.1:{server.server_port}", threading.Event()) as api:
                yield server, PollingSource(api, ["my-scheduler"], ["big", "small"])
        finally:
            server.shutdown()
            thread.join()


@pytest.mark.parametrize("pages", [1, 2])
def test_lists_of_several_namespaces_do_not_make_each_other_stale(pages: int) -> None:
    with polling() as (server, source):
        server.pages = pages
        for _ in range(3):
            server.answered.clear()
            source.poll()
        server.lags = 20
        with pytest.raises(StaleListError):
            source.poll()
