"""Random and RandomFilter: random scores and rejections, as in tutorials on how to write a scheduler."""

from dataclasses import dataclass, field

from lib.kube.objects import Pod
from lib.scheduling.handle import Handle
from lib.scheduling.node_info import NodeInfo
from lib.scheduling.status import MAX_NODE_SCORE, CycleState, Status, unschedulable

TAILS = unschedulable("node(s) lost the toss of a coin")


@dataclass(frozen=True)
class Random:
    """Scores every node at random."""

    handle: Handle = field(default_factory=Handle, repr=False, compare=False)
    name: str = "Random"

    def score(self, state: CycleState, pod: Pod, node: NodeInfo) -> int:
        """A random score; all are equally likely."""
        return self.handle.random.randint(0, MAX_NODE_SCORE)


@dataclass(frozen=True)
class RandomFilter:
    """Filters out each node with a probability of one half."""

    handle: Handle = field(default_factory=Handle, repr=False, compare=False)
    name: str = "RandomFilter"

    def filter(self, state: CycleState, pod: Pod, node: NodeInfo) -> Status | None:
        """Toss a coin."""
        return None if self.handle.random.random() < 0.5 else TAILS
