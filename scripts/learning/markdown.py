"""Markdown in a terminal by rich, but with less space around commands and their output."""

from typing import ClassVar

from rich.console import Console, ConsoleOptions, RenderResult
from rich.markdown import CodeBlock, Heading, Markdown, MarkdownElement
from rich.padding import Padding
from rich.syntax import Syntax
from rich.text import Text


class _Block(CodeBlock):
    """A block of code: commands are coloured, and their output is dim."""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        content = str(self.text).rstrip()
        if self.lexer_name == "text":
            yield Padding(Text(content, style="dim"), (0, 0, 0, 4), expand=False)
        else:
            yield Syntax(content, self.lexer_name, theme="ansi_dark", word_wrap=True, padding=(0, 2))


class _Heading(Heading):
    """A heading: bold, and to the left."""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        self.text.justify = "left"
        self.text.stylize("bold reverse" if self.tag == "h1" else "bold underline")
        yield self.text


class LessonText(Markdown):
    """A part of a lesson."""

    elements: ClassVar[dict[str, type[MarkdownElement]]] = {
        **Markdown.elements,
        "fence": _Block,
        "heading_open": _Heading,
    }
