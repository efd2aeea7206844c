"""A graceful shutdown on SIGINT, SIGTERM and SIGHUP: at once, but writes that have begun are finished.

A terminal that is closed sends SIGHUP. Under `nohup` it is ignored, and stays so.
"""

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

from lib.kube.system import MACHINE, System
from lib.scheduling.status import Interruption

LAST_MOMENTS = 2.0
"""Seconds until the kernel ends a poller that is not to wait for anything: perhaps nobody reads its log."""


class Stopped(Interruption):
    """poller was told to stop. Raised in the main thread wherever it is, except in `held` blocks."""


class Shutdown:
    """Handles these signals while its block runs; then the former handlers are restored."""

    def __init__(self, system: System = MACHINE) -> None:
        self._system = system
        self.stopping = system.event()
        """Set by the first signal; waits end then."""
        self.signal: signal.Signals | None = None
        """The last signal; None before the first."""
        self.told_twice = False
        """Whether a second signal came."""
        self.aborted = False
        """Whether poller itself, not a signal, ended the run."""
        self._held = False

    def __enter__(self) -> "Shutdown":
        numbers = [signal.SIGINT, signal.SIGTERM]
        if signal.getsignal(signal.SIGHUP) != signal.SIG_IGN:
            numbers.append(signal.SIGHUP)
        self._before = {number: signal.signal(number, self._stop) for number in numbers}
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    @property
    def impatient(self) -> bool:
        """Whether poller ends without waiting for writes."""
        return self.told_twice or self.aborted

    def _stop(self, number: int, _: FrameType | None) -> None:
        if not self.aborted:
            self.told_twice, self.signal = self.signal is not None, signal.Signals(number)
        self.stopping.set()
        self.set_limit()
        # The second signal during a write: don't wait for it.
        if self.impatient or not self._held:
            raise Stopped

    def set_limit(self) -> None:
        """See to it that poller ends soon, if it is to end without waiting for writes."""
        if self.impatient:
            self._system.end_process_in(LAST_MOMENTS)

    def abort(self) -> None:
        """End without waiting for writes. Any thread may call it."""
        self.aborted = True
        self.stopping.set()
        signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGTERM)

    @contextmanager
    def held(self) -> Iterator[None]:
        """A block that is finished before Stopped is raised."""
        self._held = True
        try:
            yield
        finally:
            self._held = False
        if self.stopping.is_set():
            raise Stopped

    @contextmanager
    def interruptible(self) -> Iterator[None]:
        """Inside a `held` block: a block in which Stopped is raised at once after all."""
        self._held = False
        try:
            self.raise_if_stopped()
            yield
        finally:
            self._held = True

    def wait(self, seconds: float) -> None:
        """Sleep; Stopped when a signal comes."""
        if self.stopping.wait(seconds):
            raise Stopped

    def raise_if_stopped(self) -> None:
        """Raise Stopped again if a signal came: other code may have swallowed it."""
        if self.stopping.is_set():
            raise Stopped


@contextmanager
def on_signal(number: int, do: Callable[[], None]) -> Iterator[None]:
    """Call a function at each signal while the block runs."""
    before = signal.signal(number, lambda *_: do())
    try:
        yield
    finally:
        signal.signal(number, before)
