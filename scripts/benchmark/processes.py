"""Starts, pauses, measures and ends the processes of a contestant."""

import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from scripts.servers.process import ROOT, ending_with_us

TICKS = os.sysconf("SC_CLK_TCK")
STOP_TIMEOUT = 5.0
READY_TIMEOUT = 30.0


class FailedError(Exception):
    """A measurement failed. The text is one line, for the table's notes."""


@dataclass(frozen=True)
class Process:
    """A running process, the first of its own group. `began` is on the clock of time.monotonic."""

    handle: "subprocess.Popen[bytes]"
    log: Path
    began: float

    def pause(self) -> float:
        """Stop it and its child processes; returns when that was."""
        os.killpg(self.handle.pid, signal.SIGSTOP)
        os.waitid(os.P_PID, self.handle.pid, os.WSTOPPED | os.WEXITED | os.WNOWAIT)  # it may take a moment
        return time.monotonic()

    def resume(self) -> float:
        """Resume it; returns when that was."""
        now = time.monotonic()
        os.killpg(self.handle.pid, signal.SIGCONT)
        return now

    @property
    def cpu_seconds(self) -> float:
        """The CPU time until now, with that of its child processes that have ended."""
        # user, system, and both of its children: proc_pid_stat(5), counted after the command's name
        fields = self._about("stat").rsplit(")", 1)[1].split()
        return sum(map(int, fields[11:15])) / TICKS

    @property
    def peak_memory(self) -> int:
        """Its peak memory in bytes."""
        self.check()
        return peak_memory(Path(f"/proc/{self.handle.pid}"))

    def wait_until(self, done: Callable[[], bool], limit: float, what: str) -> None:
        """Wait, as long as it runs. FailedError if it ends, or after so many seconds. what: is waited for."""
        until = time.monotonic() + limit
        while not done():
            self.check()
            if time.monotonic() > until:
                raise FailedError(f"not within {limit:g} s: {what}; it said: {self.last_words()}")
            time.sleep(0.02)

    def last_words(self) -> str:
        """The end of its log."""
        lines = [line for line in self.log.read_text(errors="replace").splitlines() if line.strip()]
        return lines[-1][:200] if lines else "nothing"

    def check(self) -> None:
        """Raise FailedError if it has ended."""
        if self.handle.poll() is not None:
            raise FailedError(f"ended with status {self.handle.returncode}, and said: {self.last_words()}")

    def _about(self, name: str) -> str:
        self.check()
        return Path(f"/proc/{self.handle.pid}/{name}").read_text()


def peak_memory(proc: Path) -> int:
    """The peak memory of a process in bytes; `proc` is its folder in /proc."""
    lines = dict(line.split(":", 1) for line in (proc / "status").read_text().splitlines())
    return int(lines["VmHWM"].split()[0]) * 1024


@contextmanager
def process(
    command: Sequence[str], log: Path, environment: Mapping[str, str] | None = None
) -> Iterator[Process]:
    """Run a command from the project's folder, with its output in `log`, for as long as the block takes."""
    with log.open("wb") as output:
        began = time.monotonic()
        # In a session of its own: ^C reaches only the bench, and signals go to all its processes together.
        handle = subprocess.Popen(
            ending_with_us(command),
            cwd=ROOT,
            env={**os.environ, **(environment or {})},
            stdin=subprocess.PIPE,
            stdout=output,
            stderr=output,
            start_new_session=True,
        )
    try:
        yield Process(handle, log, began)
    finally:
        _end(handle)


def _end(handle: "subprocess.Popen[bytes]") -> None:
    for number in (signal.SIGTERM, signal.SIGCONT):  # a stopped process doesn't handle signals
        _signal(handle, number)
    with suppress(subprocess.TimeoutExpired):
        handle.wait(STOP_TIMEOUT)
    _signal(handle, signal.SIGKILL)  # its child processes, too, if they still run
    handle.wait()
    assert handle.stdin
    handle.stdin.close()


def _signal(handle: "subprocess.Popen[bytes]", number: signal.Signals) -> None:
    with suppress(ProcessLookupError):
        os.killpg(handle.pid, number)


def line_with(words: str, of: Process) -> str:
    """Wait for the line of its log that has these words."""
    deadline = time.monotonic() + READY_TIMEOUT
    while time.monotonic() < deadline:
        of.check()
        for line in of.log.read_text(errors="replace").splitlines():
            if words in line:
                return line
        time.sleep(0.02)
    raise FailedError(f"didn't say {words!r} within {READY_TIMEOUT:g} s, but: {of.last_words()}")
