"""`scripts/learn`: starts a cluster and a shell; in there, `learn` shows the page and checks tasks."""

import os
import shutil
import subprocess
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.markup import escape

from scripts.learning import page as browser, report as reports, slides as teaching
from scripts.learning.bash import Bash, ShellError
from scripts.learning.checks import CHECKS
from scripts.learning.folder import PROGRESS, pages_folder, remove_logs
from scripts.learning.keeper import session
from scripts.learning.lab import Lab, LabError, NotYetError, eventually
from scripts.learning.made import check_made
from scripts.learning.markdown import COLOURS, LessonText
from scripts.learning.pages import Step, lessons
from scripts.learning.progress import Progress, find, following, preceding
from scripts.learning.session import lab_of, run_shell, schedulers_of_shells
from scripts.servers.process import ending_with_all_it_starts

PATIENCE = 3.0  # seconds; a check waits so long for changes that have begun

app = typer.Typer(add_completion=False, rich_markup_mode=None, pretty_exceptions_enable=False)
console = Console(highlight=False, theme=COLOURS)
LESSONS = lessons()


@app.callback(invoke_without_command=True)
def start(
    context: typer.Context,
    cluster: Annotated[bool, typer.Option("--cluster", help="Use the current kubectl context.")] = False,
) -> None:
    """Learn scheduling, in lessons, most of 10 to 20 minutes, on a small cluster of the lab's own.

    Without a command: start the cluster and a shell; in that shell, show the page again. In a second
    terminal, scripts/learn gives another shell for the same cluster. The commands are for these shells, where
    `learn` is short for scripts/learn.
    """
    if context.invoked_subcommand:
        return
    if lab_of(os.environ):
        show(Progress.load(PROGRESS, LESSONS).current(LESSONS))
        return
    if cluster:
        console.print(
            "The lessons make and delete pods in the namespace default of this cluster, cordon nodes, and put"
            " labels and taints on them. Take a cluster that you can throw away."
        )
        typer.confirm("Use the cluster of the current kubectl context?", abort=True)
    with session(of_current_context=cluster) as lab_session:
        if lab_session.joined:
            console.print(
                "[bold]This terminal joins the lab that runs already:[/] same cluster, same progress."
            )
        else:
            lab = lab_of(lab_session.environment)
            assert lab
            tell(prepare(lab, Progress.load(PROGRESS, LESSONS).current(LESSONS), lab_session.environment))
        run_shell(lab_session.environment)
    console.print("Until next time. [bold]scripts/learn[/bold] goes on where you are.")


@app.command("next")
def go_on() -> None:
    """Check the task, and go on to the next step if it is done."""
    lab, progress = the_lab(), Progress.load(PROGRESS, LESSONS)
    step = progress.current(LESSONS)
    to = following(LESSONS, step)
    try:
        eventually(lambda: check_made(lab, step.made, os.environ), PATIENCE)
        if step.check:
            progress.task().tries += 1
            seen = eventually(lambda: CHECKS[step.check](lab), PATIENCE)
            console.print(f"[bold green]Seen:[/] {escape(seen)}", soft_wrap=True)
            progress.solved()
            progress.save(PROGRESS)
        if to is None or to.number == 1:
            check_nothing_runs()
    except NotYetError as error:
        progress.save(PROGRESS)
        end = "" if str(error).endswith("?") else "."
        console.print(f"[bold magenta]Not yet:[/] {escape(str(error))}{end}", soft_wrap=True)
        if isinstance(error, StillRunsError):
            raise typer.Exit(1) from None
        helps = (
            "learn hint helps; learn again"
            if step.check
            else "learn run does what the page says; learn again"
        )
        console.print(f"[dim]{helps} starts the step over[/]")
        raise typer.Exit(1) from None
    if to is None:
        console.print("[bold]That was the last lesson.[/] Leave this shell with [bold]exit[/].")
        return
    progress.go_to(to)
    progress.save(PROGRESS)
    if to.number == 1:
        console.print(f"[bold]Lesson {step.lesson.number} is done.[/] The cluster is made as good as new …")
        lab.reset()
        remove_logs()
    else:
        for pid, name in schedulers_of_shells().items():
            console.print(f"[dim]({name} still runs, as process {pid}.)[/]")
    show(to)


class StillRunsError(NotYetError):
    """A scheduler still runs, and would place the next lesson's pods."""


