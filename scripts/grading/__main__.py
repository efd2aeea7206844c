"""`scripts/grade`: what students' policies come to."""

import os
import sys
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import track

from lib.questions.errors import QuestionError
from scripts.grading.contest import FILE as CONTEST, Contest, Entry
from scripts.grading.hand_in import grade_all, hand_ins, shapes_of
from scripts.grading.kernel import has_walls
from scripts.grading.outputs import FOR_ONE, OUTPUTS, ResultFormat, report
from scripts.grading.ranking import beats, page, ranking
from scripts.grading.scenario import Scenario, ScenarioError
from scripts.grading.trial import Limits

NO_WALLS = (
    "scripts/grade: this machine's kernel can't confine policies (Linux 5.13 or newer can, with Landlock)."
    " Python refuses them files, programs and the network, and a skilled student gets around that. Grade in a"
    " container on Linux, or only policies that you have read."
)

AS_ROOT = (
    "scripts/grade: it runs as root. The kernel limits no threads for root, so a policy can start very many."
    " Grade as another user."
)

app = typer.Typer(add_completion=False, rich_markup_mode=None, pretty_exceptions_enable=False)


@app.command()
def grade(
    policies: Annotated[list[Path], typer.Argument(metavar="POLICY.py...", help="Files, one a student.")],
    scenario: Annotated[Path, typer.Option(help="A folder with scenario.yaml, or a contest's.")],
    seed: Annotated[int, typer.Option(help="The same seed gives the same result.")] = 1,
    hidden: Annotated[
        int | None,
        typer.Option(
            min=0, help="On how many hidden clusters.", show_default="what the scenario says, usually 2"
        ),
    ] = None,
    seconds: Annotated[int, typer.Option(min=1, help="Computing time that each may take.")] = 10,
    memory: Annotated[int, typer.Option(min=64, help="Memory that each may take, in MiB.")] = 1024,
    output: Annotated[
        ResultFormat, typer.Option("--output", "-o", help="autolab and gradescope are for one policy.")
    ] = ResultFormat.TABLE,
    as_csv: Annotated[bool, typer.Option("--csv", help="The same as --output csv.")] = False,
    reports: Annotated[
        Path | None, typer.Option(help="Write a page for each student into this folder.")
    ] = None,
) -> None:
    """Run students' policies on a scenario, and show what each comes to.

    The first row is poller without a policy. Exit 0: all have all points. 3: some don't.

    In a contest, whose folder has replay.yaml, each replays a trace, and a figure of the replay is its score:
    the table has all policies with their places. Exit 0: all beat the policy that is to be beaten.

    A policy has to do as well on hidden clusters: these differ from the open one by names, by prices, and by
    amounts of cpu and memory.

    Each policy runs in a process of its own, which only answers filter and score; pods are placed, checked
    and marked here. It can't read files, start programs or use the network: on Linux the kernel keeps it from
    that, elsewhere Python only.
    """
    if not has_walls():
        typer.echo(NO_WALLS, err=True)
    elif os.geteuid() == 0:
        typer.echo(AS_ROOT, err=True)
    output = ResultFormat.CSV if as_csv else output
    if output in FOR_ONE and len(policies) != 1:
        raise typer.BadParameter(f"{output} is for one policy", param_hint="--output")
    if (scenario / CONTEST).is_file():
        raise typer.Exit(play(scenario, policies, seed, Limits(seconds, memory), output, reports))
    try:
        read = Scenario(scenario)
        clusters = read.hidden.clusters if hidden is None else hidden
        console = Console(stderr=True)
        with console.status("hidden clusters") as status:
            shapes = shapes_of(read, seed, clusters, status.update)
        found = grade_all(read, hand_ins(policies), seed, Limits(seconds, memory), shapes)
        results = [*track(found, "grading", len(policies) + 1, console=console, transient=True)]
    except (ScenarioError, QuestionError) as error:
        raise typer.BadParameter(str(error), param_hint="--scenario") from None
    sys.stdout.write(OUTPUTS[output](read, results))
    if reports:
        write_reports({each.hand_in.student: report(read, each) for each in results[1:]}, reports)
    raise typer.Exit(0 if all(each.points == each.most for each in results[1:]) else 3)


def play(
    scenario: Path,
    policies: list[Path],
    seed: int,
    limits: Limits,
    output: ResultFormat,
    reports: Path | None,
) -> int:
    """Play a contest, and show who has which place. Returns the exit status."""
    if output in FOR_ONE:
        raise typer.BadParameter(f"{output} isn't for contests", param_hint="--output")
    try:
        contest = Contest(scenario)
    except (ScenarioError, QuestionError) as error:
        raise typer.BadParameter(str(error), param_hint="--scenario") from None
    total = len(policies) + bool(contest.beat)
    steps = contest.play(hand_ins(policies), seed, limits)
    console = Console(stderr=True)
    entries = [*track(steps, "replaying", total, console=console, transient=True)]
    sys.stdout.write(ranking(contest, entries, output))
    if reports:
        write_reports({each.hand_in.student: page(contest, each, entries) for each in own(entries)}, reports)
    return 0 if all(each.to_beat or beats(contest, each, entries) for each in entries) else 3


def own(entries: list[Entry]) -> list[Entry]:
    """Those of students."""
    return [each for each in entries if not each.to_beat]


def write_reports(pages: dict[str, str], folder: Path) -> None:
    """Write STUDENT.md for each student."""
    folder.mkdir(parents=True, exist_ok=True)
    for student, text in pages.items():
        (folder / f"{student.replace('/', '_')}.md").write_text(text)


if __name__ == "__main__":
    app(prog_name="scripts/grade")
