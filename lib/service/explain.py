"""Shows decisions node by node: as a table for people, or as a line of JSON for programs."""

import sys
from collections.abc import Callable

import msgspec

from lib.scheduling.decision import Decision

Explain = Callable[[Decision], None]
"""Shows one decision."""

ROWS = 12
"""So many nodes are worth a table's rows; the others are counted."""

WIDTH = 200
"""Columns of a table that goes to a file or a pipe."""


def as_json(decision: Decision) -> None:
    """One line on standard output."""
    sys.stdout.buffer.write(msgspec.json.encode(decision.as_json()) + b"\n")
    sys.stdout.buffer.flush()


def as_table(decision: Decision) -> None:
    """A table on standard output: nodes as rows, plugins as columns, rejections in words, the pick first."""
    from rich import box
    from rich.console import Console
    from rich.table import Table

    totals = decision.totals
    plugins = list(next(iter(decision.scores.values()), {}))
    table = Table(
        title=f"{decision.pod}: {decision.message}",
        title_justify="left",
        title_style="bold",
        box=box.SIMPLE_HEAD,
    )
    table.add_column("")
    table.add_column("node")
    for name in [*plugins, "total"] if totals else []:
        table.add_column(name, justify="right")
    if decision.rejected:
        table.add_column("rejected by")

    best_first = sorted(totals, key=lambda name: (name != decision.node_name, -totals[name], name))
    rejected = sorted(decision.rejected)
    shown = best_first[: ROWS if not rejected else ROWS - min(len(rejected), ROWS // 2)]
    shown_rejected = rejected[: ROWS - len(shown)]
    for name in shown:
        picked = name == decision.node_name
        cells = [str(decision.scores[name][plugin]) for plugin in plugins]
        row = ["->" if picked else "", name, *cells, str(totals[name]) if plugins else ""]
        table.add_row(*row, style="bold" if picked else "")
    for name in shown_rejected:
        each = decision.rejected[name]
        words = f"{each.plugin}: {', '.join(each.status.reasons)}"
        table.add_row("", name, *([""] * (len(plugins) + 1) if totals else []), words, style="dim")
    width = None if sys.stdout.isatty() else WIDTH
    console = Console(file=sys.stdout, highlight=False, markup=False, width=width)
    console.print(table)
    left_out = [
        f"{count} more {what}"
        for count, what in (
            (len(best_first) - len(shown), "feasible"),
            (len(rejected) - len(shown_rejected), "rejected"),
            (decision.all_nodes - len(best_first) - len(rejected), "not looked at, as enough were feasible"),
        )
        if count > 0
    ]
    if left_out:
        console.print(f"nodes not shown: {', '.join(left_out)}", style="dim")
