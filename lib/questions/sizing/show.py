"""Shows which nodes are the cheapest."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from lib.questions.printing import Printer
from lib.questions.sizing.node_types import NodeType
from lib.questions.sizing.search import Cheapest
from lib.questions.sizing.trying import Counts
from lib.questions.verdict import Verdict, verdict
from lib.scheduling.node_info import NodeInfo
from lib.scheduling.text import amount, count

MISSING = 5
"""So many pods that fit nowhere are shown."""


@dataclass(frozen=True)
class Sized:
    """The answer. pods: how many were placed, DaemonSets' not counted. nodes: with all that is on them.

    tried: how many placements were made. more: whether the nodes are needed in addition to a cluster's.
    """

    found: Cheapest
    types: Sequence[NodeType]
    pods: int
    nodes: Sequence[NodeInfo]
    tried: int
    more: bool

    @property
    def verdict(self) -> Verdict:
        """Whether any number of nodes is enough."""
        return verdict(self.found.counts is not None)

    @property
    def numbers(self) -> dict[str, int]:
        """How many nodes of each type, but for types of which none is needed."""
        return self.named(self.found.counts or ())

    def named(self, counts: Counts) -> dict[str, int]:
        """Numbers of nodes by type, but for types of which there are none."""
        return {node_type.name: n for node_type, n in zip(self.types, counts, strict=bool(counts)) if n}

    def as_json(self) -> dict[str, Any]:
        """The whole answer, but for the verdict."""
        found = self.found
        return {
            "nodes": self.numbers if found.counts is not None else None,
            "price": float(found.price),
            "lower_bound": float(found.least),
            "is_proven_cheapest": found.is_proven and found.counts is not None,
            "is_proven_impossible": found.is_proven and found.counts is None,
            "cheaper_tried": found.cheaper,
            "placements_tried": self.tried,
            "one_fewer": {
                name: {"pod": pod, "message": message} for name, (pod, message) in found.one_fewer.items()
            },
            "pods": self.pods,
            "missing": dict(found.missing),
            "missing_on": self.named(found.tried),
        }


def show_size(answer: Sized, out: Printer) -> None:
    """The nodes, what is on them, and how sure it is that fewer won't do."""
    found = answer.found
    pods, more = count(answer.pods, "pod"), "more " if answer.more else ""
    if found.counts is None:
        out.heading(_impossible(answer))
        out.items(f"{pod}: {message}" for pod, message in out.first([*found.missing.items()], MISSING))
        return
    total = sum(answer.numbers.values())
    if not total:
        out.heading(f"no {more}nodes are needed: all of {pods} fit")
        return
    out.heading(f"{pods} fit on {count(total, f'{more}node')} for {found.price}: {_choice(answer.numbers)}")
    _show_types(answer, out)
    out.gap()
    for name, (pod, message) in found.one_fewer.items():
        out.line(f"With one {name} fewer, {pod} has no node: {message}")
    out.line(_how_sure(found))


def _choice(numbers: Mapping[str, int]) -> str:
    return " + ".join(f"{number:,} {name}" for name, number in numbers.items())


def _impossible(answer: Sized) -> str:
    """That no nodes were found, and whether there are none."""
    found = answer.found
    without = f"{len(found.missing):,} of {count(answer.pods, 'pod')} would have no node"
    if not found.tried:
        return f"{without}, however many nodes there are"
    nodes = _choice(answer.named(found.tried)) or "no more nodes"
    if found.is_proven:
        return f"no choice of these nodes is enough: with {nodes}, {without}"
    return f"no choice was found that is enough, and there may be one: with {nodes}, {without}"


def _how_sure(found: Cheapest) -> str:
    if found.is_proven and found.cheaper:
        tried = "the only cheaper choice that has enough of what the pods request was"
        if found.cheaper > 1:
            tried = f"all {found.cheaper:,} cheaper choices that have enough of what the pods request were"
        return f"Nothing cheaper does: {tried} tried."
    if found.is_proven:
        return "Nothing cheaper does: it would have too little of what the pods request."
    least = f"{found.least:.4f}".rstrip("0").rstrip(".")
    above = 100 * (found.price / found.least - 1) if found.least else Decimal(0)
    return (
        f"There may be something cheaper: {found.cheaper:,} cheaper choices were tried, and there are more. "
        f"None can cost less than {least}; this is {above:.1f} % above."
    )


def _show_types(answer: Sized, out: Printer) -> None:
    """A row for each type: its nodes, their price, and how much of them is requested."""
    names = [name for name in _resources(answer.nodes) if name != "pods"]
    rows, at = [], 0
    for node_type in answer.types:
        number = answer.numbers.get(node_type.name, 0)
        nodes, at = answer.nodes[at : at + number], at + number
        if number:
            uses = (_use(nodes, name) for name in names)
            on_them = sum(len(node.pods) for node in nodes)
            rows.append([node_type.name, f"{number:,}", f"{node_type.price * number}", f"{on_them:,}", *uses])
    out.table(["type", "nodes", "price", "pods", *names], rows, right=(1, 2, 3))


def _resources(nodes: Sequence[NodeInfo]) -> list[str]:
    """What pods request on these nodes."""
    asked = Counter[str]()
    for node in nodes:
        asked.update(name for name, amount in node.requested.items() if amount)
    return sorted(asked, key=lambda name: (name not in ("cpu", "memory"), name))


def _use(nodes: Sequence[NodeInfo], name: str) -> str:
    """`7200m of 8, 90 %`."""
    requested = sum(node.requested.get(name, 0) for node in nodes)
    there = sum(node.allocatable.get(name, 0) for node in nodes)
    share = f", {100 * requested / there:.0f} %" if there else ""
    return f"{amount(name, requested)} of {amount(name, there)}{share}"
