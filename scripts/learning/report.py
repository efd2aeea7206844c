"""What a student has solved, for the student and for the teacher: from the file `.lab/progress.json`."""

import csv
import sys
from collections.abc import Sequence
from pathlib import Path

from rich import markup
from rich.console import Console
from rich.table import Table

from lib.kube.escaping import escaped
from scripts.learning.pages import Lesson, Step
from scripts.learning.progress import Progress, ProgressError, Task

FORMULA = ("=", "+", "-", "@")
"""With these a spreadsheet's formulas begin."""

COLUMNS = ("student", "lesson", "step", "task", "solved", "by", "hints", "tries", "when")


def tasks(lessons: Sequence[Lesson]) -> list[Step]:
    """All tasks, in order."""
    return [step for lesson in lessons for step in lesson.steps if step.check]


def by(step: Step, task: Task) -> str:
    """Who has solved a task: "alone", "with the solution" (it was shown), "learn run"; or empty."""
    if not task.solved:
        return ""
    if task.ran:
        return "learn run"
    return "with the solution" if task.hints >= len(step.hints) else "alone"


def one(console: Console, progress: Progress, lessons: Sequence[Lesson]) -> None:
    """Show a student's tasks."""
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="bold")
    for head in ("task", "", "solved by", "hints", "tries", "when"):
        table.add_column(head)
    for step in tasks(lessons):
        number = f"{step.lesson.number}.{step.number}"
        task = progress.tasks.get(number, Task())
        hints = str(min(task.hints, len(step.hints) - 1))
        when = task.solved.replace("T", " ")[:16]
        table.add_row(number, _title(step), by(step, task) or "-", hints, str(task.tries), when)
    console.print(table)
    console.print(_summary(progress, lessons))


def many(console: Console, files: Sequence[Path], lessons: Sequence[Lesson], *, as_csv: bool) -> list[str]:
    """Show what each of several students has solved: a line a student, or as CSV a line a task.

    Returns what is wrong with the files that can't be read; the other students are shown nevertheless.
    """
    students, problems = [], []
    for file in files:
        try:
            students.append((_student(file, files), Progress.read(file, lessons)))
        except (OSError, ProgressError) as error:
            problems.append(str(error))
    if as_csv:
        writer = csv.writer(sys.stdout, lineterminator="\n")
        writer.writerow(COLUMNS)
        for name, progress in students:
            for step in tasks(lessons):
                task = progress.tasks.get(f"{step.lesson.number}.{step.number}", Task())
                who = by(step, task)
                hints = min(task.hints, len(step.hints) - 1)
                place = step.lesson.number, step.number, _title(step)
                writer.writerow([name, *place, int(bool(who)), who, hints, task.tries, task.solved])
        return problems
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="bold")
    for head in ("student", "alone", "with the solution", "learn run", "of", "hints", "last solved"):
        table.add_column(head, justify="left" if head in ("student", "last solved") else "right")
    for name, progress in students:
        counts = _counts(progress, lessons)
        hints = sum(task.hints for task in progress.tasks.values())
        last = max((task.solved for task in progress.tasks.values()), default="")
        numbers = [str(counts[each]) for each in ("alone", "with the solution", "learn run")]
        table.add_row(
            markup.escape(name), *numbers, str(len(tasks(lessons))), str(hints), last.replace("T", " ")[:16]
        )
    console.print(table)
    return problems


def _title(step: Step) -> str:
    return step.title.removeprefix("Task: ")


def _student(file: Path, files: Sequence[Path]) -> str:
    """The name of the file, or of its folder if all files have one name."""
    name = file.resolve().parent.name if len({each.name for each in files}) == 1 else file.stem
    return "'" * name.startswith(FORMULA) + escaped(name)


def _counts(progress: Progress, lessons: Sequence[Lesson]) -> dict[str, int]:
    found = [by(s, progress.tasks.get(f"{s.lesson.number}.{s.number}", Task())) for s in tasks(lessons)]
    return {each: found.count(each) for each in ("alone", "with the solution", "learn run", "")}


def _summary(progress: Progress, lessons: Sequence[Lesson]) -> str:
    counts = _counts(progress, lessons)
    total = len(tasks(lessons))
    return f"{total - counts['']} of {total} tasks solved, {counts['alone']} of them alone."
