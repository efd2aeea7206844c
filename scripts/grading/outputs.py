"""The results in different forms: for people, for spreadsheets, and for what collects hand-ins."""

import csv
import io
import json
import re
from collections.abc import Callable, Mapping, Sequence
from enum import StrEnum

from rich.console import Console
from rich.table import Table

from lib.kube.escaping import escaped
from scripts.grading.hand_in import HandInResult
from scripts.grading.marks import Mark, expectations
from scripts.grading.scenario import Json, Scenario

Results = Sequence[HandInResult]
"""Those of all hand-ins; the first is that without a policy."""


class ResultFormat(StrEnum):
    """The form of results. autolab and gradescope: what an autograder of theirs prints for one hand-in."""

    TABLE = "table"
    CSV = "csv"
    JSON = "json"
    AUTOLAB = "autolab"
    GRADESCOPE = "gradescope"


TAG = re.compile("<(?=[a-zA-Z/!?])")
"""What HTML begins with, in a page of Markdown."""

FOR_ONE = (ResultFormat.AUTOLAB, ResultFormat.GRADESCOPE)
"""The forms for just one hand-in."""


def number(points: float) -> str:
    """Points as text: 3, or 2.67."""
    return f"{points:.2f}".rstrip("0").rstrip(".")


def as_table(scenario: Scenario, results: Results) -> str:
    """A row for each policy; values that aren't as expected are marked. Below, why points are missing."""
    headings = expectations(scenario)
    table = Table(box=None, pad_edge=False, header_style="dim")
    table.add_column("policy", no_wrap=True)
    for heading in [*headings, "points"]:
        table.add_column(heading, justify="right")
    for each in results:
        values = [f"{mark.value} {'✓' if mark.good else '✗'}" for mark in each.marks]
        points = f"{number(each.points)}/{number(each.most)}"
        table.add_row(escaped(each.hand_in.name), *(values or [""] * len(headings)), points)
    console = Console(highlight=False, markup=False)
    with console.capture() as printed:
        console.print(scenario.title, style="bold")
        console.print(table)
        for each in results[1:]:
            if each.why:
                console.print(escaped(f"{each.hand_in.name}: {each.why}"), soft_wrap=True)
    return printed.get()


def as_csv(scenario: Scenario, results: Results) -> str:
    """A line for each policy."""
    headings, out = expectations(scenario), io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(["policy", "student", *headings, "points", "of", "problem"])
    for each in results:
        values = [mark.value for mark in each.marks] or [""] * len(headings)
        texts = [each.hand_in.name, each.hand_in.student, *values]
        points = [number(each.points), number(each.most)]
        writer.writerow([*map(cell, texts), *points, cell(each.why if each.hand_in.file else "")])
    return out.getvalue()


def as_json(scenario: Scenario, results: Results) -> str:
    """All there is to know, also where the pods went."""
    return _json({"scenario": scenario.title, "results": [_body(each) for each in results]})


def as_autolab(scenario: Scenario, results: Results) -> str:
    """Feedback, and the last line with the scores, by problem: docs.autolabproject.com, autograders."""
    result = results[-1]
    scores = {name: round(mark.points, 2) if mark else 0 for name, mark in _by_heading(scenario, result)}
    board = [round(result.points, 2)]
    return f"{feedback(result)}\n{json.dumps({'scores': scores, 'scoreboard': board})}\n"


def as_gradescope(scenario: Scenario, results: Results) -> str:
    """A results.json: gradescope-autograders.readthedocs.io, output format."""
    result = results[-1]
    tests = [
        {
            "name": name,
            "score": round(mark.points, 2) if mark else 0,
            "max_score": mark.most if mark else 0,
            "output": f"it is {mark.value}" if mark else escaped(result.why),
        }
        for name, mark in _by_heading(scenario, result)
    ]
    return _json({"score": result.points, "output": feedback(result), "tests": tests})


OUTPUTS: Mapping[ResultFormat, Callable[[Scenario, Results], str]] = {
    ResultFormat.TABLE: as_table,
    ResultFormat.CSV: as_csv,
    ResultFormat.JSON: as_json,
    ResultFormat.AUTOLAB: as_autolab,
    ResultFormat.GRADESCOPE: as_gradescope,
}


def feedback(result: HandInResult) -> str:
    """The points of one hand-in, and why some are missing."""
    points = f"{number(result.points)} of {number(result.most)} points"
    return escaped(f"{points}: {result.why}" if result.why else points)


def report(scenario: Scenario, result: HandInResult) -> str:
    """A page for the student, as Markdown: the marks, and which pods went where on the open cluster."""
    said = TAG.sub("&lt;", f"{result.hand_in.student}: {feedback(result)}")
    lines = [f"# {scenario.title}", "", said, ""]
    if result.marks:
        lines += ["| | yours | expected | best possible | points |", "| --- | --- | --- | --- | --- |"]
    for name, mark in _by_heading(scenario, result):
        if mark:
            points = f"{number(mark.points)} of {number(mark.most)}"
            lines.append(f"| {name} | {mark.value} | {mark.expected} | {mark.possible or '-'} | {points} |")
    if result.clusters and (where := result.clusters[0].where):
        lines += ["", "Where the pods went:", ""]
        lines += [f"- {node or 'no node'}: {', '.join(pods)}" for node, pods in where]
    if any("hidden" in mark.value for mark in result.marks):
        lines += ["", "`hidden`: the value is that on another cluster of the same kind, with other names."]
    return "".join(f"{escaped(line)}\n" for line in lines)


def _body(result: HandInResult) -> Json:
    return {
        "policy": result.hand_in.name,
        "student": result.hand_in.student,
        "points": result.points,
        "of": result.most,
        "why": result.why,
        "marks": [
            {
                "what": mark.what,
                "value": mark.value,
                "expected": mark.expected,
                "possible": mark.possible or None,
                "good": mark.good,
                "points": round(mark.points, 2),
                "of": mark.most,
            }
            for mark in result.marks
        ],
        "pods": dict(result.clusters[0].where) if result.clusters else {},
        "hidden_clusters": sum(each.is_hidden for each in result.clusters),
    }


def _by_heading(scenario: Scenario, result: HandInResult) -> list[tuple[str, Mark | None]]:
    """The marks by the open cluster's headings; None if there are none."""
    headings = expectations(scenario)
    return list(zip(headings, result.marks or [None] * len(headings), strict=True))


def cell(text: str) -> str:
    """A text that a spreadsheet doesn't take for a formula."""
    text = escaped(text)
    return f"'{text}" if text.startswith(("=", "+", "-", "@")) else text


def _json(body: Json) -> str:
    return json.dumps(body, indent=2) + "\n"