def check_nothing_runs() -> None:
    """StillRunsError if a scheduler runs in a shell of the lab."""
    if running := schedulers_of_shells():
        named = " and ".join(f"{name} (process {pid})" for pid, name in running.items())
        ids = " ".join(map(str, running))
        raise StillRunsError(
            f"{named} still runs, and would place the pods of the next lesson. End it: kill %1, or kill"
            f" {ids}; in another terminal, Ctrl-C"
        )


@app.command()
def back() -> None:
    """Show the page of the step before this one. The cluster stays as it is."""
    progress = Progress.load(PROGRESS, LESSONS)
    to = preceding(LESSONS, progress.current(LESSONS))
    if to is None:
        console.print("This is the first step of all.")
        return
    progress.go_to(to)
    progress.save(PROGRESS)
    show(to)
    console.print("[dim]The cluster is as you left it; learn again makes it as it was at this step.[/]")


@app.command()
def hint() -> None:
    """Show one hint more; the last one is a solution."""
    progress = Progress.load(PROGRESS, LESSONS)
    hints = progress.current(LESSONS).hints
    if not hints:
        console.print("There is no task here: [bold]learn next[/] goes on.")
        return
    progress.hints = min(progress.hints + 1, len(hints))
    if not progress.task().solved:
        progress.task().hints = max(progress.task().hints, progress.hints)
    progress.save(PROGRESS)
    last = progress.hints == len(hints)
    heading = "A solution" if last else f"Hint {progress.hints} of {len(hints) - 1}"
    console.print(f"[bold]{heading}[/]")
    console.print(LessonText(hints[progress.hints - 1]), crop=False)
    if last:
        console.print("[dim]learn run does this[/]")


@app.command()
def run() -> None:
    """Type this step's commands for you.

    They are those of the page, or of the solution once you have seen it. If the page asks for a
    prediction, you say it first.
    """
    the_lab()
    progress = Progress.load(PROGRESS, LESSONS)
    step = progress.current(LESSONS)
    solution_was_shown = step.hints and progress.hints == len(step.hints)
    if solution_was_shown and not progress.task().solved:
        progress.task().ran = True
        progress.save(PROGRESS)
    parts = [step.solution] if solution_was_shown else [block.commands for block in step.blocks]
    if not parts:
        console.print("This page has no commands to run.")
    said = "" if solution_was_shown else predicted(step)
    told: list[str] = []
    with pages_folder(told, with_files=True) as folder:
        for part in parts:
            for line in part.splitlines():
                console.print(f"$ {line}", style="dim", markup=False, soft_wrap=True)
            command = ["bash", "--norc", "--noprofile", "-c", part]
            with ending_with_all_it_starts(command, cwd=folder) as bash:
                bash.wait()
    tell(told)
    if said:
        console.print(f"[bold]You said:[/] {escape(said)}", soft_wrap=True)


def predicted(step: Step) -> str:
    """What the student answers to the page's question; empty if there is none, or no answer."""
    if not step.question:
        return ""
    console.print(LessonText(f"**Predict:** {step.question}"))
    try:
        return console.input("> ").strip()
    except EOFError:
        return ""


@app.command()
def again() -> None:
    """Start this step over. The cluster is as when it began; your files stay."""
    progress = Progress.load(PROGRESS, LESSONS)
    progress.hints = 0
    progress.save(PROGRESS)
    told = prepare(the_lab(), progress.current(LESSONS), {})
    show(progress.current(LESSONS))
    tell(told)


@app.command()
def at(where: Annotated[list[str], typer.Argument(metavar="LESSON[.STEP]")]) -> None:
    """Go to a lesson, or to one of its steps: learn at 6, learn at 6.2."""
    numbers = ".".join(where).split(".")
    if len(numbers) > 2 or not all(each.isdecimal() for each in numbers):
        raise typer.BadParameter(f"{' '.join(where)} is no lesson: say learn at 6, or learn at 6.2")
    lesson, step = map(int, [*numbers, "1"][:2])
    try:
        target = find(LESSONS, lesson, step)
    except LookupError as error:
        raise typer.BadParameter(str(error)) from None
    told = prepare(the_lab(), target, {})
    progress = Progress.load(PROGRESS, LESSONS)
    progress.go_to(target)
    progress.save(PROGRESS)
    show(target)
    tell(told)


