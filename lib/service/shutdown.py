"""An orderly end on SIGINT and SIGTERM: at once, but not before what was begun is written."""

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType


class Stopped(BaseException):
    """poller was told to end. Raised wherever the main thread is, unless it is held."""


class Shutdown:
    """Listens for SIGINT and SIGTERM while its block runs; then the handlers of before are back.

    stopping: set once a signal came: no wait goes on. signal: which came, None before that. hurried: whether
    one more came. aborted: whether it wasn't a signal from outside that made an end.
    """

    def __init__(self) -> None:
        self.stopping = threading.Event()
        self.signal: signal.Signals | None = None
        self.hurried = False
        self.aborted = False
        self._held = False

    def __enter__(self) -> "Shutdown":
        self._before = {each: signal.signal(each, self._stop) for each in (signal.SIGINT, signal.SIGTERM)}
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    @property
    def impatient(self) -> bool:
        """Whether not even a write is waited for any more."""
        return self.hurried or self.aborted

    def _stop(self, number: int, _: FrameType | None) -> None:
        if not self.aborted:
            self.hurried, self.signal = self.signal is not None, signal.Signals(number)
        self.stopping.set()
        # The second time someone has lost patience with a write.
        if self.impatient or not self._held:
            raise Stopped

    def abort(self) -> None:
        """End without waiting for a write; may be called by any thread."""
        self.aborted = True
        self.stopping.set()
        signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGTERM)

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

    @contextmanager
    def interruptible(self) -> Iterator[None]:
        """In a block that is held, have Stopped raised after all while this one lasts."""
        self._held = False
        try:
            self.raise_if_stopped()
            yield
        finally:
            self._held = True

    def wait(self, seconds: float) -> None:
        """Sleep, unless a signal ends it: Stopped."""
        if self.stopping.wait(seconds):
            raise Stopped

    def raise_if_stopped(self) -> None:
        """Raise Stopped once more if a signal came: someone may have swallowed it."""
        if self.stopping.is_set():
            raise Stopped


@contextmanager
def on_signal(number: int, do: Callable[[], None]) -> Iterator[None]:
    """Do something whenever a signal comes, for as long as the block runs."""
    before = signal.signal(number, lambda *_: do())
    try:
        yield
    finally:
        signal.signal(number, before)
