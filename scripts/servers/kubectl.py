"""A real `kubectl`, and its proxy."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from scripts.servers.process import serving

KUBECTL = Path(sys.executable).with_name("kubectl")


@contextmanager
def kubectl_proxy(
    server: str, kubeconfig: Path | None = None, unix_socket: Path | None = None
) -> Iterator[str]:
    """Run a real `kubectl proxy` in front of `server`; yield its URL, or `unix://PATH` for a unix socket."""
    listen = f"--unix-socket={unix_socket}" if unix_socket else "--port=0"
    # An empty kubeconfig, so that the user's own isn't read.
    command = [
        str(KUBECTL),
        "--server",
        server,
        "--kubeconfig",
        str(kubeconfig or "/dev/null"),
        "proxy",
        listen,
    ]
    with serving(command) as line:
        address = line.removeprefix("Starting to serve on ")
        yield f"unix://{unix_socket}" if unix_socket else f"http://{address}"
