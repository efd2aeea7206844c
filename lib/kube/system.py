"""What poller takes from the machine: time, randomness, waits, threads and sockets.

No other module takes these by itself (tests/kube/test_system.py holds that). So a simulation can hand in a
System whose time, randomness, threads and network are its own.
"""

import select
import signal
import socket
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from datetime import UTC, datetime
from queue import Queue
from random import Random
from typing import Any


class System:
    """The machine that poller runs on.

    monotonic: a clock in seconds that only grows, for waits and durations.
    """

    monotonic: Callable[[], float] = staticmethod(time.monotonic)

    def steady(self) -> float:
        """The same, of a clock that also runs while the machine is suspended."""
        # macOS has no CLOCK_BOOTTIME; its CLOCK_MONOTONIC counts that time, too.
        return time.clock_gettime(getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC))

    def now(self) -> datetime:
        """The date and time, in UTC."""
        return datetime.now(UTC)

    def random(self, seed: int | None = None) -> Random:
        """A random generator. Without a seed, each has other numbers."""
        return Random(seed)  # noqa: S311  # for ties, samples and pauses: none is a secret

    def sleep(self, seconds: float) -> None:
        """Wait."""
        time.sleep(seconds)

    def event(self) -> threading.Event:
        """A flag that threads can wait for."""
        return threading.Event()

    def future(self) -> Future[Any]:
        """A result to come that threads can wait for."""
        return Future()

    def queue(self) -> Queue[Any]:
        """A queue between threads."""
        # Not SimpleQueue: its `get` can wait for ever if a signal's handler takes longer than the timeout.
        return Queue()

    def start_thread(self, run: Callable[[], object], name: str) -> threading.Thread:
        """Start a thread, which ends with poller at the latest."""
        thread = threading.Thread(target=run, name=name, daemon=True)
        thread.start()
        return thread

    def socket(self, family: int, kind: int = socket.SOCK_STREAM, protocol: int = 0) -> socket.socket:
        """A socket that isn't connected yet."""
        return socket.socket(family, kind, protocol)

    def poll(self) -> select.poll:
        """Waits for sockets that can be read."""
        return select.poll()

    def end_process_in(self, seconds: float) -> None:
        """Let the kernel end this process after so many seconds. Each call replaces the last; 0 cancels it.

        It uses SIGALRM: a process that continues after a stop gets this signal before it does anything else.
        """
        signal.setitimer(signal.ITIMER_REAL, seconds)


MACHINE = System()
"""The real one, which all parts use that aren't handed another."""
