"""The decision for a pod, and why."""

from collections import Counter
from collections.abc import Iterable, MutableMapping
from dataclasses import dataclass, field
from enum import StrEnum
from itertools import chain
from typing import Any

import msgspec

from lib.kube.objects import Pod
from lib.kube.storage import PersistentVolume, PersistentVolumeClaim
from lib.scheduling.framework.interface import CycleState, Status

NO_NODES = "no nodes"
"""Used instead of a plugin's name when there are no nodes."""

MAX_NOTE_BYTES, CUT = 1024, " ..."
"""The longest note of an event (validation.NoteLengthLimit), and what ends one that was cut."""

MAX_NODES_IN_FULL, MAX_FULL_BYTES = 50, 16 * 1024
"""An annotation holds every node only up to this many nodes, and up to this many bytes."""


class Outcome(StrEnum):
    """How a pod's cycle ended."""

    SCHEDULED = "scheduled"
    """A node was picked."""
    WAITING = "waiting"
    """A node was picked and is reserved for the pod, but a Permit plugin says not yet."""
    UNSCHEDULABLE = "unschedulable"
    """No node fits, or a plugin rejected the one that was picked."""
    ERROR = "error"
    """A plugin failed."""


def counted(nodes: int, reasons: Iterable[str]) -> str:
    """How often each reason kept a pod from so many nodes (framework/types.go, FitError.Error)."""
    counts = Counter(reasons).items()
    # kube-scheduler sorts the finished texts, so "10 …" comes before "2 …".
    return f"0/{nodes} nodes are available: {', '.join(sorted(f'{count} {why}' for why, count in counts))}."


@dataclass(frozen=True)
class Rejection:
    """The plugin that rejected a node, and its status."""

    plugin: str
    status: Status


@dataclass
class Decision:
    """The result of a scheduling cycle. Nodes that were not evaluated are in none of the maps.

    node_name: the node that was picked, if any. all_nodes: the number of nodes; feasible: how many of the
    evaluated ones fit. rejected: by node, the plugin and why. scores: of each feasible node, by plugin,
    weighted; empty if only one node was feasible. Unless the decision is to be explained in full, only the
    picked node and the runner-up are in it.
    reason: why the pod as a whole was rejected, or what went wrong; rejecting_plugin: the plugin that did it.
    post_filter_message: from PostFilter plugins.
    nominated: the node that will have room when the victims have left it. victims: the pods to be evicted.
    preempted_held: victims that aren't bound: they are tried again, not evicted. cleared_nominations: pods of
    lower priority whose nomination to that node was removed. keeps_nomination: whether a pod without a node
    keeps an earlier nomination; clears_nomination: whether it had one that must be removed. was_held: whether
    a node was reserved for it while it waited. state: the plugins' CycleState.
    began, ended: the times of this attempt, its binding included; binding: how long the binding took; all in
    seconds. attempt: its number for this pod. queued: when the pod was queued. flushed: whether it
    was tried because it had been unschedulable for too long.
    """

    pod: Pod
    outcome: Outcome
    node_name: str | None = None
    all_nodes: int = 0
    feasible: int = 0
    rejected: MutableMapping[str, Rejection] = field(default_factory=dict)
    scores: dict[str, dict[str, int]] = field(default_factory=dict)
    reason: str = ""
    rejecting_plugin: str = ""
    post_filter_message: str = ""
    nominated: str = ""
    victims: tuple[Pod, ...] = ()
    preempted_held: tuple[Pod, ...] = ()
    cleared_nominations: tuple[Pod, ...] = ()
    keeps_nomination: bool = False
    clears_nomination: bool = False
    was_held: bool = False
    pre_bound: set[str] = field(default_factory=set)
    waits_for_pre_bind: bool = False
    writes: tuple[PersistentVolume | PersistentVolumeClaim, ...] = ()
    state: CycleState = field(default_factory=dict, repr=False)
    began: float = 0.0
    ended: float = 0.0
    binding: float = 0.0
    attempt: int = 1
    flushed: bool = False
    queued: float = 0.0

    @property
    def seconds(self) -> float:
        """How long this attempt took."""
        return self.ended - self.began

    @property
    def rejected_by(self) -> set[str]:
        """The plugins that rejected the pod: NO_NODES if there is no node; empty if a plugin failed."""
        if self.outcome == Outcome.ERROR:
            return set()
        plugins = {each.plugin for each in self.rejected.values()} | {self.rejecting_plugin}
        return plugins - {""} or {NO_NODES}

    @property
    def totals(self) -> dict[str, int]:
        """Each feasible node's sum of scores."""
        return {node: sum(by_plugin.values()) for node, by_plugin in self.scores.items()}

    @property
    def message(self) -> str:
        """The decision as a message, in the words of kube-scheduler's events."""
        if self.outcome == Outcome.SCHEDULED:
            return f"Successfully assigned {self.pod} to {self.node_name}"
        if self.outcome == Outcome.UNSCHEDULABLE and not self.node_name:
            return self._why_nowhere()
        return self.reason

    @property
    def event_message(self) -> str:
        """The message, cut to the 1,024 bytes that the note of an event may have.

        Source: truncateMessage in pkg/scheduler/schedule_one.go
        """
        encoded = self.message.encode()
        if len(encoded) <= MAX_NOTE_BYTES:
            return self.message
        return encoded[: MAX_NOTE_BYTES - len(CUT)].decode(errors="ignore") + CUT

    def _why_nowhere(self) -> str:
        """Why no node was picked."""
        if self.reason and not self.rejected:
            return self.reason
        if not self.all_nodes:
            return "no nodes available to schedule pods"
        if self.reason:
            why = f"0/{self.all_nodes} nodes are available: {self.reason}."
        else:
            why = counted(self.all_nodes, chain(*(each.status.reasons for each in self.rejected.values())))
        return f"{why} {self.post_filter_message}".strip()

    @property
    def runner_up(self) -> str | None:
        """The best node after the picked one."""
        totals = self.totals
        others = [node for node in totals if node != self.node_name]
        return max(others, key=totals.__getitem__, default=None)

    def as_json(self) -> dict[str, Any]:
        """The whole decision, for a line of `--explain json`."""
        nodes: dict[str, Any] = {
            name: {"rejected_by": each.plugin, "reasons": each.status.reasons}
            for name, each in self.rejected.items()
        }
        for name, total in self.totals.items():
            nodes[name] = {"scores": self.scores[name], "total": total}
        return {
            "pod": str(self.pod),
            "scheduler": self.pod.spec.scheduler_name,
            "outcome": self.outcome,
            "node": self.node_name if self.outcome in (Outcome.SCHEDULED, Outcome.WAITING) else None,
            "message": self.message,
            "nodes": dict(sorted(nodes.items())),
        }

    def as_annotation(self, *, in_full: bool = False) -> str:
        """The most important parts in one short line of JSON, for the pod's annotation.

        in_full: with `nodes` of `as_json`, unless that is too long for an annotation.
        """
        gist: dict[str, Any] = {"feasible": f"{self.feasible}/{self.all_nodes}"}
        totals, runner_up = self.totals, self.runner_up
        if self.node_name and self.scores.get(self.node_name):
            gist |= {"total": totals[self.node_name], "scores": self.scores[self.node_name]}
        if runner_up:
            gist["runnerUp"] = {runner_up: totals[runner_up]}
        short = msgspec.json.encode(gist).decode()
        if not in_full or self.all_nodes > MAX_NODES_IN_FULL:
            return short
        full = msgspec.json.encode(gist | {"nodes": self.as_json()["nodes"]}).decode()
        return full if len(full.encode()) <= MAX_FULL_BYTES else short
