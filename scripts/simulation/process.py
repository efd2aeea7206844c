"""A simulated process: its threads, its clock and its sockets. It can freeze, and be killed at any moment."""

import select
import threading
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from datetime import UTC, datetime, timedelta
from math import inf
from queue import Empty, Queue
from random import Random
from socket import SOCK_STREAM, socket
from typing import Any, cast

import greenlet

from lib.kube.system import System

from .agenda import Agenda, Wait
from .reach import EVERYWHERE

BEGINNING = datetime(2026, 1, 1, tzinfo=UTC)
"""The date at which each simulation begins."""


class Killed(BaseException):
    """Raised in the threads of a process that was killed: what they would still do has no effect."""


class Process(System):
    """What a simulated process takes from its machine.

    drift: how much faster its clocks run: 0.01 is 1 %. skew: by how many seconds its date is ahead.
    connect: opens a connection, for `socket`. elects: whether it takes part in a leader election. reach: what
    it serves and may read.
    """

    def __init__(
        self,
        agenda: Agenda,
        name: str,
        seed: int,
        connect: Callable[["Process"], "Wire"],
        drift: float = 0.0,
        skew: float = 0.0,
    ) -> None:
        self.agenda, self.name = agenda, name
        self.monotonic = self._monotonic
        self.is_dead = self.elects = self.is_frozen_for_good = False
        self.reach = EVERYWHERE
        self.frozen_until = 0.0
        self.connect = connect
        self.sockets: dict[int, Wire] = {}
        self._drift, self._skew = drift, skew
        self._suspended = 0.0  # seconds for which the machine was
        self._alarm_at = inf
        self._chance = Random(seed)
        self._threads: set[greenlet.greenlet] = set()
        self._main: Wait | None = None
        self._alarm = 0
        self.on_alarm: Callable[[], object] = self.kill

    # --- threads ----------------------------------------------------------------------------------------

    def start_thread(self, run: Callable[[], object], name: str) -> threading.Thread:
        """Start a thread: it runs whenever it doesn't wait."""
        self.check()
        thread = _Thread(self, name)

        def running(_: object) -> None:
            try:
                run()
            except Killed:
                pass
            finally:
                self._threads.discard(greenlet.getcurrent())
                thread.ended.set()

        own = greenlet.greenlet(running, self.agenda.hub)
        self._threads.add(own)
        self.agenda.at(self.agenda.now, lambda: self.go_on(own, None))
        return cast(threading.Thread, thread)

    def check(self) -> None:
        """Killed, if this process was killed."""
        if self.is_dead:
            raise Killed

    def go_on(self, thread: greenlet.greenlet, value: Any) -> None:
        """Let a thread go on, when the process isn't frozen."""
        if self.agenda.now < self.frozen_until:
            self.agenda.at(self.frozen_until, lambda: self.go_on(thread, value))
        elif not (self.is_dead or self.is_frozen_for_good or thread.dead):
            thread.switch(value)

    def block(self, register: Callable[[Wait], None], seconds: float | None) -> Any:
        """Wait. register: is handed the Wait, to end it. seconds: then it ends with None."""
        self.check()
        wait = Wait(self.agenda, self.go_on)
        register(wait)
        if seconds is not None:
            self.agenda.after(max(0.0, seconds) / (1 + self._drift), wait.end)
        value = self.agenda.hub.switch()
        self.check()
        if isinstance(value, BaseException):
            raise value
        return value

    def interrupt(self, thread: greenlet.greenlet, error: BaseException) -> None:
        """Raise an error in a thread, wherever it waits."""
        self.agenda.at(self.agenda.now, lambda: self.go_on(thread, error))

    def freeze(self, seconds: float) -> None:
        """Stop for a while, as by SIGSTOP."""
        self.frozen_until = max(self.frozen_until, self.agenda.now + seconds)

    def jump(self, seconds: float) -> None:
        """Its date is set, as by an administrator."""
        self._skew += seconds

    def suspend(self, seconds: float) -> None:
        """Its machine is suspended for a while: then `monotonic` and the alarm stand still, too."""
        self.freeze(seconds)
        self._suspended += seconds
        if self._alarm_at < inf:
            self._set_alarm(self._alarm_at + seconds)

    def kill(self) -> None:
        """End at once, as by SIGKILL."""
        self.is_dead = True
        for each in [*self._threads]:
            if each and not each.dead:
                each.throw(Killed)
        for wire in [*self.sockets.values()]:
            wire.close()

    # --- what lib takes ---------------------------------------------------------------------------------

    def _monotonic(self) -> float:
        self.check()  # else what a killed process does in its `finally` blocks could go on for ever
        return self.steady() - self._suspended

    def steady(self) -> float:
        """The time since its machine was started, whether it was suspended or not."""
        return 1000.0 + self.agenda.now * (1 + self._drift)

    def now(self) -> datetime:
        """The date, as this process' machine has it."""
        return BEGINNING + timedelta(seconds=self.agenda.now + self._skew)

    def random(self, seed: int | None = None) -> Random:
        """Its own numbers."""
        return Random(self._chance.getrandbits(64) if seed is None else seed)

    def sleep(self, seconds: float) -> None:
        """Wait."""
        self.block(lambda _: None, seconds)

    def event(self) -> threading.Event:
        """A flag to wait for."""
        return cast(threading.Event, _Event(self))

    def future(self) -> Future[Any]:
        """A result to wait for."""
        return cast(Future[Any], _Future(self))

    def queue(self) -> Queue[Any]:
        """A queue to wait at."""
        return cast(Queue[Any], _Queue(self))

    def socket(self, family: int, kind: int = SOCK_STREAM, protocol: int = 0) -> socket:
        """A connection to the simulated API server."""
        self.check()
        return cast(socket, self.connect(self))

    def poll(self) -> select.poll:
        """Waits for connections."""
        return cast(select.poll, _Poll(self))

    def end_process_in(self, seconds: float) -> None:
        """Kill this process after so many seconds, also if it is frozen until later."""
        self._set_alarm(self.agenda.now + seconds if seconds else inf)

    def _set_alarm(self, when: float) -> None:
        self._alarm += 1
        self._alarm_at = when
        number = self._alarm

        def ring() -> None:
            if number == self._alarm and self.agenda.now < self.frozen_until:
                self.agenda.at(self.frozen_until, self.on_alarm)
                self.is_frozen_for_good = True  # the signal comes before anything else
            elif number == self._alarm:
                self.on_alarm()

        if when < inf:
            self.agenda.at(when, ring)


