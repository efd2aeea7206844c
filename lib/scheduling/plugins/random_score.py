"""Random and RandomFilter: chance in place of reasons, as in the schedulers that teach how to write one."""

from dataclasses import dataclass, field
from random import Random as Generator

from lib.kube.objects import Pod
from lib.scheduling.framework.interface import MAX_NODE_SCORE, CycleState, Status, unschedulable
from lib.scheduling.node_info import NodeInfo

TAILS = unschedulable("node(s) lost the toss of a coin")


@dataclass(frozen=True)
class Random:
    """Scores every node by chance."""

    generator: Generator = field(default_factory=Generator)
    name: str = "Random"

    def score(self, state: CycleState, pod: Pod, node: NodeInfo) -> int:
        """Any score is as likely as any other."""
        return self.generator.randint(0, MAX_NODE_SCORE)


@dataclass(frozen=True)
class RandomFilter:
    """Filters out a node in two."""

    generator: Generator = field(default_factory=Generator)
    name: str = "RandomFilter"

    def filter(self, state: CycleState, pod: Pod, node: NodeInfo) -> Status | None:
        """Heads, the node passes."""
        return None if self.generator.random() < 0.5 else TAILS
