"""A real API server as the checks see it: its objects, in the order of their versions."""

import json
import threading
import time
from collections.abc import Callable
from heapq import heappop, heappush
from typing import Any

import httpx

from scripts.minicluster.errors import ApiError
from scripts.minicluster.resources import (
    CLAIMS,
    DEVICE_CLASSES,
    DISRUPTION_BUDGETS,
    EVENTS,
    LEASES,
    NAMESPACES,
    NODES,
    PODS,
    RESOURCE_CLAIMS,
    RESOURCE_SLICES,
    STORAGE_CLASSES,
    VOLUMES,
    Resource,
)
from scripts.minicluster.store import Key, Object, Store, Stored, WatchEvent

MIRRORED = (
    NODES,
    PODS,
    NAMESPACES,
    CLAIMS,
    VOLUMES,
    STORAGE_CLASSES,
    DISRUPTION_BUDGETS,
    EVENTS,
    LEASES,
    DEVICE_CLASSES,
    RESOURCE_SLICES,
    RESOURCE_CLAIMS,
)

SETTLED = 0.5
"""Seconds for which events are collected, so that those of several watches get into their order."""


class Mirror(Store):
    """The objects of a real API server. What is put here is written there."""

    def __init__(self, http: httpx.Client, url: str, tls: Any) -> None:
        super().__init__(1000)
        self.http = http
        self._url, self._tls = url, tls
        self._due: list[tuple[int, int, float, Resource, str, Object]] = []
        self._lock = threading.Lock()
        self._ended = threading.Event()
        self._number = 0
        self.problem = ""

    def follow(self) -> None:
        """Begin to watch."""
        for resource in MIRRORED:
            threading.Thread(target=self._watch, args=(resource,), daemon=True).start()

    def close(self) -> None:
        """Stop watching."""
        self._ended.set()
        super().close()

    def _watch(self, resource: Resource) -> None:
        path, version = f"{base_of(resource)}/{resource.plural}", "0"
        with httpx.Client(base_url=self._url, verify=self._tls, trust_env=False, timeout=None) as client:
            while not self._ended.is_set():
                query = {"watch": "1", "resourceVersion": version, "allowWatchBookmarks": "true"}
                try:
                    with client.stream("GET", path, params=query) as answer:
                        for line in answer.iter_lines():
                            event = json.loads(line)
                            if event["type"] == "ERROR":
                                self.problem = f"the watch of {resource.plural}: {line}"
                                return
                            version = event["object"]["metadata"]["resourceVersion"]
                            if event["type"] != "BOOKMARK":
                                self._collect(resource, event["type"], event["object"])
                except httpx.TransportError:
                    time.sleep(0.1)

    def _collect(self, resource: Resource, kind: str, content: Object) -> None:
        with self._lock:
            self._number += 1
            version = int(content["metadata"]["resourceVersion"])
            heappush(self._due, (version, self._number, time.monotonic(), resource, kind, content))

    def go_on(self, before: Callable[[str, Stored, Stored | None], None], everything: bool = False) -> None:
        """Take the events that have settled. before: is told each one before the listeners are."""
        while True:
            with self._lock:
                if not self._due or not (everything or self._due[0][2] < time.monotonic() - SETTLED):
                    return
                version, _, _, resource, kind, content = heappop(self._due)
            for field in ("kind", "apiVersion"):
                content.pop(field, None)
            new = Stored(resource, content)
            old = self._objects[resource].get(new.key)
            if old and old.version >= version:
                continue  # it was listed before
            self.version = version
            if kind == "DELETED":
                self._objects[resource].pop(new.key, None)
            else:
                self._objects[resource][new.key] = new
            kind = "DELETED" if kind == "DELETED" else "MODIFIED" if old else "ADDED"
            before(kind, new, old)
            self._happened(WatchEvent(kind, version, resource, new, old))  # type: ignore[arg-type]

    # --- writes -------------------------------------------------------------------------------------------

    def put(self, resource: Resource, content: Object) -> Stored:
        """Replace an object, and its status. ApiError when that is refused."""
        namespace, name = content["metadata"].get("namespace", ""), content["metadata"]["name"]
        path = path_of(resource, namespace, name)
        body = {"kind": resource.kind, "apiVersion": resource.group_version, **content}
        known = self.get(resource, (namespace, name))
        before = known.content if known else {}
        for part, suffix in (("", ""), ("status", "/status")):
            same = (
                before.get("status") == content.get("status")
                if part
                else all(before.get(each) == content.get(each) for each in ("spec", "metadata"))
            )
            if not same:
                sent = {**body, "metadata": {**body["metadata"], "resourceVersion": ""}}
                body = {
                    **self.send("PUT", path + suffix, sent),
                    **({"status": content["status"]} if not part else {}),
                }
        return Stored(resource, body)

    def send(self, method: str, path: str, body: Object | None = None) -> Object:
        """Send a request. ApiError when it is refused."""
        answer = self.http.request(method, path, json=body)
        if not answer.is_success:
            raise ApiError(answer.status_code, "Refused", answer.text[:300])
        said: Object = answer.json()
        return said


class RealApi:
    """What `Cluster` needs of an Api, done by a real API server."""

    def __init__(self, mirror: Mirror) -> None:
        self.store = mirror

    def find(self, resource: Resource, key: Key) -> Stored:
        """The object. ApiError when there is none."""
        if not (stored := self.store.get(resource, key)):
            raise ApiError(404, "NotFound", f"{resource.plural} {key[1]}")
        return stored

    def create(self, resource: Resource, namespace: str, content: Object, *_: object) -> Stored:
        """Create an object. ApiError when that is refused."""
        body = {"kind": resource.kind, "apiVersion": resource.group_version, **content}
        made = self.store.send("POST", path_of(resource, namespace, ""), body)
        if resource == NODES:  # its status, and without the taint that a controller would lift
            self.store.send(
                "PUT",
                path_of(resource, "", made["metadata"]["name"]) + "/status",
                {**made, **_status(content)},
            )
            made = self.store.send("GET", path_of(resource, "", made["metadata"]["name"]))
            made["spec"].pop("taints", None)
            made = self.store.send("PUT", path_of(resource, "", made["metadata"]["name"]), made)
        return Stored(resource, made)

    def delete(self, resource: Resource, key: Key, options: Object, *_: object) -> None:
        """Delete an object. ApiError when that is refused."""
        self.store.send("DELETE", path_of(resource, *key), options or None)

    def finish_delete(self, stored: Stored) -> None:
        """End the life of a pod that is being deleted, as its kubelet does."""
        self.delete(stored.resource, stored.key, {"gracePeriodSeconds": 0})


def _status(content: Object) -> Object:
    return {"status": content["status"]} if "status" in content else {}


def base_of(resource: Resource) -> str:
    """The path of a resource's version."""
    return f"/apis/{resource.group_version}" if resource.group else f"/api/{resource.group_version}"


def path_of(resource: Resource, namespace: str, name: str) -> str:
    """The path of an object, or of its list."""
    within = f"/namespaces/{namespace}" if namespace else ""
    return f"{base_of(resource)}{within}/{resource.plural}" + (f"/{name}" if name else "")
