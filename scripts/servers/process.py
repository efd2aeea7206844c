"""Servers that print on standard output when they are ready."""

import os
import signal
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryFile
from typing import IO, Any

ROOT = Path(__file__).resolve().parent.parent.parent

KEEPER = (
    "exec 3<&0 </dev/null; "
    "{ trap '' HUP INT TERM; read -r _ <&3; kill $$ && sleep 5 && kill -9 $$; } >/dev/null 2>&1 & "
    'exec "$@" 3<&-'
)
"""Runs a command, and a reader of standard input, which ends the command when its parent has ended.

The reader ignores signals to the process group: the command may handle them, and run on for long.
"""


def ending_with_us(command: Sequence[str]) -> list[str]:
    """The command, to be started with `stdin=PIPE`: it then ends when this process does, however that ends.

    The process id is that of the command. Close the pipe after waiting for the command.
    """
    return ["/bin/sh", "-c", KEEPER, "sh", *command]


GROUPS_KEEPER = (
    'exec 3<&0 </dev/null; { read -r _ <&3; kill -s KILL -- "-$$"; } >/dev/null 2>&1 & exec "$@" 3<&-'
)
"""The same, but it kills the whole process group, as the command may hang."""


@contextmanager
def ending_with_all_it_starts(command: Sequence[str], **more: Any) -> Iterator["subprocess.Popen[str]"]:
    """Run a command until the block or this process ends; then kill it, and all that it has started.

    more: as for `Popen`, but for `stdin`, which is empty.
    """
    reading, writing = os.pipe()  # the kernel closes `writing` when this process ends
    with os.fdopen(writing, "wb"), os.fdopen(reading, "rb") as held:
        kept = ["/bin/sh", "-c", GROUPS_KEEPER, "sh", *command]
        with subprocess.Popen(kept, stdin=held, text=True, start_new_session=True, **more) as process:
            held.close()
            try:
                yield process
            finally:
                with suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)


@contextmanager
def serving(command: list[str]) -> Iterator[str]:
    """Run a server for as long as the body of `with` takes; yield the line with which it says it is ready."""
    with (
        TemporaryFile(
            "w+"
        ) as errors,  # a file, not a pipe: a server would block once a pipe that no one reads is full
        subprocess.Popen(
            ending_with_us(command),
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
        ) as server,
    ):
        assert server.stdout is not None
        try:
            line = server.stdout.readline().strip()
            if not line or server.poll() is not None:
                raise RuntimeError(f"{' '.join(command)} didn't start:\n{_written(errors)}")
            yield line
            if server.poll() is not None:
                raise RuntimeError(f"{' '.join(command)} died:\n{_written(errors)}")
        finally:
            server.terminate()
            try:
                server.wait(10)
            except subprocess.TimeoutExpired:
                server.kill()
                server.wait()


def _written(errors: IO[str]) -> str:
    errors.seek(0)
    return errors.read()
