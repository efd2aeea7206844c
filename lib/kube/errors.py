"""What can go wrong with a request. Each error's text says what happened, where, and what to do."""

from typing import TYPE_CHECKING

from lib.lazily import Lazy

if TYPE_CHECKING:
    import httpx
else:
    httpx = Lazy("httpx")

LONGEST_WAIT = 60.0
"""Of a server's Retry-After, at most so many seconds are waited."""


class ApiError(Exception):
    """A request did not succeed. The text is one line, for a person."""

    transient = False
    """Whether the same request may succeed a moment later."""

    may_be_written = False
    """Whether a write may have happened in spite of the error: look it up before it is made again."""

    retry_after: float | None = None
    """The server's Retry-After, in seconds."""


def as_api_error(error: Exception) -> ApiError:
    """The error itself if it is an ApiError; else an ApiError that names the unexpected error of a write."""
    return error if isinstance(error, ApiError) else ApiError(f"{type(error).__name__}: {error}")


def to_api_error(error: "httpx.HTTPError", where: str, within: float) -> ApiError:
    """The ApiError for an error of the connection. within: the seconds that the answer might take."""
    if isinstance(error, httpx.TimeoutException):
        return LostAnswerError(f"{where}: no answer within {within:.0f} s")
    if isinstance(error, httpx.DecodingError):
        return AnswerError(f"{where}: the response can't be decompressed ({error})")
    return LostAnswerError(f"{where}: the connection broke ({error})")


class InvalidNameError(ApiError):
    """No object can have this name, so no request is sent."""

    def __init__(self, name: str) -> None:
        super().__init__(f"{name[:80]!r} is not a valid object name")


class TooLargeError(ApiError):
    """An answer, or a line of a watch, is too large to come from an API server."""

    may_be_written = True


class UnreachableError(ApiError):
    """No connection: nothing listens there."""

    transient = True


class NotLeadingError(ApiError):
    """A write was not sent: this poller may not be the leader any more."""


class LostAnswerError(ApiError):
    """A request was sent, but no answer came in time."""

    transient = True
    may_be_written = True


class AnswerError(ApiError):
    """The answer isn't one of the Kubernetes API: HTML, half an answer, or other fields."""

    may_be_written = True


class StaleListError(ApiError):
    """A list is older than what was seen before."""


class StatusError(ApiError):
    """The API server, or the proxy before it, refused. The text quotes it.

    said: the server's words alone.
    """

    said = ""


class ForbiddenError(StatusError):
    """403: the user of kubectl proxy has no right to do that."""


class StartingError(StatusError):
    """403 from an API server that still starts, and doesn't know yet who has which rights."""

    transient = True


class NotFoundError(StatusError):
    """404: no such object."""


class ConflictError(StatusError):
    """409: the object isn't in the state that the request expects, such as its resource version."""


class GoneError(StatusError):
    """410: the continue token of a list, or the resource version of a watch, has expired."""


class OverloadedError(StatusError):
    """429: too many requests; nothing was done."""

    transient = True


class ServerError(StatusError):
    """5xx: the API server, or the proxy that can't reach it, failed."""

    transient = True
    may_be_written = True


class RefusedError(ServerError):
    """kubectl proxy answers, but nothing listens at the address of its API server."""

    may_be_written = False


_ERRORS: dict[int, type[StatusError]] = {
    403: ForbiddenError,
    404: NotFoundError,
    409: ConflictError,
    410: GoneError,
    429: OverloadedError,
}


def error_of(code: int) -> type[StatusError]:
    """The error for a status code."""
    return _ERRORS.get(code, ServerError if code >= 500 else StatusError)


def beginning(body: bytes) -> str:
    """The beginning of an answer, for an error's text."""
    return " ".join(body[:200].decode(errors="replace").split())[:60]