class Wire:
    """The client's end of a connection, as `socket.socket`."""

    def __init__(self, process: Process, number: int) -> None:
        self.process, self.number = process, number
        self.timeout: float | None = None
        self.is_closed = False
        self._inbox: deque[bytes] = deque()
        self._end: BaseException | bool = False
        self._waiting: list[Wait] = []
        process.sockets[number] = self

    # --- for the client ---------------------------------------------------------------------------------

    def settimeout(self, seconds: float | None) -> None:
        """The limit of the next operations."""
        self.timeout = seconds

    def connect(self, address: str) -> None:
        """Connect: who makes wires says what happens."""
        raise NotImplementedError

    def sendall(self, data: bytes) -> None:
        """Send: who makes wires says what happens."""
        raise NotImplementedError

    def setsockopt(self, *_: object) -> None:
        """Nothing to set."""

    def fileno(self) -> int:
        """Its number."""
        return -1 if self.is_closed else self.number

    @property
    def is_readable(self) -> bool:
        """Whether `recv` doesn't wait."""
        return bool(self._inbox or self._end or self.is_closed)

    def recv(self, _: int) -> bytes:
        """What has come; waits for something."""
        self.process.check()
        if self.is_closed:
            raise OSError(9, "Bad file descriptor")
        while not self.is_readable:
            if self.process.block(self._waiting.append, self.timeout) is None:
                raise TimeoutError("timed out")
        if self._inbox:
            return self._inbox.popleft()
        if isinstance(self._end, BaseException):
            raise self._end
        return b""

    def shutdown(self, _: int) -> None:
        """Who reads gets the end."""
        if self.is_closed:
            raise OSError(107, "Transport endpoint is not connected")
        self.end(True)

    def close(self) -> None:
        """Close it."""
        self.is_closed = True
        self.process.sockets.pop(self.number, None)
        self.wake()

    # --- for the server ---------------------------------------------------------------------------------

    def deliver(self, data: bytes) -> None:
        """Data comes."""
        if not (self.is_closed or self._end):
            self._inbox.append(data)
            self.wake()

    def end(self, how: BaseException | bool) -> None:
        """The connection ends: an error, or True for an orderly end."""
        if not self._end:
            self._end = how
            self.wake()

    def watch(self, wait: Wait) -> None:
        """End this wait when there is something to read."""
        self._waiting.append(wait)

    def wake(self) -> None:
        """Let those go on who wait for this."""
        waiting, self._waiting = self._waiting, []
        for each in waiting:
            each.end(True)


