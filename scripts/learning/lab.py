"""The lessons' cluster: reads it for checks, and resets it."""

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import httpx

Json = dict[str, Any]
T = TypeVar("T")

DEFAULT = "/api/v1/namespaces/default"
MARK = "lab=poller"
"""The label of the objects in the lab's manifests."""

SCHEDULERS = ("my-scheduler", "random-scheduler", "other-scheduler", "lab-probe")
"""The scheduler names that lessons use."""

KEPT_NAMESPACES = ("default", "kube-system", "kube-public", "kube-node-lease")

COLLECTIONS = (
    "/apis/apps/v1/deployments",
    "/apis/apps/v1/statefulsets",
    "/apis/apps/v1/replicasets",
    "/apis/policy/v1/poddisruptionbudgets",
    "/apis/scheduling.k8s.io/v1alpha2/podgroups",
    "/api/v1/services",
    "/api/v1/persistentvolumeclaims",
    "/apis/resource.k8s.io/v1/resourceclaims",
    "/apis/resource.k8s.io/v1/resourceclaimtemplates",
)
"""The paths of what lessons and students make in namespaces, beside pods; some of it creates pods."""

OF_THE_CLUSTER = (
    "/apis/scheduling.k8s.io/v1/priorityclasses",
    "/apis/storage.k8s.io/v1/storageclasses",
    "/api/v1/persistentvolumes",
    "/apis/resource.k8s.io/v1/deviceclasses",
    "/apis/resource.k8s.io/v1/resourceslices",
    "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings",
    "/apis/rbac.authorization.k8s.io/v1/clusterroles",
    "/api/v1/namespaces",
)
"""The paths of what they make outside of namespaces."""

KUBERNETES_OWN = ("system-", "system:", "kubernetes")
"""The first letters of the names of what belongs to Kubernetes itself."""

OURS = ("lab-", "example.com/")
"""The prefixes of the keys of labels, taints and annotations that lessons put on nodes."""

LONGEST_RESET = 60.0  # seconds


class NotYetError(Exception):
    """A task isn't done. The text says what the check saw instead, or what is missing."""


class TrialError(NotYetError):
    """A student's program was tried, and does something wrong. To try it again at once is of no use."""


class LabError(Exception):
    """The cluster can't be read. The text says why, and what to do."""


