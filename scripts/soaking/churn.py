"""Pods and nodes that come and go."""

import threading
import time
from collections import deque
from contextlib import suppress
from types import TracebackType

from scripts.benchmark import objects
from scripts.benchmark.client import MERGE, Client, RefusedError, Request
from scripts.benchmark.processes import FailedError

SCHEDULER = "my-scheduler"
PODS, NODES = "/api/v1/namespaces/default/pods", "/api/v1/nodes"
EVENTS = "/api/v1/namespaces/default/events"

LIFE = 20.0
"""Seconds for which a pod is there."""

MOST_NODES, NODE_EVERY = 20, 2.0
"""How many nodes there are, and the seconds until the oldest is replaced by a new one."""

ALIKE = 5
"""Of so many pods, one is like others; the rest differ."""


class Churn:
    """Lets them come and go, in a thread. pods, nodes, pods_gone: how many came and went."""

    def __init__(self, server: str, rate: int) -> None:
        self.pods = self.nodes = self.pods_gone = 0
        self._client, self._rate = Client(server), rate
        self._ended = threading.Event()
        self._problem: Exception | None = None
        self._there: deque[tuple[float, str]] = deque()  # pods, and when they go
        self._nodes: deque[str] = deque()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> "Churn":
        for _ in range(MOST_NODES):
            self._add_node()
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None
    ) -> None:
        self._ended.set()
        self._thread.join()
        if self._problem and not error:
            raise FailedError(f"was left alone: {self._problem}") from self._problem

    def _run(self) -> None:
        began = time.monotonic()
        node_at = began + NODE_EVERY
        try:
            while not self._ended.wait(max(0.0, began + self.pods / self._rate - time.monotonic())):
                self._add_pod()
                while self._there and self._there[0][0] < time.monotonic():
                    self._delete_pod()
                if time.monotonic() > node_at:
                    node_at += NODE_EVERY
                    self._client.send(Request("DELETE", f"{NODES}/{self._nodes.popleft()}"))
                    self._add_node()
        except Exception as error:
            self._problem = error

    def _add_node(self) -> None:
        name = objects.node_name(self.nodes)
        self._client.send(Request("POST", NODES, objects.node(self.nodes)))
        self._client.send(Request("PATCH", f"{NODES}/{name}", {"spec": {"taints": None}}, MERGE))
        self._nodes.append(name)
        self.nodes += 1

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
            self._client.send(Request("DELETE", f"{PODS}/{name}?gracePeriodSeconds=0"))
        self._client.send(Request("DELETE", f"{EVENTS}?fieldSelector=involvedObject.name%3D{name}"))
        self.pods_gone += 1
