"""Servers that say on standard output when they are ready."""

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryFile
from typing import IO

ROOT = Path(__file__).resolve().parent.parent.parent


@contextmanager
def serving(command: list[str]) -> Iterator[str]:
    """Run a server for as long as the body of `with` takes; yield the line with which it says it is ready."""
    with (
        TemporaryFile(
            "w+"
        ) as errors,  # a file, not a pipe: a pipe that no one reads blocks a talkative server
        subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=errors, text=True) as server,
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


def _written(errors: IO[str]) -> str:
    errors.seek(0)
    return errors.read()
