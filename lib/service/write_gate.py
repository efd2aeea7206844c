"""Whether anything may still be written in this tick."""

from lib.kube.errors import ApiError
from lib.service.shutdown import Shutdown

MAX_THREADS = 16
"""They make what takes several requests, or several tries; more of them get in each other's way."""


class WriteGate:
    """Closed when nobody is there to write to, when poller may not write any more, or when it is to end.

    error: why writing ended in this tick: an UnreachableError or a NotLeadingError; None if it didn't.
    """

    def __init__(self, shutdown: Shutdown) -> None:
        self._shutdown = shutdown
        self.error: ApiError | None = None

    @property
    def closed(self) -> bool:
        """Whether nothing new is to be written."""
        return self.error is not None or self.stopping

    @property
    def stopping(self) -> bool:
        """Whether poller was told to end."""
        return self._shutdown.stopping.is_set()

    @property
    def impatient(self) -> bool:
        """Whether poller was told twice to end: then it doesn't wait for what is in flight, either."""
        return self._shutdown.impatient
