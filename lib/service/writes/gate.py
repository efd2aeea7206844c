"""Whether anything may still be written in this tick."""

from lib.kube.errors import ApiError
from lib.service.shutdown import Shutdown


class WriteGate:
    """Closed when the API server isn't there, when poller may not write any more, or when it shuts down.

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
        """Whether poller was told to stop."""
        return self._shutdown.stopping.is_set()

    @property
    def impatient(self) -> bool:
        """Whether poller was told twice to stop: then it doesn't wait for writes in flight, either."""
        return self._shutdown.impatient

    def sleep(self, seconds: float) -> None:
        """Sleep; not any longer once poller was told to stop."""
        self._shutdown.stopping.wait(seconds)
