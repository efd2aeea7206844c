"""Writes as generators: each yields its requests one by one, and is handed the answers.

A write has no socket, no clock and no thread. What drives it (lib/service/writes/pipeline.py) sends the
requests, many writes at the same time, and throws an ApiError into the generator if a request fails.
"""

from collections.abc import Generator
from dataclasses import dataclass
from typing import Any, TypeVar

from lib.kube.errors import ApiError
from lib.kube.objects import Object

Result = TypeVar("Result")


@dataclass(frozen=True)
class Request:
    """A request. answer: the type of the server's answer; None if it isn't decoded. body: sent as JSON.

    media_type: that of the body, which is sent as it is, or without a body, of the answer; "" for JSON.
    repeatable: whether it may be sent again after an error that may pass, though it may have been carried
    out. So a PATCH must hold absolute values, a DELETE the uid, and what a POST creates its name. What isn't
    repeatable is repeated only by the write, which looks up first what came of it. The last error is
    `may_be_written` if that of any try was.
    """

    method: str
    path: str
    answer: type[Object] | None = None
    body: object = None
    repeatable: bool = True
    media_type: str = ""


@dataclass(frozen=True)
class Pause:
    """Wait before the next try, after an error. If no other try is worth it, the error is thrown."""

    after: ApiError


Write = Generator[Request | Pause, Any, Result]
"""Yields its steps, and returns its result, or raises an ApiError."""
