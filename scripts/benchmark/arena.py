"""The API server that all contestants meet, and what is in its cluster."""

import ssl
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from scripts.benchmark import objects
from scripts.benchmark.client import MERGE, THREADS, Client, Json, Request, clients, send_all
from scripts.servers.embedded import minicluster
from scripts.servers.real import apiserver

PODS = "/api/v1/namespaces/default/pods"
EVENTS = "/api/v1/namespaces/default/events"
NODES = "/api/v1/nodes"

RECOVERY = 0.001
"""Seconds that the API server is given for each object, so that the first contestant doesn't pay for them."""


@dataclass
class Arena:
    """A running API server; `kubeconfig` is its admin's, if it has users. Logs go to `folder`."""

    kind: str
    url: str
    kubeconfig: Path | None
    tls: ssl.SSLContext | None
    folder: Path
    nodes: int = 0
    bound: int = 0
    _clients: list[Client] = field(default_factory=list)

    def new_client(self) -> Client:
        return Client(self.url, self.tls)

    def prepare(self, nodes: int, bound: int) -> None:
        """Have so many nodes and bound pods, and no other pod."""
        self.clear(bound=bound != self.bound)
        new = nodes - self.nodes + bound - self.bound
        self._add_nodes(nodes)
        self.create([objects.bound_pod(each, nodes) for each in range(self.bound, bound)])
        self.bound = bound
        time.sleep(RECOVERY * new)

    def create(self, pods: Sequence[Json]) -> None:
        self._send([Request("POST", PODS, pod) for pod in pods])

    def collect_garbage(self) -> None:
        """Have the API server do now what else it would do while some contestant is measured, and not others.

        With a large heap that takes it a second. From outside it can be asked for by net/http/pprof only.
        """
        if self.kind == "real":
            self._send([Request("GET", "/debug/pprof/heap?gc=1")])

    def clear(self, *, bound: bool) -> None:
        """Delete the pods that a contestant was given, and all events; the bound ones, too, if told to."""
        which = "bench" if bound else "bench=waiting"
        self._send([Request("DELETE", f"{PODS}?gracePeriodSeconds=0&labelSelector={which}")])
        self._send([Request("DELETE", EVENTS)])
        if bound:
            self.bound = 0

    def resource_version(self) -> str:
        """That of the cluster now: a watch from here on misses nothing."""
        with_one = self._connections()[0].get(f"{PODS}?limit=1")
        return str(with_one["metadata"]["resourceVersion"])

    def _add_nodes(self, nodes: int) -> None:
        assert nodes >= self.nodes, "nodes are added only"
        numbers = range(self.nodes, nodes)
        self._send([Request("POST", NODES, objects.node(each)) for each in numbers])
        # A new node is tainted as not ready until a node controller lifts that; there is none here.
        untainted: Json = {"spec": {"taints": None}}
        names = map(objects.node_name, numbers)
        self._send([Request("PATCH", f"{NODES}/{name}", untainted, MERGE) for name in names])
        self.nodes = nodes

    def _send(self, requests: Sequence[Request]) -> None:
        if requests:
            send_all(self._connections()[: len(requests)], requests)

    def _connections(self) -> list[Client]:
        """Opened anew each time that the server may have closed those that were idle."""
        for client in self._clients:
            client.close()
        self._clients = clients(THREADS, self.new_client)
        return self._clients


@contextmanager
def arena(kind: str, folder: Path) -> Iterator[Arena]:
    """Start an API server, "real" or "embedded", and end it with the block."""
    if kind == "real":
        with apiserver(folder / "apiserver") as server:
            yield Arena(kind, server.url, server.kubeconfig, server.tls, folder)
    else:
        with minicluster("--bare", "--nodes", "0") as url:
            yield Arena(kind, url, None, None, folder)
