"""--explain: shows decisions node by node, as a table or as a line of JSON."""

import re
import sys
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, TextIO

import msgspec

from lib.kube.escaping import escaped
from lib.scheduling.decision import Decision, Outcome
from lib.service.telemetry import rendering

if TYPE_CHECKING:
    from rich.table import Table

Explain = Callable[[Decision, str], None]
"""Shows one decision, under a headline with its result."""

NodesWithReason = tuple[list[str], str]
"""Rejected nodes, and the reason that they have in common."""

ROWS = 12
"""With more nodes than this, a table shows the best ones, and one row for all with the same rejection."""

WIDTH = 200
"""Columns of a table that goes to a file or a pipe."""


def _stdout() -> TextIO:
    """The real standard output, even if print() is redirected."""
    assert sys.__stdout__
    return sys.__stdout__


def shows_beside_the_log(explain: Explain) -> bool:
    """Whether tables of decisions and the log go to the same terminal."""
    return explain is as_table and _stdout().isatty() and sys.stderr.isatty()


def as_json(decision: Decision, headline: str) -> None:
    """One line on standard output."""
    _stdout().buffer.write(msgspec.json.encode(rendering.as_json(decision) | {"message": headline}) + b"\n")
    _stdout().buffer.flush()


def as_table(decision: Decision, headline: str) -> None:
    """A table on standard output: nodes are rows, plugins are columns; the picked node comes first.

    If it would be too wide, plugins are shortened to their capitals, with a legend.
    """
    from rich.console import Console  # here, as few runs need it
    from rich.measure import Measurement

    cut = len(decision.totals) + len(decision.rejected) > ROWS
    feasible = _best_first(decision)
    shown = feasible[: ROWS // 2] if cut else feasible
    alike = _rejected_alike(decision, together=cut)
    console = Console(
        file=_stdout(), highlight=False, markup=False, width=None if _stdout().isatty() else WIDTH
    )
    console.print(escaped(f"{decision.pod}: {headline}"), style="bold")
    if decision.scores or decision.rejected:
        plugins = _plugins(decision)
        heads = [re.sub("(?<=[a-z])(?=[A-Z])", "\n", name) for name in plugins]
        whole = _table(decision, heads, shown, alike[:ROWS])
        if Measurement.get(console, console.options.update(max_width=WIDTH), whole).minimum <= console.width:
            console.print(whole)
        else:
            short = _abbreviations(plugins)
            console.print(_table(decision, [*short.values()], shown, alike[:ROWS]))
            legend = ", ".join(f"{letters} {name}" for name, letters in short.items())
            console.print(f"{escaped(legend)}\n", style="dim")
    not_looked_at = decision.all_nodes - len(feasible) - len(decision.rejected)
    left_out = {
        "that fit": len(feasible) - len(shown),
        "that were rejected": sum(len(nodes) for nodes, _ in alike[ROWS:]),
        f"not looked at, {_why_enough(decision)}": not_looked_at,
    }
    if any(left_out.values()):
        counts = ", ".join(f"{count} {what}" for what, count in left_out.items() if count)
        console.print(f"nodes not shown: {counts}\n", style="dim")


def _table(
    decision: Decision, heads: Sequence[str], shown: Sequence[str], alike: Sequence[NodesWithReason]
) -> "Table":
    """The table. heads: of the plugins' columns. shown: the feasible nodes. alike: the rejected ones."""
    from rich import box  # here, as few runs need it
    from rich.table import Table

    table, plugins = Table(box=box.SIMPLE_HEAD), _plugins(decision)
    table.add_column("")
    table.add_column("node", overflow="fold")
    for head in [*heads, "total"] if heads else []:
        table.add_column(head, justify="right", vertical="bottom")
    table.add_column("", overflow="fold")
    for name in shown:
        picked = name == decision.node_name
        scores = [str(decision.scores[name][plugin]) for plugin in plugins]
        total = [str(decision.totals[name])] if plugins else []
        row = ["->" if picked else "", name, *scores, *total, "" if plugins else _why_alone(decision)]
        table.add_row(*map(escaped, row), style="bold" if picked else "")
    for nodes, reason in alike:
        name = nodes[0] if len(nodes) == 1 else f"{nodes[0]} and {len(nodes) - 1} more"
        blank = [""] * (len(heads) + 1) if heads else []
        table.add_row("", escaped(name), *blank, escaped(reason), style="dim")
    return table


def _plugins(decision: Decision) -> list[str]:
    """The plugins that gave scores."""
    return list(next(iter(decision.scores.values()), {}))


def _best_first(decision: Decision) -> list[str]:
    """The feasible nodes: the picked one, then the others by their scores."""
    totals = decision.totals
    return sorted(totals, key=lambda name: (name != decision.node_name, -totals[name], name))


def _why_enough(decision: Decision) -> str:
    """Why not all nodes were looked at."""
    if decision.outcome == Outcome.ERROR:
        return "because of the error"
    return "as room was made for it on this one" if _is_nominated(decision) else "as enough fit"


def _is_nominated(decision: Decision) -> bool:
    """Whether only the picked node was evaluated, because the pod was nominated to it."""
    return len(decision.scores) == 1 and decision.all_nodes > 1 + len(decision.rejected)


def _why_alone(decision: Decision) -> str:
    """Why the picked node has no scores."""
    return "room was made for it here" if _is_nominated(decision) else "the only one that fits"


def _abbreviations(plugins: Sequence[str]) -> dict[str, str]:
    """The capitals of each plugin's name; the whole name if two plugins have the same, or one has none."""
    letters = {name: "".join(re.findall("[A-Z]", name)) for name in plugins}
    known = list(letters.values())
    return {name: short if short and known.count(short) == 1 else name for name, short in letters.items()}


def _rejected_alike(decision: Decision, *, together: bool) -> list[NodesWithReason]:
    """The rejected nodes, with reasons; if there are many, those with the same reason together.

    A node with pods to be evicted names them.
    """
    groups: dict[tuple[str, str], list[str]] = {}
    for name, rejection in sorted(decision.rejected.items()):
        words = f"{rejection.plugin}: {', '.join(rejection.status.reasons)}"
        if name == decision.nominated and decision.preempted:
            words += f"; fits without {', '.join(str(victim) for victim in decision.preempted)}"
        alone = not together or name == decision.nominated
        groups.setdefault((name if alone else "", words), []).append(name)
    ordered = sorted(groups.items(), key=lambda group: group[1] != [decision.nominated])
    return [(nodes, words) for (_, words), nodes in ordered]
