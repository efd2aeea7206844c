"""What can go wrong with a request. Each error's text says what happened, where, and what to do."""

import re
from collections.abc import Callable

import httpx
import msgspec

from lib.kube.objects import UNREADABLE, Status, decode_hook

LONGEST_TEXT = 2000
"""Of an answer that is text, at most so many bytes are told."""

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


def to_api_error(error: httpx.HTTPError, where: str, within: float) -> ApiError:
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


def refusal(
    where: str, method: str, path: str, answer: httpx.Response, body: bytes, is_starting: Callable[[], bool]
) -> ApiError:
    """The error for an answer other than 2xx. is_starting: asks the API server whether it still starts."""
    code = answer.status_code
    try:
        status = msgspec.json.decode(body, type=Status, dec_hook=decode_hook)
    except UNREADABLE:
        status = None
    sort = answer.headers.get("Content-Type", "no content type")
    said = f"{code} {answer.reason_phrase} ({sort}: {beginning(body)!r})"
    text = " ".join(body[:LONGEST_TEXT].decode(errors="replace").split())
    is_text = not status and sort.startswith("text/plain")
    if code == 403 and is_text and text == answer.reason_phrase:
        return ForbiddenError(
            f"{where}: {code} {text}: kubectl proxy itself refuses it; see its options --reject-methods,"
            " --reject-paths, --accept-paths and --accept-hosts"
        )
    if code == 404 and body.startswith(b"404 page not found"):  # Go's own words
        return NotFoundError(f"{where}: {said}; the API server has no such resource")
    if not status and code != 429 and code < 500:
        what = "is not a Kubernetes API response; is kubectl proxy running there?"
        return AnswerError(f"{where}: {said} {what}")
    if is_text and code >= 500 and (refused := _REFUSED.search(text)):
        return RefusedError(f"the connection to the API server at {refused[1]} was refused: is it running?")
    if is_text and code >= 500:  # kubectl proxy's, about the way to its API server
        said = f"{code} {answer.reason_phrase}: {text}"
    words = f"{code} {status.message}" if status else said
    if not status and not is_text and code >= 500:
        words += "; the proxy may not reach its API server"
    if code == 401:
        words += "; the credentials of kubectl's context are wrong or have expired: log in again"
    more = _MORE_RIGHTS.search(status.message) if status else None
    if more or (code == 403 and _about_rights(method, status)):
        code = 403
        if is_starting():
            return StartingError(f"{where}: {words}; the API server is still starting")
        words += f"; the rule that is missing: {_rule_of(more) if more else missing_rule(method, path)}"
    error = error_of(code)(f"{where}: {words}")
    error.said = status.message if status else ""
    if re.fullmatch("[0-9]+", after := answer.headers.get("Retry-After", "")):
        error.retry_after = min(float(after), LONGEST_WAIT)
    return error


_REFUSED = re.compile(r"dial tcp (\S+): connect: connection refused")
"""What kubectl proxy says of an API server that is away."""

_MORE_RIGHTS = re.compile(r'requires resource="([^"]+)", verb="([^"]+)" permission: [a-z]+\.([a-z0-9.]+)')
"""A 422: the write needs another right than its path says (registry/resource/resourceclaim, strategy.go)."""


def _rule_of(more: re.Match[str]) -> str:
    resource, verb, group = more.groups()
    return f'{{apiGroups: ["{group}"], resources: ["{resource}"], verbs: ["{verb}"]}}'


def _about_rights(method: str, status: Status | None) -> bool:
    """Whether a 403 is the authorizer's: admission, such as that of a quota, refuses writes by 403, too.

    Source: staging/src/k8s.io/apiserver/pkg/endpoints/handlers/responsewriters/errors.go, forbiddenMessage
    """
    return method in ("GET", "WATCH") or status is None or " cannot " in status.message


def error_of(code: int) -> type[StatusError]:
    """The error for a status code."""
    return _ERRORS.get(code, ServerError if code >= 500 else StatusError)


def beginning(body: bytes) -> str:
    """The beginning of an answer, for an error's text."""
    return " ".join(body[:200].decode(errors="replace").split())[:60]


_PATH = re.compile(
    r"/api(?:s/(?P<group>[^/]+))?/v[^/]+(?:/namespaces/(?P<namespace>[^/]+))?"
    r"/(?P<resource>[^/]+)(?:/(?P<name>[^/]+)(?P<subresource>/[^/]+)?)?"
)


def missing_rule(method: str, path: str) -> str:
    """The RBAC rule that a request needs, as in a Role or ClusterRole. method: an HTTP method, or WATCH."""
    match = _PATH.fullmatch(path)
    if not match:
        return f'{{nonResourceURLs: ["{path}"], verbs: ["{method.lower()}"]}}'
    verbs = {"GET": "get" if match["name"] else "list", "POST": "create", "PUT": "update"}
    verb = verbs.get(method, method.lower())
    resource = match["resource"] + (match["subresource"] or "")
    # Who may write every Lease may take part in every election: the rule is for this one.
    only = f', resourceNames: ["{match["name"]}"]' if resource == "leases" and match["name"] else ""
    return f'{{apiGroups: ["{match["group"] or ""}"], resources: ["{resource}"], verbs: ["{verb}"]{only}}}'
