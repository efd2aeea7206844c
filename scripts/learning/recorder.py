"""A proxy that sees what a student's scheduler asks. It can lose answers, bind a pod first, cut watches."""

import json
import re
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field, replace
from urllib.parse import unquote

import httpx

from lib.kube.escaping import escaped
from scripts.learning.lab import Json
from scripts.servers.faulty_proxy import Answer, Exchange, Proxy, Stream

_BINDING = re.compile(r"/api/v1/namespaces/([^/]+)/(?:pods/([^/]+)/binding|bindings)(?:\?|$)")

JSON = [("Content-Type", "application/json")]

Fault = Callable[[Exchange], Answer | None]
"""What happens to a pod's binding in place of being passed on; None: no answer."""


@dataclass
class Seen:
    """A request. pod: the name of the pod that it would bind, or empty. status: 0 if it has no answer."""

    method: str
    path: str
    body: Json
    pod: str
    at: float = field(default_factory=time.monotonic)
    status: int = 0

    def __str__(self) -> str:
        return f"{self.method} {escaped(unquote(self.path)[:120])} ({self.status or 'no answer'})"


class Recorder(Proxy):
    """Notes all requests.

    faults: by the name of a pod, what happens to its next binding. holding: whether watches wait before they
    show that a pod has a node. refusing: whether the versions of watches are too old, now and later.
    """

    def __init__(self, url: str, upstream: httpx.Client) -> None:
        super().__init__(url, upstream)
        self.seen: list[Seen] = []
        self.binders: set[str] = set()  # the User-Agents of who has bound pods
        self.faults: dict[str, Fault] = {}
        self.holding = False
        self.refusing = False
        self.begun_anew = 0  # watches, while they are refused
        self._too_old = 0

    def respond(self, exchange: Exchange) -> Answer | Stream | None:
        """Note the request, and what came of it."""
        agent = next((value for name, value in exchange.headers if name.lower() == "user-agent"), "")
        body = _json(exchange.body)
        seen = Seen(exchange.method, exchange.path, body, _bound_by(exchange, body))
        self.seen.append(seen)
        if seen.pod:
            self.binders.add(agent)
        fault = self.faults.pop(seen.pod, None) if seen.pod else None
        answer = fault(exchange) if fault else self._pass_on(exchange)
        seen.status = answer.status if answer else 0
        return answer

    def _pass_on(self, exchange: Exchange) -> Answer | Stream:
        if not exchange.is_watch:
            return exchange.forward()
        found = re.search(r"[?&]resourceVersion=(\d+)", exchange.path)
        version = int(found[1]) if found else 0
        if self.refusing:
            self.begun_anew += 1
            self._too_old = max(self._too_old, version)
        if 0 < version <= self._too_old:
            line = json.dumps({"type": "ERROR", "object": _status(410, "Expired")}).encode() + b"\n"
            return Stream(200, JSON, iter([line]))
        stream = exchange.stream()
        return replace(stream, lines=self._held(exchange, stream.lines))

    def _held(self, exchange: Exchange, lines: Iterator[bytes]) -> Iterator[bytes]:
        for line in lines:
            while self.holding and b'"nodeName":' in line and not exchange.wait(0.05):
                pass
            yield line

    def lose_answer(self, exchange: Exchange) -> None:
        """The binding is written, and its answer is lost."""
        exchange.forward()

    def lose_request(self, exchange: Exchange) -> None:
        """The binding isn't written, and the connection ends."""

    def fail(self, _: Exchange) -> Answer:
        """The binding isn't written, and the answer is an internal error."""
        body = json.dumps(_status(500, "InternalError")).encode()
        return Answer(500, JSON, body, len(body))

    def meanwhile(self, do: Callable[[], object], then: Fault = Exchange.forward) -> Fault:
        """Something happens just before."""

        def first(exchange: Exchange) -> Answer | None:
            do()
            return then(exchange)

        return first

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


def _status(code: int, reason: str) -> Json:
    return {"kind": "Status", "status": "Failure", "reason": reason, "message": "by the lab", "code": code}


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
