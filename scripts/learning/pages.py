"""Lessons: pages of Markdown, in steps, with commands, their output, tasks and hints.

A page is plain Markdown, to be read anywhere. `## ` begins a step. A block of `sh` holds commands, and a
block of `text` right behind it their output. There `...` on a line of its own stands for any lines. With
the word `any-node` behind `text` the names of nodes may differ, with `any-order` the order of lines, and
with `example` everything. A comment `<!-- check: NAME -->` makes a step a task, which a function in checks.py
checks, and `<!-- made: ITEMS -->` says what a step's commands make (made.py). A task's hints are `<details>`
with the summary Hint, and the one with the summary Solution holds commands that solve it. A paragraph that
begins with **Predict:** is a question about what the step's commands will show.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

LESSONS = Path(__file__).resolve().parent.parent / "lab"

_FENCE = re.compile(r"^```(?P<kind>\w+)(?P<flags>[^\n]*)\n(?P<content>.*?)^```$", re.M | re.S)
_DETAILS = re.compile(
    r"^<details><summary>(?P<summary>\w+)</summary>\n(?P<content>.*?)^</details>\n*", re.M | re.S
)
_CHECK = re.compile(r"^<!-- check: (?P<name>\w+) -->\n*", re.M)
_PREDICT = re.compile(r"^\*\*Predict:\*\* (?P<question>.*?)\n\n", re.M | re.S)
_MADE = re.compile(r"^<!-- made: (?P<items>.*?) -->\n*", re.M | re.S)


@dataclass(frozen=True)
class Block:
    """Commands as printed, and their output; None where the page has none.

    flags: the words behind `text`. span: where in the page that text is.
    """

    commands: str
    shows: str | None = None
    flags: frozenset[str] = frozenset()
    span: tuple[int, int] = (0, 0)


@dataclass(frozen=True)
class Step:
    """A part of a page. check: the name of the task's check, empty where there is no task."""

    lesson: "Lesson"
    number: int
    title: str
    source: str
    start: int

    @cached_property
    def text(self) -> str:
        """The Markdown that is shown: without hints and comments."""
        return _MADE.sub("", _CHECK.sub("", _DETAILS.sub("", self.source))).strip() + "\n"

    @cached_property
    def blocks(self) -> list[Block]:
        """The commands of the step, outside of hints, in order."""
        # Hints are replaced by blanks, so that positions in the text stay the same.
        return list(_blocks(_DETAILS.sub(lambda found: " " * len(found[0]), self.source), self.start))

    @property
    def check(self) -> str:
        """The name of the task's check."""
        found = _CHECK.search(self.source)
        return found["name"] if found else ""

    @property
    def question(self) -> str:
        """What the student is to predict before the commands run; empty if there is nothing."""
        found = _PREDICT.search(self.source)
        return " ".join(found["question"].split()) if found else ""

    @property
    def made(self) -> list[str]:
        """What the step's commands make, as made.py checks it."""
        found = _MADE.search(self.source)
        return [" ".join(item.split()) for item in found["items"].split(",")] if found else []

    @property
    def hints(self) -> list[str]:
        """The hints for the task, in order; the solution is the last."""
        return [found["content"].strip() for found in _DETAILS.finditer(self.source)]

    @property
    def solution(self) -> str:
        """The commands that solve the task."""
        parts = [
            found["content"] for found in _DETAILS.finditer(self.source) if found["summary"] == "Solution"
        ]
        return "\n".join(block.commands for part in parts for block in _blocks(part, 0))


@dataclass(frozen=True)
class Lesson:
    """A page: `01-a-pending-pod.md` is lesson 1."""

    path: Path

    @property
    def number(self) -> int:
        """Its number among the lessons, from 1 on."""
        return int(self.path.name.partition("-")[0])

    @cached_property
    def source(self) -> str:
        """The page's Markdown."""
        return self.path.read_text()

    @property
    def title(self) -> str:
        """The page's heading, without its number."""
        return self.source.partition("\n")[0].removeprefix("# ").partition(". ")[2]

    @cached_property
    def steps(self) -> list[Step]:
        """The steps; the text above the first `## ` belongs to the first."""
        starts = [found.start() for found in re.finditer("^## ", self.source, re.M)]
        starts, ends = [0, *starts[1:]], [*starts[1:], len(self.source)]
        steps = []
        for number, (start, end) in enumerate(zip(starts, ends, strict=True), 1):
            source = self.source[start:end]
            heading = re.search("^## (.*)$", source, re.M)
            steps.append(Step(self, number, heading[1] if heading else self.title, source, start))
        return steps


def lessons() -> list[Lesson]:
    """All lessons in order."""
    return [Lesson(path) for path in sorted(LESSONS.glob("[0-9][0-9]-*.md"))]


def _blocks(source: str, start: int) -> Iterator[Block]:
    """The blocks of commands, each with its output. start: where the source begins in its page."""
    commands, end = "", 0
    for fence in _FENCE.finditer(source):
        if fence["kind"] == "text" and commands and not source[end : fence.start()].strip():
            span = start + fence.start("content"), start + fence.end("content")
            yield Block(commands, fence["content"], frozenset(fence["flags"].split()), span)
            commands = ""
            continue
        if commands:
            yield Block(commands)
        commands, end = (fence["content"], fence.end()) if fence["kind"] == "sh" else ("", 0)
    if commands:
        yield Block(commands)
