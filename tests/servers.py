"""Servers for tests: the embedded API server, and a real `kubectl proxy` in front of one."""

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryFile
from typing import IO

ROOT = Path(__file__).resolve().parent.parent
KUBECTL = Path(sys.executable).with_name("kubectl")


@contextmanager
def minicluster(*args: str) -> Iterator[str]:
    """Run the embedded API server on a free port, with the options `args`, and yield its URL."""
    command = [sys.executable, "-m", "scripts.minicluster", "--port", "0", *args]
    with _serving(command) as line:
        yield line.rsplit(" ", 1)[1]


@contextmanager
def kubectl_proxy(
    server: str, kubeconfig: Path | None = None, unix_socket: Path | None = None
) -> Iterator[str]:
    """Run a real `kubectl proxy` in front of `server`; yield its URL, or `unix://PATH` for a unix socket."""
    listen = f"--unix-socket={unix_socket}" if unix_socket else "--port=0"
    # An empty kubeconfig keeps the one of whoever runs the tests out of them.
    command = [
        str(KUBECTL),
        "--server",
        server,
        "--kubeconfig",
        str(kubeconfig or "/dev/null"),
        "proxy",
        listen,
    ]
    with _serving(command) as line:
        address = line.removeprefix("Starting to serve on ")
        yield f"unix://{unix_socket}" if unix_socket else f"http://{address}"


@contextmanager
def _serving(command: list[str]) -> Iterator[str]:
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
