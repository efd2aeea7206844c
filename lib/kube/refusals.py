"""What an answer other than 2xx means: the error, with its text. Few runs get one."""

import re
from collections.abc import Callable

import httpx
import msgspec

from lib.kube.errors import (
    LONGEST_WAIT,
    AnswerError,
    ApiError,
    ForbiddenError,
    NotFoundError,
    RefusedError,
    StartingError,
    beginning,
    error_of,
)
from lib.kube.objects import UNREADABLE, Status, decode_hook

LONGEST_TEXT = 2000
"""Of an answer that is text, at most so many bytes are told."""


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
