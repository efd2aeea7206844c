"""Writes of several requests, one after the other, that nobody needs to wait for in between."""

from collections.abc import Callable, Iterator
from typing import Any

from lib.kube.errors import ApiError
from lib.kube.in_flight import PendingResponse


class Write:
    """One request of a write.

    begin: sends it once. go_on: is told how that failed, tries again as long as that is worth it, and waits;
    what may have happened is looked up before it is made again. answer: what the server said in the end.
    """

    def __init__(
        self, begin: Callable[[], PendingResponse[Any]], go_on: Callable[[ApiError], object]
    ) -> None:
        self._begin, self._go_on = begin, go_on
        self.answer: Any = None

    def begin(self) -> PendingResponse[Any]:
        """Send the request, and don't wait for the answer."""
        return self._begin().then(self._note)

    def go_on(self, failed: ApiError) -> None:
        """Try again after a first try failed, and wait. ApiError when that is in vain."""
        self.answer = self._go_on(failed)

    def make(self) -> None:
        """Make the request, and wait. ApiError when that is in vain."""
        try:
            self.begin().answer()
        except ApiError as error:
            self.go_on(error)

    def _note(self, answer: Any) -> None:
        self.answer = answer


Writes = Iterator[Write]
"""Requests in their order; from a generator function. Each is to be made before the next is asked for; the
ApiError of one that fails is to be thrown into the generator, which knows what it means."""


def make_all(writes: Writes) -> None:
    """Make all requests, and wait for each. ApiError when one fails."""
    write = next_write(writes)
    while write:
        failed = None
        try:
            write.make()
        except ApiError as error:
            failed = error
        write = next_write(writes, failed)


def next_write(writes: Writes, failed: ApiError | None = None) -> Write | None:
    """The next request; None if there is none. failed: how the one before ended; raised if it ends there."""
    try:
        return writes.throw(failed) if failed else next(writes)  # type: ignore[attr-defined]
    except StopIteration:
        return None
