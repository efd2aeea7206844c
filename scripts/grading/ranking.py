"""The table of a contest: all submissions, with their places."""

import csv
import io
import json
from collections.abc import Sequence

from rich.console import Console
from rich.table import Table

from lib.kube.escaping import escaped
from scripts.grading.contest import Contest, Entry
from scripts.grading.outputs import ResultFormat, cell

SAME = 5e-3
"""Scores that are shown alike are the same."""


def ranked(contest: Contest, entries: Sequence[Entry]) -> list[tuple[int | None, Entry]]:
    """The entries with their places, the best first. Equal scores share a place; who failed has none.

    The policy to be beaten has a place, too.
    """
    best_first = sorted(
        (each for each in entries if each.score is not None),
        key=lambda each: (_cost(contest, each), each.hand_in.name),
    )
    found: list[tuple[int | None, Entry]] = []
    for i, each in enumerate(best_first):
        same = i > 0 and _cost(contest, each) - _cost(contest, best_first[i - 1]) < SAME
        found.append((found[-1][0] if same else i + 1, each))
    return found + [(None, each) for each in entries if each.score is None]


def beats(contest: Contest, entry: Entry, entries: Sequence[Entry]) -> bool:
    """Whether an entry is better than the one to be beaten; without such a one, whether it has a score."""
    to_beat = next((each for each in entries if each.to_beat), None)
    if entry.score is None:
        return False
    return to_beat is None or to_beat.score is None or _cost(contest, to_beat) - _cost(contest, entry) >= SAME


def _cost(contest: Contest, entry: Entry) -> float:
    """The less, the better."""
    assert entry.score is not None
    return -entry.score if contest.more_is_better else entry.score


def ranking(contest: Contest, entries: Sequence[Entry], output: ResultFormat) -> str:
    """The table as text, CSV or JSON."""
    places = ranked(contest, entries)
    if output == ResultFormat.CSV:
        out = io.StringIO()
        rows = csv.writer(out, lineterminator="\n")
        rows.writerow(["place", "policy", "student", contest.score, "beats", "problem"])
        for place, each in places:
            name = each.hand_in.name
            score = "" if each.score is None else f"{each.score:.2f}"
            said = "" if each.to_beat else "yes" if beats(contest, each, entries) else "no"
            rows.writerow(
                [place or "", cell(name), cell(each.hand_in.student), score, said, cell(each.problem)]
            )
        return out.getvalue()
    if output == ResultFormat.JSON:
        body = [
            {
                "place": place,
                "policy": each.hand_in.name,
                "student": each.hand_in.student,
                "score": each.score,
                "is_to_be_beaten": each.to_beat,
                "beats": not each.to_beat and beats(contest, each, entries),
                "problem": each.problem,
            }
            for place, each in places
        ]
        return json.dumps({"contest": contest.title, "score": contest.what, "entries": body}, indent=2) + "\n"
    table = Table(box=None, pad_edge=False, header_style="dim")
    table.add_column("place", justify="right")
    table.add_column("policy", no_wrap=True)
    table.add_column("score", justify="right")
    table.add_column("")
    for place, each in places:
        mark = "to be beaten" if each.to_beat else "✓" if beats(contest, each, entries) else "✗"
        score = "" if each.score is None else f"{each.score:.2f}"
        table.add_row(str(place or "-"), escaped(each.hand_in.name), score, mark)
    console = Console(highlight=False, markup=False)
    with console.capture() as printed:
        console.print(contest.title, style="bold")
        console.print(f"score: {contest.what}; the {'more' if contest.more_is_better else 'less'} the better")
        console.print(table)
        for _, each in places:
            if each.problem:
                console.print(escaped(f"{each.hand_in.name}: {each.problem}"), soft_wrap=True)
    return printed.get()


def page(contest: Contest, entry: Entry, entries: Sequence[Entry]) -> str:
    """A page for the student, as Markdown: the place, and the scores beside those of the one to be beaten."""
    place = next(place for place, each in ranked(contest, entries) if each is entry)
    lines = [f"# {contest.title}", "", f"Score: {contest.what}.", ""]
    if entry.problem:
        lines.append(f"{entry.hand_in.student} has no score: {entry.problem}")
    else:
        lines += [
            f"{entry.hand_in.student}: place {place} of {len(entries)}, with {entry.score:.2f}.",
            "",
            "| | mean | of each run |",
            "| --- | --- | --- |",
        ]
        for each in [entry, *(other for other in entries if other.to_beat)]:
            name = "to be beaten" if each.to_beat else "yours"
            runs = ", ".join(f"{run:.2f}" for run in each.runs)
            lines.append(f"| {name} | {'-' if each.score is None else f'{each.score:.2f}'} | {runs} |")
    return "".join(f"{escaped(line)}\n" for line in lines)
