"""--top: a screen with nodes and their pods, the queue, why the oldest pod waits, and the last log lines.

After a tick the loop stores what to show (`Screen.note`). A thread of rich draws it, with the log.
"""

import logging
import os
import re
import sys
import termios
import tty
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext, redirect_stdout, suppress
from dataclasses import dataclass
from textwrap import wrap

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from lib.kube.escaping import escaped
from lib.kube.system import MACHINE
from lib.scheduling.cache import Cache
from lib.scheduling.node_info import NodeInfo
from lib.scheduling.queue import SchedulingQueue
from lib.service.telemetry.log import Printed, text_formatter

PAUSE = 0.25
"""The least seconds between two notes: ticks can be more frequent."""

MAX_NODES, MAX_NAMES, MAX_LINES = 1000, 30, 100
"""The most nodes, pods of a node or lane, and log lines that are kept for a screen."""

NOT_NODES = 15
"""Rows of the screen that aren't nodes: headings, lanes, the oldest pod, and a few log lines."""

NEARLY_FULL = 0.9
"""A bar is red from this share on."""

LANES = {
    "active": "to be tried now",
    "backoff": "an attempt failed; tried again soon",
    "unschedulable": "fits nowhere; waits for a change",
    "gated": "has a scheduling gate",
    "waiting": "has a node, and waits for Permit",
}
"""The parts of the queue, and what it means to be there; `waiting` is left out when it is empty."""


@dataclass(frozen=True)
class NodeRow:
    """A node on the screen."""

    name: str
    cpu: float
    """The share of its CPU that is requested."""
    memory: float
    """The share of its memory that is requested."""
    pod_count: int
    pods: Sequence[str]
    """The names that are shown."""
    cordoned: bool


@dataclass(frozen=True)
class Lane:
    """A part of the queue: how many pods, and the names of some."""

    count: int
    pods: Sequence[str]


@dataclass(frozen=True)
class Picture:
    """The cluster and the queue on the screen."""

    nodes: Sequence[NodeRow] = ()
    node_count: int = 0
    pod_count: int = 0
    """How many pods have a node."""
    lanes: Mapping[str, Lane] | None = None
    oldest: str = ""
    """The pod that has been queued longest, if any."""
    since: float = 0.0
    """When that pod was queued, in `System.monotonic`'s seconds."""
    attempts: int = 0
    """How many attempts to schedule it have failed."""
    reason: str = ""
    """Why it has no node."""


def picture(queue: SchedulingQueue, cache: Cache) -> Picture:
    """What to show now. It is a copy: it shares no mutable data with the loop."""
    nodes = sorted(cache.nodes.values(), key=lambda node: _in_order(node.name))
    lanes = {
        name: Lane(len(pods), [escaped(str(pod)) for pod in pods[:MAX_NAMES]])
        for name, pods in queue.lanes().items()
    }
    oldest = queue.oldest()
    return Picture(
        [_row(node) for node in nodes[:MAX_NODES]],
        len(nodes),
        sum(len(node.pods) for node in nodes),
        lanes,
        escaped(str(oldest.pod)) if oldest else "",
        oldest.queued if oldest else 0.0,
        oldest.attempts if oldest else 0,
        escaped(oldest.reason) if oldest else "",
    )


def _in_order(name: str) -> list[tuple[int, str]]:
    """A sort key by which node2 comes before node10."""
    parts = re.split("([0-9]+)", name)
    return [(int(part), "") if part.isdigit() else (0, part) for part in parts]


def _row(node: NodeInfo) -> NodeRow:
    cpu, memory = (
        node.requested.get(name, 0) / node.allocatable[name] if node.allocatable.get(name) else 0.0
        for name in ("cpu", "memory")
    )
    pods = [escaped(pod.metadata.name) for pod in node.pods[:MAX_NAMES]]
    return NodeRow(escaped(node.name), cpu, memory, len(node.pods), pods, node.node.spec.unschedulable)


