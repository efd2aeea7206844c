"""Writes that take several requests, one after the other, without blocking in between."""

from collections.abc import Callable, Iterator
from typing import Any

from lib.kube.errors import ApiError
from lib.kube.in_flight import PendingResponse


class Write:
    """One request of a write.

    begin: sends it once. go_on: called with the error; retries as long as that is worth it, and waits. What
    may have happened is looked up before it is made again. answer: the server's answer in the end.
    """

    def __init__(
        self, begin: Callable[[], PendingResponse[Any]], go_on: Callable[[ApiError], object]
    ) -> None:
        self._begin, self._go_on = begin, go_on
        self.answer: Any = None

    def begin(self) -> PendingResponse[Any]:
        """Send the request without waiting for the answer."""
        return self._begin().then(self._note)

    def go_on(self, failed: ApiError) -> None:
        """Retry after a failed first try, and wait. ApiError when that fails, too."""
        self.answer = self._go_on(failed)

    def make(self) -> None:
        """Make the request, and wait. ApiError when it fails."""
        try:
            self.begin().answer()
        except ApiError as error:
            self.go_on(error)

    def _note(self, answer: Any) -> None:
        self.answer = answer


Writes = Iterator[Write]
"""The requests of a write, from a generator function. Make each before you take the next. If one fails, throw
its ApiError into the generator, which knows what to do."""


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
    """The next request; None at the end. failed: the last request's error; raised if the write ends there."""
    try:
        return writes.throw(failed) if failed else next(writes)  # type: ignore[attr-defined]
    except StopIteration:
        return None
