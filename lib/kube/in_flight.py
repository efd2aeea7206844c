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

        An answer may come in pieces: the others don't wait for the rest.

        until: when to stop waiting, in `System.monotonic`'s seconds.
        """
        if not self._sent or self._not_sent:
            not_sent, self._not_sent = self._not_sent, []
            yield from not_sent
            return
        first_due = min(pending.due for pending, _ in self._sent.values())
        wait = max(0.0, min(until, first_due) - self._system.monotonic())
        readable = [number for number, _ in self._readable.poll(wait * 1000)]
        numbers = [number for number in readable if self._sent[number][0].take_in()]
        now = self._system.monotonic()
        for number, (pending, _) in self._sent.items() if first_due <= now else ():
            if pending.due <= now and number not in numbers:
                pending.expire()
                numbers.append(number)
        for number in numbers:
            self._readable.unregister(number)
            pending, about = self._sent.pop(number)
            try:
                yield about, pending.answer()
            except ApiError as error:
                yield about, error
