"""Pods and nodes that come and go; some of the pods with a claim for a device of their own.

No claim controller runs: a claim that nobody needs is given back, and deleted, here.
"""

import json
import time
from collections import deque
from contextlib import suppress

from scripts.benchmark import devices, objects
from scripts.benchmark.client import MERGE, Client, Json, RefusedError, Request

SCHEDULER = "my-scheduler"
PODS, NODES = "/api/v1/namespaces/default/pods", "/api/v1/nodes"
EVENTS = "/api/v1/namespaces/default/events"
CLAIMS = f"{devices.API}/namespaces/default/resourceclaims"

LIFE = 20.0
"""Seconds for which a pod is there."""

MOST_NODES, NODE_EVERY = 20, 2.0
"""How many nodes there are, and the seconds until the oldest is replaced by a new one."""

ALIKE = 5
"""Of so many pods, one is like others; the rest differ."""

WITH_DEVICE = 10
"""Of so many pods, one needs a device."""

DEVICES = devices.DeviceUse(per_node=16)

MOST_LATE = 1.0
"""Seconds. Pods that should have come earlier, and didn't, because the machine is busy, are left out."""


class Churn:
    """Lets them come and go. pods, nodes: how many came.

    late: pods that didn't come, as the machine is busy. unbound: pods that got no node.
    """

    def __init__(self, client: Client, rate: int) -> None:
        self.pods = self.nodes = self.late = self.unbound = 0
        self._client, self._rate = client, rate
        self._pod_at = self._node_at = 0.0
        self._there: deque[tuple[float, int]] = deque()  # when a pod goes, and its number
        self._nodes: deque[str] = deque()

    def run(self, until: float, *, nodes_go: bool) -> None:
        """Let pods come and go until then. nodes_go: nodes, too."""
        if not self.nodes:
            for device_class in devices.of_cluster(DEVICES, []):
                self._create(device_class)
        while len(self._nodes) < MOST_NODES:
            self._add_node()
        self._pod_at = self._pod_at or time.monotonic()
        while (now := time.monotonic()) < until:
            if now >= self._pod_at + MOST_LATE:
                self._pod_at += 1 / self._rate
                self.late += 1
            elif now >= self._pod_at:
                self._pod_at += 1 / self._rate
                self._add_pod()
            while self._there and self._there[0][0] < now:
                self._delete_pod()
            if nodes_go and now >= self._node_at:
                self._node_at = now + NODE_EVERY
                self._delete_node()
                self._add_node()
            time.sleep(max(0.0, min(until, self._pod_at) - time.monotonic()))

    def clear(self) -> None:
        """All pods and nodes go. Then a node and a pod come: poller binds it when it has seen all else."""
        time.sleep(LIFE / 4)  # so that the last pods are bound, too
        while self._there:
            self._delete_pod()
        while self._nodes:
            self._delete_node()
        self._add_node()
        self._add_pod()
        time.sleep(LIFE / 4)
        self._delete_pod()
        time.sleep(LIFE / 4)
        self._pod_at = 0.0

    def _add_node(self) -> None:
        name = objects.node_name(self.nodes)
        self._client.send(Request("POST", NODES, objects.node(self.nodes)))
        self._client.send(Request("PATCH", f"{NODES}/{name}", {"spec": {"taints": None}}, MERGE))
        self._create(devices.slice_of(DEVICES, name))
        self._nodes.append(name)
        self.nodes += 1

    def _delete_node(self) -> None:
        name = self._nodes.popleft()
        self._client.send(Request("DELETE", f"{NODES}/{name}"))
        self._client.send(Request("DELETE", f"{devices.API}/resourceslices/slice-{name}"))

    def _add_pod(self) -> None:
        number = self.pods
        pod = objects.different_pod(number, SCHEDULER)
        if number % ALIKE == 0:
            pod = objects.pod(f"web-{number}", SCHEDULER)
        if _needs_device(number):
            pod["spec"].update(devices.use_of_claim(DEVICES, number))
            for claim in devices.claims_of(DEVICES, [pod]):
                self._create(claim)
        self._client.send(Request("POST", PODS, pod))
        self._there.append((time.monotonic() + LIFE, number))
        self.pods += 1

    def _delete_pod(self) -> None:
        """A pod goes, unless it went with its node; its events, too, as an hour later in a real cluster."""
        _, number = self._there.popleft()
        name = f"web-{number}"
        with suppress(RefusedError):
            gone = json.loads(self._client.send(Request("DELETE", f"{PODS}/{name}?gracePeriodSeconds=0")))
            self.unbound += "nodeName" not in gone["spec"]
        self._client.send(Request("DELETE", f"{EVENTS}?fieldSelector=involvedObject.name%3D{name}"))
        if _needs_device(number):
            self._delete_claim(number)

    def _create(self, thing: Json) -> None:
        self._client.send(Request("POST", devices.path_of(thing), thing))

    def _delete_claim(self, number: int) -> None:
        """A claim goes, and its device is free, as if a claim controller ran."""
        path = f"{CLAIMS}/claim-{number}"
        given_back = {"status": {"allocation": None, "reservedFor": None}}
        self._client.send(Request("PATCH", f"{path}/status", given_back, MERGE))
        self._client.send(Request("PATCH", path, {"metadata": {"finalizers": None}}, MERGE))
        self._client.send(Request("DELETE", path))


def _needs_device(number: int) -> bool:
    return number % WITH_DEVICE == 1
