"""A student's progress, kept in a file between commands."""

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from scripts.learning.pages import Lesson, Step


@dataclass
class Progress:
    """The lesson and its step, both from 1 on, and how many hints of the step were shown."""

    lesson: int = 1
    step: int = 1
    hints: int = 0

    @classmethod
    def load(cls, file: Path, lessons: Sequence[Lesson]) -> "Progress":
        """Read the file; the first step of all if the file, or the step that it names, doesn't exist."""
        try:
            progress = cls(**json.loads(file.read_text()))
            progress.current(lessons)
        except (OSError, ValueError, TypeError, LookupError):
            return cls()
        return progress

    def save(self, file: Path) -> None:
        """Write the file."""
        file.write_text(json.dumps(asdict(self)) + "\n")

    def current(self, lessons: Sequence[Lesson]) -> Step:
        """The lesson's step. LookupError when it doesn't exist."""
        return find(lessons, self.lesson, self.step)

    def advance(self, lessons: Sequence[Lesson]) -> Step | None:
        """Go on to the next step, or the next lesson, and return it; None if this is the last step of all."""
        step = self.current(lessons)
        numbers = [lesson.number for lesson in lessons]
        if step.number < len(step.lesson.steps):
            self.step += 1
        elif self.lesson < numbers[-1]:
            self.lesson, self.step = numbers[numbers.index(self.lesson) + 1], 1
        else:
            return None
        self.hints = 0
        return self.current(lessons)


def find(lessons: Sequence[Lesson], lesson: int, step: int) -> Step:
    """A step by its numbers. LookupError when it doesn't exist; its text can be shown."""
    for each in lessons:
        if each.number == lesson:
            if 1 <= step <= len(each.steps):
                return each.steps[step - 1]
            raise LookupError(f"lesson {lesson} has {len(each.steps)} steps, no step {step}")
    raise LookupError(f"there is no lesson {lesson}: there are 1 to {lessons[-1].number}")
