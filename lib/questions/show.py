"""Prints answers for people."""

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import TypeVar

from lib.questions.compare import BALANCED, Result, differing
from lib.questions.drain import Drain, Moved
from lib.questions.page import Page
from lib.questions.room import Room
from lib.questions.show_why import show_nowhere
from lib.questions.trial import Placed, Trial
from lib.scheduling.text import count, listed, names

T = TypeVar("T")

ROWS = 8
"""Rows of a table, unless -o wide."""


def show_trial(trial: Trial, page: Page, all_nodes: int) -> None:
    """Where new pods would go."""
    total, placed = len(trial.placed), sum(bool(each.node_name) for each in trial.placed)
    where = (
        f"on {count(len(trial.after), 'node')} of {all_nodes:,}"
        if placed
        else f"; there are {all_nodes:,} nodes"
    )
    page.heading(f"{placed:,} of {count(total, 'pod')} would have a node{', ' if placed else ''}{where}")
    rows = []
    for workload, pods in trial.workloads.items():
        have = [each.node_name for each in pods if each.node_name]
        text = f"{len(have):,} of {len(pods):,}"
        rows.append((f"{text}", f"{workload}{f': {_spread(have, wide=page.wide)}' if have else ''}"))
    page.pairs(rows, numbers=True)
    if victims := trial.victims:
        page.gap()
        page.line(f"{count(len(victims), 'pod')} of lower priority would have to leave:")
        page.items(
            f"{names([str(victim) for victim in each.victims], 1000 if page.wide else 5)} for {each.new.pod}"
            f" on {each.node_name}"
            for each in _some([each for each in trial.placed if each.victims], page)
        )
    for workload, why in trial.why.items():
        page.gap()
        missing = [each for each in trial.placed if each.new.workload == workload and not each.node_name]
        page.heading(f"{workload}: {count(len(missing), 'pod')} without a node; the first is {why.pod}")
        show_nowhere(why, page)
        _show_others(missing, page)
    if trial.after:
        _show_usage(trial, page)


def _show_others(missing: Sequence[Placed], page: Page) -> None:
    """The pods that have no node for another reason than the first one."""
    others: dict[str, list[str]] = {}
    for each in missing:
        if each.message != missing[0].message:
            others.setdefault(each.message, []).append(str(each.new.pod))
    for message, pods in _some([*others.items()], page):
        page.line(f"{names(pods, 1000 if page.wide else 3)}: {message}")


def show_room(room: Room, page: Page) -> None:
    """How many more pods fit."""
    more = " at least" if room.at_least else ""
    for workload, counts in room.fit.items():
        page.heading(f"{workload}: {count(counts.total(), 'more pod')}{more} would fit")
        if counts:
            page.line(_spread(list(counts.elements()), wide=page.wide), indent=2)
    for workload, why in room.stopped.items():
        page.gap()
        page.heading(f"what stops the next of {workload}")
        show_nowhere(why, page)


def show_drain(drain: Drain, page: Page) -> None:
    """Where the pods of nodes would go."""
    page.heading(_drain_headline(drain))
    rows = [
        (str(each.pod), f"from {each.from_node} to {each.to_node or 'nowhere'}{_cost(each)}")
        for each in drain.moved
    ]
    shown = _some(sorted(rows, key=lambda row: "nowhere" not in row[1]), page)
    page.pairs(shown, numbers=False)
    if len(shown) < len(rows):
        page.line(
            f"and {count(len(rows) - len(shown), 'more pod')} that would have a node (-o wide shows all)",
            indent=2,
        )
    if drain.stay:
        page.line(
            f"{count(len(drain.stay), 'pod')} of DaemonSets, or static ones, stay or end with their nodes."
        )
    for why in drain.why:
        page.gap()
        page.heading(f"why {why.pod} would have no node")
        show_nowhere(why, page)


LONGEST_NAME = 28
"""The longest file name, in characters, that fits into a table of 80 columns beside the figures."""


def show_compare(results: Sequence[Result], page: Page) -> None:
    """What differs between configurations."""
    first, *others = results
    for other in others:
        moved = differing(first, other)
        page.heading(f"{other.name} puts {count(len(moved), 'pod')} elsewhere than {first.name}")
    header = ["", "placed", "pending", "nodes used", *(f"{name}, mean ± deviation" for name in BALANCED)]
    ends = [Path(each.name).name for each in results]
    short = ends if len(set(ends)) == len(ends) else [each.name for each in results]
    if max(map(len, short)) > LONGEST_NAME:  # there would be no room for the figures
        short = [f"({i})" for i, _ in enumerate(results, 1)]
        page.pairs(zip(short, (each.name for each in results), strict=True), numbers=False)
    figures = [
        [
            name,
            f"{len(each.nodes):,}",
            f"{len(each.pending):,}",
            f"{each.nodes_used:,}",
            *(f"{each.mean[name]:.0%} ± {each.imbalance[name]:.0%}" for name in BALANCED),
        ]
        for name, each in zip(short, results, strict=True)
    ]
    page.table(header, figures, right=range(1, len(header)), names_whole=True)
    for other in others:
        moved = differing(first, other)
        rows = [
            (name, f"{first.nodes.get(name, 'nowhere')} → {other.nodes.get(name, 'nowhere')}")
            for name in moved
        ]
        page.pairs(_some(rows, page), numbers=False)
        if len(moved) > len(_some(moved, page)):
            page.line(f"and {count(len(moved) - ROWS, 'more pod')} (-o wide shows all)", indent=2)


def _drain_headline(drain: Drain) -> str:
    nodes, many = names(drain.nodes), len(drain.moved)
    if not many:
        return f"{nodes}: there are no pods to move"
    problems = []
    if drain.homeless:
        problems.append(f"{len(drain.homeless):,} would have no node")
    if drain.held:
        problems.append(f"{len(drain.held):,} may not be evicted now, as a budget is used up")
    found = listed(problems) if problems else "all would have a node"
    return f"{nodes}: {count(many, 'pod')} to move, {found}"


def _cost(moved: Moved) -> str:
    parts = []
    if moved.victims:
        parts.append(f"in the place of {names([str(each) for each in moved.victims])}")
    if moved.budgets:
        parts.append(f"budget {names(moved.budgets)} allows no disruption now")
    if not moved.made_again:
        parts.append("nothing makes it again")
    return f"; {'; '.join(parts)}" if parts else ""


def _show_usage(trial: Trial, page: Page) -> None:
    """The usage of the nodes that got pods, the fullest first."""
    fullest = sorted(trial.after.items(), key=lambda each: -each[1].fullest)
    resources = list(
        dict.fromkeys(name for _, usage in fullest for name in usage.capacity if usage.capacity[name])
    )
    got = Counter(each.node_name for each in trial.placed)
    rows = [
        [name, str(got[name]), *(usage.text_after(trial.before[name], each) for each in resources)]
        for name, usage in _some(fullest, page)
    ]
    page.table(["node", "new", *resources], rows, right=[1])
    if len(rows) < len(fullest):
        page.line(
            f"and {count(len(fullest) - len(rows), 'node')} that get less full (-o wide shows all)", indent=2
        )


def _spread(nodes: Sequence[str], *, wide: bool) -> str:
    """On which nodes pods are, and how many on each."""
    counted = Counter(nodes).most_common()
    return names([name if many == 1 else f"{many} on {name}" for name, many in counted], 1000 if wide else 6)


def _some(things: Sequence[T], page: Page) -> Sequence[T]:
    return things if page.wide else things[:ROWS]
