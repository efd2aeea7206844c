"""Gives a target inputs, and keeps those that reach lines of poller that none before reached."""

import signal
import sys
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from random import Random
from types import FrameType
from typing import Any

from .mutate import mutated
from .targets import FuzzTarget

LIB = str(Path(__file__).resolve().parents[2] / "lib")

LONGEST = 10
"""Seconds of the processor for an input: then it hangs. A machine may be busy with other things."""

LONGEST_WAIT = 120
"""The same by the clock, for an input that waits."""

LOOK_EVERY = 20
"""One of so many inputs is traced: that takes several times as long."""


class HangError(Exception):
    """An input takes too long."""


@dataclass(frozen=True)
class Finding:
    """An error that nobody expects. where: the line that raised it; each is reported once."""

    where: str
    data: bytes
    trace: str


class Fuzzer:
    """Fuzzes a target.

    inputs: how many it was given. kept: those that reached new lines. found: the errors, by their place.
    """

    def __init__(self, target: FuzzTarget, seed: int) -> None:
        self.inputs = 0
        self.found: dict[str, Finding] = {}
        self.kept = [*target.corpus]
        self._run, self._chance = target.run, Random(seed)
        self._reached: set[tuple[str, int]] = set()

    def go_on(self) -> None:
        """Give it one more input."""
        data = mutated(self._chance.choice(self.kept), self.kept, self._chance)
        self.inputs += 1
        try:
            with _limited():
                if self.inputs % LOOK_EVERY:
                    self._run(data)
                elif self._is_new(data):
                    self.kept.append(data)
        except Exception as error:
            last = traceback.extract_tb(error.__traceback__)[-1]
            where = f"{last.filename}:{last.lineno} {type(error).__name__}"
            self.found.setdefault(where, Finding(where, data, traceback.format_exc()))

    def _is_new(self, data: bytes) -> bool:
        """Run it; returns whether it reached new lines."""
        before = len(self._reached)
        sys.settrace(self._trace)
        try:
            self._run(data)
        finally:
            sys.settrace(None)
        return len(self._reached) > before

    def _trace(self, frame: FrameType, event: str, _: Any) -> Any:
        if not frame.f_code.co_filename.startswith(LIB):
            return None
        self._reached.add((frame.f_code.co_filename, frame.f_lineno))
        return self._trace


@contextmanager
def _limited() -> Iterator[None]:
    """A block that ends with a HangError when it takes too long."""
    signal.setitimer(signal.ITIMER_PROF, LONGEST)
    signal.setitimer(signal.ITIMER_REAL, LONGEST_WAIT)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.setitimer(signal.ITIMER_REAL, 0)


@contextmanager
def ending_hangs() -> Iterator[None]:
    """A block in which an input that takes too long raises a HangError."""
    before = {each: signal.signal(each, _raise_hang) for each in (signal.SIGPROF, signal.SIGALRM)}
    try:
        yield
    finally:
        for each, handler in before.items():
            signal.signal(each, handler)


def _raise_hang(*_: object) -> None:
    raise HangError(f"an input takes longer than {LONGEST} s")
