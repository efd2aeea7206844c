"""The Kubernetes API over HTTP: list, watch, get, create and so on; all answers checked, requests retried.

What fails raises an ApiError, whose text says what happened, where, and what to do.
"""

import logging
import re
import select
import socket
import threading
import time
from collections.abc import Callable, Collection, Generator, Iterable, Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field
from functools import lru_cache, partial
from math import inf
from typing import Any, Generic, TypeVar, cast
from urllib.parse import quote, urlencode, urlsplit

import httpx
import msgspec
from tenacity import (
    RetryCallState,
    Retrying,
    retry_if_exception,
    stop_after_attempt,
    stop_after_delay,
    stop_when_event_set,
    wait_exponential_jitter,
)
from tenacity.nap import sleep_using_event

from lib.kube.objects import Object, ObjectMeta, Status, decode_hook
from lib.kube.transport import KeepAliveTransport, Sent, to_host, to_unix_socket

log = logging.getLogger(__name__)

T = TypeVar("T", bound=Object)
Item = TypeVar("Item")
Read = TypeVar("Read")

PAGE = 1000
"""Objects asked for at a time: neither side holds a whole cluster at once."""

TIMEOUT = httpx.Timeout(10, connect=3)
"""Seconds for each step of a request; the API server itself gives up on most after 60."""

ACCEPT = {"Accept": "application/json", "Accept-Encoding": "gzip"}

LONGEST_ANSWER = 60.0
"""Seconds for the whole of an answer."""

LONGEST_WATCH = 300
"""Seconds after which the API server is asked to end a watch, which is then opened again."""

LONGEST_QUIET_WATCH = LONGEST_WATCH + 15.0
"""Seconds after which a watch that the API server should have ended is taken for dead."""

LONGEST_WAIT = 60.0
"""Seconds that a server's Retry-After is honoured for at the most."""

STRATEGIC = "application/strategic-merge-patch+json"
"""A patch that merges lists by their key, so that one condition can be set beside the others."""


class ApiError(Exception):
    """A request did not succeed. The text is one line, for a person."""

    transient = False
    """Whether the same request may succeed a moment later."""

    unsettled = False
    """Whether a write may have happened all the same: it must be looked up before it is made again."""

    retry_after: float | None = None
    """Seconds that the server asks to be left alone for."""


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


@dataclass
class Listing(Generic[Item]):
    """All objects of a list, and a line for each that could not be read, by its name.

    resource_version: of the cluster's last write before the list was made.
    """

    items: list[Item] = field(default_factory=list)
    malformed: dict[str, str] = field(default_factory=dict)
    resource_version: str = ""


@dataclass(frozen=True)
class WatchEvent(Generic[Item]):
    """What happened to an object: "ADDED", "MODIFIED" or "DELETED"; or a "BOOKMARK", which is of no object.

    name: of the object, as people know it. object: as it is now, or was last; None if that can't be read, and
    then `malformed` says why.
    """

    type: str
    metadata: ObjectMeta
    name: str = ""
    object: Item | None = None
    malformed: str = ""


class _ListMeta(Object):
    resource_version: str = ""
    continue_: str = msgspec.field(default="", name="continue")


class _Page(Object, Generic[Item]):
    kind: str
    metadata: _ListMeta
    items: list[Item] | None


class _Named(Object):
    metadata: ObjectMeta


class _WatchLine(Object):
    type: str
    object: msgspec.Raw


def paths_of(resource: str, namespaces: Iterable[str], api: str = "/api/v1") -> list[str]:
    """Where a resource of some namespaces is listed; of all, if there are none named."""
    return [f"{api}/namespaces/{name}/{resource}" for name in namespaces] or [f"{api}/{resource}"]


_Decode = Callable[[bytes, dict[str, str]], _Page[Item]]
"""Reads a page, and notes down what of it can't be read."""

_UNREADABLE = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)


def always() -> bool:
    """Whether poller may write, when nobody but us is there."""
    return True


@dataclass
class _Counted:
    """A request, and with which code it was answered."""

    code: int | None = None


class Traffic:
    """Is told of requests, by several threads. This one makes nothing of it."""

    def answered(self, method: str, host: str, code: int | None, seconds: float) -> None:
        """A request was answered after so many seconds; without a code, it wasn't."""

    def retried(self) -> None:
        """A request is made once more."""


