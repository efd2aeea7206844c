"""Decisions as they are written: as JSON, as an annotation of the pod, as the note of an event."""

from typing import Any

import msgspec

from lib.scheduling.decision import PLACED, Decision

MAX_NOTE_BYTES, CUT = 1024, " ..."
"""The longest note of an event (validation.NoteLengthLimit), and what ends one that was cut."""

MAX_NODES_IN_FULL, MAX_FULL_BYTES = 50, 16 * 1024
"""An annotation holds every node only up to this many nodes, and up to this many bytes."""


def event_note(decision: Decision) -> str:
    """The message, cut to the 1,024 bytes that the note of an event may have.

    Source: truncateMessage in pkg/scheduler/schedule_one.go
    """
    encoded = decision.message.encode()
    if len(encoded) <= MAX_NOTE_BYTES:
        return decision.message
    return encoded[: MAX_NOTE_BYTES - len(CUT)].decode(errors="ignore") + CUT


def as_json(decision: Decision) -> dict[str, Any]:
    """The whole decision, for a line of `--explain json`."""
    return {
        "pod": str(decision.pod),
        "scheduler": decision.pod.spec.scheduler_name,
        "outcome": decision.outcome,
        "node": decision.node_name if decision.outcome in PLACED else None,
        "message": decision.message,
        "nodes": _nodes(decision),
    }


def as_annotation(decision: Decision, *, in_full: bool = False) -> str:
    """The most important parts in one short line of JSON, for the pod's annotation.

    in_full: with `nodes` of `as_json`, unless that is too long for an annotation.
    """
    gist: dict[str, Any] = {"feasible": f"{decision.feasible}/{decision.all_nodes}"}
    picked, totals = decision.node_name, decision.totals
    if picked and decision.scores.get(picked):
        gist |= {"total": totals[picked], "scores": decision.scores[picked]}
    others = [node for node in totals if node != picked]
    if runner_up := max(others, key=totals.__getitem__, default=None):
        gist["runnerUp"] = {runner_up: totals[runner_up]}
    short = msgspec.json.encode(gist).decode()
    if not in_full or decision.all_nodes > MAX_NODES_IN_FULL:
        return short
    full = msgspec.json.encode(gist | {"nodes": _nodes(decision)}).decode()
    return full if len(full.encode()) <= MAX_FULL_BYTES else short


def _nodes(decision: Decision) -> dict[str, Any]:
    """By name, each evaluated node's rejection, or its scores."""
    nodes: dict[str, Any] = {
        name: {"rejected_by": rejection.plugin, "reasons": [*map(str, rejection.status.reasons)]}
        for name, rejection in decision.rejected.items()
    }
    for name, total in decision.totals.items():
        nodes[name] = {"scores": decision.scores[name], "total": total}
    return dict(sorted(nodes.items()))
