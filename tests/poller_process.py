"""poller.py as a process that is forked from one which has imported poller.py's modules already.

That saves half a second of CPU time at each start. Otherwise it is like a process started by a shell: it has
its own process id, arguments, environment, standard streams, signals and exit status.
"""

import fcntl
import importlib
import multiprocessing
import os
import runpy
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from multiprocessing.context import ForkServerProcess
from pathlib import Path
from pkgutil import walk_packages
from tempfile import TemporaryDirectory

import lib
from scripts.servers.process import ROOT, ending_with_us

POLLER = ROOT / "poller.py"

PATIENCE = 180
"""The longest time, in seconds, of a poller that runs to its end."""

# __main__ is pytest, where it runs without workers; typer imports the other when it reads the options. The
# rest is what verbs import when they are asked: that takes 0.2 s of CPU time.
_FORKS = multiprocessing.get_context("forkserver")
_OF_VERBS = [module.name for module in walk_packages(lib.__path__, "lib.")]
_FORKS.set_forkserver_preload(["__main__", "poller", "typer._adapters", *_OF_VERBS])


class PollerProcess:
    """A process of poller.py, with the methods of subprocess.Popen."""

    def __init__(
        self, script: Path, arguments: list[str], environment: dict[str, str], stdout: Path, stderr: Path
    ) -> None:
        files = (os.devnull, str(stdout), str(stderr))
        self._process: ForkServerProcess = _FORKS.Process(
            target=_run, args=(str(script), arguments, environment, files), daemon=True
        )
        self._process.start()

    @property
    def pid(self) -> int:
        assert self._process.pid is not None
        return self._process.pid

    @property
    def returncode(self) -> int | None:
        """The exit status; None while it runs; -N if signal N ended it."""
        return self._process.exitcode

    def poll(self) -> int | None:
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        self._process.join(timeout)
        if self.returncode is None:
            raise subprocess.TimeoutExpired("poller.py", timeout or 0)
        return self.returncode

    def send_signal(self, signal: int) -> None:
        if self.returncode is None:
            os.kill(self.pid, signal)

    def kill(self) -> None:
        self._process.kill()
        self._process.join()


def with_constant(folder: Path, module: str, name: str, value: object) -> Path:
    """A script that runs poller.py, in which a constant has another value."""
    script = folder / f"with_{name.lower()}.py"
    assert hasattr(importlib.import_module(module), name)
    script.write_text(
        "import importlib, runpy, sys\n"
        f"sys.path.insert(0, {str(ROOT)!r})\n"
        f"importlib.import_module({module!r}).{name} = {value!r}\n"
        f"runpy.run_path({str(POLLER)!r}, run_name='__main__')\n"
    )
    return script


@contextmanager
def started(
    arguments: Sequence[str],
    stdout: Path,
    stderr: Path,
    script: Path = POLLER,
    afresh: bool = False,
    **environment: str,
) -> "Iterator[PollerProcess | subprocess.Popen[bytes]]":
    """Run poller.py, or a script that runs it, until the block ends. `afresh`: started as a shell does it."""
    variables = {**os.environ, **environment}
    for file in (stdout, stderr):
        file.touch()
    if not afresh:
        forked = PollerProcess(script, list(arguments), variables, stdout, stderr)
        try:
            yield forked
        finally:
            forked.kill()
        return
    command = ending_with_us([sys.executable, str(script), *arguments])
    with (
        stdout.open("w") as output,
        stderr.open("w") as errors,
        subprocess.Popen(
            command, env=variables, stdin=subprocess.PIPE, stdout=output, stderr=errors
        ) as process,
    ):
        try:
            yield process
        finally:
            process.kill()


def run_poller(
    *arguments: str, script: Path = POLLER, afresh: bool = False, **environment: str
) -> "subprocess.CompletedProcess[str]":
    """Run poller.py to its end."""
    with TemporaryDirectory() as folder:
        stdout, stderr = Path(folder, "stdout"), Path(folder, "stderr")
        with started(arguments, stdout, stderr, script, afresh, **environment) as process:
            status = process.wait(PATIENCE)
        return subprocess.CompletedProcess(arguments, status, stdout.read_text(), stderr.read_text())


def _run(script: str, arguments: list[str], environment: dict[str, str], files: tuple[str, ...]) -> None:
    """Run poller.py in the forked process."""
    _end_with_the_tests()
    for number, file in enumerate(files):
        opened = os.open(file, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o666)
        os.dup2(opened, number)
        os.close(opened)
    os.environ.clear()
    os.environ.update(environment)
    sys.argv = [script, *arguments]
    runpy.run_path(script, run_name="__main__")


def _end_with_the_tests() -> None:
    """Make the kernel send SIGIO, which ends a process, to this one when the tests' process has ended."""
    parent = multiprocessing.parent_process()
    assert parent
    fcntl.fcntl(parent.sentinel, fcntl.F_SETOWN, os.getpid())
    fcntl.fcntl(parent.sentinel, fcntl.F_SETFL, os.O_ASYNC)
