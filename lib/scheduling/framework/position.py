"""Finds where a plugin's own code is running or failed: function, line, pod and node."""

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from functools import singledispatch
from pathlib import Path
from types import FrameType
from typing import Any

from lib.kube.objects import Pod
from lib.scheduling.node_info import NodeInfo


@dataclass(frozen=True)
class Position:
    """A line in a plugin's file, the function that poller called, and for which pod and node.

    pod, node: their names, as in messages; "" if the function has no such argument.
    """

    file: str
    line: int
    function: str
    pod: str
    node: str

    def __str__(self) -> str:
        about = [f"pod {self.pod}"] * bool(self.pod) + [f"node {self.node}"] * bool(self.node)
        line = f"{Path(self.file).name}:{self.line}"
        where = f"loading {line}" if self.function == "<module>" else f"{self.function}, {line}"
        return f"{where}, for {' and '.join(about)}" if about else where


def position_in(files: Collection[str], frames: Iterable[tuple[FrameType, int]]) -> Position | None:
    """Where code of these files is running; None if none is.

    frames: with their lines, callers first, as `traceback.walk_tb` yields them.
    """
    own = [(frame, line) for frame, line in frames if frame.f_code.co_filename in files]
    if not own:
        return None
    called, (last, line) = own[0][0], own[-1]
    given = [name_of(value) for value in _arguments(called)]
    pods, nodes = ([name for kind, name in given if kind == wanted] for wanted in ("pod", "node"))
    return Position(
        last.f_code.co_filename, line, called.f_code.co_name, (pods or [""])[0], (nodes or [""])[0]
    )


def _arguments(frame: FrameType) -> list[Any]:
    """A function's arguments. If it has assigned others to their names, these."""
    code, values = frame.f_code, frame.f_locals
    return [values[name] for name in code.co_varnames[: code.co_argcount] if name in values]


@singledispatch
def name_of(_argument: Any) -> tuple[str, str]:
    """Whether an argument is a "pod" or a "node", and its name in messages; "" if it is neither.

    Code that shows pods or nodes to functions as objects of another type must register that type.
    """
    return "", ""


@name_of.register
def _(pod: Pod) -> tuple[str, str]:
    return "pod", str(pod)


@name_of.register
def _(node: NodeInfo) -> tuple[str, str]:
    return "node", node.name
