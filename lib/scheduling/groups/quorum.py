"""How many pods of a group must have a node before any of them is bound."""

from collections.abc import Sequence
from dataclasses import dataclass

from lib.kube.objects import Pod
from lib.scheduling.cache import Cache
from lib.scheduling.decision import Decision
from lib.scheduling.groups.pod_groups import REJECTING, Group, annotated_size

ALL_OR_NONE = "all or none"


@dataclass(frozen=True)
class Quorum:
    """How many pods of a group are needed. Those that have a node already count.

    all_or_none: all pods of the group must get a node together, also if there are more than are needed.
    Otherwise those that are left when enough have a node are like pods without a group.
    """

    needed: int
    all_or_none: bool

    @property
    def rule(self) -> str:
        """When its pods are placed, in words that continue "is placed"."""
        if self.all_or_none:
            return ALL_OR_NONE
        return f"when {self.needed} of its pods have room" if self.needed > 0 else "pod by pod"

    def missing(self, there: int) -> int:
        """How many pods are still to come. there: those that have a node, or are tried."""
        return max(0, self.needed - there)

    def must_place(self, tried: int, placed: int) -> int:
        """How many of the pods that are tried must get a node. placed: those that have one already."""
        return tried if self.all_or_none else max(0, self.needed - placed)


ALONE = Quorum(0, all_or_none=False)
"""Of pods that needn't be placed together."""


def quorum_of(pods: Sequence[Pod], group: Group | None, cache: Cache) -> Quorum | str:
    """The quorum of the group of some pods, or why it isn't known."""
    if group is None:
        return ALONE
    if group.api:
        return Quorum(cache.looked_up.group_sizes.get(group, 0), all_or_none=False)
    size = annotated_size(pods, group)
    return size if isinstance(size, str) else Quorum(size, all_or_none=True)


def is_reached_without(decision: Decision, group: Group, cache: Cache) -> bool:
    """Whether enough pods of a group have a node, though one that was held has lost its own.

    decision: for a pod of the group that is held, or was.
    """
    quorum: Quorum = decision.state.get(REJECTING, ALONE)
    return not quorum.all_or_none and 0 < quorum.needed <= cache.count_members(group)
