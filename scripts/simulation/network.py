"""Connections of pollers to the embedded API server, in HTTP's bytes. Here requests meet their faults."""

from collections.abc import Callable
from dataclasses import dataclass
from random import Random

import httptools

from .agenda import Agenda
from .answers import (
    LONGEST_DELAY,
    TOO_OLD,
    answer_instead,
    chunk_of,
    corrupted,
    failed,
    forbidden,
    head_of,
    http_bytes,
)
from .extender import answer_of_extender
from .faults import DOES_NOT_REACH, Faults, Hit, Kind
from .process import Process, Wire
from .server import Answer, Asked, Server

SHORTEST, LONGEST = 0.0005, 0.004
"""Seconds that a request, or an answer, is on its way."""

IN_ORDER = 1e-6
"""Seconds between two pieces of data of a connection: they arrive in their order."""

LONGEST_LAG = 20.0
"""Seconds for which an API server lags behind at most."""


@dataclass(frozen=True)
class Exchange:
    """A request that the server did, or that a fault hit, and the status of its answer."""

    when: float
    process: Process
    asked: Asked
    code: int
    fault: Kind | None

    @property
    def elects(self) -> bool:
        """Whether its poller takes part in an election."""
        return self.process.elects


class Network:
    """Makes connections.

    on_exchange: called with each request. on_crash: kills a process. on_trouble: called with the time until
    which a fault lasts.
    """

    def __init__(
        self,
        agenda: Agenda,
        server: Server,
        faults: Faults,
        seed: int,
        on_exchange: Callable[[Exchange], None],
        on_crash: Callable[[Process], None],
        on_trouble: Callable[[float], None],
    ) -> None:
        self.agenda, self.server, self.faults = agenda, server, faults
        self.on_exchange, self.on_crash, self.on_trouble = on_exchange, on_crash, on_trouble
        self.chance = Random(seed)
        self.away: dict[str, float] = {}  # by poller: until when its proxy is
        self._numbers = 0

    def connect(self, process: Process) -> Wire:
        """A connection of a process, not open yet."""
        self._numbers += 1
        return _HttpWire(self, process, self._numbers)

    def is_away(self, process: Process) -> bool:
        """Whether the proxy of a process is away."""
        return self.agenda.now < self.away.get(process.name, 0.0)

    def end_proxy(self, process: Process, seconds: float) -> None:
        """The proxy of a process ends, and is away for so many seconds."""
        self.away[process.name] = self.agenda.now + seconds
        self.on_trouble(self.away[process.name])
        for wire in [*process.sockets.values()]:
            wire.end(True)

    def delay(self) -> float:
        """How long something is on its way."""
        return self.chance.uniform(SHORTEST, LONGEST)


