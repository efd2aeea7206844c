"""The lessons' cluster: reads it for checks, and resets it."""

import time
from collections.abc import Callable
from typing import Any, TypeVar

import httpx

Json = dict[str, Any]
T = TypeVar("T")

DEFAULT = "/api/v1/namespaces/default"
MARK = "lab=poller"
"""The label of the objects in the lab's manifests."""

SCHEDULERS = ("my-scheduler", "random-scheduler")
"""The scheduler names that lessons use."""

DEPLOYED = (
    "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings/poller",
    "/apis/rbac.authorization.k8s.io/v1/clusterroles/poller",
    "/api/v1/namespaces/poller",
)
"""The objects that scripts/deploy makes. They belong to the lab only on a cluster of its own."""

OURS = ("lab-", "example.com/")
"""The prefixes of the keys of labels, taints and annotations that lessons put on nodes."""

LONGEST_RESET = 60.0  # seconds


class NotYetError(Exception):
    """A task isn't done. The text says what the check saw instead, or what is missing."""


class LabError(Exception):
    """The cluster can't be read. The text says why, and what to do."""


class Lab:
    """The cluster behind a `kubectl proxy`.

    proxy: `http://host:port` or `unix:///path`. own: it was started for the lab, so all in it may be deleted.
    """

    def __init__(self, proxy: str, *, own: bool) -> None:
        socket = proxy.removeprefix("unix://") if proxy.startswith("unix://") else None
        # A proxy speaks plain HTTP; certificates would take 50 ms to read.
        transport = httpx.HTTPTransport(uds=socket, verify=False, trust_env=False)
        self._http = httpx.Client(
            base_url="http://localhost" if socket else proxy, timeout=30, transport=transport, trust_env=False
        )
        self._proxy, self.own = proxy, own

    # --- reading ----------------------------------------------------------------------------------------

    def get(self, path: str, **selectors: str) -> Json | None:
        """The object at a path; None if it doesn't exist. LabError when the cluster doesn't answer."""
        answer = self._ask("GET", path, params=selectors)
        return None if answer.status_code == 404 else dict(answer.json())

    def items(self, path: str, **selectors: str) -> list[Json]:
        """The objects of a collection, by label and field selectors."""
        return list((self.get(path, **selectors) or {}).get("items", ()))

    def nodes(self) -> dict[str, Json]:
        """The nodes that lessons use, by name: the ready ones that don't belong to a control plane."""
        found = self.items("/api/v1/nodes", labelSelector="!node-role.kubernetes.io/control-plane")
        ready = [node for node in found if condition(node, "Ready") == "True"]
        return {node["metadata"]["name"]: node for node in ready}

    def pods(self, labels: str = "") -> list[Json]:
        """The pods of the namespace default that aren't being deleted."""
        found = self.items(f"{DEFAULT}/pods", labelSelector=labels)
        return [pod for pod in found if not pod["metadata"].get("deletionTimestamp")]

    def pod(self, name: str) -> Json:
        """The pod of this name. NotYetError when it doesn't exist."""
        pod = self.get(f"{DEFAULT}/pods/{name}")
        if pod is None or pod["metadata"].get("deletionTimestamp"):
            raise NotYetError(f"there is no pod {name}")
        return pod

    def bound(self, name: str) -> tuple[Json, str]:
        """A pod and its node. NotYetError when it has none."""
        pod = self.pod(name)
        if not (node := node_of(pod)):
            raise NotYetError(f"pod {name} has no node yet")
        return pod, node

    def events(self, reason: str, pod: str = "") -> list[Json]:
        """Events with this reason about pods of the namespace default, or about one of them."""
        about = f"reason={reason},involvedObject.kind=Pod" + (f",involvedObject.name={pod}" if pod else "")
        return self.items(f"{DEFAULT}/events", fieldSelector=about)

    # --- starting over ----------------------------------------------------------------------------------

    def reset(self) -> None:
        """Delete what lessons made, and undo their changes of nodes. LabError if something isn't deleted."""
        for path in self._made():
            self._ask("DELETE", path, params={"propagationPolicy": "Background"})
        for name, node in self.nodes().items():
            self._restore(name, node)
        deadline = time.monotonic() + LONGEST_RESET
        while left := [pod["metadata"]["name"] for pod in self._pods()] + self._leaving_namespaces():
            if time.monotonic() > deadline:
                raise LabError(f"still there after {LONGEST_RESET:g} s: {', '.join(left)}")
            for name in left:
                self._ask("DELETE", f"{DEFAULT}/pods/{name}", params={"gracePeriodSeconds": "0"})
            time.sleep(0.1)
        for scheduler in SCHEDULERS:
            self._ask("DELETE", f"{DEFAULT}/events", params={"fieldSelector": f"source={scheduler}"})
        if self.own:
            self._ask("DELETE", f"{DEFAULT}/events")

    def _made(self) -> list[str]:
        """The paths of the lab's objects other than pods; some of them create pods."""
        collections = (
            "/apis/apps/v1/namespaces/default/deployments",
            "/apis/apps/v1/namespaces/default/replicasets",
            "/apis/policy/v1/namespaces/default/poddisruptionbudgets",
            "/apis/scheduling.k8s.io/v1/priorityclasses",
        )
        labels = {} if self.own else {"labelSelector": MARK}
        found = [(path, item) for path in collections[:3] for item in self.items(path, **labels)]
        found += [(collections[3], item) for item in self.items(collections[3], labelSelector=MARK)]
        return [f"{path}/{item['metadata']['name']}" for path, item in found] + [
            path for path in DEPLOYED if self.own
        ]

    def _pods(self) -> list[Json]:
        """The lab's pods, also those that are being deleted."""
        found = self.items(f"{DEFAULT}/pods")
        if self.own:
            return found
        key, _, value = MARK.partition("=")
        return [
            pod
            for pod in found
            if pod["spec"].get("schedulerName") in SCHEDULERS
            or pod["metadata"].get("labels", {}).get(key) == value
        ]

    def _leaving_namespaces(self) -> list[str]:
        return ["poller"] if self.own and self.get(DEPLOYED[2]) else []

    def _restore(self, name: str, node: Json) -> None:
        spec, metadata = node["spec"], node["metadata"]
        patch: Json = {"spec": {"unschedulable": None}} if spec.get("unschedulable") else {}
        taints = spec.get("taints") or []
        if kept := [taint for taint in taints if not taint["key"].startswith(OURS)]:
            patch.setdefault("spec", {})["taints"] = kept
        elif taints:
            patch.setdefault("spec", {})["taints"] = None
        for field in ("labels", "annotations"):
            if ours := [key for key in metadata.get(field) or {} if key.startswith(OURS)]:
                patch.setdefault("metadata", {})[field] = dict.fromkeys(ours)
        if patch:
            headers = {"Content-Type": "application/merge-patch+json"}
            self._ask("PATCH", f"/api/v1/nodes/{name}", json=patch, headers=headers)

    def _ask(self, method: str, path: str, **request: Any) -> httpx.Response:
        try:
            answer = self._http.request(method, path, **request)
        except httpx.TransportError as error:
            raise LabError(
                f"{self._proxy} doesn't answer ({error}); is kubectl proxy still there? Leave this shell"
                " with `exit`, and begin again with scripts/learn"
            ) from None
        if answer.status_code >= 400 and answer.status_code not in (404, 409):
            raise LabError(f"{method} {path}: {answer.status_code} {answer.text.strip()}")
        return answer


def node_of(pod: Json) -> str:
    """The node that a pod is bound to; empty when it isn't bound."""
    return str(pod["spec"].get("nodeName") or "")


def condition(thing: Json, kind: str) -> str:
    """The status of a condition of a pod or a node; empty when it has no such condition."""
    found = (thing.get("status") or {}).get("conditions") or ()
    return next((str(each["status"]) for each in found if each["type"] == kind), "")


def eventually(look: Callable[[], T], seconds: float) -> T:
    """Call `look` until it returns without a NotYetError, for so many seconds at most."""
    deadline = time.monotonic() + seconds
    while True:
        try:
            return look()
        except NotYetError:
            if time.monotonic() > deadline:
                raise
        time.sleep(0.1)
