"""Notes of all pods when each was first tried, and when it got its node."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from scripts.benchmark.arena import Arena
from scripts.benchmark.watching import Pod, PodWatch


@dataclass
class SeenPod:
    """A pod, and when it was first seen with the condition PodScheduled, and with a node; 0.0: not yet."""

    labels: Mapping[str, str]
    attempted: float = 0.0
    scheduled: float = 0.0


class SeenPods(PodWatch):
    """All pods of an API server. Times are those of time.monotonic."""

    def __init__(self, arena: Arena) -> None:
        self._by_namespace: dict[str, dict[str, SeenPod]] = {}
        super().__init__(arena)

    def note(self, pods: Sequence[Pod], now: float) -> None:
        """Note what is new about pods."""
        for pod in pods:
            named, has_node = pod.metadata, bool(pod.spec.node_name)
            of_namespace = self._by_namespace.setdefault(named.namespace, {})
            seen = of_namespace.setdefault(named.uid, SeenPod(named.labels))
            if has_node and not seen.scheduled:
                seen.scheduled = now
            tried = has_node or any(condition.type == "PodScheduled" for condition in pod.status.conditions)
            if tried and not seen.attempted:
                seen.attempted = now

    def of(self, namespaces: Sequence[str], labels: Mapping[str, str] | None = None) -> list[SeenPod]:
        """The pods of these namespaces with these labels. FailedError if they can't be watched."""
        self.check()
        with self._changed:
            pods = [pod for name in namespaces for pod in self._by_namespace.get(name, {}).values()]
        return [pod for pod in pods if (labels or {}).items() <= pod.labels.items()]
