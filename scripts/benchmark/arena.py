"""The API server for all contestants, and its cluster's content."""

import ssl
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from scripts.benchmark import devices, objects, volumes
from scripts.benchmark.client import MERGE, THREADS, Client, Json, RefusedError, Request, clients, send_all
from scripts.benchmark.workloads import HIGH_PRIORITY, HIGH_PRIORITY_VALUE, Workload
from scripts.servers.embedded import minicluster
from scripts.servers.real import apiserver

PODS = "/api/v1/pods"
NODES = "/api/v1/nodes"
NAMESPACES = "/api/v1/namespaces"
PRIORITY_CLASSES = "/apis/scheduling.k8s.io/v1/priorityclasses"

MOST_MINUTES = 10
"""For deleting what is in a collection."""

RECOVERY = 0.001
"""Seconds of rest that the API server gets for each new object: else the first contestant would be slower."""


@dataclass
class Arena:
    """A running API server; `kubeconfig` is its admin's, if it has users. Logs go to `folder`."""

    kind: str
    url: str
    kubeconfig: Path | None
    tls: ssl.SSLContext | None
    folder: Path
    _nodes: dict[str, Json] = field(default_factory=dict)
    _bound: list[Json] = field(default_factory=list)
    _used: set[str] = field(default_factory=lambda: {"default"})  # namespaces in which pods were created
    _storage: dict[str, Json] = field(default_factory=dict)  # by path: claims, volumes and such
    _devices: dict[str, Json] = field(default_factory=dict)  # by path: classes, slices and claims
    _created: set[str] = field(default_factory=set)  # paths of other objects that stay
    _clients: list[Client] = field(default_factory=list)

    def new_client(self) -> Client:
        return Client(self.url, self.tls)

    def prepare(self, nodes: int, bound: int) -> None:
        """Make the cluster have this many nodes and bound pods, and no other pod."""
        pods = [objects.bound_pod(each, nodes) for each in range(bound)]
        self._prepare([objects.node(each) for each in range(nodes)], pods)

    def prepare_size(self, nodes: int, bound: int) -> None:
        """The same, with pods as people have them."""
        pods = [objects.typical_pod(each, nodes) for each in range(bound)]
        self._prepare([objects.node(each) for each in range(nodes)], pods)

    def prepare_workload(self, workload: Workload) -> None:
        """Make the cluster have the nodes, pods and other objects that a workload needs, and no other pod."""
        if workload.evicts:
            self._bound = [{}]  # some of them may have been evicted
        for name in workload.namespaces():
            labels = {"team": "devops"} if workload.teams else {}
            self._create_once(NAMESPACES, {"metadata": {"name": name, "labels": labels}})
        metadata = {"name": HIGH_PRIORITY}
        self._create_once(PRIORITY_CLASSES, {"metadata": metadata, "value": HIGH_PRIORITY_VALUE})
        if service := workload.service_object():
            self._create_once(f"{NAMESPACES}/{workload.namespace}/services", service)
        self._prepare(workload.node_objects(), workload.existing_pods(), workload.storage_objects())
        self._have_devices(workload.device_objects(), workload.device_claims())

    def _prepare(self, nodes: Sequence[Json], pods: list[Json], storage: Sequence[Json] = ()) -> None:
        anew = pods != self._bound
        self.clear(bound=anew)
        new = self._have_nodes({each["metadata"]["name"]: each for each in nodes})
        new += self._have_storage({_path_of_storage(each): each for each in storage})
        if anew:
            self.create(pods)
            self._bound = pods
            new += len(pods)
        time.sleep(RECOVERY * new)

    def create(self, pods: Sequence[Json]) -> None:
        self._used |= {pod["metadata"]["namespace"] for pod in pods}
        self._send([Request("POST", pods_path(pod), pod) for pod in pods])

    def collect_garbage(self) -> None:
        """Make the API server collect garbage now: else it would do so while some contestant is measured.

        With a large heap that takes a second. From outside, only net/http/pprof can ask for it.
        """
        if self.kind == "real":
            self._send([Request("GET", "/debug/pprof/heap?gc=1")])

    def clear(self, *, bound: bool) -> None:
        """Delete the pods that a contestant was to bind, and all events. bound: also the bound pods."""
        which = "bench" if bound else "bench=waiting"
        for namespace in sorted(self._used):
            path = f"{NAMESPACES}/{namespace}"
            self._empty(f"{path}/pods?gracePeriodSeconds=0&labelSelector={which}")
            self._empty(f"{path}/events")
        if bound:
            self._bound, self._used = [], {"default"}

    def _empty(self, collection: str) -> None:
        """Delete all in a collection. The API server takes a minute for it at most, and then says 504."""
        for _ in range(MOST_MINUTES):
            try:
                self._send([Request("DELETE", collection)])
                return
            except RefusedError as error:
                if ": 504 " not in str(error):
                    raise
        raise RefusedError(f"DELETE {collection}: not done after {MOST_MINUTES} minutes")

    def _have_nodes(self, wanted: dict[str, Json]) -> int:
        """Delete the nodes that aren't wanted so, and add the missing ones; returns how many it added."""
        gone = [name for name, body in self._nodes.items() if wanted.get(name) != body]
        self._send([Request("DELETE", f"{NODES}/{name}") for name in gone])
        for name in gone:
            del self._nodes[name]
        new = {name: body for name, body in wanted.items() if name not in self._nodes}
        self._send([Request("POST", NODES, body) for body in new.values()])
        # A new node has the taint not-ready until a node controller removes it. No such controller runs here.
        untainted: Json = {"spec": {"taints": None}}
        self._send([Request("PATCH", f"{NODES}/{name}", untainted, MERGE) for name in new])
        self._nodes |= new
        return len(new)

    def _have_storage(self, wanted: dict[str, Json]) -> int:
        """Delete the objects that aren't wanted, and add the missing ones; returns how many it added.

        The next contestant uses the same claims. No controller runs here that would remove finalizers.
        """
        gone = self._storage.keys() - wanted.keys()
        self._send([Request("PATCH", path, {"metadata": {"finalizers": None}}, MERGE) for path in gone])
        self._send([Request("DELETE", path) for path in gone])
        new = [each for path, each in wanted.items() if path not in self._storage]
        self._send([Request("POST", volumes.path_of(each), each) for each in new])
        self._storage = wanted
        return len(new)

    def _have_devices(self, cluster: Sequence[Json], claims: Sequence[Json]) -> None:
        """Have these devices and no others, and claims without any: those of before are deleted."""
        wanted = {_path_of_device(each): each for each in [*cluster, *claims]}
        anew = {_path_of_device(each) for each in claims}
        gone = [path for path, body in self._devices.items() if path in anew or wanted.get(path) != body]
        of_claims = [path for path in gone if path.endswith(tuple("0123456789")) and "claims/" in path]
        self._send([Request("PATCH", path, {"metadata": {"finalizers": None}}, MERGE) for path in of_claims])
        self._send([Request("DELETE", path) for path in gone])
        new = {path: each for path, each in wanted.items() if path in gone or path not in self._devices}
        plain = ({key: each[key] for key in each if key != "status"} for each in new.values())
        self._send([Request("POST", devices.path_of(each), each) for each in plain])
        allocated = {path: each["status"] for path, each in new.items() if "status" in each}
        statuses = [({"status": each}, f"{path}/status") for path, each in allocated.items()]
        self._send([Request("PATCH", path, body, MERGE) for body, path in statuses])
        self._devices = wanted
        time.sleep(RECOVERY * len(new))

    def _create_once(self, path: str, body: Json) -> None:
        """Create an object, unless it exists; it stays until the end."""
        whole = f"{path}/{body['metadata']['name']}"
        if whole not in self._created and whole != f"{NAMESPACES}/default":
            self._send([Request("POST", path, body)])
            self._created.add(whole)

    def _send(self, requests: Sequence[Request]) -> None:
        if requests:
            send_all(self._connections()[: len(requests)], requests)

    def _connections(self) -> list[Client]:
        """New connections: the server may have closed the earlier ones, as they were idle."""
        for client in self._clients:
            client.close()
        self._clients = clients(THREADS, self.new_client)
        return self._clients


def _path_of_storage(storage: Json) -> str:
    return f"{volumes.path_of(storage)}/{storage['metadata']['name']}"


def _path_of_device(thing: Json) -> str:
    return f"{devices.path_of(thing)}/{thing['metadata']['name']}"


def pods_path(pod: Json) -> str:
    """The path at which a pod is created."""
    return f"{NAMESPACES}/{pod['metadata']['namespace']}/pods"


@contextmanager
def arena(kind: str, folder: Path) -> Iterator[Arena]:
    """Run an API server, "real" or "embedded", for as long as the block takes; "" starts none."""
    if not kind:
        yield Arena(kind, "", None, None, folder)
    elif kind == "real":
        with apiserver(folder / "apiserver") as server:
            yield Arena(kind, server.url, server.kubeconfig, server.tls, folder)
    else:
        with minicluster("--bare", "--nodes", "0") as url:
            yield Arena(kind, url, None, None, folder)
