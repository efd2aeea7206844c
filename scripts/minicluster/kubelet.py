"""Simulated kubelets, one for each node: after a short time a bound pod runs, and a deleted pod is gone."""

import asyncio
from collections.abc import Callable
from itertools import count

from .api import Api
from .clock import timestamp
from .resources import NODES, PODS
from .status import set_condition
from .store import Key, Object, Stored, WatchEvent


class Kubelets:
    def __init__(self, api: Api, delay: float) -> None:
        self._api = api
        self._delay = delay
        self._addresses = count(2)
        api.store.listen(self._on_event)

    def _on_event(self, event: WatchEvent) -> None:
        if event.resource == PODS and event.kind != "DELETED":
            self._look_after(event.new)
        elif event.resource == NODES and event.kind == "ADDED":
            for pod in self._api.store.every(PODS):
                self._look_after(pod)
        elif event.resource == NODES and event.kind == "DELETED":
            self._later(self._delay, self._lose_pods, event.new.key)

    def _look_after(self, pod: Stored) -> None:
        if not pod.content["spec"].get("nodeName"):
            return
        if pod.metadata.get("deletionTimestamp"):
            grace = pod.metadata["deletionGracePeriodSeconds"]
            self._later(min(self._delay, grace), self._stop, pod.key, pod.metadata["uid"])
        elif pod.content["status"]["phase"] == "Pending":
            self._later(self._delay, self._start, pod.key, pod.metadata["uid"])

    def _later(self, seconds: float, action: Callable[..., None], *args: object) -> None:
        asyncio.get_running_loop().call_later(seconds, action, *args)

    def _pod(self, key: Key, uid: str) -> Stored | None:
        """The pod with this uid; None if it is gone, even if another pod has its name."""
        pod = self._api.store.get(PODS, key)
        return pod if pod and pod.metadata["uid"] == uid else None

    def _start(self, key: Key, uid: str) -> None:
        pod = self._pod(key, uid)
        if not pod or pod.metadata.get("deletionTimestamp") or pod.content["status"]["phase"] != "Pending":
            return
        node = self._api.store.get(NODES, ("", pod.content["spec"]["nodeName"]))
        if node:
            content = pod.copy()
            self._run(content, node)
            self._api.store.put(PODS, content)

    def _run(self, pod: Object, node: Stored) -> None:
        status, now = pod["status"], timestamp()
        high, low = divmod(next(self._addresses) % 65536, 256)
        addresses = node.content["status"].get("addresses") or []
        host = next((one["address"] for one in addresses if one["type"] == "InternalIP"), "")
        address = host if pod["spec"].get("hostNetwork") else f"10.244.{high}.{low}"
        status.update(phase="Running", startTime=now, podIP=address, podIPs=[{"ip": address}])
        if host:
            status.update(hostIP=host, hostIPs=[{"ip": host}])
        for kind in ("PodReadyToStartContainers", "Initialized", "Ready", "ContainersReady", "PodScheduled"):
            set_condition(status, {"type": kind, "status": "True", "lastProbeTime": None})
        status["containerStatuses"] = [
            {
                "name": container["name"],
                "state": {"running": {"startedAt": now}},
                "lastState": {},
                "ready": True,
                "restartCount": 0,
                "image": container["image"],
                "imageID": "",
                "started": True,
            }
            for container in pod["spec"]["containers"]
        ]

    def _stop(self, key: Key, uid: str) -> None:
        pod = self._pod(key, uid)
        if pod:
            self._api.finish_delete(pod)

    def _lose_pods(self, node: Key) -> None:
        """Delete the pods of a deleted node, as the pod garbage collector does."""
        if not self._api.store.get(NODES, node):
            for pod in self._api.store.every(PODS):
                if pod.content["spec"].get("nodeName") == node[1]:
                    self._api.delete(PODS, pod.key, {"gracePeriodSeconds": 0})
