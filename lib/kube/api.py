"""The Kubernetes API over HTTP: list, watch, get, create and so on. Answers are checked, requests retried.

A failure raises an ApiError. Its text says what happened, where, and what to do.
"""

import logging
import socket
import threading
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from contextlib import closing, suppress
from copy import copy
from functools import partial
from math import inf
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar
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

from lib import __version__
from lib.kube.attempt import (
    LONGEST_ANSWER,
    TIMEOUT,
    HttpAttempt,
    PendingResponse,
    RequestObserver,
    body_of,
    read_all,
)
from lib.kube.decoding import (
    Listing,
    decode_object,
    decode_page,
    decode_raw_page,
)
from lib.kube.errors import (
    LONGEST_WAIT,
    ApiError,
    ForbiddenError,
    NotLeadingError,
    RefusedError,
    ServerError,
    TooLargeError,
    UnreachableError,
    to_api_error,
)
from lib.kube.freshness import Freshness
from lib.kube.objects import Object
from lib.kube.pager import Decode, ListPager, read_at_once, together
from lib.kube.system import MACHINE, System
from lib.kube.transport import KeepAliveTransport, SentRequest, to_host, to_unix_socket
from lib.kube.write import Request
from lib.lazily import Lazy

if TYPE_CHECKING:
    from lib.kube import refusals
else:
    refusals = Lazy("lib.kube.refusals")

log = logging.getLogger(__name__)

T = TypeVar("T", bound=Object)
Item = TypeVar("Item")

MAX_LINE = 32 << 20
"""The most bytes of a watch's line. etcd holds no object of more than 1.5 MiB."""

ACCEPT_ENCODING = b"Accept-Encoding", b"gzip"

USER_AGENT = b"User-Agent", f"poller/{__version__}".encode()

LONGEST_WATCH = 300
"""Seconds after which the API server is asked to end a watch, which is then opened again."""

LONGEST_QUIET_WATCH = LONGEST_WATCH + 15.0
"""Seconds after which a watch counts as dead: the API server should have ended it before."""

READYZ, UNREADY = "/readyz", "[+]ping ok"
"""Where an API server says whether it is ready, and how that begins if it isn't."""

FIRST_MOMENTS = 0.2
"""Seconds after which an API server that refused /readyz is asked again."""

STARTED_FOR = 5.0
"""Seconds in which an API server that was ready isn't asked again whether it is."""

OUTAGE_PAUSE = 60.0
"""After so many seconds without a failure, the next failure begins a new outage."""

UNWRITABLE = (TypeError, ValueError, OverflowError, RecursionError, msgspec.MsgspecError)
"""The exceptions when something can't be encoded as JSON."""

JSON = "application/json"

MERGE = "application/merge-patch+json"
"""A patch that sets lists as a whole: the only one that custom resources take, too."""

STRATEGIC = "application/strategic-merge-patch+json"
"""A patch that merges lists by their key: one condition can be set, and the others stay."""


def always() -> bool:
    """The default of `may_write`: without leader election, poller may always write."""
    return True


class _Call(NamedTuple):
    """What is sent: with which parameters, content, and media types of the content and of the answer."""

    method: str
    path: str
    params: Mapping[str, str] | None = None
    content: bytes | None = None
    kind: str = JSON
    accept: str = JSON

    def __str__(self) -> str:
        return f"{self.method} {self.path}"


class _Start:
    """Finds out whether the API server is still starting. What has started isn't asked each time."""

    def __init__(self, system: System) -> None:
        self._system, self._asked = system, -inf

    def is_under_way(self, readyz: Callable[[], bytes]) -> bool:
        """readyz: asks /readyz. It raises an ApiError if the API server isn't ready."""
        if self._system.monotonic() - self._asked > STARTED_FOR:
            try:
                readyz()
            except ApiError as error:
                log.debug("whether the API server has started: %s", error)
                if isinstance(error, ServerError) and UNREADY in str(error):
                    return True
            self._asked = self._system.monotonic()
        return False


class _Outages:
    """Finds the first failure of each outage."""

    def __init__(self, system: System) -> None:
        self._system, self._last = system, -inf

    def begin(self) -> bool:
        """Call it at each failure. Returns whether this failure begins an outage."""
        before, self._last = self._last, self._system.monotonic()
        return self._last - before > OUTAGE_PAUSE


