"""Prints the figures of replays: as a table, as JSON, or as CSV."""

import csv
import sys
from collections.abc import Sequence
from datetime import timedelta
from math import isnan

from lib.questions.page import Page
from lib.questions.replay.figures import Figures
from lib.scheduling.text import count


def show_replays(replays: Sequence[Figures], page: Page) -> None:
    """A table with a row for each figure, and a column for each configuration."""
    resources = list(replays[0].capacity)
    rows = [
        ("pods that arrived", *(f"{each.arrived:,}" for each in replays)),
        ("placed", *(f"{each.placed:,}" for each in replays)),
        ("pending at the end", *(f"{each.pending:,}" for each in replays)),
        ("evicted", *(f"{each.evictions:,}" for each in replays)),
        *(
            (f"wait, p{int(100 * share)}", *(_time(each.wait(share)) for each in replays))
            for share in (0.5, 0.95, 0.99)
        ),
        *(
            (
                f"{name} allocated: mean, peak, end",
                *("{:.1f} %, {:.1f} %, {:.2f} %".format(*each.allocated(name)) for each in replays),
            )
            for name in resources
        ),
        (
            "nodes used: mean, peak",
            *(f"{mean:,.1f}, {most:,}" for mean, most in (each.nodes_used for each in replays)),
        ),
        (f"fragmentation of free {replays[0].main}", *(f"{each.fragmentation:.1f} %" for each in replays)),
        ("decisions a second", *(f"{each.decisions / (each.seconds or 1):,.0f}" for each in replays)),
    ]
    page.table(["", *(each.name for each in replays)], rows, right=range(1, len(replays) + 1))
    for each in replays:
        if each.errors:
            page.line(f"{each.name}: {count(each.errors, 'decision')} failed; the first: {each.first_error}")
        if not each.complete:
            page.line(f"{each.name}: stopped after {each.arrived:,} pods had arrived")


def print_csv(replays: Sequence[Figures]) -> None:
    """A row for each five percent that arrived, of each configuration; the allocated percent last."""
    rows = csv.writer(sys.stdout, lineterminator="\n")
    main = replays[0].main
    others = [name for name in replays[0].capacity if name != main]
    rows.writerow(
        ["config", "arrived_percent", "at_seconds", "placed", "pending", "nodes_used"]
        + [f"{name}_allocated_percent" for name in others]
        + [f"{main}_allocated_percent"]
    )
    for each in replays:
        for row in each.rows:
            figures = [f"{row.allocated[name]:.2f}" for name in (*others, main)]
            when = [each.name, f"{row.arrived_percent:g}", f"{row.at:g}"]
            rows.writerow([*when, row.placed, row.pending, row.nodes_used, *figures])


def _time(seconds: float) -> str:
    """`1:02:03` for long waits, `4.0 s` for short ones."""
    if isnan(seconds):
        return "-"
    return f"{seconds:.1f} s" if seconds < 60 else str(timedelta(seconds=round(seconds)))