ORDERS: Mapping[str, Callable[[NodeRow], float]] = {
    "name": lambda _: 0.0,
    "cpu": lambda row: -row.cpu,
    "memory": lambda row: -row.memory,
    "pods": lambda row: -row.pod_count,
}
"""By what nodes can be sorted, in the order in which the key s leads through them."""

KEY = re.compile(rb"\x1b\[[0-9;]*[A-Za-z~]|.", re.DOTALL)

PAGE = 10
STEPS = {b"\x1b[A": -1, b"k": -1, b"\x1b[B": 1, b"j": 1, b"\x1b[5~": -PAGE, b"\x1b[6~": PAGE, b" ": PAGE}
"""By how many nodes a key scrolls: arrows, Page Up and Down, as terminals send them; and the keys of less."""


class Screen(logging.Handler):
    """The terminal's content: a picture, and the last log lines, which it gets as a log handler."""

    def __init__(self, queue: SchedulingQueue, cache: Cache) -> None:
        super().__init__()
        self._keys: int | None = None  # the terminal that keys are read from
        self._order, self._top = "name", 0
        self.setFormatter(text_formatter())
        self._queue, self._cache = queue, cache
        self._lines: deque[str] = deque(maxlen=MAX_LINES)
        self._picture = Picture()
        self._noted = -PAUSE

    def emit(self, record: logging.LogRecord) -> None:
        """Keep a log line."""
        self._lines.extend(self.format(record).splitlines())

    def note(self) -> None:
        """A tick is over: store what to show of it."""
        now = MACHINE.monotonic()
        if now - self._noted >= PAUSE:
            self._noted = now
            self._picture = picture(self._queue, self._cache)

    def rendered(self, width: int, height: int) -> RenderableType:
        """The screen, in so many columns and rows."""
        self._read_keys()
        shown, lines = self._picture, list(self._lines)
        room = max(height - NOT_NODES, 3)
        rows, left_out = sorted(shown.nodes, key=ORDERS[self._order]), 0
        if shown.node_count > room:
            self._top = max(min(self._top, len(rows) - room + 1), 0)
            rows = rows[self._top : self._top + room - 1]
            left_out = shown.node_count - len(rows)
        title = f"poller   nodes: {shown.node_count}   pods on them: {shown.pod_count}   Ctrl-C ends it"
        if self._keys is not None:
            title += f"   s: sorted by {self._order}"
        above: list[RenderableType] = [
            Text(title, style="bold", no_wrap=True),
            _nodes(rows, width),
            *([Text(self._more(left_out), style="dim")] if left_out else ()),
        ]
        queue: list[RenderableType] = [_heading("Queue"), _lanes(shown.lanes or {}), _oldest(shown, width)]
        taken = 2 + shown.node_count if shown.node_count <= room else 2 + room
        rest = max(height - taken - 1 - len(_shown_lanes(shown.lanes or {})) - 3 - 1, 1)
        log_lines = [Text(line, no_wrap=True, overflow="ellipsis") for line in lines[-rest:]]
        return Group(*above, *queue, _heading("Log"), *log_lines)

    @contextmanager
    def reading_keys(self, terminal: int) -> Iterator[None]:
        """A block in which a terminal passes on each key at once, unshown. Ctrl-C is still a signal."""
        before = termios.tcgetattr(terminal)
        tty.setcbreak(terminal)
        now = termios.tcgetattr(terminal)
        now[6][termios.VMIN] = 0  # a read waits for no key
        termios.tcsetattr(terminal, termios.TCSANOW, now)
        self._keys = terminal
        try:
            yield
        finally:
            self._keys = None
            termios.tcsetattr(terminal, termios.TCSADRAIN, before)

    def _more(self, left_out: int) -> str:
        above = f", {self._top} of them above" if self._top else ""
        return f"and {left_out} more nodes{above}{'; arrows scroll' if self._keys is not None else ''}"

    def _read_keys(self) -> None:
        """Do what the keys say that were pressed since the last time."""
        pressed = b""
        with suppress(OSError):  # a terminal that is gone
            pressed = b"" if self._keys is None else os.read(self._keys, 1024)
        for key in KEY.findall(pressed):
            self._top = max(self._top + STEPS.get(key, 0), 0)
            if key == b"s":
                names = [*ORDERS]
                self._order, self._top = names[(names.index(self._order) + 1) % len(names)], 0


