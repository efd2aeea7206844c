"""The decision for a pod, and why."""

from collections import Counter
from collections.abc import Mapping
from enum import StrEnum

import msgspec

from lib.kube.objects import Pod
from lib.kube.resource_claims import UndoClaim
from lib.scheduling.status import Assumed, CycleState, Rejection

NO_NODES = "no nodes"
"""Used instead of a plugin's name when there are no nodes."""

PERMIT, PRE_BIND = "Permit", "PreBind"
"""Where a pod can wait."""


class Outcome(StrEnum):
    """How a pod's cycle ended."""

    SCHEDULED = "scheduled"
    """A node was picked, and poller is to bind the pod to it."""
    BOUND = "bound"
    """A Bind plugin or an extender has bound the pod to the node."""
    WAITING = "waiting"
    """A node was picked and is reserved for the pod, but a Permit or PreBind plugin says not yet."""
    UNSCHEDULABLE = "unschedulable"
    """No node fits, or a plugin rejected the one that was picked."""
    ERROR = "error"
    """A plugin failed."""


PLACED = (Outcome.SCHEDULED, Outcome.BOUND, Outcome.WAITING)
"""Outcomes of pods that have a node, also if it is only reserved."""

ASSIGNED = "Successfully assigned {} to {}"
"""The message of a decision that picked a node, with the pod and the node."""


class Decision(msgspec.Struct, frozen=True, eq=False):
    """What was decided for a pod. It never changes: a later step returns another one.

    Nodes that were not evaluated are in none of the maps. Times are in seconds.
    """

    pod: Pod
    outcome: Outcome
    message: str = ""
    """In the words of kube-scheduler's events."""
    node_name: str = ""
    """The node that was picked, if any; also if a plugin rejected it."""
    node_uid: str = ""
    """The uid of that node: another node may come that has the same name."""
    annotations: Mapping[str, str] = {}
    """Those that the pod gets with its binding, as plugins say."""
    all_nodes: int = 0
    """The number of nodes."""
    feasible: int = 0
    """How many of the evaluated nodes fit."""
    rejected: Mapping[str, Rejection] = {}
    """By node, the plugin that rejected it, and why."""
    scores: dict[str, dict[str, int]] = {}
    """Of each feasible node, by plugin, weighted; no plugins if only one node was feasible.

    Unless the decision is to be explained in full, there are only the picked node and the runner-up.
    """
    rejecting_plugin: str = ""
    """The plugin that rejected the pod as a whole, or the node that was picked."""
    post_filter_message: str = ""
    """The part of the message that PostFilter plugins added."""
    rejected_after_preemption: frozenset[str] = frozenset()
    """The plugins that would reject the pod even if it preempted others."""
    nominated: str = ""
    """The node that will have room when the victims have left it."""
    victims: tuple[Pod, ...] = ()
    """The pods to be evicted."""
    preempted_held: tuple[Pod, ...] = ()
    """Victims that aren't bound: they are tried again, not evicted."""
    cleared_nominations: tuple[Pod, ...] = ()
    """Pods of lower priority whose nomination to that node was removed."""
    clears_nomination: bool = False
    """Whether the pod had a nomination that must be removed."""
    waits_in: str = ""
    """The extension point for which the pod waits, or waited last, with a node reserved."""
    pre_bound: frozenset[str] = frozenset()
    """The PreBind plugins that have succeeded."""
    writes: tuple[Assumed, ...] = ()
    """The claims and volumes that the PreBind plugin waits for."""
    undo: tuple[UndoClaim, ...] = ()
    """What is to be written of claims, as the pod doesn't get the node."""
    state: CycleState = {}
    """The plugins' own data."""
    began: float = 0.0
    ended: float = 0.0
    """When this attempt began and ended, its binding included."""
    binding: float = 0.0
    """How long the binding took."""
    attempt: int = 1
    """The number of this attempt at the pod."""
    queued: float = 0.0
    """When the pod was queued."""
    flushed: bool = False
    """Whether it was tried because it had been unschedulable for too long."""

    @property
    def preempted(self) -> tuple[Pod, ...]:
        """All pods that lose their room to this one, bound or not."""
        return *self.victims, *self.preempted_held

    @property
    def only_waits(self) -> bool:
        """Whether the pod waits, and nothing is to be written for that."""
        return self.outcome == Outcome.WAITING and not self.writes

    @property
    def seconds(self) -> float:
        """How long this attempt took."""
        return self.ended - self.began

    @property
    def totals(self) -> dict[str, int]:
        """Each of the scored nodes' sum of scores."""
        return {name: sum(by_plugin.values()) for name, by_plugin in self.scores.items()}

    @property
    def rejected_by(self) -> set[str]:
        """The plugins that rejected the pod; NO_NODES if there is no node; none after an error."""
        if self.outcome == Outcome.ERROR:
            return set()
        plugins = {rejection.plugin for rejection in {*self.rejected.values()}} | {self.rejecting_plugin}
        plugins |= self.rejected_after_preemption
        return plugins - {""} or {NO_NODES}


def counted(nodes: int, rejected: Mapping[str, Rejection]) -> str:
    """How often each reason kept a pod from so many nodes (framework/types.go, FitError.Error)."""
    counts = Counter[str]()
    for rejection, count in Counter(rejected.values()).items():
        for reason in rejection.status.reasons:
            counts[reason] += count
    # kube-scheduler sorts the finished texts, so "10 …" comes before "2 …".
    said = ", ".join(sorted(f"{count} {why}" for why, count in counts.items()))
    return f"0/{nodes} nodes are available: {said}."
