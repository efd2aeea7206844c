"""Whether poller's loop moves, and whether it reaches its API server."""

import time
from collections.abc import Callable, Mapping

from lib.kube.errors import LONGEST_WAIT, ApiError, ForbiddenError, LostAnswerError, UnreachableError
from lib.kube.in_flight import LONGEST_ANSWER

LONGEST_SILENCE = 2 * (LONGEST_ANSWER + LONGEST_WAIT)
"""Seconds without a sign of life after which the loop is taken for dead.

Progress of the loop is such a sign: each read of the cluster, each extension point of a pod's cycle, each
binding that was settled. Requests that only go on, such as events that nobody answers, are none. A loop that
is well waits for a sign at most as long as a server asks to be left alone, and then as long as an answer may
trickle in. It is given twice that, as machines may be slow.
"""


FRESH = 5.0
"""Seconds for which an answer of the API server counts; then it is asked whether it still answers."""


class Health:
    """Keeps what there is to say about the loop, which tells it; other threads ask.

    last_activity: when the loop moved last, or is to move next. last_answer: when the API server last
    answered well. probe: asks the API server for something small; ApiError if it doesn't answer.
    """

    def __init__(self) -> None:
        self.last_activity = time.monotonic()
        self.last_answer: float | None = None
        self.probe: Callable[[], object] = bool
        self._is_reached = False
        self._trouble: Exception | None = None

    # --- what the loop tells ----------------------------------------------------------------------------

    def moves(self) -> None:
        """The loop shows a sign of life."""
        self.last_activity = time.monotonic()

    def idle_for(self, seconds: float) -> None:
        """The loop shows its next sign of life in so many seconds."""
        self.last_activity = time.monotonic() + seconds

    def reached(self) -> None:
        """The API server has said all that was asked."""
        self._is_reached, self._trouble = True, None

    def failed(self, error: Exception) -> None:
        """A tick could not be done."""
        self._trouble = error

    # --- what others ask --------------------------------------------------------------------------------

    def alive(self, within: float = LONGEST_SILENCE) -> Mapping[str, str]:
        """What is wrong with the loop if no progress for so many seconds; "" if nothing is."""
        silent = time.monotonic() - self.last_activity
        return {"loop": f"no progress for {silent:.0f} s" if silent > within else ""}

    def ready(self, within: float = LONGEST_SILENCE) -> Mapping[str, str]:
        """What is wrong with the loop, and with the way to the API server."""
        return {**self.alive(within), "api-server": self._why_unreached()}

    def _why_unreached(self) -> str:
        trouble, last = self._trouble, self.last_answer
        if not self._is_reached:
            return f"never reached: {trouble}" if trouble else "no answer yet"
        if trouble is None and last is not None and time.monotonic() - last > FRESH:
            try:
                self.probe()  # a watch is quiet when nothing happens, and also when the server is frozen
            except ForbiddenError:
                pass  # it answers
            except ApiError as error:
                trouble = error
        if trouble is None:
            return ""
        since = f" for {time.monotonic() - last:.0f} s" if last else ""
        return f"unreachable{since}: {trouble}" if _is_silence(trouble) else f"failing{since}: {trouble}"


def _is_silence(error: Exception) -> bool:
    """Whether nothing answers; else it is an answer, but not a good one."""
    return isinstance(error, UnreachableError | LostAnswerError)
