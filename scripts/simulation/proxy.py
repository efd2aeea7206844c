"""A proxy between a poller and a real API server, in which requests meet their faults in real time."""

import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from math import inf

import httpx

from scripts.servers import faulty_proxy as http
from scripts.servers.faulty_proxy import BrokenOffError, Exchange, Proxy, Stream

from .answers import LONGEST_DELAY, TOO_OLD, answer_instead, corrupted, failed, http_bytes
from .faults import DOES_NOT_REACH, Hit, Kind
from .server import Answer, Asked

LONGEST = 70.0
"""Seconds for which a request that gets no answer is kept."""


class Faulty(Proxy):
    """The proxy.

    pick: the fault of a request, if it has one. note: is told each request, its status and its fault.
    older: a resource version of some seconds ago. crash: kills the poller.
    """

    def __init__(
        self,
        url: str,
        upstream: httpx.Client,
        pick: Callable[[str], Hit | None],
        note: Callable[[Asked, int, Kind | None], None],
        older: Callable[[float], str],
        crash: Callable[[], None],
    ) -> None:
        super().__init__(url, upstream)
        self._pick, self._note, self._older, self._crash = pick, note, older, crash

    def respond(self, exchange: Exchange) -> http.Answer | Stream | None:
        """Do with a request what its fault says."""
        asked = Asked(exchange.method, exchange.path, {}, exchange.body)
        hit = self._pick(str(asked))
        if hit and (hit.kind in DOES_NOT_REACH or hit.kind in (Kind.REFUSED, Kind.CRASH_BEFORE)):
            return self._instead(exchange, asked, hit)
        if exchange.is_watch:
            return self._stream(exchange, asked, hit)
        got = exchange.forward(self._older_list(asked, hit) if hit and hit.kind == Kind.STALE else "")
        self._note(asked, got.status, hit.kind if hit else None)
        return self._spoiled(exchange, got, hit) if hit else got

    def _older_list(self, asked: Asked, hit: Hit) -> str:
        """The path of a list as it was some seconds ago; "" if it is no first page of a list."""
        path, _, query = asked.target.partition("?")
        if not asked.is_list or "continue=" in query:
            return ""
        parts = [each for each in query.split("&") if each and "resourceVersion" not in each]
        version = self._older(hit.chance.uniform(0.5, 20))
        return f"{path}?{'&'.join([*parts, f'resourceVersion={version}', 'resourceVersionMatch=Exact'])}"

    def _instead(self, exchange: Exchange, asked: Asked, hit: Hit) -> http.Answer | None:
        answer = answer_instead(hit)
        self._note(asked, answer.code if answer and hit.kind != Kind.HTML else 0, hit.kind)
        if hit.kind == Kind.CRASH_BEFORE:
            self._crash()
        if answer:
            return _sent(answer)
        _unanswered(exchange, hit, keep=hit.kind == Kind.IGNORED)
        return None

    def _spoiled(self, exchange: Exchange, got: http.Answer, hit: Hit) -> http.Answer | Stream | None:
        """What becomes of an answer: the server did its work."""
        chance, kind, answer = hit.chance, hit.kind, Answer(got.status, got.body, dict(got.headers))
        if kind == Kind.CRASH_AFTER:
            self._crash()
            return None
        if kind in (Kind.LOST, Kind.SILENT):
            _unanswered(exchange, hit, keep=kind == Kind.SILENT)
            return None
        if kind == Kind.FAILED:
            return _sent(failed(hit))
        if kind == Kind.CORRUPT:
            return _sent(corrupted(answer, hit))
        if kind == Kind.TRUNCATED:
            whole = http_bytes(answer)
            exchange.connection.sendall(whole[: chance.randrange(len(whole))])
            return None
        if kind == Kind.LATE:
            exchange.wait(chance.uniform(0.1, LONGEST_DELAY))
        return Stream(got.status, got.headers, _slowly(exchange, got.body)) if kind == Kind.SLOW else got

    def _stream(self, exchange: Exchange, asked: Asked, hit: Hit | None) -> Stream | None:
        """A watch; with a fault, differently, and for a few seconds."""
        lasts = hit.chance.uniform(0, 5) if hit else inf
        try:
            stream = exchange.stream(max(0.1, lasts) if hit else None)
        except httpx.TransportError:
            return None
        self._note(asked, stream.status, hit.kind if hit else None)
        if not hit or stream.status != 200:
            return stream
        return replace(stream, lines=_spoiled_lines(exchange, stream.lines, hit, time.monotonic() + lasts))


def _sent(answer: Answer) -> http.Answer:
    return http.Answer(answer.code, [*answer.headers.items()], answer.body, len(answer.body))


def _unanswered(exchange: Exchange, hit: Hit, *, keep: bool) -> None:
    """Leave a request without an answer. keep: the connection stays open until the client gives up."""
    if keep:
        exchange.keep(LONGEST)
    elif hit.chance.random() < 0.5:
        exchange.reset()


def _slowly(exchange: Exchange, body: bytes) -> Iterator[bytes]:
    size = max(1, len(body) // 8)
    for i in range(0, len(body), size):
        yield body[i : i + size]
        exchange.wait(0.2)


def _spoiled_lines(exchange: Exchange, lines: Iterator[bytes], hit: Hit, until: float) -> Iterator[bytes]:
    """What comes of a watch, until it breaks."""
    with suppress(httpx.TransportError):
        for line in lines:
            if time.monotonic() > until:
                break
            if hit.kind == Kind.BEHIND:
                exchange.wait(hit.chance.uniform(0, LONGEST_DELAY))
            if hit.kind not in (Kind.WITHHELD, Kind.SILENT, Kind.LOST):
                yield line * (2 if hit.kind == Kind.TWICE else 1)
    if hit.kind == Kind.TOO_OLD:
        yield TOO_OLD
    raise BrokenOffError
