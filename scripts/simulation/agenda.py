"""Time, and what happens next. A second in which nothing happens costs nothing."""

from collections.abc import Callable
from heapq import heappop, heappush
from itertools import count
from random import Random
from typing import Any

import greenlet

MAX_AT_ONCE = 200_000
"""So many events at the same moment mean that something goes round in circles."""


class CircleError(Exception):
    """Time doesn't pass any more."""


class Agenda:
    """What happens, by time. Things that happen at the same time have an order by the seed.

    now: the time in seconds since the simulation began.
    """

    def __init__(self, seed: int) -> None:
        self.now = 0.0
        self._order = Random(seed)
        self._due: list[tuple[float, float, int, Callable[[], object]]] = []
        self._numbers = count()
        self.hub = greenlet.getcurrent()

    def at(self, when: float, do: Callable[[], object]) -> None:
        """Do something at a time; now, if that has passed."""
        heappush(self._due, (max(when, self.now), self._order.random(), next(self._numbers), do))

    def after(self, seconds: float, do: Callable[[], object]) -> None:
        """Do something in so many seconds."""
        self.at(self.now + seconds, do)

    def run(self, until: float) -> None:
        """Let time pass. CircleError when it stands still."""
        at_once = 0
        while self._due and self._due[0][0] <= until:
            when, _, _, do = heappop(self._due)
            at_once = at_once + 1 if when == self.now else 0
            if at_once > MAX_AT_ONCE:
                raise CircleError(f"at {self.now:.3f} s something goes round in circles")
            self.now = when
            do()
        self.now = until


class Wait:
    """A thread that waits. `end` lets it go on, once."""

    def __init__(self, agenda: Agenda, go_on: Callable[[greenlet.greenlet, Any], None]) -> None:
        self._agenda, self._go_on = agenda, go_on
        self.thread = greenlet.getcurrent()
        self.is_over = False

    def end(self, value: Any = None) -> None:
        """It has come, or the time is over: the thread goes on now, with this value."""
        if not self.is_over:
            self.is_over = True
            self._agenda.at(self._agenda.now, lambda: self._go_on(self.thread, value))
