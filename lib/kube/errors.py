"""What can go wrong with a request, in words for a person: what happened, where, and what to do."""

import re

import httpx
import msgspec

from lib.kube.objects import UNREADABLE, Status, decode_hook

LONGEST_WAIT = 60.0
"""Seconds that a server's Retry-After is honoured for at the most."""


class ApiError(Exception):
    """A request did not succeed. The text is one line, for a person."""

    transient = False
    """Whether the same request may succeed a moment later."""

    unsettled = False
    """Whether a write may have happened all the same: it must be looked up before it is made again."""

    retry_after: float | None = None
    """Seconds that the server asks to be left alone for."""


def as_api_error(error: Exception) -> ApiError:
    """The error itself; or, of a write that failed in an unforeseen way, an ApiError that says so."""
    return error if isinstance(error, ApiError) else ApiError(f"{type(error).__name__}: {error}")


class InvalidNameError(ApiError):
    """No object can have this name, and no request is made for it."""

    def __init__(self, name: str) -> None:
        super().__init__(f"{name[:80]!r} is not a valid object name")


class TooLargeError(ApiError):
    """An answer, or a line of a watch, is larger than anything that the API server should send."""

    unsettled = True


class UnreachableError(ApiError):
    """No connection: nothing listens there."""

    transient = True


class NotLeadingError(ApiError):
    """A write was not sent: poller may not write, as another may be leading by now."""


class LostAnswerError(ApiError):
    """A request was sent, and its answer never came, or not in time."""

    transient = True
    unsettled = True


class AnswerError(ApiError):
    """Something answered, but not as the Kubernetes API does: HTML, half an answer, another shape."""

    unsettled = True


class StatusError(ApiError):
    """The API server, or the proxy before it, refused; the text holds its own words."""


class ForbiddenError(StatusError):
    """403: whoever kubectl proxy speaks for may not do that."""


class NotFoundError(StatusError):
    """404: no such object."""


class ConflictError(StatusError):
    """409: the object is not, or no longer, in the state that the request takes for granted."""


class GoneError(StatusError):
    """410: the list that is being paged through, or the version to watch from, has expired."""


class OverloadedError(StatusError):
    """429: too many requests; nothing was done."""

    transient = True


class ServerError(StatusError):
    """5xx: the API server, or the proxy that can't reach it, failed."""

    transient = True
    unsettled = True


_ERRORS: dict[int, type[StatusError]] = {
    403: ForbiddenError,
    404: NotFoundError,
    409: ConflictError,
    410: GoneError,
    429: OverloadedError,
}


def refusal(where: str, method: str, path: str, answer: httpx.Response, body: bytes) -> ApiError:
    """The error that an answer other than 2xx stands for."""
    code = answer.status_code
    try:
        status = msgspec.json.decode(body, type=Status, dec_hook=decode_hook)
    except UNREADABLE:
        status = None
    sort = answer.headers.get("Content-Type", "no content type")
    said = f"{code} {answer.reason_phrase} ({sort}: {beginning(body)!r})"
    if code == 404 and body.startswith(b"404 page not found"):  # Go's own words
        return NotFoundError(f"{where}: {said}; the API server has no such resource")
    if not status and code != 429 and code < 500:
        what = "is not a Kubernetes API response; is kubectl proxy running there?"
        return AnswerError(f"{where}: {said} {what}")
    words = f"{code} {status.message}" if status else said
    if not status and code >= 500:
        words += "; the proxy may not reach its API server"
    if code == 403 and "is being terminated" not in words:  # a namespace that ends is no matter of rights
        words += f"; the rule that is missing: {missing_rule(method, path)}"
    error = error_of(code)(f"{where}: {words}")
    if re.fullmatch("[0-9]+", after := answer.headers.get("Retry-After", "")):
        error.retry_after = min(float(after), LONGEST_WAIT)
    return error


def error_of(code: int) -> type[StatusError]:
    """The error that a status code stands for."""
    return _ERRORS.get(code, ServerError if code >= 500 else StatusError)


def beginning(body: bytes) -> str:
    """How an answer begins: enough to recognise it by."""
    return " ".join(body[:200].decode(errors="replace").split())[:60]


_PATH = re.compile(
    r"/api(?:s/(?P<group>[^/]+))?/v[^/]+(?:/namespaces/(?P<namespace>[^/]+))?"
    r"/(?P<resource>[^/]+)(?:/(?P<name>[^/]+)(?P<subresource>/[^/]+)?)?"
)


def missing_rule(method: str, path: str) -> str:
    """The RBAC rule that a request needs, as a Role or ClusterRole has it; WATCH is a method, too."""
    match = _PATH.fullmatch(path)
    if not match:
        return f'{{nonResourceURLs: ["{path}"], verbs: ["{method.lower()}"]}}'
    verbs = {"GET": "get" if match["name"] else "list", "POST": "create", "PUT": "update"}
    verb = verbs.get(method, method.lower())
    resource = match["resource"] + (match["subresource"] or "")
    return f'{{apiGroups: ["{match["group"] or ""}"], resources: ["{resource}"], verbs: ["{verb}"]}}'