class _Thread:
    def __init__(self, process: Process, name: str) -> None:
        self.name, self.ended = name, _Event(process)

    def join(self, timeout: float | None = None) -> None:
        self.ended.wait(timeout)

    def is_alive(self) -> bool:
        return not self.ended.is_set()


class _Event:
    def __init__(self, process: Process) -> None:
        self._process, self._is_set = process, False
        self._waiting: list[Wait] = []

    def is_set(self) -> bool:
        return self._is_set

    def set(self) -> None:
        self._is_set = True
        waiting, self._waiting = self._waiting, []
        for each in waiting:
            each.end(True)

    def wait(self, timeout: float | None = None) -> bool:
        if not self._is_set:
            self._process.block(self._waiting.append, timeout)
        return self._is_set


class _Future:
    def __init__(self, process: Process) -> None:
        self._ended = _Event(process)
        self._result: Any = None
        self._error: BaseException | None = None

    def done(self) -> bool:
        return self._ended.is_set()

    def set_result(self, result: Any) -> None:
        self._result = result
        self._ended.set()

    def set_exception(self, error: BaseException) -> None:
        self._error = error
        self._ended.set()

    def result(self, timeout: float | None = None) -> Any:
        if not self._ended.wait(timeout):
            raise TimeoutError
        if self._error:
            raise self._error
        return self._result


class _Queue:
    def __init__(self, process: Process) -> None:
        self._process = process
        self._items: deque[Any] = deque()
        self._waiting: list[Wait] = []

    def empty(self) -> bool:
        return not self._items

    def put(self, item: Any) -> None:
        self._items.append(item)
        waiting, self._waiting = self._waiting, []
        for each in waiting:
            each.end(True)

    def get(self, block: bool = True, timeout: float | None = None) -> Any:
        if not self._items and block:
            self._process.block(self._waiting.append, timeout)
        if not self._items:
            raise Empty
        return self._items.popleft()


class _Poll:
    """As select.poll, for POLLIN alone."""

    def __init__(self, process: Process) -> None:
        self._process = process
        self._wires: dict[int, Wire] = {}

    def register(self, what: Any, _: int) -> None:
        number = what if isinstance(what, int) else what.fileno()
        self._wires[number] = self._process.sockets[number]

    def unregister(self, what: Any) -> None:
        del self._wires[what if isinstance(what, int) else what.fileno()]

    def poll(self, milliseconds: float | None = None) -> list[tuple[int, int]]:
        self._process.check()
        if not (ready := self._ready()) and milliseconds != 0:
            seconds = None if milliseconds is None else milliseconds / 1000

            def register(wait: Wait) -> None:
                for each in self._wires.values():
                    each.watch(wait)

            self._process.block(register, seconds)
            ready = self._ready()
        return ready

    def _ready(self) -> list[tuple[int, int]]:
        return [(number, select.POLLIN) for number, wire in self._wires.items() if wire.is_readable]
