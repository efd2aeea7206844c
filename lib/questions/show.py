"""Prints answers for people."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from lib.questions.admission import ServerSaid
from lib.questions.compare import BALANCED, Result, differing
from lib.questions.deciding import Placed
from lib.questions.page import Page
from lib.questions.rollout import Rollout
from lib.questions.room import Room
from lib.questions.show_why import show_nowhere
from lib.questions.trial import Trial
from lib.scheduling.text import count, names, verb


def show_trial(trial: Trial, page: Page, all_nodes: int, *, rollouts: bool = False) -> None:
    """Where new pods would go. rollouts: show each step of rollouts."""
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
        rows.append((text, f"{workload}{f': {_spread(have, page)}' if have else ''}"))
    page.pairs(rows, numbers=True)
    for rollout in trial.rollouts:
        _show_rollout(rollout, page, steps=rollouts)
    _show_refused(trial, page)
    if victims := trial.victims:
        page.line(f"{count(len(victims), 'pod')} of lower priority would have to leave:", gap=True)
        page.items(
            f"{page.names(each.victims, 5)} for {each.pod} on {each.node_name}{in_spite_of(each.unprotected)}"
            for each in page.first([each for each in trial.placed if each.victims])
        )
    for workload, why in trial.why.items():
        missing = [each for each in trial.workloads[workload] if not each.node_name and not each.is_refused]
        without = f"{count(len(missing), 'pod')} without a node"
        page.heading(f"{workload}: {without}; the first is {why.pod}", gap=True)
        show_nowhere(why, page)
        _show_others(missing, page)
    if trial.after:
        _show_usage(trial, page)
    _show_unknown(trial.said, page)


def _show_rollout(rollout: Rollout, page: Page, *, steps: bool) -> None:
    """How the pods of a workload that is there already are replaced."""
    there = f"{rollout.workload} is there already with {count(rollout.old, 'pod')}"
    many = count(len(rollout.steps), "step")
    page.gap()
    if rollout.stuck:
        new = sum(len(each.added) for each in rollout.steps)
        old = f"{count(len(rollout.left), 'old pod')} {verb(len(rollout.left), 'stays', 'stay')}"
        page.line(f"{there}: its rollout gets stuck after {many}: {count(new, 'new pod')}, and {old}.")
    elif not rollout.changed:
        page.line(
            f"{there}, and its pods stay as they are{'; only their number changes' if rollout.steps else ''}."
        )
    else:
        page.line(f"{there}: its rollout replaces them in {many}.")
    for i, step in enumerate(rollout.steps if steps else (), 1):
        parts = [f"+ {name} on {node}" for name, node in step.added.items()]
        parts += [f"+ {name} waits" for name in step.waiting]
        parts += [f"- {name}" for name in step.removed]
        page.line(f"step {i}: {page.names(parts, 8)}", indent=2)


def _show_refused(trial: Trial, page: Page) -> None:
    """What isn't even created, in the API server's words."""
    words = dict(trial.said.refused)
    for workload, pods in trial.workloads.items():
        refused = [each for each in pods if each.is_refused]
        if refused:
            many = f"{len(refused):,} of {count(len(pods), 'pod')} of " if len(pods) > 1 else ""
            words[str(workload)] = f"{many}{workload}: {refused[0].message}"
    if words:
        page.line("The API server refuses:", gap=True)
        page.items(text if name in text else f"{name}: {text}" for name, text in words.items())


def _show_unknown(said: ServerSaid, page: Page) -> None:
    if said.unknown:
        page.line("Not known:", gap=True)
        page.items(said.unknown)


def in_spite_of(unprotected: Mapping[str, Sequence[str]]) -> str:
    """The budgets that preemption doesn't heed: it prefers other victims, but may have none."""
    budgets = dict.fromkeys(budget for each in unprotected.values() for budget in each)
    if not budgets:
        return ""
    return f", though {verb(len(budgets), 'budget', 'budgets')} {names([*budgets])} would not allow it"


def _show_others(missing: Sequence[Placed], page: Page) -> None:
    """The pods that have no node for another reason than the first one."""
    others: dict[str, list[str]] = {}
    for each in missing:
        if each.message != missing[0].message:
            others.setdefault(each.message, []).append(str(each.pod))
    for message, pods in page.first([*others.items()]):
        page.line(f"{page.names(pods, 3)}: {message}")


def show_room(room: Room, page: Page) -> None:
    """How many more pods fit."""
    more = " at least" if room.at_least else ""
    if len(room.fit) > 1:
        least = min(counts.total() for counts in room.fit.values())
        page.heading(f"{least:,} more of each{more} would fit, placed in turn, one of each")
    for workload, counts in room.fit.items():
        page.heading(f"{workload}: {count(counts.total(), 'more pod')}{more} would fit")
        if counts:
            page.line(_spread(counts.elements(), page), indent=2)
    for workload, words in room.refused.items():
        page.heading(f"the API server refuses the next of {workload}", gap=True)
        page.line(words)
    for workload, why in room.stopped.items():
        page.heading(f"what stops the next of {workload}", gap=True)
        show_nowhere(why, page)
    _show_unknown(room.said, page)


LONGEST_NAME = 28
"""The longest file name, in characters, that fits into a table of 80 columns beside the figures."""


def show_compare(results: Sequence[Result], page: Page) -> None:
    """What differs between configurations."""
    first, *others = results
    if first.left_out:
        page.line(f"{count(first.left_out, 'pod')} of DaemonSets, or static ones, stay where they are.")
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
    page.table(header, figures, right=range(1, len(header)))
    for other in others:
        moved = differing(first, other)
        rows = [
            (name, f"{first.nodes.get(name, 'nowhere')} → {other.nodes.get(name, 'nowhere')}")
            for name in moved
        ]
        page.pairs(page.first(rows), numbers=False)
        page.more(len(rows) - len(page.first(rows)), "more pod")


def _show_usage(trial: Trial, page: Page) -> None:
    """The usage of the nodes that got pods, the fullest first."""
    fullest = sorted(trial.after.items(), key=lambda each: -each[1].fullest)
    resources = list(
        dict.fromkeys(name for _, usage in fullest for name in usage.capacity if usage.capacity[name])
    )
    got = Counter(each.node_name for each in trial.placed)
    rows = [
        [name, str(got[name]), *(usage.text_after(trial.before[name], each) for each in resources)]
        for name, usage in page.first(fullest)
    ]
    page.table(["node", "new", *resources], rows, right=[1])
    page.more(len(fullest) - len(rows), "node", " that get less full")


def _spread(nodes: Iterable[str], page: Page) -> str:
    """On which nodes pods are, and how many on each."""
    counted = Counter(nodes).most_common()
    return page.names([name if many == 1 else f"{many} on {name}" for name, many in counted], 6)
