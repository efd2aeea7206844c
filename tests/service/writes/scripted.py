"""An API server that answers as a script says: to one write, or to a pipeline on a clock of its own."""

import os
from collections.abc import Callable, Sequence
from copy import copy
from datetime import UTC, datetime
from typing import Any

from objects import read

from lib.kube.api import Api
from lib.kube.claim_writes import FINALIZER
from lib.kube.devices import ResourceClaim
from lib.kube.errors import (
    ApiError,
    ConflictError,
    LostAnswerError,
    NotFoundError,
    OverloadedError,
    ServerError,
    UnreachableError,
)
from lib.kube.in_flight import InFlight
from lib.kube.objects import Pod
from lib.kube.system import System
from lib.kube.write import Request, Write
from lib.service.shutdown import Shutdown
from lib.service.writes.pipeline import Pipeline, Sort

HANGS = "no answer comes"
"""In a script: the request is sent, and nothing follows."""

NOW = datetime(2026, 1, 1, tzinfo=UTC)
CONFLICT, NOT_FOUND = ConflictError("409"), NotFoundError("404")
LOST, AWAY = LostAnswerError("no answer"), UnreachableError("nothing answers")


def busy() -> ApiError:
    return OverloadedError("429")


def broken() -> ApiError:
    return ServerError("500")


def web(on: str = "", uid: str = "web", namespace: str = "default", **metadata: Any) -> Pod:
    body = {"metadata": {"namespace": namespace, "name": "web", "uid": uid, **metadata}}
    made: Pod = read(Pod, {**body, "spec": {"nodeName": on, "schedulerName": "my-scheduler"}})
    return made


def shown(request: Request) -> str:
    """A request, as `POST /api/v1/...`, without what all paths begin with."""
    return f"{request.method} {request.path.removeprefix('/api/v1/namespaces/default/')}"


def play(write: Write[Any], *answers: object) -> tuple[list[str], Any]:
    """Answer the requests of a write in turn, those that the pipeline repeats, too.

    Returns the requests, and the result or the error.
    """
    left = list(answers)
    server = Scripted({})
    server.answer_to = lambda _: left.pop(0)
    results = server.run(caught(write))
    assert left == [], "not all answers were asked for"
    return server.sent, next(iter(results), None)


class Scripted:
    """A pipeline with a scripted server. Time passes only while the pipeline sleeps.

    answers: by request as `shown`, what is answered in turn; the last one again and again. An ApiError is
    raised when the request is sent, if it says that nothing was sent; else it is the answer. most: how many
    requests were in flight at the same time.
    """

    def __init__(self, answers: dict[str, Sequence[object]], window: int = 4) -> None:
        self.answers = {request: [*each] for request, each in answers.items()}
        self.sent: list[str] = []
        self.bodies: list[Any] = []  # of them
        self.now, self.most = 0.0, 0
        self.system = System()
        self.system.monotonic = lambda: self.now
        self.system.now = lambda: NOW
        self.shutdown = Shutdown(self.system)
        self.shutdown.stopping.wait = self._sleep  # type: ignore[method-assign, assignment]
        self.on_send: Callable[[str], None] = lambda _: None
        with Api("http://127.0.0.1:1", self.shutdown.stopping) as api:
            retrying = api.retrying()
        self._in_flight = InFlight(self._begin, self.system)
        self.pipeline = Pipeline(self._in_flight, retrying, self.shutdown, window, self.system.monotonic)

    def use(self, poll: Any) -> None:
        """Wait for answers by this poll, not by that of the sockets."""
        self._in_flight._readable = poll

    def _sleep(self, seconds: float) -> None:
        self.now += seconds

    def _begin(self, request: Request) -> Any:
        self.sent.append(shown(request))
        self.bodies.append(request.body)
        self.on_send(self.sent[-1])
        self.most = max(self.most, len(self._in_flight) + 1)
        answer = self.answer_to(request)
        answer = copy(answer) if isinstance(answer, ApiError) else answer  # a write may change its error
        if isinstance(answer, UnreachableError):
            raise answer
        return _Answer(answer)

    def answer_to(self, request: Request) -> object:
        """The scripted answer to a request."""
        script = self.answers[shown(request)]
        return script.pop(0) if len(script) > 1 else script[0]

    def run(self, *writes: Write[Any], until: float = 1000.0) -> list[Any]:
        """Start writes, run until the time is over, and return their results."""
        for each in writes:
            self.pipeline.start(each, Sort.RECORD, "default")
        return list(self.pipeline.run(until))


def claim(
    has: str = "", *users: str, finalizer: bool = False, uid: str = "gpu", name: str = "gpu", **metadata: Any
) -> ResourceClaim:
    """A claim that has a device, if one is named, and is reserved for these pods."""
    names = {"name": name, "namespace": "default", "uid": uid, "finalizers": [FINALIZER] * finalizer}
    status: dict[str, Any] = {
        "reservedFor": [{"resource": "pods", "name": each, "uid": each} for each in users]
    }
    if has:
        result = {"driver": "d", "pool": "p", "device": has, "request": "r"}
        status["allocation"] = {
            "devices": {"results": [result]},
            "allocationTimestamp": "2026-01-01T00:00:00Z",
        }
    made: ResourceClaim = read(ResourceClaim, {"metadata": {**names, **metadata}, "status": status})
    return made


class _Answer:
    """A response that is there already."""

    due = 1e6

    def __init__(self, answer: object) -> None:
        self._answer = answer
        self._out, into = os.pipe()
        if answer is not HANGS:
            os.close(into)  # now it can be read

    def fileno(self) -> int:
        return self._out

    def take_in(self) -> bool:
        return True

    def answer(self) -> object:
        os.close(self._out)
        if isinstance(self._answer, ApiError):
            raise self._answer
        return self._answer


def caught(write: Write[Any]) -> Write[Any]:
    """A write whose result is its error, if it fails."""
    try:
        return (yield from write)
    except ApiError as error:
        return error
