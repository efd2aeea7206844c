"""Watches all pods, directly at the API server: when was each first tried, and when did it get its node?"""

import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass

import msgspec

from scripts.benchmark.arena import PODS, Arena
from scripts.benchmark.client import connect


class _Metadata(msgspec.Struct, rename="camel"):
    uid: str
    namespace: str = ""
    resource_version: str = ""
    labels: dict[str, str] = {}


class _Spec(msgspec.Struct, rename="camel"):
    node_name: str = ""


class _Condition(msgspec.Struct):
    type: str


class _Status(msgspec.Struct):
    conditions: list[_Condition] = []


class _Pod(msgspec.Struct):
    metadata: _Metadata
    spec: _Spec
    status: _Status


class _Event(msgspec.Struct):
    type: str
    object: _Pod


@dataclass
class SeenPod:
    """A pod, and when it was first seen with the condition PodScheduled, and with a node; 0.0: not yet."""

    labels: Mapping[str, str]
    attempted: float = 0.0
    scheduled: float = 0.0


class SeenPods:
    """All pods of an API server that has none at the start. Times are those of time.monotonic."""

    def __init__(self, arena: Arena) -> None:
        self._arena, self._lock = arena, threading.Lock()
        self._by_namespace: dict[str, dict[str, SeenPod]] = {}
        threading.Thread(target=self._watch, daemon=True).start()

    def _watch(self) -> None:
        """Watch until the server has ended."""
        decoder, version, failures = msgspec.json.Decoder(_Event), "0", 0
        while failures < 10:
            try:
                with closing(connect(self._arena.url, self._arena.tls)) as connection:
                    connection.request("GET", f"{PODS}?watch=1&resourceVersion={version}")
                    for line in connection.getresponse():
                        version, failures = self._note(decoder.decode(line), time.monotonic()), 0
            except Exception:
                failures += 1

    def _note(self, event: _Event, now: float) -> str:
        pod, named = event.object, event.object.metadata
        has_node = bool(pod.spec.node_name)
        with self._lock:
            of_namespace = self._by_namespace.setdefault(named.namespace, {})
            seen = of_namespace.setdefault(named.uid, SeenPod(named.labels))
            if has_node and not seen.scheduled:
                seen.scheduled = now
            tried = has_node or any(condition.type == "PodScheduled" for condition in pod.status.conditions)
            if tried and not seen.attempted:
                seen.attempted = now
        return named.resource_version

    def of(self, namespaces: Sequence[str], labels: Mapping[str, str] | None = None) -> list[SeenPod]:
        """The pods of these namespaces with these labels."""
        with self._lock:
            pods = [pod for name in namespaces for pod in self._by_namespace.get(name, {}).values()]
        return [pod for pod in pods if (labels or {}).items() <= pod.labels.items()]
