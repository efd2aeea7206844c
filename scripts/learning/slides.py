"""The lecture as slides, and the expected answers: HTML and Markdown, made from the pages themselves."""

import base64
import html
import re
from collections.abc import Sequence
from inspect import getdoc

from markdown_it import MarkdownIt
from markdown_it.token import Token

from scripts.learning.checks import CHECKS
from scripts.learning.pages import LESSONS, Lesson
from scripts.learning.report import tasks

LECTURE = LESSONS / "lecture.md"

STYLE = """
:root { color-scheme: light; }
body { margin: 0; font: 2.6vmin/1.4 system-ui, sans-serif; color: #1b2230; background: #dfe3ea; }
section { box-sizing: border-box; width: 100vw; min-height: 100vh; padding: 6vmin 9vmin; background: #fff;
  border-bottom: 1px solid #8a93a3; }
h1, h2 { color: #1f56b0; margin: 0 0 3vmin; font-size: 5vmin; } h1 { font-size: 7vmin; margin-top: 25vmin; }
img { display: block; max-width: 100%; max-height: 48vh; margin: 2vmin auto; }
pre { background: #f0f2f6; padding: 2vmin; font-size: 2.2vmin; white-space: pre-wrap; }
li { margin: 1vmin 0; }
.notes { color: #4d5768; font-size: 2vmin; border-left: 3px solid #8a93a3; padding-left: 2vmin; }
body:not(.with-notes) .notes { display: none; }
@page { size: A4 landscape; margin: 10mm; }
@media print {
  body { font-size: 12pt; background: #fff; } section { width: auto; min-height: 0; height: auto; padding: 0;
    break-after: page; border: 0; }
  h1, h2 { font-size: 22pt; } h1 { margin-top: 3cm; } pre { font-size: 10pt; }
  img { max-height: 9cm; } .notes, body:not(.with-notes) .notes { display: block; font-size: 10pt; }
}
"""

SCRIPT = """
addEventListener("keydown", (event) => {
  const all = [...document.querySelectorAll("section")];
  const now = all.findIndex((each) => each.getBoundingClientRect().bottom > innerHeight / 2);
  const step = {ArrowRight: 1, PageDown: 1, " ": 1, ArrowLeft: -1, PageUp: -1}[event.key];
  if (step) {
    all[Math.max(0, Math.min(all.length - 1, now + step))].scrollIntoView();
    event.preventDefault();
  }
  if (event.key === "n") document.body.classList.toggle("with-notes");
});
"""


def slides() -> str:
    """The lecture as one HTML file: a slide for each part, what is said as its notes. It prints, too."""
    parts = re.split(r"(?m)^(?=## )", LECTURE.read_text())
    sections = "\n".join(f"<section>\n{_slide(part)}</section>" for part in parts)
    title = html.escape(parts[0].partition("\n")[0].removeprefix("# "))
    head = f'<meta charset="utf-8"><meta name="viewport" content="width=device-width"><title>{title}</title>'
    start = f'<!doctype html>\n<html lang="en">\n<head>{head}\n<style>{STYLE}</style></head>\n<body>\n'
    return f"{start}{sections}\n<script>{SCRIPT}</script>\n</body>\n</html>\n"


def _slide(part: str) -> str:
    """Headings, pictures, lists and commands are shown; paragraphs are notes."""
    markdown = MarkdownIt()
    tokens = markdown.parse(part)
    shown: list[Token] = []
    notes = False
    for token in tokens:
        if token.type == "paragraph_open" and token.level == 0:
            content = tokens[tokens.index(token) + 1]
            notes = not any(child.type == "image" for child in content.children or ())
            token.tag = "p"
            if notes:
                token.attrSet("class", "notes")
        for child in token.children or ():
            if child.type == "image":
                child.attrSet("src", _inlined(str(child.attrGet("src"))))
            elif child.type == "link_open":
                child.attrs.pop("href")  # one file: there is nothing beside it
        shown.append(token)
    return str(markdown.renderer.render(shown, markdown.options, {}))


def _inlined(picture: str) -> str:
    content = base64.b64encode((LESSONS / picture).read_bytes()).decode()
    return f"data:image/svg+xml;base64,{content}"


def answers(lessons: Sequence[Lesson]) -> str:
    """The expected answer to each task, with what the lab checks, as Markdown."""
    rubric = "A point for each task. A suggestion: half of it if the solution was shown first."
    parts = ["# Expected answers", rubric]
    for step in tasks(lessons):
        title = f"## {step.lesson.number}.{step.number} {step.title.removeprefix('Task: ')}"
        seen = (getdoc(CHECKS[step.check]) or "").partition("\n\n")[0]
        done = f"It is done when: {' '.join(seen.split())}"
        parts += [title, done, f"```sh\n{step.solution.rstrip()}\n```"]
    return "\n\n".join(parts) + "\n"
