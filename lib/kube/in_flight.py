"""Requests in flight: sent, not answered yet, or failed."""

from collections.abc import Callable, Iterator
from select import POLLIN
from typing import Any

from lib.kube.attempt import PendingResponse
from lib.kube.errors import ApiError
from lib.kube.system import System
from lib.kube.write import Request


class InFlight:
    """Requests that were sent and wait for their answers, each with what it is about.

    begin: sends a request. system: its time and sockets are used.
    """

    def __init__(self, begin: Callable[[Request], PendingResponse[Any]], system: System) -> None:
        self._begin, self._system = begin, system
        # By the number of their socket, in the order in which they were sent.
        self._sent: dict[int, tuple[PendingResponse[Any], Any]] = {}
        self._not_sent: list[tuple[Any, ApiError]] = []
        self._readable = system.poll()

    def __len__(self) -> int:
        return len(self._sent) + len(self._not_sent)

    def send(self, request: Request, about: Any) -> None:
        """Send a request. If that fails, the error is its answer."""
        try:
            pending = self._begin(request)
        except ApiError as error:
            self._not_sent.append((about, error))
        else:
            self._sent[pending.fileno()] = pending, about
            self._readable.register(pending.fileno(), POLLIN)

    def answers(self, until: float) -> Iterator[tuple[Any, Any]]:
        """The answers that have come, or the ApiErrors. If there is none, wait until one comes or is overdue.

        until: when to stop waiting, in `System.monotonic`'s seconds.
        """
        if not self._sent or self._not_sent:
            not_sent, self._not_sent = self._not_sent, []
            yield from not_sent
            return
        first_due = next(iter(self._sent.values()))[0].due  # all have the same time limit
        wait = max(0.0, min(until, first_due) - self._system.monotonic())
        numbers = [number for number, _ in self._readable.poll(wait * 1000)]
        if not numbers:
            now = self._system.monotonic()
            numbers = [number for number, (pending, _) in self._sent.items() if pending.due <= now]
        for number in numbers:
            self._readable.unregister(number)
            pending, about = self._sent.pop(number)
            try:
                yield about, pending.answer()
            except ApiError as error:
                yield about, error