class Lab:
    """The cluster behind a `kubectl proxy`.

    proxy: `http://host:port` or `unix:///path`. own: it was started for the lab, so all in it may be deleted.
    folder: the student's files.
    """

    def __init__(self, proxy: str, *, own: bool, folder: Path) -> None:
        socket = proxy.removeprefix("unix://") if proxy.startswith("unix://") else None
        # A proxy speaks plain HTTP; certificates would take 50 ms to read.
        transport = httpx.HTTPTransport(uds=socket, verify=False, trust_env=False)
        self._http = httpx.Client(
            base_url="http://localhost" if socket else proxy, timeout=30, transport=transport, trust_env=False
        )
        self.proxy, self.own, self.folder = proxy, own, folder

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

    # --- writing ----------------------------------------------------------------------------------------

    def create(self, path: str, content: Json) -> None:
        """Create an object in a collection, unless there is one of its name."""
        self._ask("POST", path, json=content)

    def delete(self, path: str) -> None:
        """Delete an object at once."""
        self._ask("DELETE", path, params={"gracePeriodSeconds": "0"})

    def cordon(self, node: str, cordoned: bool) -> None:
        """Cordon a node, or uncordon it."""
        self._patch_node(node, {"spec": {"unschedulable": cordoned or None}})

    # --- starting over ----------------------------------------------------------------------------------

    def reset(self) -> None:
        """Delete what was made in the lessons, and undo changes of nodes. LabError if something stays.

        On a cluster of the lab's own that is all that a student made, else what has the lab's marks.
        """
        for path in self._made():
            self._ask("DELETE", path, params={"propagationPolicy": "Background"})
        for name, node in self.nodes().items():
            self._restore(name, node)
        deadline = time.monotonic() + LONGEST_RESET
        while left := [self._path_of("/api/v1/pods", pod) for pod in self._pods()] + self._leaving():
            if time.monotonic() > deadline:
                raise LabError(f"still there after {LONGEST_RESET:g} s: {', '.join(left)}")
            for path in left:
                self._ask("DELETE", path, params={"gracePeriodSeconds": "0"})
            time.sleep(0.1)
        for selector in ("",) if self.own else (f"source={scheduler}" for scheduler in SCHEDULERS):
            self._ask("DELETE", f"{DEFAULT}/events", params={"fieldSelector": selector})

    def _made(self) -> list[str]:
        """The paths of what was made, other than pods."""
        found = [(path, each) for path in (*COLLECTIONS, *OF_THE_CLUSTER) for each in self.items(path)]
        nodes = self.items("/api/v1/nodes", labelSelector=MARK)  # lessons label theirs
        found += [("/api/v1/nodes", each) for each in nodes]
        return [self._path_of(path, each) for path, each in found if self._is_ours(each)]

    def _is_ours(self, found: Json) -> bool:
        """Whether the lab, or a student in it, has made this."""
        metadata = found["metadata"]
        name, namespace = str(metadata["name"]), metadata.get("namespace", "default")
        key, _, value = MARK.partition("=")
        if metadata.get("labels", {}).get(key) == value or name.startswith(OURS):
            return namespace == "default" or self.own
        return self.own and name not in KEPT_NAMESPACES and not name.startswith(KUBERNETES_OWN)

    def _path_of(self, collection: str, found: Json) -> str:
        metadata = found["metadata"]
        above, _, plural = collection.rpartition("/")
        inside = f"/namespaces/{metadata['namespace']}" if "namespace" in metadata else ""
        return f"{above}{inside}/{plural}/{metadata['name']}"

    def _pods(self) -> list[Json]:
        """The pods that were made, also those that are being deleted."""
        if self.own:
            return self.items("/api/v1/pods")
        found = self.items(f"{DEFAULT}/pods")
        return [pod for pod in found if pod["spec"].get("schedulerName") in SCHEDULERS or self._is_ours(pod)]

    def _leaving(self) -> list[str]:
        """The paths of namespaces that are being deleted."""
        path = "/api/v1/namespaces"
        return [self._path_of(path, each) for each in self.items(path) if self._is_ours(each)]

    def _restore(self, name: str, node: Json) -> None:
        spec, metadata = node["spec"], node["metadata"]
        patch: Json = {"spec": {"unschedulable": None}} if spec.get("unschedulable") else {}
        taints = spec.get("taints") or []
        if kept := [taint for taint in taints if not self._is_our_key(taint["key"])]:
            patch.setdefault("spec", {})["taints"] = kept
        elif taints:
            patch.setdefault("spec", {})["taints"] = None
        for field in ("labels", "annotations"):
            if ours := [key for key in metadata.get(field) or {} if self._is_our_key(key)]:
                patch.setdefault("metadata", {})[field] = dict.fromkeys(ours)
        if patch:
            self._patch_node(name, patch)

    def _is_our_key(self, key: str) -> bool:
        """Whether the lab, or a student in it, has put a label, taint or annotation of this key on a node."""
        if key.startswith(OURS):
            return True
        return self.own and ("kubernetes.io/" not in key or key.startswith("topology."))

    def _patch_node(self, name: str, patch: Json) -> None:
        headers = {"Content-Type": "application/merge-patch+json"}
        self._ask("PATCH", f"/api/v1/nodes/{name}", json=patch, headers=headers)

    def _ask(self, method: str, path: str, **request: Any) -> httpx.Response:
        try:
            answer = self._http.request(method, path, **request)
        except httpx.TransportError as error:
            raise LabError(
                f"{self.proxy} doesn't answer ({error}); is kubectl proxy still there? Leave this shell"
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


def require(holds: object, instead: str) -> None:
    """Raise NotYetError with this text unless the condition holds."""
    if not holds:
        raise NotYetError(instead)


def eventually(look: Callable[[], T], seconds: float) -> T:
    """Call `look` until it returns without a NotYetError, for so many seconds at most."""
    deadline = time.monotonic() + seconds
    while True:
        try:
            return look()
        except NotYetError as error:
            if isinstance(error, TrialError) or time.monotonic() > deadline:
                raise
        time.sleep(0.1)
