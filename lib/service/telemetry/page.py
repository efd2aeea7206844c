"""The HTTP server for the web page of --ui: the page's files, and what the page reads from the API server.

kubectl proxy behind it gives anyone who reaches it all rights of its user. Here any web page that is open on
this machine can ask, and so can each of its users. So requests must have the token, which is in the page's
address, and must not come from another web page. Only what the page reads is passed on.
"""

import asyncio
import logging
import re
import sys
from collections.abc import Mapping
from contextlib import closing
from http import HTTPStatus
from pathlib import Path
from secrets import compare_digest, token_urlsafe
from urllib.parse import parse_qsl, urlencode

from lib.service.telemetry.bounded_server import (
    CHUNK,
    Answer,
    BoundedServer,
    Field,
    HttpRequest,
    Stream,
    answer_of,
    head_of,
    is_asked_by_loopback,
)
from lib.service.telemetry.observer import LOOPBACK, Address, ListenError

log = logging.getLogger("poller")

TYPES: Mapping[str, str] = {
    ".css": "text/css; charset=utf-8",
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
}
"""The media types of the page's files, by suffix. Files with another suffix are not served."""

TEXT = "text/plain; charset=utf-8"

START = "index.html"

RESOURCES = frozenset({"api/v1/nodes", "api/v1/pods", "api/v1/events"})
"""What the page reads: their lists and watches."""

WHY = "why"
"""Where the page asks why a pod waits."""

POD = re.compile(r"[a-z0-9][a-z0-9.-]*/[a-z0-9][a-z0-9.-]*")

PROGRAM = Path(__file__).resolve().parents[3] / "poller.py"

LONGEST_ANSWER = 30
"""Seconds for an answer to WHY."""

PARAMETERS = frozenset(
    {"limit", "continue", "watch", "resourceVersion", "allowWatchBookmarks", "timeoutSeconds"}
)
"""The parameters with which it does so. Each may be given once."""