class Api:
    """A connection to the API server through `kubectl proxy`; a context manager.

    address: `http://host:port` or `unix:///path/to/socket`. stopping: once it is set, waits end and nothing
    is retried. may_write: called before each write is sent; if it returns False, NotLeadingError is raised
    instead. timeout: for each step of a request. system: its time, threads and sockets are used.
    freshness: refuses lists that are older than what was seen before.
    """

    def __init__(
        self,
        address: str,
        stopping: threading.Event,
        *,
        may_write: Callable[[], bool] = always,
        timeout: httpx.Timeout = TIMEOUT,
        request_observer: RequestObserver | None = None,
        system: System = MACHINE,
    ) -> None:
        self.address, self.system = address, system
        self._may_write = may_write
        self._timeout = timeout
        self._observer = request_observer or RequestObserver()
        url = urlsplit(address)
        self._host = url.netloc or "localhost"
        # A transport instead of a client: kubectl proxy needs no redirects, no cookies and no proxies from
        # the environment, and these take a third of a request's time.
        if url.scheme == "unix":
            self._http = KeepAliveTransport(to_unix_socket(url.path, system), system)
            # kubectl proxy accepts only some Host headers; "localhost" is one.
            self._server, self._prefix = httpx.URL("http://localhost"), ""
        else:
            secure = url.scheme == "https"
            tls = httpx.create_ssl_context() if secure else None
            port = url.port or (443 if secure else 80)
            self._http = KeepAliveTransport(to_host(url.hostname or "", port, tls, system=system), system)
            self._server, self._prefix = httpx.URL(address), url.path.rstrip("/")
            if url.hostname == "::1":  # kubectl proxy means to accept this Host header, and doesn't
                self._server = self._server.copy_with(host="localhost")
        self._headers: dict[tuple[str, str], httpx.Headers] = {}  # by media types, as they take a while
        self._stopping = stopping
        self._retries, self._start = _Outages(system), _Start(system)
        self.freshness = Freshness(system)
        self._attempts, self._longest_pause, self._longest_answer = 5, LONGEST_WAIT, LONGEST_ANSWER

    def __enter__(self) -> "Api":
        return self

    def __exit__(self, *_: object) -> None:
        self._http.close()

    def with_short_timeouts(self) -> "Api":
        """The same connections, for reads that must be quick: they fail after two tries and a few seconds."""
        other = copy(self)
        other._attempts, other._longest_pause, other._longest_answer = 2, 0.5, 3.0
        other._timeout = httpx.Timeout(3.0)
        return other

    def for_access_reviews(self) -> "Api":
        """As `with_short_timeouts`, for a POST that changes nothing, such as an access review."""
        other = self.with_short_timeouts()
        other._may_write = always
        return other

    def retrying(self) -> Retrying:
        """The retry policy of every request: after 0.1, 0.2, 0.4, 0.8 s, or when the server says.

        The last error is raised unchanged.
        """
        return Retrying(
            retry=retry_if_exception(lambda error: isinstance(error, ApiError) and error.transient),
            wait=_retry_after_or_backoff,
            stop=self._gives_up,
            sleep=sleep_using_event(self._stopping),
            before_sleep=self._note_retry,
            reraise=True,
        )

    def _gives_up(self, state: RetryCallState) -> bool:
        """Whether to stop retrying: after enough tries, or if the server asks for too long a pause.

        There are two tries at least: the machine may have been suspended during the first one.
        """
        late = stop_after_delay(30) & stop_after_attempt(2)
        stop = stop_after_attempt(self._attempts) | late | stop_when_event_set(self._stopping)
        error = state.outcome and state.outcome.exception()
        asked = error.retry_after if isinstance(error, ApiError) else None
        return bool(stop(state)) or (asked or 0) > self._longest_pause

    def _note_retry(self, state: RetryCallState) -> None:
        self._observer.retried()
        error = state.outcome and state.outcome.exception()
        # An error without any connection says what to do about that, once the tries are over.
        is_news = self._retries.begin() and not isinstance(error, UnreachableError | RefusedError)
        log.log(
            logging.WARNING if is_news else logging.DEBUG,
            "a request failed and is tried again in %.1f s: %s",
            state.upcoming_sleep,
            error,
        )

    def list(self, path: str, kind: type[T], **selectors: str) -> Listing[T]:
        """All objects at a path: `list("/api/v1/pods", Pod, fieldSelector="…")`.

        An object that can't be decoded is named in the listing's `malformed`; the others are returned.
        """
        return self.pager(path, kind, **selectors).answer()

    def pager(self, path: str, kind: type[T], **selectors: str) -> ListPager[T]:
        """The same list, not yet read: call its `answer`, or give it to `read_at_once` with others."""
        where = f"GET {path}"
        return self._pager(path, selectors, lambda body, malformed: decode_page(body, kind, where, malformed))

    def list_each(self, paths: Iterable[str], kind: type[T], **selectors: str) -> Listing[T]:
        """All objects at several paths in one listing. Its resource version is "" if theirs differ."""
        pagers = [self.pager(path, kind, **selectors) for path in paths]
        read_at_once(pagers)
        return together(pagers)

    def list_whole(self, path: str) -> Listing[msgspec.Raw]:
        """All objects at a path, as raw JSON with all fields."""
        return self._pager(path, {}, lambda body, _: decode_raw_page(body, f"GET {path}")).answer()

    def _pager(self, path: str, selectors: Mapping[str, str], decode: Decode[Item]) -> ListPager[Item]:
        seen = 0  # when the first page was requested: all pages have its version

        def begin(query: Mapping[str, str]) -> PendingResponse[bytes]:
            nonlocal seen
            if "continue" not in query:
                seen = self.freshness.newest(path)
            return PendingResponse(self._exchange(_Call("GET", path, query)), bytes)

        def check(version: str) -> None:
            self.freshness.check(path, version, seen)

        return ListPager(f"GET {path}", selectors, begin, self.retrying, decode, self.system, check)

    def watch(self, path: str, resource_version: str, **selectors: str) -> "Watch":
        """Watch the objects at a path from a resource version on. GoneError when that version is too old."""
        query = {
            **selectors,
            "watch": "1",
            "resourceVersion": resource_version,
            "allowWatchBookmarks": "true",
            "timeoutSeconds": str(LONGEST_WATCH),
        }
        return self.retrying()(self._open_watch, path, query)

    def _open_watch(self, path: str, query: Mapping[str, str]) -> "Watch":
        where = f"WATCH {path}"
        with self._attempt(where, "GET") as attempt:
            answer = self._dispatch(_Call("GET", path, query)).receive()
            attempt.code = answer.status_code
            if not answer.is_success:
                with closing(answer):
                    raise refusals.refusal(
                        where,
                        "WATCH",
                        path,
                        answer,
                        read_all(answer, where, self._longest_answer, self.system),
                        self.is_starting,
                    )
        log.debug("%s from version %s", where, query["resourceVersion"])
        # The server has answered in time. From now on it sends something only when there is a change.
        answer.request.extensions["timeout"]["read"] = LONGEST_QUIET_WATCH
        return Watch(answer, where)

    def get(self, path: str, kind: type[T]) -> T:
        """One object."""
        return decode_object(self.get_whole(path), kind, f"GET {path}")

    def get_whole(self, path: str) -> bytes:
        """One object, as raw JSON with all fields."""
        return self.retrying()(self._send, _Call("GET", path))

    def begin(self, request: Request) -> PendingResponse[Any]:
        """Send a request without waiting; the answer can be read later. Nothing is retried.

        ApiError, too, if its body holds what JSON can't: a policy may return anything.
        """
        where, kind = f"{request.method} {request.path}", request.answer
        body, sort = request.body, request.media_type
        try:
            content = body if body is None or isinstance(body, bytes) else msgspec.json.encode(body)
        except UNWRITABLE as error:
            raise ApiError(f"{where} is not sent: {error}") from error
        accept = JSON if content else sort or JSON
        sort = sort or (STRATEGIC if request.method == "PATCH" else JSON)
        exchange = self._exchange(_Call(request.method, request.path, None, content, sort, accept))
        if kind is None:
            return PendingResponse(exchange, bytes)
        return PendingResponse(exchange, lambda body: decode_object(body, kind, where))

    def send(self, request: Request) -> Any:
        """Send a request; returns the server's answer. Not retried: it may have been carried out."""
        return self.begin(request).answer()

    def dry_run(self, path: str, body: bytes, *, patch: str = "") -> bytes:
        """What the API server would store of an object; it stores nothing. StatusError when it refuses.

        patch: the object is there already, and the body is a patch of this media type.
        """
        params = {"dryRun": "All", "fieldValidation": "Strict", "fieldManager": "kubectl"}
        return self.retrying()(
            self._send, _Call("PATCH" if patch else "POST", path, params, body, patch or JSON)
        )

    def _send(self, call: _Call) -> bytes:
        """Send a request once; returns the body of a 2xx answer."""
        return PendingResponse(self._exchange(call), bytes).answer()

    def _exchange(self, call: _Call) -> Generator[SentRequest, None, bytes]:
        """Send a request once, and yield; then wait for the body of a 2xx answer."""
        with self._attempt(str(call), call.method) as attempt:
            sent = self._dispatch(call)
            try:
                yield sent
            except GeneratorExit:  # the answer isn't needed any more
                sent.close()
                raise
            with closing(sent.receive()) as answer:
                body = read_all(answer, attempt.where, self._longest_answer, self.system)
            attempt.code = answer.status_code
        log.debug("%s %s, %d bytes", attempt.where, answer.status_code, len(body))
        if not answer.is_success:
            raise refusals.refusal(
                attempt.where, *call[:2], answer, body, lambda: call.path != READYZ and self.is_starting()
            )
        return body

    def is_starting(self) -> bool:
        """Whether the API server is still starting, and may know no rights yet. False if it doesn't say."""
        return self._start.is_under_way(self._readyz)

    def _readyz(self) -> bytes:
        """Ask whether the API server is ready. For its first moments, it refuses even that."""
        api = self.with_short_timeouts()
        try:
            return api._send(_Call("GET", READYZ))
        except ForbiddenError:
            self._stopping.wait(FIRST_MOMENTS)
            return api._send(_Call("GET", READYZ))

    def _attempt(self, where: str, method: str) -> HttpAttempt:
        within = self._timeout.read or 0
        return HttpAttempt(where, method, self._host, self._observer, within, self.system)

    def _dispatch(self, call: _Call) -> SentRequest:
        """Send a request without waiting for the answer."""
        about: dict[str, Any] = {"timeout": self._timeout.as_dict()}
        if call.method != "GET":
            # To connect may take seconds, and a process may be suspended at any time and continue much later.
            # So `may_write` is called once more, immediately before the request is sent.
            check = about["before_sending"] = partial(self.check_may_write, str(call))
            check()
        # httpx would spend most of a request's time on parsing the URL and on finding missing headers. So it
        # gets both complete.
        query = f"?{urlencode(call.params)}" if call.params else ""
        about["target"] = f"{self._prefix}{quote(call.path)}{query}".encode()
        headers = self._headers_for(call.accept, "" if call.content is None else call.kind)
        body = httpx.ByteStream(call.content or b"")
        request = httpx.Request(call.method, self._server, headers=headers, stream=body, extensions=about)
        if call.content is not None:
            request.headers["Content-Length"] = str(len(call.content))
        try:
            return self._http.send(request)
        except (httpx.ConnectError, httpx.ConnectTimeout) as error:
            raise UnreachableError(self._nobody_there(error)) from error

    def _headers_for(self, accept: str, kind: str) -> httpx.Headers:
        """The headers but Content-Length, by the media types of the answer and of the content, if any."""
        headers = self._headers.get((accept, kind))
        if headers is None:
            headers = httpx.Headers([(b"Host", self._server.netloc), USER_AGENT, ACCEPT_ENCODING])
            headers["Accept"] = accept
            if kind:
                headers["Content-Type"] = kind
            self._headers[accept, kind] = headers
        return headers

    def check_may_write(self, what: str) -> None:
        """NotLeadingError, which names the write, if poller may not write."""
        if not self._may_write():
            raise NotLeadingError(f"{what} is not sent: another may be leading by now")

    def _nobody_there(self, error: Exception) -> str:
        url = urlsplit(self.address)
        if "WRONG_VERSION_NUMBER" in str(error):
            return (
                f"{self.address} doesn't speak TLS. Give its address with http: --proxy http://{url.netloc}"
            )
        if "SSL" in str(error):
            return (
                f"{self.address} is not a kubectl proxy: it speaks TLS, as the API server does ({error})."
                f" Use {INSTEAD}"
            )
        # A proxy on a port would give the user's rights to all programs of the machine, and to web pages.
        there = f"kubectl proxy --unix-socket={url.path}, or {INSTEAD}" if url.scheme == "unix" else INSTEAD
        return f"nothing answers at {self.address} ({error}); use {there}"


