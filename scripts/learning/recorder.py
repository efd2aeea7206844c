"""A proxy that sees what a student's scheduler asks. It can lose answers, bind a pod first, cut watches."""

import json
import re
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field, replace

import httpx

from lib.kube.escaping import escaped
from scripts.learning.lab import Json
from scripts.servers.faulty_proxy import Answer, Exchange, Proxy, Stream

_BINDING = re.compile(r"/api/v1/namespaces/([^/]+)/(?:pods/([^/]+)/binding|bindings)(?:\?|$)")

Fault = Callable[[Exchange], Answer | None]
"""What happens to a pod's binding in place of being passed on; None: no answer."""


@dataclass
class Seen:
    """A request. pod: the name of the pod that it would bind, or empty. status: 0 if it has no answer."""

    method: str
    path: str
    agent: str
    body: Json
    pod: str
    at: float = field(default_factory=time.monotonic)
    status: int = 0

    @property
    def is_watch(self) -> bool:
        """Whether it is answered line by line."""
        return re.search(r"[?&]watch=(1|true)\b", self.path) is not None

    def __str__(self) -> str:
        return f"{self.method} {escaped(self.path[:120])} ({self.status or 'no answer'})"


class Recorder(Proxy):
    """Notes all requests.

    faults: by the name of a pod, what happens to its next binding. lag: the seconds by which watches show
    later that pods have nodes. gone: how many watches are told that their version is too old.
    """

    def __init__(self, url: str, upstream: httpx.Client) -> None:
        super().__init__(url, upstream)
        self.seen: list[Seen] = []
        self.faults: dict[str, Fault] = {}
        self.lag = 0.0
        self.gone = 0

    def respond(self, exchange: Exchange) -> Answer | Stream | None:
        """Note the request, and what came of it."""
        agent = next((value for name, value in exchange.headers if name.lower() == "user-agent"), "")
        body = _json(exchange.body)
        seen = Seen(exchange.method, exchange.path, agent, body, _bound_by(exchange, body))
        self.seen.append(seen)
        fault = self.faults.pop(seen.pod, None) if seen.pod else None
        answer = fault(exchange) if fault else self._pass_on(exchange)
        seen.status = answer.status if answer else 0
        return answer

    def _pass_on(self, exchange: Exchange) -> Answer | Stream:
        if not exchange.is_watch:
            return exchange.forward()
        if self.gone:
            self.gone -= 1
            status = {"kind": "Status", "status": "Failure", "reason": "Expired", "code": 410}
            line = json.dumps({"type": "ERROR", "object": status}).encode() + b"\n"
            return Stream(200, [("Content-Type", "application/json")], iter([line]))
        stream = exchange.stream()
        return replace(stream, lines=self._lagging(exchange, stream.lines))

    def _lagging(self, exchange: Exchange, lines: Iterator[bytes]) -> Iterator[bytes]:
        for line in lines:
            if self.lag and b'"nodeName":' in line:
                exchange.wait(self.lag)
            yield line

    def lose_answer(self, exchange: Exchange) -> None:
        """The binding is written, and its answer is lost."""
        exchange.forward()

    def lose_request(self, exchange: Exchange) -> None:
        """The binding isn't written, and the connection ends."""

    def bind_first(self, node: str) -> Fault:
        """Another scheduler binds the pod to a node just before."""

        def first(exchange: Exchange) -> Answer:
            body = _json(exchange.body)
            body["target"] = {"kind": "Node", "name": node}
            self.upstream.post(exchange.path, json=body)
            return exchange.forward()

        return first

    def delete_first(self, exchange: Exchange) -> Answer:
        """The pod is deleted just before."""
        if found := _BINDING.match(exchange.path):
            name = _bound_by(exchange, _json(exchange.body))
            self.upstream.delete(
                f"/api/v1/namespaces/{found[1]}/pods/{name}", params={"gracePeriodSeconds": 0}
            )
        return exchange.forward()


def _json(body: bytes) -> Json:
    with suppress(ValueError):
        content = json.loads(body)
        if isinstance(content, dict):
            return content
    return {}


def _bound_by(exchange: Exchange, body: Json) -> str:
    """The name of the pod that a request would bind; empty for other requests."""
    found = _BINDING.match(exchange.path) if exchange.method == "POST" else None
    return str(found[2] or (body.get("metadata") or {}).get("name", "")) if found else ""
