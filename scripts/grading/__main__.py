"""`scripts/grade`: a row for each policy."""

import csv
import os
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import track
from rich.table import Table

from scripts.grading.marks import Marks, expectations, mark
from scripts.grading.scenario import Scenario, ScenarioError
from scripts.grading.trial import Limits, run

NO_POLICY = "(no policy)"

app = typer.Typer(add_completion=False, rich_markup_mode=None, pretty_exceptions_enable=False)


@app.command()
def grade(
    policies: Annotated[list[Path], typer.Argument(metavar="POLICY.py...", help="Files, one a student.")],
    scenario: Annotated[Path, typer.Option(help="A folder with scenario.yaml, cluster.yaml and pods.yaml.")],
    seed: Annotated[int, typer.Option(help="The same seed gives the same result.")] = 1,
    seconds: Annotated[int, typer.Option(min=1, help="Computing time that each may take.")] = 20,
    memory: Annotated[int, typer.Option(min=64, help="Memory that each may take, in MiB.")] = 1024,
    as_csv: Annotated[bool, typer.Option("--csv", help="Comma-separated values instead of a table.")] = False,
) -> None:
    """Run students' policies on a scenario, and show what each comes to.

    The first row is poller without a policy. Exit 0: all meet all expectations. 3: some don't.

    Each policy runs in a process of its own, which only answers filter and score; pods are placed, checked
    and marked here. It can't read files, start programs or use the network by Python's own means. Run
    policies of people that you don't trust in a container all the same.
    """
    try:
        read = Scenario(scenario)
    except ScenarioError as error:
        raise typer.BadParameter(str(error), param_hint="--scenario") from None
    limits, names = Limits(seconds, memory), short_names(policies)
    console = Console(stderr=True)

    def of(policy: Path | None) -> Marks:
        return graded(read, policy, names[policy] if policy else NO_POLICY, seed, limits)

    with ThreadPoolExecutor(cores()) as side_by_side:
        found = side_by_side.map(of, [None, *policies])
        rows = [*track(found, "grading", len(policies) + 1, console=console, transient=True)]
    (show_csv if as_csv else show_table)(read, rows)
    raise typer.Exit(0 if all(row.marks and row.points == len(row.marks) for row in rows[1:]) else 3)


def short_names(policies: list[Path]) -> dict[Path, str]:
    """The file names, if they all differ; else the whole paths."""
    unique = len({policy.name for policy in policies}) == len(set(policies))
    return {policy: policy.name if unique else str(policy) for policy in policies}


def cores() -> int:
    """How many processes can compute at the same time."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def graded(scenario: Scenario, policy: Path | None, name: str, seed: int, limits: Limits) -> Marks:
    """Run a policy, and mark the result."""
    trial = run(scenario, policy, seed, limits)
    return mark(scenario, name, trial.answer) if trial.answer else Marks(name, problem=trial.problem)


def show_table(scenario: Scenario, rows: list[Marks]) -> None:
    """Print a row for each policy; values that aren't as expected are marked."""
    headings = expectations(scenario)
    table = Table(box=None, pad_edge=False, header_style="dim")
    table.add_column("policy", no_wrap=True)
    for heading in [*headings, "points"]:
        table.add_column(heading, justify="right")
    for row in rows:
        values = [f"{each.value} {'✓' if each.good else '✗'}" for each in row.marks]
        points = f"{row.points}/{len(headings)}"
        table.add_row(row.policy, *(values or [""] * len(headings)), points)
    console = Console(highlight=False, markup=False)
    console.print(scenario.title, style="bold")
    console.print(table)
    for row in rows:
        if row.problem:
            console.print(f"{row.policy}: {row.problem}", soft_wrap=True)


def show_csv(scenario: Scenario, rows: list[Marks]) -> None:
    """Print the same for programs."""
    headings = expectations(scenario)
    writer = csv.writer(sys.stdout, lineterminator="\n")
    writer.writerow(["policy", *headings, "points", "of", "problem"])
    for row in rows:
        values = [each.value for each in row.marks] or [""] * len(headings)
        writer.writerow([row.policy, *values, row.points, len(headings), row.problem])


if __name__ == "__main__":
    app(prog_name="scripts/grade")
