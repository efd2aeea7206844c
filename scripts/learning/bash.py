"""A shell that runs the commands of a page, one block after the other, and returns their output."""

import os
import secrets
import subprocess
import tempfile
from collections.abc import Mapping
from contextlib import ExitStack, suppress
from pathlib import Path
from threading import Timer
from types import TracebackType
from typing import Self

from scripts.servers.process import ending_with_all_it_starts


class ShellError(Exception):
    """A block didn't end. The text holds its output until then."""


class Bash:
    """A running bash, which keeps variables and background jobs from block to block."""

    def __init__(self, environment: Mapping[str, str], folder: Path) -> None:
        with ExitStack() as stack:
            self._blocks = stack.enter_context(tempfile.TemporaryDirectory(prefix="lesson-"))
            reading, writing = os.pipe()
            self._commands = stack.enter_context(os.fdopen(writing, "w"))
            with os.fdopen(reading, "rb"):
                self._process = stack.enter_context(
                    ending_with_all_it_starts(
                        ["/bin/sh", "-c", 'exec bash --norc --noprofile <"$0"', f"/dev/fd/{reading}"],
                        env={**os.environ, **environment},
                        cwd=folder,
                        stdout=subprocess.PIPE,
                        stderr=subprocess.STDOUT,
                        pass_fds=[reading],
                    )
                )
            self._end = stack.pop_all()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def run(self, commands: str, seconds: float = 120) -> str:
        """Run a block; returns its standard output and standard error. ShellError when it takes longer."""
        assert self._process.stdout
        mark = secrets.token_hex(8)
        file = Path(self._blocks, mark)
        file.write_text(commands)
        # The block comes from a file, so that none of its commands reads the next ones as its input.
        self._commands.write(f". {file} </dev/null\necho {mark}\n")
        self._commands.flush()
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
        """End bash, and all processes that it has started."""
        self._end.close()

    def _kill(self) -> None:
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, 9)