def _heading(text: str) -> Text:
    return Text(text, style="bold")


def _nodes(rows: Sequence[NodeRow], width: int) -> Table:
    table = Table(box=None, expand=True, padding=(0, 1, 0, 0), pad_edge=False, header_style="bold")
    table.add_column("Node", no_wrap=True, overflow="ellipsis", max_width=max(width // 5, 8))
    for name in ("cpu", "memory"):
        table.add_column(name, width=8)
        table.add_column("", width=4, justify="right")
    table.add_column("Pods", justify="right")
    table.add_column("", no_wrap=True, overflow="ellipsis", ratio=1)
    for row in rows:
        pods = Text(" ".join(row.pods))
        if row.cordoned:
            pods = Text("cordoned ", style="yellow") + pods
        bars = [part for share in (row.cpu, row.memory) for part in (_bar(share), f"{share:.0%}")]
        table.add_row(Text(row.name), *bars, str(row.pod_count), pods)
    return table


def _bar(share: float) -> ProgressBar:
    style = "red" if share >= NEARLY_FULL else "green"
    return ProgressBar(1, min(share, 1.0), width=8, complete_style=style, finished_style=style)


def _shown_lanes(lanes: Mapping[str, Lane]) -> list[str]:
    return [name for name in LANES if name != "waiting" or (name in lanes and lanes[name].count)]


def _lanes(lanes: Mapping[str, Lane]) -> Table:
    table = Table.grid(padding=(0, 1, 0, 0), expand=True)
    table.add_column(width=13)
    table.add_column(justify="right", width=4)
    table.add_column(no_wrap=True, overflow="ellipsis", ratio=1)
    for name in _shown_lanes(lanes):
        lane = lanes.get(name, Lane(0, ()))
        pods = Text(" ".join(lane.pods)) if lane.count else Text(LANES[name], style="dim")
        table.add_row(name, str(lane.count), pods)
    return table


def _oldest(shown: Picture, width: int) -> Text:
    """The oldest pod, in three rows."""
    if not shown.oldest:
        return Text("In the queue for longest: none\n\n", style="dim")
    waited = MACHINE.monotonic() - shown.since
    said = f"In the queue for longest: {shown.oldest}, {waited:.0f} s; failed attempts: {shown.attempts}"
    why = wrap(shown.reason, width, max_lines=2, placeholder=" …")
    return Text("\n".join([said, *why, "", ""][:3]), no_wrap=True, overflow="ellipsis")


@contextmanager
def on_terminal(queue: SchedulingQueue, cache: Cache) -> Iterator[Screen]:
    """Use the whole terminal while the block runs. Log lines go to the screen instead of standard error.

    If standard error isn't a terminal, they go to both. Prints become log lines.
    """
    root, screen = logging.getLogger(), Screen(queue, cache)
    has_keys = sys.stdin and sys.stdin.isatty()
    keys = screen.reading_keys(sys.stdin.fileno()) if has_keys else nullcontext()
    before = root.handlers[:]
    console = Console(file=sys.__stdout__, highlight=False, markup=False)
    root.handlers = [screen] if sys.stderr.isatty() else [*before, screen]
    live = Live(
        console=console,
        screen=True,
        refresh_per_second=4,
        redirect_stdout=False,
        redirect_stderr=False,
        vertical_overflow="crop",
        get_renderable=lambda: screen.rendered(*console.size),
    )
    try:
        logging.captureWarnings(True)
        with redirect_stdout(Printed()), keys, live:
            yield screen
    finally:
        logging.captureWarnings(False)
        root.handlers = before
