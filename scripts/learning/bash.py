"""A shell that runs the commands of a page, one block after the other, and tells what they show."""

import os
import secrets
import subprocess
import tempfile
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from threading import Timer
from types import TracebackType
from typing import Self


class ShellError(Exception):
    """A block didn't come to its end. The text holds what it showed until then."""


class Bash:
    """A running bash, which keeps variables and background jobs from block to block."""

    def __init__(self, environment: Mapping[str, str], folder: Path) -> None:
        self._blocks = tempfile.TemporaryDirectory(prefix="lesson-")
        self._process = subprocess.Popen(
            ["bash", "--norc", "--noprofile"],
            env={**os.environ, **environment},
            cwd=folder,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def run(self, commands: str, seconds: float = 120) -> str:
        """What a block shows, on standard output and standard error. ShellError when it takes longer."""
        assert self._process.stdin
        assert self._process.stdout
        mark = secrets.token_hex(8)
        file = Path(self._blocks.name, mark)
        file.write_text(commands)
        # From a file, so that no command reads those that follow it.
        self._process.stdin.write(f". {file} </dev/null\necho {mark}\n")
        self._process.stdin.flush()
        shown: list[str] = []
        timer = Timer(seconds, self._kill)
        timer.start()
        try:
            for line in self._process.stdout:
                before, found, _ = line.partition(mark)
                shown.append(before)
                if found:
                    return "".join(shown)
        finally:
            timer.cancel()
        raise ShellError(f"not done within {seconds:g} s:\n{commands}\n{''.join(shown)}")

    def close(self) -> None:
        """End it, with all that it has started."""
        assert self._process.stdin
        assert self._process.stdout
        self._kill()
        self._process.wait()
        self._process.stdin.close()
        self._process.stdout.close()
        self._blocks.cleanup()

    def _kill(self) -> None:
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, 9)
