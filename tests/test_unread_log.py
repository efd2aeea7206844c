"""If nobody reads the pipe that the log goes to, poller waits for the reader. Two signals end it."""

import fcntl
import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import pytest
from cluster import eventually
from poller_process import POLLER

SIZE = 4096
ROOM = 200
"""Bytes: for the first line of the log, and less than it takes for the next ones."""


def waits_to_write(process: int) -> bool:
    """Whether a thread waits until there is room in a pipe."""
    return any("pipe_write" in each.read_text() for each in Path(f"/proc/{process}/task").glob("*/wchan"))


def fill(pipe: int) -> None:
    """Leave no room in a pipe."""
    alone = os.open(f"/proc/self/fd/{pipe}", os.O_WRONLY | os.O_NONBLOCK)
    with suppress(BlockingIOError):
        while True:
            os.write(alone, b".")
    os.close(alone)


@pytest.mark.skipif(sys.platform != "linux", reason="needs /proc")
@pytest.mark.parametrize(
    "options", [[], ["--leader-elect", "--watch"]], ids=["", "that takes part in an election"]
)
def test_two_signals_end_a_poller_whose_log_nobody_reads(tmp_path: Path, options: list[str]) -> None:
    reading, writing = os.pipe()
    with os.fdopen(reading, "rb"), os.fdopen(writing, "wb", buffering=0) as log:
        fcntl.fcntl(log, fcntl.F_SETPIPE_SZ, SIZE)
        log.write(b"." * (SIZE - ROOM))
        command = [sys.executable, str(POLLER), f"--proxy=unix://{tmp_path}/nobody", "--verbose", *options]
        with subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log) as process:
            try:
                eventually(lambda: waits_to_write(process.pid))
                fill(writing)  # a shorter line might fit
                process.send_signal(signal.SIGTERM)
                time.sleep(0.5)
                process.send_signal(signal.SIGTERM)
                assert process.wait(20) != 0
            finally:
                process.kill()