class Api:
    """A connection to the API server through `kubectl proxy`; a context manager.

    `address` is `http://host:port` or `unix:///path/to/socket`. Once `stopping` is set no wait goes on and
    nothing is tried again. `may_write` is asked before each write is sent: while it says no, NotLeadingError
    is raised instead. `timeout` is for each step of a request.
    """

    def __init__(
        self,
        address: str,
        stopping: threading.Event,
        *,
        may_write: Callable[[], bool] = always,
        timeout: httpx.Timeout = TIMEOUT,
        traffic: Traffic | None = None,
    ) -> None:
        self.address = address
        self._may_write = may_write
        self._timeout = timeout
        self._traffic = traffic or Traffic()
        url = urlsplit(address)
        self._host = url.netloc or "localhost"
        # A transport instead of a client: redirects, cookies, and proxies from the environment are for the
        # world outside, and all they do for kubectl proxy beside us is to cost a third of each request.
        if url.scheme == "unix":
            self._http = KeepAliveTransport(to_unix_socket(url.path))
            # kubectl proxy answers to hosts it knows only; "localhost" is one.
            self._server, self._prefix = httpx.URL("http://localhost"), ""
        else:
            secure = url.scheme == "https"
            tls = httpx.create_ssl_context() if secure else None
            port = url.port or (443 if secure else 80)
            self._http = KeepAliveTransport(to_host(url.hostname or "", port, tls))
            self._server, self._prefix = httpx.URL(address), url.path.rstrip("/")
        self._stopping = stopping

    def __enter__(self) -> "Api":
        return self

    def __exit__(self, *_: object) -> None:
        self._http.close()

    def retrying(self, worth_it: Callable[[ApiError], bool] = lambda error: error.transient) -> Retrying:
        """The policy of every request: try again after 0.1, 0.2, 0.4, 0.8 s, or when the server says.

        `worth_it` tells which errors are worth another try. The last error is raised as it is.
        """
        return Retrying(
            retry=retry_if_exception(lambda error: isinstance(error, ApiError) and worth_it(error)),
            wait=_retry_after_or_backoff,
            stop=stop_after_attempt(5) | stop_after_delay(30) | stop_when_event_set(self._stopping),
            sleep=sleep_using_event(self._stopping),
            before_sleep=self._note_retry,
            reraise=True,
        )

    def _note_retry(self, state: RetryCallState) -> None:
        self._traffic.retried()
        if state.outcome and state.next_action:
            log.debug("again in %.1f s: %s", state.next_action.sleep, state.outcome.exception())

    def list(self, path: str, kind: type[T], **selectors: str) -> Listing[T]:
        """All objects at a path, page by page: `list("/api/v1/pods", Pod, fieldSelector="…")`.

        An object that can't be read is named in the listing's `malformed`, the others are read all the same.
        """

        def decode(body: bytes, malformed: dict[str, str]) -> _Page[T]:
            return _decode_page(body, kind, f"GET {path}", malformed)

        return self._list(path, selectors, decode)

    def list_each(self, paths: Iterable[str], kind: type[T], **selectors: str) -> Listing[T]:
        """All objects at several paths together; the resource version is that of the last list."""
        together: Listing[T] = Listing()
        for path in paths:
            listing = self.list(path, kind, **selectors)
            together.items += listing.items
            together.malformed |= listing.malformed
            together.resource_version = listing.resource_version
        return together

    def list_whole(self, path: str) -> Listing[msgspec.Raw]:
        """All objects at a path, each as the API server has it, with all its fields."""
        return self._list(path, {}, lambda body, _: _decode_raw_page(body, f"GET {path}"))

    def _list(self, path: str, selectors: Mapping[str, str], decode: _Decode[Item]) -> Listing[Item]:
        for _ in range(3):
            try:
                return self._all_pages(path, selectors, decode)
            except GoneError as error:  # the continue token expired between two pages: begin again
                expired = error
        raise expired

    def _all_pages(self, path: str, selectors: Mapping[str, str], decode: _Decode[Item]) -> Listing[Item]:
        listing: Listing[Item] = Listing()
        query = {**selectors, "limit": str(PAGE)}
        while True:
            body = self.retrying()(self._send, "GET", path, params=query)
            page = decode(body, listing.malformed)
            listing.items += page.items or []
            listing.resource_version = page.metadata.resource_version
            if not page.metadata.continue_:
                return listing
            if query.get("continue") == page.metadata.continue_:
                raise AnswerError(f"GET {path}: the list never ends: each page names the same next one")
            query["continue"] = page.metadata.continue_

    def watch(self, path: str, kind: type[T], resource_version: str, **selectors: str) -> "Watch[T]":
        """What happens to the objects at a path after a version. GoneError when that is too long ago."""
        query = {
            **selectors,
            "watch": "1",
            "resourceVersion": resource_version,
            "allowWatchBookmarks": "true",
            "timeoutSeconds": str(LONGEST_WATCH),
        }
        return self.retrying()(self._open_watch, path, kind, query)

    def _open_watch(self, path: str, kind: type[T], query: Mapping[str, str]) -> "Watch[T]":
        where = f"WATCH {path}"
        with _in_words(where), self._counted("GET") as request:
            answer = self._dispatch("GET", path, query, None, ACCEPT).receive()
            request.code = answer.status_code
            if not answer.is_success:
                with closing(answer):
                    raise _refusal(where, "WATCH", path, answer, read_all(answer, where))
        log.debug("%s from version %s", where, query["resourceVersion"])
        # The server has answered in time; from here on it speaks only when something happens.
        answer.request.extensions["timeout"]["read"] = LONGEST_QUIET_WATCH
        return Watch(answer, kind, where)

    def get(self, path: str, kind: type[T]) -> T:
        """One object."""
        return _decode_object(self.get_whole(path), kind, f"GET {path}")

    def get_whole(self, path: str) -> bytes:
        """One object as the API server has it, with all its fields."""
        return self.retrying()(self._send, "GET", path)

    def create(self, path: str, new: Object, answer: type[T]) -> T:
        """POST an object; what the server answers.

        Tried once: what may have happened must be looked up before it is made again, and the caller knows
        where to look.
        """
        return self.begin_create(path, new, answer).answer()

    def begin_create(self, path: str, new: Object, answer: type[T]) -> "Pending[T]":
        """POST an object, and don't wait for the answer, which may be read later."""
        content = msgspec.json.encode(new)
        return Pending(
            self._exchange("POST", path, None, content, "application/json"),
            lambda body: _decode_object(body, answer, f"POST {path}"),
        )

    def replace(self, path: str, new: Object, answer: type[T]) -> T:
        """PUT an object in the place of the version that its metadata name; what the server answers.

        ConflictError when there is another version by now. Tried once, as `create` is.
        """
        body = self._send("PUT", path, content=msgspec.json.encode(new), kind="application/json")
        return _decode_object(body, answer, f"PUT {path}")

    def patch(self, path: str, patch: Mapping[str, Any], answer: type[T]) -> T:
        """Merge `patch` into an object; what came of it.

        Tried again whatever went wrong: so it must hold absolute values, which merge twice as once.
        """
        content = msgspec.json.encode(patch)
        body = self.retrying()(self._send, "PATCH", path, content=content, kind=STRATEGIC)
        return _decode_object(body, answer, f"PATCH {path}")

    def delete(self, path: str, uid: str) -> None:
        """Delete the object that has this uid, gracefully; ConflictError if another has its name now."""
        options = {"kind": "DeleteOptions", "apiVersion": "v1", "preconditions": {"uid": uid}}
        content = msgspec.json.encode(options)
        self.retrying()(self._send, "DELETE", path, content=content, kind="application/json")

    def _send(
        self,
        method: str,
        path: str,
        *,
        params: Mapping[str, str] | None = None,
        content: bytes | None = None,
        kind: str | None = None,
    ) -> bytes:
        """One request, once; the body of a good answer."""
        return Pending(self._exchange(method, path, params, content, kind), bytes).answer()

    def _exchange(
        self,
        method: str,
        path: str,
        params: Mapping[str, str] | None,
        content: bytes | None,
        kind: str | None,
    ) -> Generator[Sent, None, bytes]:
        """Send a request, once, and stop there; then wait for the body of a good answer."""
        headers = ACCEPT | ({"Content-Type": kind} if kind else {})
        where = f"{method} {path}"
        with _in_words(where, self._timeout.read or 0), self._counted(method) as request:
            sent = self._dispatch(method, path, params, content, headers)
            yield sent
            with closing(sent.receive()) as answer:
                body = read_all(answer, where)
            request.code = answer.status_code
        log.debug("%s %s, %d bytes", where, answer.status_code, len(body))
        if not answer.is_success:
            raise _refusal(where, method, path, answer, body)
        return body

    @contextmanager
    def _counted(self, method: str) -> Iterator[_Counted]:
        """Tell of the request that is made in this block."""
        began, request, sent = time.monotonic(), _Counted(), True
        try:
            yield request
        except NotLeadingError:
            sent = False
            raise
        finally:
            if sent:
                self._traffic.answered(method, self._host, request.code, time.monotonic() - began)

    def _dispatch(
        self,
        method: str,
        path: str,
        params: Mapping[str, str] | None,
        content: bytes | None,
        headers: Mapping[str, str],
    ) -> Sent:
        """Send a request, and don't wait for the answer."""
        extensions: dict[str, Any] = {"timeout": self._timeout.as_dict()}
        if method != "GET":
            # To connect may take seconds, and a process may be stopped at any time and go on much later: so
            # that is asked once more when nothing is left to do but to send.
            check = extensions["before_sending"] = partial(self.check_may_write, f"{method} {path}")
            check()
        query = f"?{urlencode(params)}" if params else ""
        # To have httpx read the whole URL each time would cost a sixth of the request.
        extensions["target"] = f"{self._prefix}{quote(path)}{query}".encode()
        request = httpx.Request(method, self._server, content=content, headers=headers, extensions=extensions)
        try:
            return self._http.send(request)
        except (httpx.ConnectError, httpx.ConnectTimeout) as error:
            raise UnreachableError(self._nobody_there(error)) from error

    def check_may_write(self, what: str) -> None:
        """NotLeadingError, which names what isn't sent, unless poller may write."""
        if not self._may_write():
            raise NotLeadingError(f"{what} is not sent: another may be leading by now")

    def _nobody_there(self, error: Exception) -> str:
        url = urlsplit(self.address)
        command = "kubectl proxy"
        if url.scheme == "unix":
            command += f" --unix-socket={url.path}"
        elif url.port and url.port != 8001:
            command += f" --port={url.port}"
        return f"nothing answers at {self.address} ({error}); start a proxy there with: {command}"


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


