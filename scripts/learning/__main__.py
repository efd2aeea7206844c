"""`scripts/learn`: starts a cluster and a shell; in there, `learn` shows the page and checks tasks."""

import os
import shlex
import shutil
import subprocess
from typing import Annotated

import typer
from rich.console import Console

from scripts.learning.bash import Bash, ShellError
from scripts.learning.checks import CHECKS
from scripts.learning.lab import Lab, LabError, NotYetError, eventually
from scripts.learning.markdown import Page
from scripts.learning.pages import Step, lessons
from scripts.learning.progress import Progress, find
from scripts.learning.session import FOLDER, current_cluster, lab_of, own_cluster, run_shell
from scripts.servers.process import ROOT

PROGRESS = FOLDER / "progress.json"
PATIENCE = 3.0  # seconds; a check waits so long for changes that have begun

app = typer.Typer(add_completion=False, rich_markup_mode=None, pretty_exceptions_enable=False)
console = Console(highlight=False)
LESSONS = lessons()


@app.callback(invoke_without_command=True)
def start(
    context: typer.Context,
    cluster: Annotated[bool, typer.Option("--cluster", help="Use the current kubectl context.")] = False,
) -> None:
    """Learn scheduling, in eleven lessons, on a small cluster of the lab's own.

    Without a command: start the cluster and a shell; in that shell, show the page again. The commands are
    for that shell, where `learn` is short for scripts/learn.
    """
    if context.invoked_subcommand:
        return
    if lab_of(os.environ):
        show(Progress.load(PROGRESS, LESSONS).current(LESSONS))
        return
    FOLDER.mkdir(exist_ok=True)
    if cluster:
        console.print(
            "The lessons make and delete pods in the namespace default of this cluster, cordon nodes, and put"
            " labels and taints on them. Take a cluster that you can throw away."
        )
        typer.confirm("Use the cluster of the current kubectl context?", abort=True)
    with current_cluster() if cluster else own_cluster() as environment:
        lab = lab_of(environment)
        assert lab
        prepare(lab, Progress.load(PROGRESS, LESSONS).current(LESSONS), environment)
        run_shell(environment)
        lab.reset()
    console.print("Until next time. [bold]scripts/learn[/bold] goes on where you are.")


@app.command("next")
def go_on() -> None:
    """Look whether the task is done; if it is, or there is none, go on to the next step."""
    lab, progress = the_lab(), Progress.load(PROGRESS, LESSONS)
    step = progress.current(LESSONS)
    if step.check:
        try:
            seen = eventually(lambda: CHECKS[step.check](lab), PATIENCE)
        except NotYetError as error:
            console.print(f"[bold yellow]Not yet:[/] {error}.", soft_wrap=True)
            console.print("[dim]learn hint helps; learn again starts the step over[/]")
            raise typer.Exit(1) from None
        console.print(f"[bold green]Seen:[/] {seen}", soft_wrap=True)
    following = progress.advance(LESSONS)
    progress.save(PROGRESS)
    if following is None:
        console.print("[bold]That was the last lesson.[/] Leave this shell with [bold]exit[/].")
        return
    if following.number == 1:
        console.print(f"[bold]Lesson {step.lesson.number} is done.[/] The cluster is made as good as new …")
        lab.reset()
    show(following)


@app.command()
def hint() -> None:
    """Show one hint more; the last one is a solution."""
    progress = Progress.load(PROGRESS, LESSONS)
    hints = progress.current(LESSONS).hints
    if not hints:
        console.print("There is no task here: [bold]learn next[/] goes on.")
        return
    progress.hints = min(progress.hints + 1, len(hints))
    progress.save(PROGRESS)
    last = progress.hints == len(hints)
    heading = "A solution" if last else f"Hint {progress.hints} of {len(hints) - 1}"
    console.print(f"[bold]{heading}[/]")
    console.print(Page(hints[progress.hints - 1]))
    if last:
        console.print("[dim]learn run does this[/]")


@app.command()
def again() -> None:
    """Start this step over, on a cluster that is as it was when the step began."""
    progress = Progress.load(PROGRESS, LESSONS)
    progress.hints = 0
    progress.save(PROGRESS)
    prepare(the_lab(), progress.current(LESSONS), {})
    show(progress.current(LESSONS))


@app.command()
def at(lesson: int, step: Annotated[int, typer.Argument()] = 1) -> None:
    """Go to a lesson, or to one of its steps."""
    try:
        target = find(LESSONS, lesson, step)
    except LookupError as error:
        raise typer.BadParameter(str(error)) from None
    prepare(the_lab(), target, {})
    Progress(lesson, step).save(PROGRESS)
    show(target)


@app.command("list")
def contents() -> None:
    """Show all lessons, and where you are."""
    here = Progress.load(PROGRESS, LESSONS)
    for lesson in LESSONS:
        mark = "->" if lesson.number == here.lesson else "  "
        step = f"  (step {here.step} of {len(lesson.steps)})" if lesson.number == here.lesson else ""
        console.print(f"{mark} {lesson.number:2}  {lesson.title}{step}")


@app.command()
def commands() -> None:
    """Print the commands of this step, which `learn run` runs, and what shows each before it runs."""
    progress = Progress.load(PROGRESS, LESSONS)
    step = progress.current(LESSONS)
    solution_was_shown = step.hints and progress.hints == len(step.hints)
    parts = [step.solution] if solution_was_shown else [block.commands for block in step.blocks]
    for part in parts:
        shown = "\n".join(f"$ {line}" for line in part.splitlines())
        print(f"printf '\\033[2m%s\\033[0m\\n' {shlex.quote(shown)}")
        print(part)


def the_lab() -> Lab:
    """The cluster of this shell."""
    lab = lab_of(os.environ)
    if not lab:
        raise LabError("this works in the lab's shell only: start it with scripts/learn")
    return lab


def prepare(lab: Lab, step: Step, environment: dict[str, str]) -> None:
    """Make the cluster as it is when a step begins: do what the lesson asks for before it."""
    before = step.lesson.steps[: step.number - 1]
    with console.status("making the cluster as it was when this step began …" if before else "cleaning up …"):
        lab.reset()
        for log in FOLDER.glob("*.log"):  # from an earlier try
            log.unlink()
        with Bash(environment, ROOT) as bash:
            for each in before:
                for commands in [*(block.commands for block in each.blocks), each.solution]:
                    bash.run(commands)


def show(step: Step) -> None:
    """Show a step's page; through `less` when it is longer than the screen."""
    text = Page(step.text)
    where = f"lesson {step.lesson.number}, step {step.number} of {len(step.lesson.steps)}"
    what = "do the task, then: learn next · learn hint" if step.check else "learn next"
    footer = f"[dim]{where} · {what} · learn run · learn again · learn list[/]"
    lines = len(console.render_lines(text))
    if not console.is_terminal or lines + 2 < console.height or not shutil.which("less"):
        console.print(text)
    else:
        with console.capture() as capture:
            console.print(text)
        # -F, -E: less exits at the end of the page. -X: the page stays on the screen. -R: colours.
        subprocess.run(
            ["less", "-EFRX", "-Psspace\\: more, q\\: to the shell "], input=capture.get().encode()
        )
    console.print()
    console.print(footer)


def main() -> None:
    """Run a command; an error is printed in one line."""
    try:
        app()
    except (LabError, ShellError) as error:
        Console(stderr=True, highlight=False).print(f"learn: {error}", style="red", soft_wrap=True)
        raise SystemExit(1) from None


if __name__ == "__main__":
    main()
