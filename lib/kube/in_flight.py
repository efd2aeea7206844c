"""Requests and their answers: sent, waited for, and what went wrong on the way."""

import select
import time
from collections.abc import Callable, Generator, Iterator
from math import inf
from typing import Any, Generic, TypeVar, cast

import httpx

from lib.kube.errors import AnswerError, ApiError, LostAnswerError, NotLeadingError, TooLargeError
from lib.kube.transport import SentRequest

About = TypeVar("About")
Read = TypeVar("Read")

TIMEOUT = httpx.Timeout(10, connect=3)
"""Seconds for each step of a request; the API server itself gives up on most after 60."""

LONGEST_ANSWER = 60.0
"""Seconds for the whole of an answer."""

MAX_BODY = 256 << 20
"""Bytes of an answer, unpacked: a page of a list has a thousand objects, each of 1.5 MiB at the most."""


class RequestObserver:
    """Is told of requests, by several threads. This one makes nothing of it."""

    def answered(self, method: str, host: str, code: int | None, seconds: float) -> None:
        """A request was answered after so many seconds; without a code, it wasn't."""

    def retried(self) -> None:
        """A request is made once more."""


class Attempt:
    """A block in which a request is made, to a host, and of which `request_observer` is told.

    What goes wrong on the way of an answer is raised as the ApiError it is, which names where that was.
    within: seconds that an answer may take. code: with which the request was answered.
    """

    def __init__(
        self, where: str, method: str, host: str, request_observer: RequestObserver, within: float
    ) -> None:
        self.where = where
        self.code: int | None = None
        self._method, self._host = method, host
        self._observer = request_observer
        self._within = within

    def __enter__(self) -> "Attempt":
        self._began = time.monotonic()
        return self

    def __exit__(self, _: object, error: BaseException | None, trace: object) -> None:
        if not isinstance(error, (NotLeadingError, GeneratorExit)):  # not sent; or nobody wants the answer
            self._observer.answered(self._method, self._host, self.code, time.monotonic() - self._began)
        if isinstance(error, httpx.HTTPError):
            raise to_api_error(error, self.where, self._within) from error


def to_api_error(error: httpx.HTTPError, where: str, within: float) -> ApiError:
    """What went wrong on the way of an answer, which should have come within so many seconds."""
    if isinstance(error, httpx.TimeoutException):
        return LostAnswerError(f"{where}: no answer within {within:.0f} s")
    if isinstance(error, httpx.DecodingError):
        return AnswerError(f"{where}: the response can't be decompressed ({error})")
    return LostAnswerError(f"{where}: the connection broke ({error})")


class PendingResponse(Generic[Read]):
    """A request that was sent. Its answer can be read once, and may come before it is asked for."""

    def __init__(
        self, exchange: Generator[SentRequest, None, bytes], decode: Callable[[bytes], Read]
    ) -> None:
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

    def then(self, use: Callable[[Read], None]) -> "PendingResponse[Read]":
        """The same request; `use` is told what its answer says."""
        decode = self._decode

        def used(body: bytes) -> Read:
            read = decode(body)
            use(read)
            return read

        self._decode = used
        return self


class InFlight(Generic[About]):
    """Requests that were sent and wait for their answers, so many at the most.

    ended: is told of each what it was about, and what went wrong with it, if anything did.
    """

    def __init__(self, most: int, ended: Callable[[About, ApiError | None], None]) -> None:
        self._most = most
        self._ended = ended
        # By the number of their socket, in the order in which they were sent.
        self._by_number: dict[int, tuple[PendingResponse[Any], About]] = {}
        self._readable = select.poll()

    def __len__(self) -> int:
        return len(self._by_number)

    @property
    def is_full(self) -> bool:
        """Whether no more may be sent now."""
        return len(self) >= self._most

    def make_room(self) -> None:
        """Wait until one more may be sent."""
        while self.is_full:
            self.poll()

    def send(self, begin: Callable[[], PendingResponse[Any]], about: About) -> None:
        """Send a request; to be asked for when there is room."""
        try:
            pending = begin()
        except ApiError as error:
            self._ended(about, error)
            return
        number = pending.fileno()
        self._by_number[number] = pending, about
        self._readable.register(number, select.POLLIN)

    def poll(self, until: float = inf) -> None:
        """Read the answers that have come; wait for one if there is none, or for one to be overdue.

        until: in `time.monotonic`'s seconds, to wait no longer.
        """
        first = next(iter(self._by_number.values()), None)
        if not first:
            return
        until = min(until, first[0].due)  # as all have as long: who was sent first is due first
        numbers = [number for number, _ in self._readable.poll(max(0.0, until - time.monotonic()) * 1000)]
        if not numbers:
            now = time.monotonic()
            numbers = [number for number, (pending, _) in self._by_number.items() if pending.due <= now]
        for number in numbers:
            self._readable.unregister(number)
            pending, about = self._by_number.pop(number)
            failed = None
            try:
                pending.answer()
            except ApiError as error:
                failed = error
            self._ended(about, failed)

    def drain(self) -> None:
        """Wait for all answers."""
        while self._by_number:
            self.poll()


def read_all(answer: httpx.Response, where: str, within: float = LONGEST_ANSWER) -> bytes:
    """The body, if it comes in time: a server that sends a byte now and then would else keep us for ever.

    within: seconds. LostAnswerError when the body isn't complete in time, TooLargeError when it is larger
    than any should be.
    """
    until = time.monotonic() + within
    chunks, size = [], 0
    for chunk in body_of(answer):
        chunks.append(chunk)
        size += len(chunk)
        if size > MAX_BODY:
            raise TooLargeError(f"{where}: the answer is larger than {MAX_BODY >> 20} MiB")
        if time.monotonic() > until:
            raise LostAnswerError(f"{where}: the answer isn't complete after {within:g} s")
    return b"".join(chunks)


def body_of(answer: httpx.Response) -> Iterator[bytes]:
    """The body as it comes, piece by piece, unpacked."""
    # httpx's way through its decoders takes a fifth of a small request's time, and those aren't packed.
    packed = [value for name, value in answer.headers.raw if name.lower() == b"content-encoding"]
    if not packed:
        return iter(cast(httpx.SyncByteStream, answer.stream))
    if packed != [b"gzip"]:  # a few bytes that are packed several times could fill the memory at once
        raise httpx.DecodingError(f"expected gzip, got {b', '.join(packed)!r}")
    return answer.iter_bytes()