class Watch(Generic[T]):
    """An open watch: iterate over it for its lines, as they come; `read` tells what happened.

    That ends when the server ends it. LostAnswerError when the connection breaks, or nothing was heard for
    too long: in both cases a watch from the last version seen goes on where it was. GoneError, or another
    StatusError, when the server says that it can't; AnswerError when what comes is no event.
    """

    def __init__(self, answer: httpx.Response, kind: type[T], where: str) -> None:
        self._answer = answer
        self._kind = kind
        self._where = where

    def __iter__(self) -> Iterator[bytes]:
        rest = b""
        with _in_words(self._where, LONGEST_QUIET_WATCH), closing(self._answer):
            for chunk in self._answer.iter_bytes():
                *lines, rest = (rest + chunk).split(b"\n")
                yield from lines

    def close(self) -> None:
        """Hang up; whoever reads the events is told that the connection broke."""
        with suppress(OSError):  # it has ended by itself
            self._answer.extensions["socket"].shutdown(socket.SHUT_RDWR)

    def read(self, line: bytes) -> WatchEvent[T]:
        """What a line says."""
        kind = self._kind
        try:
            event = _decoder(_WatchLine).decode(line)
            if event.type == "ERROR":
                status = _decoder(Status).decode(event.object)
                raise _error_of(status.code)(f"{self._where}: {status.code} {status.message}")
            if event.type == "BOOKMARK":
                return WatchEvent(event.type, _decoder(_Named).decode(event.object).metadata)
            try:
                read, why = _decoder(kind).decode(event.object), ""
                metadata = read.metadata
            except _UNREADABLE as error:
                read, why = None, _left_out(kind, event.object, error)
                metadata = _decoder(_Named).decode(event.object).metadata
        except _UNREADABLE as error:
            raise _unreadable(self._where, line, error) from error
        return WatchEvent(event.type, metadata, _called(metadata), read, why)


