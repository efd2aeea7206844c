"""An orderly end on SIGINT and SIGTERM: at once, but not in the middle of a write."""

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType


class Stopped(BaseException):
    """poller was told to end. Raised wherever the main thread is, unless it is held."""


class Shutdown:
    """Listens for SIGINT and SIGTERM while its block runs; then the handlers of before are back.

    stopping: set once a signal came: no wait goes on. signal: which came, None before that.
    """

    def __init__(self) -> None:
        self.stopping = threading.Event()
        self.signal: signal.Signals | None = None
        self._held = False

    def __enter__(self) -> "Shutdown":
        self._before = {each: signal.signal(each, self._stop) for each in (signal.SIGINT, signal.SIGTERM)}
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def _stop(self, number: int, _: FrameType | None) -> None:
        again, self.signal = self.signal is not None, signal.Signals(number)
        self.stopping.set()
        if again or not self._held:  # the second time someone has lost patience with a write
            raise Stopped

    @contextmanager
    def held(self) -> Iterator[None]:
        """Let what stands in this block end before Stopped is raised."""
        self._held = True
        try:
            yield
        finally:
            self._held = False
        if self.stopping.is_set():
            raise Stopped

    def wait(self, seconds: float) -> None:
        """Sleep, unless a signal ends it: Stopped."""
        if self.stopping.wait(seconds):
            raise Stopped

    def heed(self) -> None:
        """Raise Stopped once more if a signal came: someone may have swallowed it."""
        self.wait(0)


@contextmanager
def on_signal(number: int, do: Callable[[], None]) -> Iterator[None]:
    """Do something whenever a signal comes, for as long as the block runs."""
    before = signal.signal(number, lambda *_: do())
    try:
        yield
    finally:
        signal.signal(number, before)
