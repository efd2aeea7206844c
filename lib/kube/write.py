"""Writes as generators: each yields its requests one by one, and is handed the answers.

A write has no socket, no clock and no thread. What drives it (lib/service/writes/pipeline.py) sends the
requests, many writes at the same time, and throws an ApiError into the generator if a request fails.
"""

from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from lib.kube.errors import ApiError, ConflictError, NotFoundError
from lib.kube.objects import Object

Result = TypeVar("Result")


@dataclass(frozen=True)
class Request:
    """A request. answer: the type of the server's answer; None if it isn't decoded. body: sent as JSON.

    GET, PATCH and DELETE are repeated after an error that may pass: so a PATCH must hold absolute values, and
    a DELETE the uid. A POST is repeated only by the write, which looks up first what came of it.
    """

    method: str
    path: str
    answer: type[Object] | None = None
    body: object = None


@dataclass(frozen=True)
class Pause:
    """Wait before the next try, after an error. If no other try is worth it, the error is thrown."""

    after: ApiError


@dataclass(frozen=True)
class Together:
    """Several writes at the same time. The answer is a list of their results, in order."""

    writes: Sequence["Write[Any]"]


Step = Request | Pause | Together

Write = Generator[Step, Any, Result]
"""Yields its steps, and returns its result, or raises an ApiError."""


def once(
    create: Request,
    look_up: Callable[[], Write[Result | None]],
    refused: Callable[[ApiError, bool], Write[Result]],
    result: Callable[[Any], Result],
) -> Write[Result]:
    """POST something, and repeat that as long as it is worth it, but never create it twice.

    look_up: called before each repetition after a lost answer; returns what an earlier try has created, or
    None. refused: called at a conflict, with whether an earlier try may have succeeded. result: makes the
    result of the answer.
    The error raised in the end is `unsettled` if that of any try was.
    """
    lost = False
    try:
        while True:
            try:
                if lost and (found := (yield from look_up())) is not None:
                    return found
                try:
                    return result((yield create))
                except (ConflictError, NotFoundError) as error:
                    return (yield from refused(error, lost))
                except ApiError as error:
                    lost = lost or error.unsettled
                    raise
            except ApiError as error:
                if not (error.transient or error.unsettled):
                    raise
                yield Pause(error)
    except ApiError as error:
        error.unsettled = error.unsettled or lost
        raise