@contextmanager
def _in_words(where: str, within: float = TIMEOUT.read or 0) -> Iterator[None]:
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


def _retry_after_or_backoff(state: RetryCallState) -> float:
    error = state.outcome and state.outcome.exception()
    asked = error.retry_after if isinstance(error, ApiError) else None
    # A jitter as long as the first wait spreads out schedulers that failed at the same moment.
    return _backoff(state) if asked is None else asked


_backoff = wait_exponential_jitter(multiplier=0.1, max=5, jitter=0.1)


def _refusal(where: str, method: str, path: str, answer: httpx.Response, body: bytes) -> ApiError:
    """The error that an answer other than 2xx stands for."""
    code = answer.status_code
    try:
        status = _decoder(Status).decode(body)
    except _UNREADABLE:
        status = None
    sort = answer.headers.get("Content-Type", "no content type")
    said = f"{code} {answer.reason_phrase} ({sort}: {_start(body)!r})"
    if code == 404 and body.startswith(b"404 page not found"):  # Go's own words
        return NotFoundError(f"{where}: {said}; the API server has no such resource")
    if not status and code != 429 and code < 500:
        what = "is no answer of the Kubernetes API; does kubectl proxy listen there?"
        return AnswerError(f"{where}: {said} {what}")
    words = f"{code} {status.message}" if status else said
    if not status and code >= 500:
        words += "; the proxy may not reach its API server"
    if code == 403 and "is being terminated" not in words:  # a namespace that ends is no matter of rights
        words += f"; the rule that is missing: {missing_rule(method, path)}"
    error = _error_of(code)(f"{where}: {words}")
    if re.fullmatch("[0-9]+", after := answer.headers.get("Retry-After", "")):
        error.retry_after = min(float(after), LONGEST_WAIT)
    return error


