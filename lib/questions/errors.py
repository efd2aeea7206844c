"""What ends a question."""

import zlib
from collections.abc import Iterator
from contextlib import contextmanager

from lib.kube.bounded_files import TooMuchError


class QuestionError(Exception):
    """A question can't be answered. Each of the lines says what is wrong, where, and what to do."""

    def __init__(self, *lines: str) -> None:
        super().__init__("; ".join(lines))
        self.lines = lines


class CommandLineError(QuestionError):
    """The command line is wrong."""


@contextmanager
def file_errors(what: object, more: str = "") -> Iterator[None]:
    """A block that reads or writes a file. QuestionError when it can't: with what it is, and perhaps more."""
    try:
        yield
    except (OSError, EOFError, zlib.error, TooMuchError) as error:
        reason = getattr(error, "strerror", None) or error
        raise QuestionError(f"{what}: {reason}{more}") from error
