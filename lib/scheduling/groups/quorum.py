"""How many pods of a group must have a node before any of them is bound."""

from collections.abc import Sequence
from dataclasses import dataclass
from reprlib import repr as short

from lib.kube.objects import KUBERNETES, Pod, PodGroupRef
from lib.scheduling.cache import Cache
from lib.scheduling.decision import Decision
from lib.scheduling.pod_groups import HOLDING, REJECTING, UNKNOWN_SIZE

SIZE = "poller/group-size"
"""The annotation."""

MAX_DIGITS = 9
"""A size with more digits is invalid: no cluster has that many pods."""

ALL_OR_NONE = "all or none"

TO_COME = "waiting for PodGroup {} to be created"


@dataclass(frozen=True)
class Unknown:
    """Why a group's quorum isn't known."""

    why: str
    plugin: str = UNKNOWN_SIZE
    """What stands for the name of a plugin that rejects the group's pods."""


@dataclass(frozen=True)
class Quorum:
    """How many pods of a group must have a node."""

    needed: int
    """Pods that have a node already count."""
    all_or_none: bool = False
    """Whether all pods of the group must get a node together, also if there are more than are needed. If not,
    the pods that are left when enough have a node are like pods without a group."""
    waits_as: str = REJECTING
    """What stands for a rejecting plugin's name while pods are still to come."""

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


ALONE = Quorum(0)
"""The quorum of pods that needn't be placed together."""


def quorum_of(pods: Sequence[Pod], group: PodGroupRef | None, cache: Cache) -> Quorum | Unknown:
    """The quorum of the group of some pods, or why it isn't known.

    Without its PodGroup, a pod with the coscheduling plugin's label is placed like any other pod; a pod that
    names a PodGroup of Kubernetes waits. If that PodGroup could not be read, each of the pods has an error.
    """
    if group is None:
        return ALONE
    if not group.api:
        return _annotated(pods, group)
    looked_up = cache.looked_up
    if (needed := looked_up.group_sizes.get(group)) is not None:
        return Quorum(needed, waits_as=HOLDING if group.api == KUBERNETES else REJECTING)
    unread = looked_up.pod_groups_unread or any(pod.metadata.uid in looked_up.errors for pod in pods)
    if group.api == KUBERNETES and not unread:
        return Unknown(TO_COME.format(group.name), HOLDING)
    return ALONE


def _annotated(pods: Sequence[Pod], group: PodGroupRef) -> Quorum | Unknown:
    """The quorum that the pods' annotations say: all pods of the group. Or why it isn't known."""
    sizes = {pod.metadata.annotations.get(SIZE, "") for pod in pods}
    if len(sizes) > 1:
        different = ", ".join(size if len(size) <= MAX_DIGITS else short(size) for size in sorted(sizes))
        return Unknown(f"annotation {SIZE} differs within group {group.name}: {different}")
    (size,) = sizes
    if not (size.isascii() and size.isdecimal() and len(size) <= MAX_DIGITS and int(size)):
        return Unknown(f"annotation {SIZE} must say how many pods group {group.name} has, not {short(size)}")
    return Quorum(int(size), all_or_none=True)


def is_reached_without(decision: Decision, group: PodGroupRef, cache: Cache) -> bool:
    """Whether enough pods of a group have a node, though one that was held has lost its own.

    decision: for a pod of the group that is held, or was.
    """
    quorum: Quorum = decision.state.get(REJECTING, ALONE)
    return not quorum.all_or_none and 0 < quorum.needed <= cache.count_members(group)