def _error_of(code: int) -> type[StatusError]:
    return _ERRORS.get(code, ServerError if code >= 500 else StatusError)


def _start(body: bytes) -> str:
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


@lru_cache
def _decoder(kind: Any) -> msgspec.json.Decoder[Any]:
    return msgspec.json.Decoder(kind, dec_hook=decode_hook)


def _decode_object(body: bytes, kind: type[T], where: str) -> T:
    try:
        return cast(T, _decoder(kind).decode(body))
    except _UNREADABLE as error:
        raise _unreadable(where, body, error) from error


def _decode_page(body: bytes, kind: type[T], where: str, malformed: dict[str, str]) -> _Page[T]:
    """A page of a list; objects that can't be read are left out of it and named in `malformed`."""
    try:
        page: _Page[T] = _decoder(_Page[kind]).decode(body)  # type: ignore[valid-type]
    except _UNREADABLE:  # once more, object by object, to keep the others
        page = _decode_singly(body, kind, where, malformed)
    if page.kind != f"{kind.__name__}List":
        raise AnswerError(f"{where}: a {kind.__name__}List was asked for, {page.kind!r} came back")
    return page


def _decode_raw_page(body: bytes, where: str) -> _Page[msgspec.Raw]:
    try:
        page: _Page[msgspec.Raw] = _decoder(_Page[msgspec.Raw]).decode(body)
    except _UNREADABLE as error:
        raise _unreadable(where, body, error) from error
    return page


def _decode_singly(body: bytes, kind: type[T], where: str, malformed: dict[str, str]) -> _Page[T]:
    raw = _decode_raw_page(body, where)
    items = []
    for each in raw.items or []:
        try:
            items.append(_decoder(kind).decode(each))
        except _UNREADABLE as error:
            malformed[_name_of(each)] = _left_out(kind, each, error)
    return _Page(kind=raw.kind, metadata=raw.metadata, items=items)


def _name_of(raw: msgspec.Raw) -> str:
    try:
        return _called(_decoder(_Named).decode(raw).metadata)
    except _UNREADABLE:
        return "?"


def _called(metadata: ObjectMeta) -> str:
    return f"{metadata.namespace}/{metadata.name}".lstrip("/")


def _left_out(kind: type[Object], raw: msgspec.Raw, error: Exception) -> str:
    return f"{kind.__name__} {_name_of(raw)} can't be read and is left out: {error}"


def _unreadable(where: str, body: bytes, error: Exception) -> AnswerError:
    return AnswerError(f"{where}: the answer is no Kubernetes object ({error}); it begins {_start(body)!r}")