INSTEAD = "--start-proxy: then poller starts a kubectl proxy of its own"


class Watch:
    """An open watch. Iterate over it for its lines as they come; `decode_event` reads them.

    The iteration ends when the server ends the watch. LostAnswerError when the connection breaks, or when
    nothing came for too long: then watch again from the last version seen. where: names the watch in errors.
    """

    def __init__(self, answer: httpx.Response, where: str) -> None:
        self._answer, self.where = answer, where

    def __iter__(self) -> Iterator[bytes]:
        rest = b""
        try:
            with closing(self._answer):
                for chunk in body_of(self._answer):
                    *lines, rest = (rest + chunk).split(b"\n")
                    yield from lines
                    if len(rest) > MAX_LINE:
                        raise TooLargeError(f"{self.where}: a line is longer than {MAX_LINE >> 20} MiB")
        except httpx.HTTPError as error:
            raise to_api_error(error, self.where, LONGEST_QUIET_WATCH) from error

    def close(self) -> None:
        """Close the connection; a thread that reads the events gets LostAnswerError."""
        with suppress(OSError):  # it is closed already
            self._answer.extensions["socket"].shutdown(socket.SHUT_RDWR)


def _retry_after_or_backoff(state: RetryCallState) -> float:
    error = state.outcome and state.outcome.exception()
    asked = error.retry_after if isinstance(error, ApiError) else None
    # A jitter as long as the first wait keeps schedulers that failed together from retrying together.
    return _backoff(state) if asked is None else asked


_backoff = wait_exponential_jitter(multiplier=0.1, max=5, jitter=0.1)
