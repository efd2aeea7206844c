"""A student's progress, kept in a file between commands."""

from collections.abc import Sequence
from datetime import datetime
from pathlib import Path

import msgspec

from lib.kube.bounded_files import TooMuchError, read_at_most
from scripts.learning.pages import Lesson, Step

MAX_BYTES = 1_000_000


class ProgressError(Exception):
    """A file isn't the progress of a student. The text names it, and says why."""


class Task(msgspec.Struct):
    """What became of a task.

    hints: how many were shown. tries: how often it was checked. ran: `learn run` has done it. solved: when it
    was seen to be done; empty before.
    """

    hints: int = 0
    tries: int = 0
    ran: bool = False
    solved: str = ""


class Progress(msgspec.Struct):
    """The lesson and its step, both from 1 on; how many hints of it were shown; all tasks, by LESSON.STEP."""

    lesson: int = 1
    step: int = 1
    hints: int = 0
    tasks: dict[str, Task] = {}

    @classmethod
    def load(cls, file: Path, lessons: Sequence[Lesson]) -> "Progress":
        """Read the file; if there is none, or it can't be read, begin with the first step of all."""
        try:
            return cls.read(file, lessons)
        except (OSError, ProgressError):
            return cls()

    @classmethod
    def read(cls, file: Path, lessons: Sequence[Lesson]) -> "Progress":
        """Read the file. OSError, or ProgressError when it is no progress of a student.

        If there is no such step as it names any more, its tasks are kept.
        """
        progress = _decoded(file)
        try:
            progress.current(lessons)
        except LookupError:
            progress.lesson = progress.step = 1
        return progress

    def save(self, file: Path) -> None:
        """Write the file, as a whole or not at all. One that can't be read is kept beside it."""
        file.parent.mkdir(exist_ok=True)
        if file.exists():
            try:
                _decoded(file)
            except ProgressError:
                file.replace(file.with_name("progress.unreadable.json"))
        new = file.with_name(f"{file.name}.new")
        new.write_bytes(msgspec.json.format(msgspec.json.encode(self), indent=1) + b"\n")
        new.replace(file)

    def current(self, lessons: Sequence[Lesson]) -> Step:
        """The lesson's step. LookupError when it doesn't exist."""
        return find(lessons, self.lesson, self.step)

    def task(self) -> Task:
        """The record of the current step's task."""
        return self.tasks.setdefault(f"{self.lesson}.{self.step}", Task())

    def solved(self) -> None:
        """Note that the current task is done now. The first time counts."""
        task = self.task()
        task.solved = task.solved or datetime.now().astimezone().isoformat(timespec="minutes")

    def go_to(self, step: Step) -> None:
        """Make a step the current one."""
        self.lesson, self.step, self.hints = step.lesson.number, step.number, 0


def _decoded(file: Path) -> Progress:
    try:
        progress = msgspec.json.decode(read_at_most(file, MAX_BYTES), type=Progress)
        for task in progress.tasks.values():
            if task.solved:
                datetime.fromisoformat(task.solved)
    except (msgspec.MsgspecError, TooMuchError, ValueError) as error:
        raise ProgressError(f"{file} isn't the progress of a student: {error}") from error
    return progress


def following(lessons: Sequence[Lesson], step: Step) -> Step | None:
    """The step after this one; None if this is the last step of all."""
    return _beside(lessons, step, 1)


def preceding(lessons: Sequence[Lesson], step: Step) -> Step | None:
    """The step before this one; None if this is the first step of all."""
    return _beside(lessons, step, -1)


def _beside(lessons: Sequence[Lesson], step: Step, by: int) -> Step | None:
    steps = [(each.lesson.number, each.number) for lesson in lessons for each in lesson.steps]
    at = steps.index((step.lesson.number, step.number)) + by
    return find(lessons, *steps[at]) if 0 <= at < len(steps) else None


def find(lessons: Sequence[Lesson], lesson: int, step: int) -> Step:
    """A step by its numbers. LookupError when it doesn't exist; its text can be shown."""
    for each in lessons:
        if each.number == lesson:
            if 1 <= step <= len(each.steps):
                return each.steps[step - 1]
            raise LookupError(f"lesson {lesson} has {len(each.steps)} steps, no step {step}")
    raise LookupError(f"there is no lesson {lesson}: there are 1 to {lessons[-1].number}")
