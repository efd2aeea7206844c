"""Pods and nodes that come and go."""

import json
import time
from collections import deque
from contextlib import suppress

from scripts.benchmark import objects
from scripts.benchmark.client import MERGE, Client, RefusedError, Request

SCHEDULER = "my-scheduler"
PODS, NODES = "/api/v1/namespaces/default/pods", "/api/v1/nodes"
EVENTS = "/api/v1/namespaces/default/events"

LIFE = 20.0
"""Seconds for which a pod is there."""

MOST_NODES, NODE_EVERY = 20, 2.0
"""How many nodes there are, and the seconds until the oldest is replaced by a new one."""

ALIKE = 5
"""Of so many pods, one is like others; the rest differ."""

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
        self._there: deque[tuple[float, str]] = deque()  # pods, and when they go
        self._nodes: deque[str] = deque()

    def run(self, until: float, *, nodes_go: bool) -> None:
        """Let pods come and go until then. nodes_go: nodes, too."""
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
        self._nodes.append(name)
        self.nodes += 1

    def _delete_node(self) -> None:
        self._client.send(Request("DELETE", f"{NODES}/{self._nodes.popleft()}"))

    def _add_pod(self) -> None:
        number = self.pods
        pod = objects.different_pod(number, SCHEDULER)
        if number % ALIKE == 0:
            pod = objects.pod(f"web-{number}", SCHEDULER)
        self._client.send(Request("POST", PODS, pod))
        self._there.append((time.monotonic() + LIFE, f"web-{number}"))
        self.pods += 1

    def _delete_pod(self) -> None:
        """A pod goes, unless it went with its node; its events, too, as an hour later in a real cluster."""
        _, name = self._there.popleft()
        with suppress(RefusedError):
            gone = json.loads(self._client.send(Request("DELETE", f"{PODS}/{name}?gracePeriodSeconds=0")))
            self.unbound += "nodeName" not in gone["spec"]
        self._client.send(Request("DELETE", f"{EVENTS}?fieldSelector=involvedObject.name%3D{name}"))
