"""The embedded API server, in a separate process."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager

from scripts.servers.process import serving


@contextmanager
def minicluster(*args: str) -> Iterator[str]:
    """Run the embedded API server on a free port, with the options `args`, and yield its URL."""
    command = [sys.executable, "-m", "scripts.minicluster", "--port", "0", *args]
    with serving(command) as line:
        yield line.rsplit(" ", 1)[1]
