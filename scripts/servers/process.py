"""Servers that say on standard output when they are ready."""

import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryFile
from typing import IO

ROOT = Path(__file__).resolve().parent.parent.parent

KEEPER = (
    "exec 3<&0 </dev/null; "
    "{ read -r _ <&3; kill $$ && sleep 5 && kill -9 $$; } >/dev/null 2>&1 & "
    'exec "$@" 3<&-'
)
"""A command, and beside it a reader of standard input, which ends the command when its parent has ended."""


def ending_with_us(command: Sequence[str]) -> list[str]:
    """The command, to be started with `stdin=PIPE`: it then ends when this process does, however that ends.

    Its process id is that of the command. The pipe is to be closed when the command has been waited for.
    """
    return ["/bin/sh", "-c", KEEPER, "sh", *command]


@contextmanager
def serving(command: list[str]) -> Iterator[str]:
    """Run a server for as long as the body of `with` takes; yield the line with which it says it is ready."""
    with (
        TemporaryFile(
            "w+"
        ) as errors,  # a file, not a pipe: a pipe that no one reads blocks a talkative server
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
