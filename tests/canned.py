"""An API server without validation: poller can read objects from it that a real server would refuse.

    with canned({"pods": [...], "nodes": [...]}) as server:
        ...  # talk to server.url

It answers lists, watches and gets with the given objects, accepts bindings and events, and merges patches
into a pod's status.
"""

import json
import re
import threading
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

Json = dict[str, Any]

KINDS = {
    "pods": "Pod",
    "nodes": "Node",
    "nodemetrics": "NodeMetrics",
    "namespaces": "Namespace",
    "services": "Service",
    "events": "Event",
    "poddisruptionbudgets": "PodDisruptionBudget",
    "replicasets": "ReplicaSet",
    "statefulsets": "StatefulSet",
    "replicationcontrollers": "ReplicationController",
    "podgroups": "PodGroup",
    "persistentvolumeclaims": "PersistentVolumeClaim",
    "persistentvolumes": "PersistentVolume",
    "storageclasses": "StorageClass",
    "csinodes": "CSINode",
    "csidrivers": "CSIDriver",
    "csistoragecapacities": "CSIStorageCapacity",
    "volumeattachments": "VolumeAttachment",
    "leases": "Lease",
}

STORAGE = (
    "persistentvolumeclaims",
    "persistentvolumes",
    "storageclasses",
    "csinodes",
    "csidrivers",
    "csistoragecapacities",
    "volumeattachments",
)

WATCHED = ("pods", "nodes", "services", *STORAGE)

PATH = re.compile(
    r"/apis?(?:/[^/]+)?/v[^/]+(?:/namespaces/(?P<namespace>[^/]+)(?=/))?"
    r"/(?P<resource>[^/]+)(?:/(?P<name>[^/]+))?(?:/(?P<subresource>[^/]+))?"
)


class CannedServer:
    """The server, running.

    objects: by resource. by_watch: lists of pods, nodes, services and storage are empty; their watches send
    the objects. version: of lists. failing: the resources whose lists fail. forbidden: the paths that nobody
    may read, or `WATCH` and one that may only be listed. reads: the paths that were read, with their queries.
    bound: the node of each pod that was bound. deleted: the names of deleted objects.
    """

    def __init__(self, url: str, objects: dict[str, list[Any]], *, by_watch: bool) -> None:
        self.url = url
        self.objects = objects
        self.by_watch = by_watch
        self.version = 1
        self.failing: Collection[str] = ()
        self.bound: dict[str, str] = {}
        self.deleted: list[str] = []
        self.reads: list[str] = []
        self.forbidden: set[str] = set()
        self.watching = threading.Event()  # set to end the open watches

    def end_watches(self) -> None:
        """Cut off the open watches."""
        ending, self.watching = self.watching, threading.Event()
        ending.set()

    def listed(self, resource: str, namespace: str | None, selector: str) -> list[Any]:
        found = self.objects.get(resource, [])
        if namespace:
            found = [each for each in found if _of(each, "metadata", "namespace") == namespace]
        if resource == "pods" and "spec.nodeName" in selector:
            assigned = "spec.nodeName!=" in selector
            found = [each for each in found if bool(_of(each, "spec", "nodeName")) == assigned]
        return found

    def find(self, resource: str, namespace: str | None, name: str) -> Any:
        same = [
            each for each in self.listed(resource, namespace, "") if _of(each, "metadata", "name") == name
        ]
        return same[0] if same else None


def _of(body: Any, *path: str) -> Any:
    for name in path:
        body = body.get(name) if isinstance(body, dict) else None
    return body


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    wbufsize = -1
    canned: CannedServer

    def do_GET(self) -> None:
        self.canned.reads.append(unquote(self.path))
        url = urlsplit(self.path)
        query = {name: values[0] for name, values in parse_qs(url.query).items()}
        match = PATH.fullmatch(unquote(url.path))
        if not match:
            return self._answer(404, _status(404, "no such path"))
        is_of_metrics = "/metrics.k8s.io/" in url.path  # whose resource is called "nodes", too
        resource, name = "nodemetrics" if is_of_metrics else match["resource"], match["name"]
        asked = f"WATCH {url.path}" if query.get("watch") else url.path
        if {url.path, asked} & self.canned.forbidden:
            return self._answer(403, _status(403, f"{resource} is forbidden", "Forbidden"))
        if query.get("watch"):
            return self._watch(resource, match["namespace"])
        if name:
            found = self.canned.find(resource, match["namespace"], name)
            kind = {"kind": KINDS.get(resource), "apiVersion": "v1"}
            return (
                self._answer(200, {**kind, **found})
                if found
                else self._answer(404, _status(404, "not found"))
            )
        if resource in self.canned.failing:
            return self._answer(500, _status(500, f"no {resource} today"))
        items = self.canned.listed(resource, match["namespace"], query.get("fieldSelector", ""))
        if self.canned.by_watch and resource in WATCHED:
            items = []
        kind = f"{KINDS.get(resource)}List"
        metadata = {"resourceVersion": str(self.canned.version)}
        return self._answer(200, {"kind": kind, "metadata": metadata, "items": items})

    def do_POST(self) -> None:
        match, body = PATH.fullmatch(unquote(self.path)), self._body()
        if match and match["subresource"] == "binding":
            pod = self.canned.find("pods", match["namespace"], match["name"])
            node = body["target"]["name"]
            self.canned.bound[match["name"]] = pod["spec"]["nodeName"] = node
            return self._answer(201, _status(201, ""))
        body.setdefault("metadata", {}).setdefault("name", f"made-{id(body)}")
        return self._answer(201, body)

    def do_PUT(self) -> None:
        return self._answer(200, self._body())

    def do_PATCH(self) -> None:
        match, patch = PATH.fullmatch(unquote(self.path)), self._body()
        found = match and self.canned.find(match["resource"], match["namespace"], match["name"])
        if not found:
            return self._answer(404, _status(404, "not found"))
        return self._answer(200, {**found, "status": patch.get("status", {})})

    def do_DELETE(self) -> None:
        self._body()
        match = PATH.fullmatch(unquote(self.path))
        assert match
        self.canned.deleted.append(match["name"])
        return self._answer(200, _status(200, ""))

    def _watch(self, resource: str, namespace: str | None) -> None:
        self.close_connection = True
        ends = self.canned.watching
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.end_headers()
        for each in self.canned.listed(resource, namespace, ""):
            self.wfile.write(json.dumps({"type": "ADDED", "object": each}).encode() + b"\n")
        self.wfile.flush()
        ends.wait()

    def _body(self) -> Any:
        return json.loads(self.rfile.read(int(self.headers["Content-Length"])))

    def _answer(self, code: int, body: Any) -> None:
        content = json.dumps(body).encode()
        self.send_response(code)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *_: Any) -> None:
        pass


def _status(code: int, message: str, reason: str = "") -> Json:
    said = "Success" if code < 300 else "Failure"
    return {"kind": "Status", "status": said, "code": code, "message": message, "reason": reason}


@contextmanager
def canned(
    objects: dict[str, list[Any]], *, by_watch: bool = False, failing: Collection[str] = ()
) -> Iterator[CannedServer]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Handler)
    server.daemon_threads = True
    server.RequestHandlerClass = type("Handler", (_Handler,), {})
    running = CannedServer(f"http://127.0.0.1:{server.server_port}", objects, by_watch=by_watch)
    running.failing = failing
    server.RequestHandlerClass.canned = running
    thread = threading.Thread(target=server.serve_forever, args=(0.05,))
    thread.start()
    try:
        yield running
    finally:
        running.end_watches()
        server.shutdown()
        thread.join()
        server.server_close()
