"""Prints answers: as lines and tables as wide as the terminal, or as JSON.

Text from a cluster is never used as markup, and its control characters are escaped.
"""

import re
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack
from typing import Any, Protocol, TypeVar

import msgspec
from rich import box
from rich.cells import cell_len
from rich.console import Console, JustifyMethod, RenderableType
from rich.markup import escape
from rich.measure import Measurement
from rich.padding import Padding
from rich.progress import Progress
from rich.table import Table
from rich.text import Text

from lib.kube.escaping import escaped, json_escaped
from lib.kube.system import MACHINE
from lib.scheduling.text import count, names

T = TypeVar("T")
A_co = TypeVar("A_co", covariant=True)

PATIENCE = 1.0
"""Seconds after which a progress bar is shown."""

WIDTH = 100_000
"""The width of output to a file or a pipe: no line is broken, so that grep finds what it looks for."""


ROWS = 8
"""Rows of a table, unless -o wide."""

BETWEEN = 3
"""The width between two columns of a table."""


class Printer:
    """Standard output. wide: print everything, whatever its length."""

    def __init__(self, *, wide: bool = False) -> None:
        self.wide = wide
        self._console = Console(
            file=sys.stdout,
            highlight=False,
            markup=False,
            emoji=False,
            width=None if sys.stdout.isatty() else WIDTH,
        )

    def _print(self, what: RenderableType) -> None:
        """Print; to a file or a pipe without the spaces that fill up cells."""
        if self._console.is_terminal:
            self._console.print(what)
            return
        with self._console.capture() as captured:
            self._console.print(what)
        self._console.file.writelines(f"{line.rstrip()}\n" for line in captured.get().splitlines())

    def heading(self, text: str, *, gap: bool = False) -> None:
        """A line with the most important result. gap: an empty line comes before it."""
        if gap:
            self.gap()
        self._print(Text(escaped(text), style="bold"))

    def line(self, text: str, *, indent: int = 0, gap: bool = False) -> None:
        """A paragraph. gap: an empty line comes before it."""
        if gap:
            self.gap()
        self._print(Padding(Text(escaped(text)), (0, 0, 0, indent), expand=False))

    def more(self, number: int, thing: str, what: str = "") -> None:
        """How many more things there are than were printed. what: continues the sentence."""
        if number > 0:
            self.line(f"and {count(number, thing)}{what} (-o wide shows all)", indent=2)

    def first(self, things: Sequence[T], most: int = ROWS) -> Sequence[T]:
        """The first of many things, unless all are asked for."""
        return things if self.wide else things[:most]

    def names(self, things: Iterable[object], most: int) -> str:
        """The names of things in a row; of many, the first ones, unless all are asked for."""
        return names([str(thing) for thing in things], 1000 if self.wide else most)

    def gap(self) -> None:
        """An empty line."""
        self._print("")

    def items(self, texts: Iterable[str]) -> None:
        """A list."""
        self.pairs((("-", text) for text in texts), numbers=False)

    def pairs(self, rows: Iterable[tuple[str, str]], *, numbers: bool) -> None:
        """Two columns: something short, such as a number, and a text about it."""
        grid = Table.grid(padding=(0, 2))
        grid.add_column(no_wrap=numbers, overflow="fold", justify="right" if numbers else "left")
        grid.add_column(overflow="fold")
        for short, text in rows:
            grid.add_row(Text(escaped(short)), Text(escaped(text)))
        self._print(Padding(grid, (0, 0, 0, 2), expand=False))

    def table(
        self,
        header: Sequence[str],
        rows: Iterable[Sequence[str]],
        *,
        right: Iterable[int] = (),
    ) -> None:
        """A table, or a list for each row on a terminal that is too narrow: no cell is broken.

        The header's words stand below each other if need be. right: the indexes of the columns of numbers.
        """
        titles = [re.sub("(?<=[a-z])(?=[A-Z])", "\n", escaped(name)) for name in header]
        cells = [[escaped(cell) for cell in row] for row in rows]
        columns = zip(titles, *cells, strict=True)
        widths = [max(cell_len(text) for text in (*title.split(), *column, "")) for title, *column in columns]
        if sum(widths) + BETWEEN * (len(widths) - 1) + 2 > self._console.width:
            for first, *others in cells:
                self.gap()
                self.line(first)
                self.pairs(zip(header[1:], others, strict=True), numbers=False)
            return
        table, numbers = Table(box=box.SIMPLE_HEAD, pad_edge=False), set(right)
        for i, title in enumerate(titles):
            justify: JustifyMethod = "right" if i in numbers else "left"
            table.add_column(title, justify=justify, vertical="bottom")
        for row in cells:
            table.add_row(*map(Text, row))
        options = self._console.options.update(width=WIDTH)
        if Measurement.get(self._console, options, table).maximum > self._console.width:
            for column, width in zip(table.columns, widths, strict=True):
                column.width = width
        self._print(table)


class Question(Protocol[A_co]):
    """A question that is answered in so many steps."""

    @property
    def answer(self) -> A_co:
        """The answer; it is complete after the last step."""

    def __len__(self) -> int: ...

    def steps(self) -> Iterator[object]:
        """Takes the steps."""


def run_through(question: Question[object], what: str) -> None:
    """Take all steps. If that takes longer than a second, the terminal shows a progress bar."""
    began = MACHINE.monotonic()
    with ExitStack() as stack:
        progress = task = None
        for done, _ in enumerate(question.steps(), 1):
            if progress and task is not None:
                progress.update(task, completed=done)
            elif sys.stderr.isatty() and MACHINE.monotonic() - began > PATIENCE:
                console = Console(file=sys.stderr)
                progress = stack.enter_context(Progress(console=console, transient=True))
                task = progress.add_task(escape(escaped(what)), total=len(question), completed=done)


def print_json(answer: dict[str, Any]) -> None:
    """One object, indented."""
    encoded = msgspec.json.format(msgspec.json.encode(answer), indent=2)
    sys.stdout.write(json_escaped(encoded.decode()) + "\n")
    sys.stdout.flush()
