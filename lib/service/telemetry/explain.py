"""Shows decisions node by node: as a table for people, or as a line of JSON for programs."""

import re
import sys
from collections.abc import Callable
from typing import TextIO

import msgspec

from lib.kube.escaping import escaped
from lib.scheduling.decision import Decision

Explain = Callable[[Decision], None]
"""Shows one decision."""

ROWS = 12
"""With more nodes than this a table shows the best ones, and those rejected alike in one row."""

WIDTH = 200
"""Columns of a table that goes to a file or a pipe."""


def _stdout() -> TextIO:
    """The real standard output, wherever print() goes at the moment."""
    assert sys.__stdout__
    return sys.__stdout__


def as_json(decision: Decision) -> None:
    """One line on standard output."""
    _stdout().buffer.write(msgspec.json.encode(decision.as_json()) + b"\n")
    _stdout().buffer.flush()


def as_table(decision: Decision) -> None:
    """A table on standard output: nodes as rows, plugins as columns, rejections in words, the pick first."""
    from rich import box  # here, as few runs need it
    from rich.console import Console
    from rich.table import Table

    totals = decision.totals
    plugins = list(next(iter(decision.scores.values()), {}))
    table = Table(box=box.SIMPLE_HEAD)
    table.add_column("")
    table.add_column("node")
    for name in [*plugins, "total"] if plugins else []:
        table.add_column(re.sub("(?<=[a-z])(?=[A-Z])", "\n", name), justify="right", vertical="bottom")
    table.add_column("")

    cut = len(totals) + len(decision.rejected) > ROWS
    feasible = sorted(totals, key=lambda name: (name != decision.node_name, -totals[name], name))
    shown = feasible[: ROWS // 2] if cut else feasible
    for name in shown:
        picked = name == decision.node_name
        scores = [str(decision.scores[name][plugin]) for plugin in plugins]
        total = [str(totals[name])] if plugins else []
        row = ["->" if picked else "", name, *scores, *total, "" if plugins else "the only one that fits"]
        table.add_row(*map(escaped, row), style="bold" if picked else "")
    alike = _rejected_alike(decision, together=cut)
    for nodes, words in alike[:ROWS]:
        name = nodes[0] if len(nodes) == 1 else f"{nodes[0]} and {len(nodes) - 1} more"
        blank = [""] * (len(plugins) + 1) if plugins else []
        table.add_row("", escaped(name), *blank, escaped(words), style="dim")

    width = None if _stdout().isatty() else WIDTH
    console = Console(file=_stdout(), highlight=False, markup=False, width=width)
    console.print(escaped(f"{decision.pod}: {decision.message}"), style="bold")
    if decision.scores or decision.rejected:
        console.print(table)
    left_out = {
        "that fit": len(feasible) - len(shown),
        "that were rejected": sum(len(nodes) for nodes, _ in alike[ROWS:]),
        "not looked at, as enough fit": decision.all_nodes - len(feasible) - len(decision.rejected),
    }
    if any(left_out.values()):
        counts = ", ".join(f"{count} {what}" for what, count in left_out.items() if count)
        console.print(f"nodes not shown: {counts}\n", style="dim")


def _rejected_alike(decision: Decision, *, together: bool) -> list[tuple[list[str], str]]:
    """The nodes that were rejected, with why; those for the same reason together, if there are many."""
    groups: dict[tuple[str, str], list[str]] = {}
    for name, each in sorted(decision.rejected.items()):
        words = f"{each.plugin}: {', '.join(each.status.reasons)}"
        groups.setdefault(("" if together else name, words), []).append(name)
    return [(nodes, words) for (_, words), nodes in groups.items()]
