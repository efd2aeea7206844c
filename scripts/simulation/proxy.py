"""A proxy between a poller and a real API server, in which requests meet their faults in real time."""

import socket
import struct
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import httpx

from .answers import (
    LONGEST_DELAY,
    TOO_OLD,
    answer_instead,
    chunk_of,
    corrupted,
    failed,
    head_of,
    http_bytes,
)
from .faults import DOES_NOT_REACH, Hit, Kind
from .server import Answer, Asked

LONGEST = 70.0
"""Seconds for which a request that gets no answer is kept."""

SKIPPED = {"accept-encoding", "connection", "content-length", "host", "transfer-encoding", "content-encoding"}


class Faulty:
    """What a proxy does with requests.

    pick: the fault of a request, if it has one. note: is told each request, its status and its fault.
    older: a resource version of some seconds ago. crash: kills the poller.
    """

    def __init__(
        self,
        upstream: str,
        pick: Callable[[str], Hit | None],
        note: Callable[[Asked, int, Kind | None], None],
        older: Callable[[float], str],
        crash: Callable[[], None],
    ) -> None:
        self.pick, self.note, self.older, self.crash = pick, note, older, crash
        transport = httpx.HTTPTransport(uds=upstream, limits=httpx.Limits(max_connections=None))
        self.client = httpx.Client(
            base_url="http://localhost", transport=transport, timeout=60, trust_env=False
        )
        self.ended = threading.Event()


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    server: "_Server"

    def exchange(self) -> None:
        """Read a request, and do with it what its fault says."""
        faulty, size = self.server.faulty, int(self.headers.get("Content-Length", 0))
        body = self.rfile.read(size)
        if len(body) < size:
            self.close_connection = True
            return
        asked = Asked(self.command, self.path, {}, body)
        hit = faulty.pick(str(asked))
        kind = hit.kind if hit else None
        if hit and (kind in DOES_NOT_REACH or kind in (Kind.REFUSED, Kind.CRASH_BEFORE)):
            self._instead(asked, hit)
            return
        if "watch=1" in self.path or "watch=true" in self.path:
            self._stream(asked, hit)
            return
        answer = self._forward(asked, hit)
        faulty.note(asked, answer.code, kind)
        if hit:
            self._spoil(answer, hit)
        else:
            self.wfile.write(http_bytes(answer))

    do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = exchange  # noqa: N815

    def handle(self) -> None:
        with suppress(OSError):
            super().handle()

    def log_message(self, *_: object) -> None:
        """Who is told of a request is `note`."""

    def _headers(self) -> dict[str, str]:
        return {name: value for name, value in self.headers.items() if name.lower() not in SKIPPED}

    def _forward(self, asked: Asked, hit: Hit | None) -> Answer:
        target = asked.target
        if hit and hit.kind == Kind.STALE and asked.is_list and "continue=" not in target:
            version = self.server.faulty.older(hit.chance.uniform(0.5, 20))
            parts = [
                each for each in target.partition("?")[2].split("&") if each and "resourceVersion" not in each
            ]
            parts += [f"resourceVersion={version}", "resourceVersionMatch=Exact"]
            target = f"{target.partition('?')[0]}?{'&'.join(parts)}"
        try:
            got = self.server.faulty.client.request(
                asked.method, target, headers=self._headers(), content=asked.body
            )
        except httpx.TransportError as error:
            return Answer(502, str(error).encode(), {"Content-Type": "text/plain"})
        return Answer(got.status_code, got.content, {"Content-Type": got.headers.get("Content-Type", "")})

    def _cut(self, rude: bool = False) -> None:
        self.close_connection = True
        if rude:
            self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        with suppress(OSError):
            self.connection.close() if rude else self.connection.shutdown(socket.SHUT_RDWR)

    def _instead(self, asked: Asked, hit: Hit) -> None:
        faulty, answer = self.server.faulty, answer_instead(hit)
        faulty.note(asked, answer.code if answer and hit.kind != Kind.HTML else 0, hit.kind)
        if hit.kind == Kind.CRASH_BEFORE:
            faulty.crash()
        if answer:
            self.wfile.write(http_bytes(answer))
        elif hit.kind == Kind.IGNORED:
            self._wait()
        else:
            self._cut(rude=hit.chance.random() < 0.5)

    def _wait(self) -> None:
        """Keep the connection until the client gives up."""
        self.connection.settimeout(LONGEST)
        with suppress(OSError):
            self.connection.recv(1)
        self.close_connection = True

    def _spoil(self, answer: Answer, hit: Hit) -> None:
        chance, kind, whole = hit.chance, hit.kind, http_bytes(answer)
        if kind == Kind.CRASH_AFTER:
            self.server.faulty.crash()
            self._cut()
        elif kind == Kind.LOST:
            self._cut(rude=chance.random() < 0.5)
        elif kind == Kind.SILENT:
            self._wait()
        elif kind == Kind.FAILED:
            self.wfile.write(http_bytes(failed(hit)))
        elif kind == Kind.CORRUPT:
            self.wfile.write(http_bytes(corrupted(answer, hit)))
        elif kind == Kind.TRUNCATED:
            self.wfile.write(whole[: chance.randrange(len(whole))])
            self._cut()
        else:
            if kind == Kind.LATE:
                self.server.faulty.ended.wait(chance.uniform(0.1, LONGEST_DELAY))
            size = max(1, len(whole) // 8) if kind == Kind.SLOW else len(whole)
            for i in range(0, len(whole), size):
                self.wfile.write(whole[i : i + size])
                if kind == Kind.SLOW:
                    self.server.faulty.ended.wait(0.2)

    def _stream(self, asked: Asked, hit: Hit | None) -> None:
        """Pass on the lines of a watch; with a fault, differently, and for a few seconds."""
        faulty, kind = self.server.faulty, hit.kind if hit else None
        lasts = hit.chance.uniform(0, 5) if hit else 1e9
        until = time.monotonic() + lasts
        timeout = httpx.Timeout(60, read=max(0.1, lasts) if hit else None)
        try:
            with faulty.client.stream("GET", asked.target, headers=self._headers(), timeout=timeout) as got:
                faulty.note(asked, got.status_code, kind)
                if got.status_code != 200:
                    said = Answer(got.status_code, got.read(), {"Content-Type": "application/json"})
                    self.wfile.write(http_bytes(said))
                    return
                plain = {"Content-Type": "application/json", "Transfer-Encoding": "chunked"}
                self.wfile.write(head_of(200, plain))
                for line in got.iter_lines():
                    if faulty.ended.is_set() or time.monotonic() > until:
                        break
                    if kind == Kind.BEHIND and hit:
                        faulty.ended.wait(hit.chance.uniform(0, LONGEST_DELAY))
                    if kind not in (Kind.WITHHELD, Kind.SILENT, Kind.LOST):
                        chunk = chunk_of(line.encode() + b"\n")
                        self.wfile.write(chunk * (2 if kind == Kind.TWICE else 1))
                if kind is None:
                    self.wfile.write(chunk_of(b""))
        except httpx.TransportError:
            pass
        if kind == Kind.TOO_OLD:
            self.wfile.write(chunk_of(TOO_OLD))
        if kind is not None:
            self._cut()


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128
    faulty: Faulty

    def handle_error(self, *_: Any) -> None:
        """The client has gone."""


@contextmanager
def proxying(faulty: Faulty) -> Iterator[str]:
    """Run a proxy on loopback; yields its address."""
    server = _Server(("127.0.0.1", 0), _Handler)
    server.faulty = faulty
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        faulty.ended.set()
        server.shutdown()
        server.server_close()
        faulty.client.close()
