"""For tests of the lab's pages: compares outputs, and writes pages anew."""

import difflib
import re
from pathlib import Path

from scripts.learning.pages import Block, Lesson

NORMAL = (
    (r"(?m)^[\d:]+ (\S+) (would be assigned to .*)\n(?=\1: \2$)", ""),  # only the table says it on a terminal
    (r"\x1b\[[0-9;]*m", ""),
    (r"(?m)^(\[\d+\].*|.*\b(Terminated|Killed)\b.*)\n", ""),  # what bash says of jobs
    (r"\b\d\d:\d\d:\d\d\b", "TIME"),
    (r"\b[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}\b", "UID"),
    (r"(?<=-)[a-z0-9]{8,10}-[a-z0-9]{5}\b", "SUFFIX"),
    (r"\b(\d+[dhms])+\b|\b\d+(\.\d+)? s\b", "AGE"),
    (r"\b10\.\d+\.\d+\.\d+\b", "ADDRESS"),
    (r"unix://\S+/", "unix://FOLDER/"),
    (r"http://127\.0\.0\.1:\d+", "PROXY"),
    (r"\bpoller \d+\.\d+\.\d+(\+g\w+)?", "poller VERSION"),
    (r"[ \t]+", " "),
    (r"(?m)^ | $", ""),
)
"""The patterns of text that differs from run to run, and their replacements."""

PRINTED = (
    *NORMAL[:3],
    (r"http://127\.0\.0\.1:\d+", "http://127.0.0.1:8001"),
    (r"unix:///tmp/\S+/", "unix:///tmp/tmp.1234567890/"),
    (r"(\bpoller \d+\.\d+\.\d+)\+g\w+", r"\1"),
)
"""The lines of an output that don't belong on a page."""

REST = "..."


def normal(shown: str, flags: frozenset[str]) -> list[str]:
    """The lines of an output, with text that differs from run to run replaced."""
    for pattern, alike in NORMAL:
        shown = re.sub(pattern, alike, shown)
    if "any-node" in flags:
        shown = re.sub(r"\bnode[1-3]\b", "NODE", shown)
    lines = shown.strip("\n").splitlines()
    return sorted(lines) if "any-order" in flags else lines


def difference(block: Block, shown: str) -> str:
    """The difference between the page and an output; empty if there is none."""
    if block.shows is None or "example" in block.flags:
        return ""
    expected, seen = normal(block.shows, block.flags), normal(shown, block.flags)
    if _matches(expected, seen):
        return ""
    return "\n".join(difflib.unified_diff(expected, seen, "the page", "what is seen", lineterm=""))


def _matches(expected: list[str], seen: list[str]) -> bool:
    """Whether lines are the same, where `...` stands for any lines."""
    if REST not in expected:
        return expected == seen
    at = expected.index(REST)
    if expected[:at] != seen[:at]:
        return False
    rest = expected[at + 1 :]
    return any(_matches(rest, seen[start:]) for start in range(at, len(seen) + 1))


def rewrite(lesson: Lesson, seen: list[tuple[Block, str]]) -> None:
    """Replace the outputs in a page that differ from the seen ones."""
    source = lesson.path.read_text()
    for block, shown in reversed(seen):
        if REST not in (block.shows or "") and difference(block, shown):
            start, end = block.span
            clean = shown
            for pattern, instead in PRINTED:
                clean = re.sub(pattern, instead, clean)
            lines = [line.rstrip() for line in clean.strip("\n").splitlines()]
            source = source[:start] + "".join(f"{line}\n" for line in lines) + source[end:]
    Path(lesson.path).write_text(source)
