"""A proxy that misbehaves as told, to be put between a client and its API server in tests.

    with faulty(
        upstream,
        Fault("GET", r"/pods", delay(2)),
        Fault("POST", r"/binding$", answer(429, headers={"Retry-After": "1"}), times=2),
        Fault("POST", r"/binding$", lose_answer()),
    ) as proxy:
        ...  # talk to proxy.url

At most one fault applies to a request: the first in the table that matches it and isn't used up. Here two
bindings are refused; the third is made, but its client gets no answer.
"""

import json
import re
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from itertools import count
from typing import Any

import httpx

from scripts.servers.faulty_proxy import Answer, Exchange, Proxy, Stream, running

__all__ = [
    "ALWAYS",
    "Answer",
    "Effect",
    "Exchange",
    "Fault",
    "FaultyProxy",
    "Stream",
    "answer",
    "change_events",
    "change_json",
    "cut_answer",
    "delay",
    "drip",
    "faulty",
    "hold",
    "lose_answer",
    "refuse",
]

ALWAYS = sys.maxsize

Effect = Callable[[Exchange], Answer | Stream | None]  # None: close the connection without an answer


@dataclass(frozen=True)
class Fault:
    """An effect on requests with this method, and this regex in their path and query.

    The first `after` of them are passed on, then the effect applies to `times` of them.
    """

    method: str
    path: str
    effect: Effect
    times: int = 1
    after: int = 0

    def matches(self, method: str, path: str) -> bool:
        return method == self.method and re.search(self.path, path) is not None


def answer(status: int, body: str = "", headers: Mapping[str, str] | None = None) -> Effect:
    """Answer so; the upstream isn't asked."""
    content = body.encode()
    made = Answer(status, tuple((headers or {}).items()), content, len(content))
    return lambda exchange: made


def refuse() -> Effect:
    """Close the connection; the upstream isn't asked."""
    return lambda exchange: None


def lose_answer() -> Effect:
    """Close the connection once the upstream has answered: a write is done, but its client can't know."""

    def effect(exchange: Exchange) -> None:
        exchange.forward()

    return effect


def delay(seconds: float) -> Effect:
    """Wait, then forward."""

    def effect(exchange: Exchange) -> Answer | None:
        return None if exchange.wait(seconds) else exchange.forward()

    return effect


def drip(pause: float) -> Effect:
    """Answer byte by byte, with a pause of so many seconds before each."""

    def effect(exchange: Exchange) -> Stream:
        whole = exchange.forward()

        def pieces() -> Iterator[bytes]:
            for byte in whole.body:
                if exchange.wait(pause):
                    return
                yield bytes([byte])

        return Stream(whole.status, whole.headers, pieces())

    return effect


def hold(let_go: threading.Event) -> Effect:
    """Wait until this is set, then forward."""

    def effect(exchange: Exchange) -> Answer | None:
        while not let_go.is_set():
            if exchange.wait(0.02):
                return None
        return exchange.forward()

    return effect


def cut_answer(keep: int, honest_length: bool = False) -> Effect:
    """Send only so many bytes of the body.

    Content-Length is that of the whole body, and the connection is broken off; with `honest_length` it is
    that of the sent part, and the answer looks whole.
    """

    def effect(exchange: Exchange) -> Answer:
        whole = exchange.forward()
        body = whole.body[:keep]
        return replace(whole, body=body, content_length=len(body) if honest_length else whole.content_length)

    return effect


def change_json(change: Callable[[Any], Any]) -> Effect:
    """Send what `change` makes of the upstream's decoded JSON body."""

    def effect(exchange: Exchange) -> Answer:
        original = exchange.forward()
        body = json.dumps(change(json.loads(original.body))).encode()
        return replace(original, body=body, content_length=len(body))

    return effect


def change_events(change: Callable[[Any], Any]) -> Effect:
    """Send what `change` makes of each event of a watch."""

    def effect(exchange: Exchange) -> Stream:
        original = exchange.stream()
        lines = (json.dumps(change(json.loads(line))).encode() + b"\n" for line in original.lines)
        return replace(original, lines=lines)

    return effect


class FaultyProxy(Proxy):
    """The running proxy: its URL, and the requests in order, as (method, path with query).

    requests: all but SelfSubjectAccessReviews.
    """

    def __init__(self, url: str, upstream: httpx.Client, faults: tuple[Fault, ...]) -> None:
        super().__init__(url, upstream)
        self.requests: list[tuple[str, str]] = []
        self._lock = threading.Lock()
        self._table: list[tuple[Fault, Iterator[int]]] = []  # each with a count of matching requests
        self.add(*faults)

    def add(self, *faults: Fault) -> None:
        """Put more faults at the end of the table."""
        with self._lock:
            self._table += [(fault, count()) for fault in faults]

    def respond(self, exchange: Exchange) -> Answer | Stream | None:
        """The upstream's answer, or what a fault makes of it."""
        effect = self._effect_on(exchange.method, exchange.path)
        return effect(exchange) if effect else exchange.pass_on()

    def _effect_on(self, method: str, path: str) -> Effect | None:
        with self._lock:
            if not path.endswith("/selfsubjectaccessreviews"):  # sent at each start; they write nothing
                self.requests.append((method, path))
            for fault, seen in self._table:
                if fault.matches(method, path) and 0 <= next(seen) - fault.after < fault.times:
                    return fault.effect
        return None


@contextmanager
def faulty(upstream: str, *faults: Fault) -> Iterator[FaultyProxy]:
    """Run a proxy on loopback that passes requests on to its upstream, http:// or unix://, except for faults.

    Answers are passed on when they are complete; those of watches line by line.
    """
    with running(partial(FaultyProxy, faults=faults), upstream) as proxy:
        yield proxy
