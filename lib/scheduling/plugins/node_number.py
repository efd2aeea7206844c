"""NodeNumber: a pod prefers a node whose name ends in the same digit, and waits that many seconds in Permit.

It is an example for students: how PreScore prepares Score, and what Permit is for.
"""

from collections.abc import Sequence

from lib.kube.objects import Pod
from lib.scheduling.cache import Cache
from lib.scheduling.node_info import NodeInfo
from lib.scheduling.status import SKIP, CycleState, Status, wait

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
        """Let the pod wait for as many seconds as its node's digit says."""
        seconds = last_digit(node_name) or 0
        return wait(f"waits {seconds} s for {node_name}") if waited < seconds else None


def last_digit(name: str) -> int | None:
    """The digit that a name ends in."""
    return int(name[-1]) if name[-1:].isdecimal() and name[-1:].isascii() else None
