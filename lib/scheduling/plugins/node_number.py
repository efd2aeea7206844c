"""NodeNumber: a pod likes the node that ends in its digit, and waits as many seconds before it goes there.

It shows a student how scoring is prepared, and what Permit is for.
"""

from collections.abc import Sequence

from lib.kube.objects import Pod
from lib.scheduling.cache import Cache
from lib.scheduling.framework.interface import SKIP, CycleState, Status, wait
from lib.scheduling.node_info import NodeInfo

SAME = 10


class NodeNumber:
    """Scores 10 where pod and node end in the same digit; delays a binding by its node's digit in seconds."""

    name = "NodeNumber"

    def pre_score(
        self, state: CycleState, pod: Pod, cache: Cache, nodes: Sequence[NodeInfo]
    ) -> Status | None:
        """Find the pod's digit; without one there is nothing to score."""
        state[self.name] = last_digit(pod.metadata.name)
        return SKIP if state[self.name] is None else None

    def score(self, state: CycleState, pod: Pod, node: NodeInfo) -> int:
        """Compare the digits."""
        return SAME if last_digit(node.name) == state[self.name] else 0

    def permit(self, state: CycleState, pod: Pod, node_name: str, waited: float) -> Status | None:
        """Hold the pod until its node's seconds are over."""
        seconds = last_digit(node_name) or 0
        return wait(f"waits {seconds} s for {node_name}") if waited < seconds else None


def last_digit(name: str) -> int | None:
    """The digit that a name ends in."""
    return int(name[-1]) if name[-1:].isdecimal() and name[-1:].isascii() else None
