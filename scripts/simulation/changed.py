"""A write whose requests are changed: for mutations."""

from collections.abc import Callable
from typing import Any

from lib.kube.write import Request, Write


def changed(write: Write[Any], change: Callable[[Request], object]) -> Write[Any]:
    """A write whose requests are changed."""
    answer: Any = None
    while True:
        try:
            step = write.throw(answer) if isinstance(answer, Exception) else write.send(answer)
        except StopIteration as end:
            return end.value
        if isinstance(step, Request):
            change(step)
        try:
            answer = yield step
        except Exception as error:
            answer = error