class _HttpWire(Wire):
    """A connection whose other end speaks HTTP."""

    def __init__(self, network: Network, process: Process, number: int) -> None:
        super().__init__(process, number)
        self._network, self._agenda = network, network.agenda
        self._parser = httptools.HttpRequestParser(self)
        self._target, self._body = b"", b""
        self._headers: dict[str, str] = {}
        self._last = 0.0  # when the last byte so far arrives
        self._to_extender = False

    def connect(self, address: object) -> None:
        """Connect to the API server or, by TCP, to the extender."""
        self.process.check()
        self._to_extender = isinstance(address, tuple)
        hit = self._network.faults.of(self._agenda.now, self.process.name, "CONNECT")
        is_away = self._network.is_away(self.process) and not self._to_extender
        if is_away or (hit and hit.kind == Kind.REFUSED):
            raise ConnectionRefusedError(111, "Connection refused")

    def sendall(self, data: bytes) -> None:
        """Send a request."""
        self.process.check()
        if self._end:
            raise BrokenPipeError(32, "Broken pipe")
        self._parser.feed_data(data)

    # --- the server's end: the parser's callbacks ---------------------------------------------------------

    def on_url(self, target: bytes) -> None:
        self._target += target

    def on_header(self, name: bytes, value: bytes) -> None:
        self._headers[name.decode().lower()] = value.decode()

    def on_body(self, body: bytes) -> None:
        self._body += body

    def on_message_complete(self) -> None:
        asked = Asked(self._parser.get_method().decode(), self._target.decode(), self._headers, self._body)
        self._target, self._body, self._headers = b"", b"", {}
        self._agenda.after(self._network.delay(), lambda: self._arrived(asked))

    def _arrived(self, asked: Asked) -> None:
        if self.process.is_dead:  # the kernel sends what was written, but who knows when
            return
        network, process = self._network, self.process
        hit = network.faults.of(self._agenda.now, process.name, f"{asked.method} {asked.target}")
        kind = hit.kind if hit else None
        if network.is_away(process) and not self._to_extender:
            self._note(asked, 0, Kind.REFUSED)
            return
        if hit:  # in a watch, it lasts
            network.on_trouble(hit.ends + LONGEST_LAG if "watch=1" in asked.target else self._agenda.now)
        if kind == Kind.REFUSED:  # whoever listened has gone
            self._cut(True)
            self._note(asked, 0, kind)
            return
        if kind == Kind.CRASH_BEFORE:
            self._note(asked, 0, kind)
            network.on_crash(process)
            return
        if hit and kind in DOES_NOT_REACH:
            self._answer_instead(asked, hit)
            return
        if self._to_extender:
            answer = answer_of_extender(asked, hit.chance if hit and kind == Kind.LIES else None)
        else:
            lags = hit.chance.uniform(0.5, LONGEST_LAG) if hit and kind == Kind.STALE else 0.0
            may = process.reach.may(asked.method, asked.target.partition("?")[0])
            answer = network.server.handle(process, asked, lags) if may else forbidden()
        self._note(asked, answer.code, kind)
        if kind == Kind.CRASH_AFTER:
            network.on_crash(process)
        elif hit:
            self._spoil(answer, hit)
        elif answer.lines:
            self._stream(answer)
        else:
            self._send(http_bytes(answer))

    def _note(self, asked: Asked, code: int, fault: Kind | None) -> None:
        if self._to_extender:
            return
        self._network.on_exchange(Exchange(self._agenda.now, self.process, asked, code, fault))

    def _send(self, *parts: bytes, pause: float = 0.0) -> None:
        """Let parts arrive, one after the other."""
        when = max(self._agenda.now + self._network.delay(), self._last)
        for part in parts:
            when += pause or IN_ORDER
            self._agenda.at(when, lambda part=part: self.deliver(part))  # type: ignore[misc]
        self._last = when

    def _cut(self, how: BaseException | bool) -> None:
        when = max(self._agenda.now + self._network.delay(), self._last + IN_ORDER)
        self._agenda.at(when, lambda: self.end(how))

    def _stream(self, answer: Answer, hit: Hit | None = None) -> None:
        """The lines of a watch, as they come; with a fault, differently for a while."""
        self._send(head_of(answer.code, {"Content-Type": "application/json", "Transfer-Encoding": "chunked"}))
        assert answer.lines
        kind = hit.kind if hit else None

        def line(content: bytes | None) -> None:
            chunk, times = chunk_of(content or b""), 1
            if kind == Kind.WITHHELD and content:
                return  # also when the fault has ended: no API server leaves out events and goes on
            if hit and content and self._agenda.now < hit.ends:
                if kind == Kind.BEHIND:
                    longest = hit.chance.choice((LONGEST_DELAY, LONGEST_LAG))
                    self._last = max(self._last, self._agenda.now + hit.chance.uniform(0, longest))
                times = 2 if kind == Kind.TWICE else 1
            self._send(*[chunk] * times)

        answer.lines(line, lambda: self.is_closed or bool(self._end))
        if kind == Kind.WITHHELD:
            self._send(chunk_of(answer.body))

    # --- faults -------------------------------------------------------------------------------------------

    def _answer_instead(self, asked: Asked, hit: Hit) -> None:
        """The fault's answer, in place of the server's."""
        answer = None
        if hit.kind == Kind.RESET:
            self._reset(hit)
        elif answer := answer_instead(hit):
            self._send(http_bytes(answer))
        self._note(asked, answer.code if answer and hit.kind != Kind.HTML else 0, hit.kind)

    def _reset(self, hit: Hit) -> None:
        is_rude = hit.chance.random() < 0.5
        self._cut(ConnectionResetError(104, "Connection reset by peer") if is_rude else True)

    def _spoil(self, answer: Answer, hit: Hit) -> None:
        """The server did its work; something happens to its answer."""
        chance, kind = hit.chance, hit.kind
        if kind == Kind.FAILED:
            self._send(http_bytes(failed(hit)))
        elif kind == Kind.LOST:
            self._reset(hit)
        elif kind == Kind.SILENT:
            pass
        elif answer.lines:  # a watch: it breaks a little later, or when the fault ends
            self._stream(answer, hit)
            if kind == Kind.TOO_OLD:
                self._agenda.after(chance.uniform(0, 5), self._say_too_old)
            lasts = chance.uniform(0, 5)
            if kind in (Kind.TWICE, Kind.BEHIND):
                lasts = chance.choice((lasts, hit.ends - self._agenda.now))
            self._agenda.after(lasts, lambda: self.end(True))
        elif kind in (Kind.STALE, Kind.LIES):
            self._send(http_bytes(answer))
        elif kind == Kind.PROXY_ENDS:
            self._send(http_bytes(answer))
            process, seconds = self.process, chance.choice((3.0, 10.0, 20.0))
            self._agenda.at(self._last, lambda: self._network.end_proxy(process, seconds))
        elif kind == Kind.LATE:
            self._last = self._agenda.now + chance.uniform(0.1, LONGEST_DELAY)
            self._send(http_bytes(answer))
        elif kind == Kind.SLOW:
            whole = http_bytes(answer)
            size = max(1, len(whole) // 8)
            self._send(*(whole[i : i + size] for i in range(0, len(whole), size)), pause=0.2)
        elif kind == Kind.TRUNCATED:
            whole = http_bytes(answer)
            self._send(whole[: chance.randrange(len(whole))])
            self._cut(True)
        elif kind == Kind.CORRUPT:
            self._send(http_bytes(corrupted(answer, hit)))

    def _say_too_old(self) -> None:
        self._send(chunk_of(TOO_OLD))
