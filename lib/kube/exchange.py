"""One request and its answer: sent, waited for, and what went wrong on the way."""

import select
import time
from collections.abc import Callable, Collection, Generator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from math import inf
from typing import Generic, TypeVar

import httpx

from lib.kube.errors import AnswerError, LostAnswerError
from lib.kube.transport import Sent

Read = TypeVar("Read")

TIMEOUT = httpx.Timeout(10, connect=3)
"""Seconds for each step of a request; the API server itself gives up on most after 60."""

LONGEST_ANSWER = 60.0
"""Seconds for the whole of an answer."""


@dataclass
class Counted:
    """A request, and with which code it was answered."""

    code: int | None = None


class Traffic:
    """Is told of requests, by several threads. This one makes nothing of it."""

    def answered(self, method: str, host: str, code: int | None, seconds: float) -> None:
        """A request was answered after so many seconds; without a code, it wasn't."""

    def retried(self) -> None:
        """A request is made once more."""


class Pending(Generic[Read]):
    """A request that was sent. Its answer can be read once, and may come before it is asked for."""

    def __init__(self, exchange: Generator[Sent, None, bytes], decode: Callable[[bytes], Read]) -> None:
        self._exchange = exchange
        self._decode = decode
        self._sent = next(exchange)

    def fileno(self) -> int:
        """What to look at for whether there is an answer."""
        return self._sent.fileno()

    @property
    def due(self) -> float:
        """When an answer will be taken for lost, in `time.monotonic`'s seconds."""
        return self._sent.due

    def answer(self) -> Read:
        """Wait for the answer; what it says."""
        try:
            next(self._exchange)
        except StopIteration as end:
            return self._decode(end.value)
        raise AssertionError("an exchange ends with the answer")


def first_answered(pending: Collection[Pending[Read]], until: float = inf) -> list[Pending[Read]]:
    """Those of which there is something to read, or whose answer is overdue; waits until there is one.

    until: in `time.monotonic`'s seconds, to wait no longer. None are returned then.
    """
    by_number = {each.fileno(): each for each in pending}
    readable = select.poll()
    for number in by_number:
        readable.register(number, select.POLLIN)
    until = min([until, *(each.due for each in by_number.values())])
    found = readable.poll(max(0.0, until - time.monotonic()) * 1000)
    now = time.monotonic()
    return [by_number[number] for number, _ in found] or [each for each in pending if each.due <= now]


@contextmanager
def in_words(where: str, within: float = TIMEOUT.read or 0) -> Iterator[None]:
    """Have what goes wrong on the way of an answer raised as the ApiError it is; `within` is in seconds."""
    try:
        yield
    except httpx.TimeoutException as error:
        raise LostAnswerError(f"{where}: no answer within {within:.0f} s") from error
    except httpx.TransportError as error:
        raise LostAnswerError(f"{where}: the connection broke ({error})") from error
    except httpx.DecodingError as error:
        raise AnswerError(f"{where}: the answer can't be unpacked ({error})") from error


def read_all(answer: httpx.Response, where: str, within: float = LONGEST_ANSWER) -> bytes:
    """The body, if it comes in time: a server that sends a byte now and then would else keep us for ever.

    within: seconds. LostAnswerError when it doesn't.
    """
    until = time.monotonic() + within
    chunks = []
    for chunk in answer.iter_bytes():
        chunks.append(chunk)
        if time.monotonic() > until:
            raise LostAnswerError(f"{where}: the answer isn't complete after {within:g} s")
    return b"".join(chunks)
