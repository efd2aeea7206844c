"""One request: reported, timed, and limited until the end of its answer's body."""

from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass
from typing import Generic, TypeVar, cast

import httpx

from lib.kube.errors import LostAnswerError, NotLeadingError, TooLargeError, to_api_error
from lib.kube.system import MACHINE, System
from lib.kube.transport import SentRequest

Read = TypeVar("Read")

TIMEOUT = httpx.Timeout(10, connect=3)
"""Seconds for each step of a request. The API server's own limit for most is 60."""

LONGEST_ANSWER = 60.0
"""Seconds until an answer must be complete."""

MAX_BODY = 256 << 20
"""The most bytes of an uncompressed answer. A page has 1,000 objects of at most 1.5 MiB."""


class RequestObserver:
    """Callbacks for requests, called by several threads. Those here do nothing."""

    def answered(self, method: str, host: str, code: int | None, seconds: float) -> None:
        """A request ended after so many seconds. code: the HTTP status; None if no answer came."""

    def retried(self) -> None:
        """A request is retried."""


@dataclass
class HttpAttempt:
    """A block that makes one request to a host. It reports the request to the observer.

    Errors of the connection become an ApiError that names the host. within: the seconds that an answer may
    take. code: the HTTP status of the answer.
    """

    where: str
    method: str
    host: str
    observer: RequestObserver
    within: float
    system: System
    code: int | None = None

    def __enter__(self) -> "HttpAttempt":
        self._began = self.system.monotonic()
        return self

    def __exit__(self, _: object, error: BaseException | None, trace: object) -> None:
        if not isinstance(error, (NotLeadingError, GeneratorExit)):  # not sent, or the answer isn't needed
            seconds = self.system.monotonic() - self._began
            self.observer.answered(self.method, self.host, self.code, seconds)
        if isinstance(error, httpx.HTTPError):
            raise to_api_error(error, self.where, self.within) from error


def read_all(
    answer: httpx.Response, where: str, within: float = LONGEST_ANSWER, system: System = MACHINE
) -> bytes:
    """The body, if it comes in time: a server could send one byte now and then, for ever.

    within: in seconds. LostAnswerError when the body isn't complete in time, TooLargeError when it has more
    than MAX_BODY bytes.
    """
    until = system.monotonic() + within
    chunks, size = [], 0
    for chunk in body_of(answer):
        chunks.append(chunk)
        size += len(chunk)
        if size > MAX_BODY:
            raise TooLargeError(f"{where}: the answer is larger than {MAX_BODY >> 20} MiB")
        if system.monotonic() > until:
            raise LostAnswerError(f"{where}: the answer isn't complete after {within:g} s")
    return b"".join(chunks)


def body_of(answer: httpx.Response) -> Iterator[bytes]:
    """The body as it comes, piece by piece, uncompressed."""
    # httpx's decoders would take a fifth of a small request's time, and small answers aren't compressed.
    packed = [value.lower() for name, value in answer.headers.raw if name.lower() == b"content-encoding"]
    if not packed:
        return iter(cast(httpx.SyncByteStream, answer.stream))
    if packed != [b"gzip"]:  # compressed several times, a few bytes could fill the memory
        raise httpx.DecodingError(f"expected gzip, got {b', '.join(packed)!r}")
    return answer.iter_bytes()


class PendingResponse(Generic[Read]):
    """The response to come of a request that was sent. It can be read once."""

    def __init__(
        self, exchange: Generator[SentRequest, None, bytes], decode: Callable[[bytes], Read]
    ) -> None:
        self._exchange = exchange
        self._decode = decode
        self._sent = next(exchange)

    def fileno(self) -> int:
        """The file descriptor to wait at: it can be read when the answer begins."""
        return self._sent.fileno()

    @property
    def due(self) -> float:
        """When the answer counts as lost, in `System.monotonic`'s seconds, unless more of it comes before."""
        return min(self._sent.due, self._sent.sent_at + LONGEST_ANSWER)

    def take_in(self) -> bool:
        """Read what has come of the answer; returns whether `answer` need not wait for the rest."""
        return self._sent.take_in()

    def expire(self) -> None:
        """Let `answer` fail, unless the answer is there: it is overdue."""
        self._sent.expire()

    def answer(self) -> Read:
        """Wait for the answer, and return it."""
        try:
            next(self._exchange)
        except StopIteration as end:
            return self._decode(end.value)
        raise AssertionError("an exchange ends with the answer")
