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
    "exec 3<&0 </dev/null; trap '' HUP INT TERM; "
    "{ read -r _ <&3; kill $$ && sleep 5 && kill -9 $$; } >/dev/null 2>&1 & "
    'trap - HUP INT TERM; exec "$@" 3<&-'
)
"""Runs a command, and a reader of standard input, which ends the command when its parent has ended.

The reader ignores signals to the process group from its first moment: the command may handle them, and run
on for long.
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


def kill_all_with(variable: str) -> None:
    """Kill the processes that have a variable in their environment, whatever session they are in.

    Only where there is /proc, as on Linux. A process may start another one meanwhile, so it looks again.
    """
    for _ in range(100):
        found = False
        for environment in Path("/proc").glob("[0-9]*/environ"):
            with suppress(OSError):  # it has ended, or is somebody else's
                if f"\0{variable}=".encode() in b"\0" + environment.read_bytes():
                    os.kill(int(environment.parent.name), signal.SIGKILL)
                    found = True
        if not found:
            return


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
