"""Compares configurations: each places all pods of a cluster again."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from statistics import fmean, pstdev
from typing import Any

from lib.kube.objects import Pod
from lib.questions.deciding import Decider, node_of, queue_order, without_node
from lib.questions.snapshot import Snapshot
from lib.questions.usage import usage_of
from lib.questions.verdict import Verdict, verdict
from lib.scheduling.workloads import belongs_to_node

BALANCED = ("cpu", "memory")
"""The resources for which mean and imbalance are computed."""


@dataclass
class ConfigResult:
    """The result of one configuration.

    nodes: by pod name, the node of each pod that has one. pending: the other pods, and why. mean, imbalance:
    by resource, the mean of the nodes' requested shares, and their standard deviation. left_out: how many
    pods belong to their nodes.
    """

    name: str
    nodes: dict[str, str] = field(default_factory=dict)
    pending: dict[str, str] = field(default_factory=dict)
    mean: dict[str, float] = field(default_factory=dict)
    imbalance: dict[str, float] = field(default_factory=dict)
    left_out: int = 0

    @property
    def nodes_used(self) -> int:
        """How many nodes have pods that could also be on other nodes."""
        return len(set(self.nodes.values()))

    def as_json(self) -> dict[str, Any]:
        """The whole result."""
        return {
            "config": self.name,
            "placed": len(self.nodes),
            "left_out": self.left_out,
            "pending": self.pending,
            "nodes_used": self.nodes_used,
            "mean": self.mean,
            "imbalance": self.imbalance,
            "nodes": self.nodes,
        }


def differing(one: ConfigResult, other: ConfigResult) -> list[str]:
    """The pods that two configurations put on different nodes, or only one of them on a node."""
    return sorted(
        name for name in {**one.nodes, **other.nodes} if one.nodes.get(name) != other.nodes.get(name)
    )


@dataclass
class Comparison:
    """The answer: the results of all configurations; the others are compared with the first."""

    results: Sequence[ConfigResult]

    @property
    def verdict(self) -> Verdict:
        """Whether all put each pod on the same node."""
        first, *others = self.results
        return verdict(not any(differing(first, other) for other in others))

    def as_json(self) -> dict[str, Any]:
        """The whole answer, but for the verdict."""
        first, *others = self.results
        return {
            "configs": [result.as_json() for result in self.results],
            "differing": {other.name: differing(first, other) for other in others},
        }


class Replacing:
    """Places all pods again by one configuration, except those of DaemonSets and static pods.

    The highest priority goes first; with equal priority, the oldest. No pod is evicted. With `pending_only`,
    pods that have a node keep it.
    """

    def __init__(self, name: str, snapshot: Snapshot, decider: Decider, *, pending_only: bool) -> None:
        self.answer = ConfigResult(name, left_out=sum(map(belongs_to_node, snapshot.of(Pod))))
        self._decider = decider
        movable = [
            pod
            for pod in snapshot.of(Pod)
            if not belongs_to_node(pod) and not (pending_only and pod.spec.node_name)
        ]
        self._pods = sorted(movable, key=queue_order)
        for pod in self._pods:
            if pod.spec.node_name:
                decider.remove(pod)

    def __len__(self) -> int:
        return len(self._pods)

    def steps(self) -> Iterator[str]:
        """Yields the name of each pod when it has been placed; the result is complete at the end."""
        result = self.answer
        for pod in self._pods:
            decision = self._decider.place_alone(without_node(pod))
            if node_name := node_of(decision):
                result.nodes[str(pod)] = node_name
            else:
                result.pending[str(pod)] = decision.message
            yield str(pod)
        usages = [usage_of(node, BALANCED) for node in self._decider.cache.nodes.values()]
        for name in BALANCED:
            shares = [usage.requested[name] / most for usage in usages if (most := usage.capacity[name])]
            result.mean[name] = round(fmean(shares), 4) if shares else 0.0
            result.imbalance[name] = round(pstdev(shares), 4) if shares else 0.0
