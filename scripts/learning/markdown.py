"""Markdown in a terminal by rich, but commands can be copied, and colours are readable on light and dark."""

from typing import ClassVar

from rich.console import Console, ConsoleOptions, RenderResult
from rich.markdown import CodeBlock, Heading, Markdown, MarkdownElement
from rich.padding import Padding
from rich.style import Style
from rich.syntax import ANSISyntaxTheme, Syntax
from rich.text import Text
from rich.theme import Theme

_CODE = ANSISyntaxTheme(
    {("Comment",): Style(bold=False, italic=True), ("Literal", "String"): Style(color="magenta")}
)
COLOURS = Theme({"markdown.code": "bold", "markdown.item.number": "bold"})
"""Styles for the lab's console: no background, and no colour that is hard to read on white or on black."""


class _Block(CodeBlock):
    """A block of code: commands are bold, from the first column on, as they are typed; output is dim."""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        content = str(self.text).rstrip()
        if self.lexer_name == "text":
            yield Padding(Text(content, style="dim"), (0, 0, 0, 4), expand=False)
            return
        # The terminal breaks a line that is too long, so that its text can be copied as one.
        code = Syntax(content, self.lexer_name, theme=_CODE).highlight(content)
        code.rstrip()
        code.style, code.no_wrap, code.overflow = "bold", True, "ignore"
        yield code


class _Heading(Heading):
    """A heading: bold, and to the left."""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        self.text.justify = "left"
        self.text.stylize("bold reverse" if self.tag == "h1" else "bold underline")
        yield self.text


class LessonText(Markdown):
    """A part of a lesson. It is to be printed with crop=False, so that no command is cut."""

    elements: ClassVar[dict[str, type[MarkdownElement]]] = {
        **Markdown.elements,
        "fence": _Block,
        "heading_open": _Heading,
    }
