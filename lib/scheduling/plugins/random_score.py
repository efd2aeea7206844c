"""Random and RandomFilter: random scores and rejections, as in tutorials on how to write a scheduler."""

from dataclasses import dataclass, field
from random import Random as Generator
from typing import Self

from lib.kube.objects import Pod
from lib.scheduling.framework.arguments import Handle
from lib.scheduling.framework.interface import MAX_NODE_SCORE, CycleState, Status, unschedulable
from lib.scheduling.node_info import NodeInfo

TAILS = unschedulable("node(s) lost the toss of a coin")


@dataclass(frozen=True)
class _ByChance:
    generator: Generator = field(default_factory=Generator)

    @classmethod
    def of(cls, handle: Handle) -> Self:
        """A plugin with poller's random numbers."""
        return cls(handle.random)


@dataclass(frozen=True)
class Random(_ByChance):
    """Scores every node at random."""

    name: str = "Random"

    def score(self, state: CycleState, pod: Pod, node: NodeInfo) -> int:
        """A random score; all are equally likely."""
        return self.generator.randint(0, MAX_NODE_SCORE)


@dataclass(frozen=True)
class RandomFilter(_ByChance):
    """Filters out each node with a probability of one half."""

    name: str = "RandomFilter"

    def filter(self, state: CycleState, pod: Pod, node: NodeInfo) -> Status | None:
        """Toss a coin."""
        return None if self.generator.random() < 0.5 else TAILS
