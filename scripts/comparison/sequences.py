"""Sequences: pods placed one after the other in one cluster, in which a pod ends, and then a node goes.

poller keeps what it has found out from pod to pod; kube-scheduler is asked afresh each time.
"""

from collections.abc import Iterator
from copy import deepcopy
from itertools import count

from lib.kube.changes import Change, Kind
from lib.kube.objects import Node, Pod

from .asked import Asked, read
from .cases import PLUGINS, Cases, named
from .differences import Difference, of_decision
from .kube_scheduler import Json, KubeScheduler

BURST = 24
"""So many pods are placed in one cluster, of a few kinds."""


def sequence(seed: int, kube_scheduler: KubeScheduler) -> Iterator[tuple[Json, Json, list[Difference]]]:
    """Each ask of sequences without end, with kube-scheduler's answer, and where poller's differs."""
    cases = Cases([each for each in PLUGINS if each != "DynamicResources"], seed).of_profile()
    for number in count():
        ask = next(cases)
        kinds = [next(cases)["pod"] for _ in range(3)]
        plugins = [
            each for each in ask["plugins"] if each["name"] != "DefaultPreemption"
        ]  # nobody is nominated
        ask |= {"plugins": plugins, "nominated": [], "want": ["filter", "score"]}
        yield from _Sequence(ask, kinds).run(number, kube_scheduler)


class _Sequence:
    def __init__(self, ask: Json, kinds: list[Json]) -> None:
        self.ask, self.kinds = ask, [ask["pod"], *kinds]
        self.asked = Asked(ask)

    def run(
        self, number: int, kube_scheduler: KubeScheduler
    ) -> Iterator[tuple[Json, Json, list[Difference]]]:
        for i in range(BURST):
            body = named(self.kinds[i % len(self.kinds)], f"pod-{i}")
            self.ask |= {"id": f"{number}.{i}", "pod": body}
            ask = deepcopy(self.ask)
            answer = kube_scheduler.answer(ask)
            if "panic" in answer or "err" in answer:
                yield ask, answer, []
                return
            pod: Pod = read(Pod, body)
            decision = self.asked.scheduler.schedule_one(pod, self.asked.cache)
            yield ask, answer, [*of_decision(answer, decision)]
            if decision.node_name:
                self._bind(body, decision.node_name)
            if i % 8 == 7:
                self._change(i // 8)

    def _bind(self, body: Json, node: str) -> None:
        """The pod runs on a node."""
        bound = named(body, body["metadata"]["name"], node)
        (there,) = [each for each in self.ask["nodes"] if each["node"]["metadata"]["name"] == node]
        there["pods"] = [*there["pods"], bound]
        self.asked.cache.apply(Change(Kind.MODIFIED, read(Pod, bound), read(Pod, body)))

    def _change(self, which: int) -> None:
        """A pod of the first node ends; then this node goes, with its pods."""
        first, *others = self.ask["nodes"]
        if which == 0 and first["pods"]:
            gone, *first["pods"] = first["pods"]
            self.asked.cache.apply(Change(Kind.DELETED, read(Pod, gone)))
        elif which == 1 and others:
            self.ask["nodes"] = others
            for pod in first["pods"]:
                self.asked.cache.apply(Change(Kind.DELETED, read(Pod, pod)))
            self.asked.cache.apply(Change(Kind.DELETED, read(Node, first["node"])))
