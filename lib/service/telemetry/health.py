"""Health checks: whether poller's loop makes progress, and whether the API server answers."""

from collections.abc import Callable

from lib.kube.attempt import LONGEST_ANSWER
from lib.kube.errors import LONGEST_WAIT, ApiError, ForbiddenError, LostAnswerError, UnreachableError
from lib.kube.system import MACHINE, System

LONGEST_SILENCE = 2 * (LONGEST_ANSWER + LONGEST_WAIT)
"""After so many seconds without progress, the loop counts as hanging.

Progress is each read of the cluster, each extension point of a pod's cycle, each binding with a result. A
request without an answer is none. A healthy loop can be without progress for the longest Retry-After and then
the longest answer. The limit is twice that, because machines may be slow.
"""


FRESH = 5.0
"""An answer of the API server, or its absence, counts for so many seconds. Then /readyz sends a request."""


class Health:
    """The state of the loop. The loop reports its progress; other threads ask."""

    def __init__(self, system: System = MACHINE) -> None:
        self._system = system
        self.last_activity = system.monotonic()
        """When the loop last made progress, or when its next progress is due."""
        self.last_answer: float | None = None
        """When the API server gave its last good answer."""
        self.probe: Callable[[], object] = bool
        """Sends the API server a small request; ApiError if it fails."""
        self._is_reached = False
        self._trouble: Exception | None = None
        self._probe_failed: tuple[float, ApiError] | None = None  # when, and why

    # --- called by the loop -----------------------------------------------------------------------------

    def moves(self) -> None:
        """The loop makes progress."""
        self.last_activity = self._system.monotonic()

    def idle_for(self, seconds: float) -> None:
        """The loop's next progress is due in so many seconds."""
        self.last_activity = self._system.monotonic() + seconds

    def reached(self) -> None:
        """The API server has answered all requests of a tick."""
        self._is_reached, self._trouble = True, None

    def failed(self, error: Exception) -> None:
        """A tick failed."""
        self._trouble = error

    # --- for other threads ------------------------------------------------------------------------------

    def why_stuck(self, within: float = LONGEST_SILENCE) -> str:
        """What is wrong with the loop if it made no progress for so many seconds; "" if nothing is."""
        silent = self._system.monotonic() - self.last_activity
        return f"no progress for {silent:.0f} s" if silent > within else ""

    def why_unreached(self) -> str:
        """What is wrong with the connection to the API server; "" if nothing is."""
        trouble, last = self._trouble, self.last_answer
        if not self._is_reached:
            return f"never reached: {trouble}" if trouble else "no answer yet"
        if trouble is None and last is not None and self._system.monotonic() - last > FRESH:
            trouble = self._why_no_answer()  # a quiet watch may also mean a frozen server
        if trouble is None:
            return ""
        since = f" for {self._system.monotonic() - last:.0f} s" if last else ""
        is_silent = isinstance(trouble, UnreachableError | LostAnswerError)  # nothing answers
        return f"{'unreachable' if is_silent else 'failing'}{since}: {trouble}"

    def _why_no_answer(self) -> ApiError | None:
        """Ask the API server; why that fails. A failure is remembered: to find out takes some seconds."""
        if self._probe_failed and self._system.monotonic() - self._probe_failed[0] < FRESH:
            return self._probe_failed[1]
        self._probe_failed = None
        try:
            self.probe()
        except ForbiddenError:
            pass  # it answers
        except ApiError as error:
            self._probe_failed = self._system.monotonic(), error
            return error
        return None
