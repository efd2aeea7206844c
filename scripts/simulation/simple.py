"""A simple other scheduler: now and then it binds a pod of its own to the node with the most CPUs left."""

from contextlib import suppress

from scripts.minicluster.errors import ApiError
from scripts.minicluster.pods import bind
from scripts.minicluster.resources import NODES, PODS
from scripts.minicluster.store import Stored

from .server import Server
from .values import amounts_of, is_over, milli

SIMPLE = "simple-scheduler"

EVERY = 0.7
"""Seconds between two looks at the cluster."""

THINKS = 0.3
"""Seconds from a look to the binding: by then the cluster may have changed."""


class SimpleScheduler:
    """It knows nothing but CPUs, cordons and taints."""

    def __init__(self, server: Server) -> None:
        self._server = server
        server.agenda.after(EVERY, self._look)

    def _look(self) -> None:
        self._server.agenda.after(EVERY, self._look)
        for pod in self._server.store.every(PODS):
            spec = pod.content["spec"]
            if spec["schedulerName"] == SIMPLE and not spec.get("nodeName") and (node := self._pick(pod)):
                self._server.agenda.after(THINKS, lambda pod=pod, node=node: self._bind(pod, node))  # type: ignore[misc]
                return

    def _pick(self, pod: Stored) -> str:
        """The node with the most CPUs left; "" if none has enough."""
        best, most = "", amounts_of(pod)["cpu"] - 1
        for node in self._server.store.every(NODES):
            if node.content["spec"].get("unschedulable") or node.content["spec"].get("taints"):
                continue
            left = milli(node.content["status"]["allocatable"]["cpu"]) - sum(
                amounts_of(each)["cpu"]
                for each in self._server.store.every(PODS)
                if each.content["spec"].get("nodeName") == node.key[1] and not is_over(each)
            )
            if left > most:
                best, most = node.key[1], left
        return best

    def _bind(self, pod: Stored, node: str) -> None:
        metadata = {"name": pod.key[1], "uid": pod.metadata["uid"]}
        with suppress(ApiError):  # it was deleted, or is gated
            bind(self._server.api, *pod.key, {"metadata": metadata, "target": {"kind": "Node", "name": node}})