SECURITY: tuple[Field, ...] = (
    (
        "Content-Security-Policy",
        "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self';"
        " base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    ),
    ("Referrer-Policy", "no-referrer"),
    ("Cross-Origin-Resource-Policy", "same-origin"),
    ("Cross-Origin-Opener-Policy", "same-origin"),
    ("Cache-Control", "no-store"),
)
"""Headers of each answer: nobody else may load, embed or keep it, and the address is told to nobody."""

FIRST_BYTE = 60
"""Seconds for kubectl proxy to begin its answer."""

LONGEST_STREAM = 330
"""Seconds for a whole answer. The page asks for watches of 300."""

STATUS_LINE = re.compile(r"HTTP/1\.1 ([2-5]\d\d [^\r\n]*)")


def serving(page: Path, proxy: Path) -> str:
    """Serve the page's folder on loopback, in a thread that ends with poller; returns the page's address.

    proxy: the unix socket of a kubectl proxy. ListenError when there is no free port.
    """
    try:
        return _Page(page, proxy).address
    except OSError as error:
        raise ListenError(f"can't serve the page at {LOOPBACK}: {error.strerror or error}") from error


class _Page:
    def __init__(self, page: Path, proxy: Path) -> None:
        files = [file for file in page.iterdir() if file.suffix in TYPES]
        self._files = {file.name: (TYPES[file.suffix], file.read_bytes()) for file in files}
        self._proxy = proxy
        self._asking = asyncio.Semaphore(1)
        self._token = token_urlsafe(32)
        server = BoundedServer(Address(LOOPBACK, 0), self._answer)
        self._port = server.port
        self.address = f"http://{LOOPBACK}:{self._port}/{self._token}/"
        server.start("page")

    async def _answer(self, request: HttpRequest) -> Answer:
        before, _, rest = request.path.partition("/")
        token, _, name = rest.partition("/")
        if why := self._why_foreign(request):
            return _text(HTTPStatus.FORBIDDEN, why)
        if request.method != "GET":
            return _text(HTTPStatus.METHOD_NOT_ALLOWED, "The page only reads: use GET.", ("Allow", "GET"))
        if before or not compare_digest(token.encode(), self._token.encode()):
            return _text(
                HTTPStatus.FORBIDDEN, "The token is missing or wrong: use the address in poller's log."
            )
        if name in RESOURCES:
            return self._passed_on(name, request.query)
        if name == WHY:
            return self._why(request.query)
        kind, content = self._files.get(name or START, ("", b""))
        if not kind or request.query:
            return _text(HTTPStatus.NOT_FOUND, "The page doesn't read that, so it isn't here.")
        return answer_of(HTTPStatus.OK, [("Content-Type", kind), *SECURITY], content)

    def _why_foreign(self, request: HttpRequest) -> str:
        """Why a request comes neither from the page nor from a user who typed its address; else empty."""
        if not is_asked_by_loopback(request, self._port):
            names = [f"{name}:{self._port}" for name in (LOOPBACK, "localhost", "[::1]")]
            return f"The host must be {' or '.join(names)}."
        (host,) = request.values("host")
        if any(origin.lower() != f"http://{host.lower()}" for origin in request.values("origin")):
            return "This is for no other web page: the Origin is another one."
        if any(site not in ("same-origin", "none") for site in request.values("sec-fetch-site")):
            return "This is for no other web page. Don't follow a link: paste the address into the browser."
        if request.values("upgrade"):
            return "There is no other protocol than HTTP here: leave out Upgrade."
        return ""

    def _passed_on(self, resource: str, query: str) -> Answer:
        try:
            parameters = parse_qsl(query, keep_blank_values=True, max_num_fields=len(PARAMETERS))
        except ValueError:  # too many
            parameters = [("", "")]
        names = [name for name, _ in parameters]
        if not PARAMETERS.issuperset(names) or len(names) > len(set(names)):
            text = f"Only these parameters can be given, each once: {', '.join(sorted(PARAMETERS))}."
            return _text(HTTPStatus.FORBIDDEN, text)
        return self._stream(f"/{resource}?{urlencode(parameters)}")

    async def _why(self, query: str) -> Stream:
        """What `poller.py why` says about a pod, as JSON. One question at a time."""
        found = dict(parse_qsl(query))
        if found.keys() != {"pod"} or not POD.fullmatch(found["pod"]):
            yield _text(HTTPStatus.NOT_FOUND, "Say which pod: why?pod=NAMESPACE/NAME.")
            return
        command = [sys.executable, str(PROGRAM), "why", found["pod"], "--output=json"]
        async with self._asking:
            asked = await asyncio.create_subprocess_exec(
                *command,
                f"--proxy=unix://{self._proxy}",
                stdin=asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.PIPE,
            )
            try:
                async with asyncio.timeout(LONGEST_ANSWER):
                    answer, error = await asked.communicate()
            except TimeoutError:
                yield _text(HTTPStatus.GATEWAY_TIMEOUT, f"no answer within {LONGEST_ANSWER} s")
                return
            finally:
                if asked.returncode is None:
                    asked.kill()
        if not answer.startswith(b"{"):
            yield _text(HTTPStatus.BAD_GATEWAY, error.decode(errors="replace").strip() or "no answer")
            return
        yield answer_of(HTTPStatus.OK, [("Content-Type", "application/json"), *SECURITY], answer)

    async def _stream(self, target: str) -> Stream:
        """The API server's answer, piece by piece as it comes: that of a watch takes minutes."""
        until = asyncio.get_running_loop().time() + LONGEST_STREAM
        try:
            async with asyncio.timeout(FIRST_BYTE):
                reader, writer = await asyncio.open_unix_connection(self._proxy)
        except OSError as error:
            log.debug("the page can't reach kubectl proxy", exc_info=True)
            yield _text(HTTPStatus.BAD_GATEWAY, f"kubectl proxy can't be reached: {error}.")
            return
        with closing(writer.transport):
            try:
                async with asyncio.timeout(FIRST_BYTE):
                    # Nothing of what the client has sent is passed on, but for the parameters.
                    lines = f"GET {target} HTTP/1.1\r\nHost: localhost\r\nAccept: application/json\r\n"
                    writer.write(f"{lines}Connection: close\r\n\r\n".encode("ascii"))
                    head = await reader.readuntil(b"\r\n\r\n")
            except (OSError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
                log.debug("the page gets no answer from kubectl proxy", exc_info=True)
                yield _text(HTTPStatus.BAD_GATEWAY, "kubectl proxy doesn't answer.")
                return
            yield _head_passed_on(head)
            while True:
                async with asyncio.timeout_at(until):
                    piece = await reader.read(CHUNK)
                if not piece:
                    return
                yield piece


def _head_passed_on(head: bytes) -> bytes:
    """The head of kubectl proxy's answer for the page: of its headers, only those that the body needs."""
    first, *lines = head.decode("latin-1").split("\r\n")
    parts = (line.partition(":") for line in lines)
    fields = {name.lower(): value.strip() for name, _, value in parts}
    kind = "application/json" if fields.get("content-type", "").startswith("application/json") else TEXT
    framing = [(name, fields[name]) for name in ("content-length", "transfer-encoding") if name in fields]
    status = STATUS_LINE.fullmatch(first)
    return head_of(status[1] if status else "502 Bad Gateway", [("Content-Type", kind), *framing, *SECURITY])


def _text(status: HTTPStatus, text: str, *fields: Field) -> bytes:
    """An answer of one sentence."""
    return answer_of(status, [("Content-Type", TEXT), *fields, *SECURITY], f"{text}\n".encode())