@app.command("list")
def contents() -> None:
    """Show all lessons, where you are, and which tasks you have solved."""
    here = Progress.load(PROGRESS, LESSONS)
    marks = {"alone": "✓", "with the solution": "s", "learn run": "r", "": "-"}
    for lesson in LESSONS:
        arrow = "->" if lesson.number == here.lesson else "  "
        step = f"  (step {here.step} of {len(lesson.steps)})" if lesson.number == here.lesson else ""
        tasks = [each for each in lesson.steps if each.check]
        numbers = [f"{lesson.number}.{each.number}" for each in tasks]
        found = [
            reports.by(each, here.tasks[n]) if n in here.tasks else ""
            for n, each in zip(numbers, tasks, strict=True)
        ]
        ticks = "".join(marks[each] for each in found)
        console.print(f"{arrow} {lesson.number:2}  {ticks:3} {lesson.title}{step}", soft_wrap=True)
    console.print(
        "[dim]✓ a task solved by yourself, s after you saw the solution, r by learn run, - not yet[/]"
    )


@app.command()
def report(
    files: Annotated[list[Path] | None, typer.Argument(help="For a class: students' progress.json.")] = None,
    csv: Annotated[bool, typer.Option("--csv", help="A line for each student and task, as CSV.")] = False,
) -> None:
    """Show which tasks you have solved, or the students of a class.

    It says whether alone, with how many hints, and when. A student hands in .lab/progress.json, as ann.json
    or ann/progress.json.
    """
    missing = [str(each) for each in files or () if not each.is_file()]
    if missing:
        raise typer.BadParameter(f"there is no file {', '.join(missing)}")
    if files or csv:
        problems = reports.many(console, files or [PROGRESS], LESSONS, as_csv=csv)
        for problem in problems:
            typer.echo(f"learn report: {problem}", err=True)
        if problems:
            raise typer.Exit(1)
    else:
        reports.one(console, Progress.load(PROGRESS, LESSONS), LESSONS)


@app.command()
def slides(
    file: Annotated[Path, typer.Argument(help="Where to write it.")],
) -> None:
    """For a teacher: write the lecture as slides, in one HTML file.

    It prints, too.
    """
    file.write_text(teaching.slides())
    console.print(f"{file}: arrows go on and back, n shows what to say; printed, each slide is a page")


@app.command()
def answers() -> None:
    """For a teacher: print the expected answers, as Markdown."""
    print(teaching.answers(LESSONS), end="")


@app.command()
def page() -> None:
    """Show pods, nodes and decisions in the browser. It places no pods."""
    the_lab()
    with console.status("starting the page …"):
        url = browser.address()
    opened = browser.open_in_browser(url)
    console.print("The page is open in your browser:" if opened else "Open this address in a browser:")
    console.print(url, style="bold", soft_wrap=True)


def the_lab() -> Lab:
    """The cluster of this shell."""
    lab = lab_of(os.environ)
    if not lab:
        raise LabError("this works in the lab's shell only: start it with scripts/learn")
    return lab


def prepare(lab: Lab, step: Step, environment: dict[str, str]) -> list[str]:
    """Make the cluster as it is when a step begins: do what the lesson asks for before it.

    What is returned is to be told: what has become of files that the lesson writes.
    """
    before = step.lesson.steps[: step.number - 1]
    told: list[str] = []
    with console.status("making the cluster as it was when this step began …" if before else "cleaning up …"):
        lab.reset()
        remove_logs()
        with pages_folder(told, with_files=False) as folder, Bash(environment, folder) as bash:
            for each in before:
                for commands in [*(block.commands for block in each.blocks), each.solution]:
                    bash.run(commands)
    return told


def tell(sentences: list[str]) -> None:
    """Say what has become of a page's files."""
    for each in sentences:
        console.print(each, style="magenta", soft_wrap=True)


def show(step: Step) -> None:
    """Show a step's page; through `less` when it is longer than the screen."""
    text = LessonText(step.text)
    where = f"lesson {step.lesson.number}, step {step.number} of {len(step.lesson.steps)}"
    what = "do the task, then learn next (or hint" if step.check else "learn next goes on (or back"
    footer = f"[dim]{where}: {what}, run, again, list, --help)[/]"
    lines = len(console.render_lines(text))
    if not console.is_terminal or lines + 2 < console.height or not shutil.which("less"):
        console.print(text, crop=False)
    else:
        with console.capture() as capture:
            console.print(text, crop=False)
        # -F, -E: less exits at the end of the page. -X: the page stays on the screen. -R: colours.
        subprocess.run(
            ["less", "-EFRX", "-Psspace\\: more, q\\: to the shell "], input=capture.get().encode()
        )
    console.print()
    console.print(footer)


def main() -> None:
    """Run a command; an error is printed in one line."""
    try:
        app(prog_name="learn")
    except (LabError, ShellError) as error:
        Console(stderr=True, highlight=False).print(f"learn: {error}", style="red", soft_wrap=True)
        raise SystemExit(1) from None


if __name__ == "__main__":
    main()
