"""An API server that answers as a script says: to one write, or to a pipeline on a clock of its own."""

import os
from collections.abc import Callable, Sequence
from typing import Any

from objects import read

from lib.kube.api import Api
from lib.kube.errors import (
    ApiError,
    ConflictError,
    LostAnswerError,
    NotFoundError,
    OverloadedError,
    ServerError,
    UnreachableError,
)
from lib.kube.objects import Pod
from lib.kube.write import Request, Together, Write
from lib.service.shutdown import Shutdown
from lib.service.writes.gate import WriteGate
from lib.service.writes.pipeline import Pipeline

CONFLICT, NOT_FOUND = ConflictError("409"), NotFoundError("404")
LOST, AWAY = LostAnswerError("no answer"), UnreachableError("nothing answers")


def busy() -> ApiError:
    return OverloadedError("429")


def broken() -> ApiError:
    return ServerError("500")


def web(on: str = "", uid: str = "web", **metadata: Any) -> Pod:
    body = {"metadata": {"namespace": "default", "name": "web", "uid": uid, **metadata}}
    made: Pod = read(Pod, {**body, "spec": {"nodeName": on, "schedulerName": "my-scheduler"}})
    return made


def shown(request: Request) -> str:
    """A request, as `POST /api/v1/...`, without what all paths begin with."""
    return f"{request.method} {request.path.removeprefix('/api/v1/namespaces/default/')}"


def play(write: Write[Any], *answers: object) -> tuple[list[str], Any]:
    """Answer the requests of a write in turn; pauses end at once.

    Returns the requests, and the result or the error.
    """
    requests: list[str] = []
    left = iter(answers)

    def go(write: Write[Any]) -> Any:
        answer: Any = None
        while True:
            try:
                step = write.throw(answer) if isinstance(answer, ApiError) else write.send(answer)
            except StopIteration as end:
                return end.value
            except ApiError as error:
                return error
            answer = None
            if isinstance(step, Request):
                requests.append(shown(step))
                answer = next(left)
            elif isinstance(step, Together):
                answer = [go(each) for each in step.writes]

    result = go(write)
    assert [*left] == [], "not all answers were asked for"
    return requests, result


class Scripted:
    """A pipeline with a scripted server. Time passes only while the pipeline sleeps.

    answers: by request as `shown`, what is answered in turn; the last one again and again. An ApiError is
    raised when the request is sent, if it says that nothing was sent; else it is the answer.
    """

    def __init__(self, answers: dict[str, Sequence[object]], window: int = 4) -> None:
        self.answers = {request: [*each] for request, each in answers.items()}
        self.sent: list[str] = []
        self.bodies: list[Any] = []  # of them
        self.now, self.most = 0.0, 0
        self.shutdown = Shutdown()
        self.gate = WriteGate(self.shutdown)
        self.gate.sleep = self._sleep  # type: ignore[method-assign]
        self.on_send: Callable[[str], None] = lambda _: None
        with Api("http://127.0.0.1:1", self.shutdown.stopping) as api:
            retrying = api.retrying()
        self.pipeline = Pipeline(self._begin, retrying, self.gate, window, lambda: self.now)

    def _sleep(self, seconds: float) -> None:
        self.now += seconds

    def _begin(self, request: Request) -> Any:
        self.sent.append(shown(request))
        self.bodies.append(request.body)
        self.on_send(self.sent[-1])
        script = self.answers[self.sent[-1]]
        answer = script.pop(0) if len(script) > 1 else script[0]
        if isinstance(answer, UnreachableError):
            raise answer
        return _Answer(answer)

    def run(self, *writes: Write[Any], until: float = 1000.0) -> list[Any]:
        """Start writes, run until the time is over, and return their results."""
        for each in writes:
            self.pipeline.start(each)
        self.pipeline.run(until)
        return self.pipeline.ended()


class _Answer:
    """A response that is there already."""

    due = 1e6

    def __init__(self, answer: object) -> None:
        self._answer = answer
        self._out, into = os.pipe()
        os.close(into)

    def fileno(self) -> int:
        return self._out

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
