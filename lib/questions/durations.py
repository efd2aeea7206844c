"""Durations, as they are written in options and annotations."""

from datetime import timedelta

import durationpy

from lib.questions.errors import CommandLineError, QuestionError


def seconds_in(text: object, where: str) -> float:
    """A duration, such as 1h30m, in seconds; QuestionError when it is none, or negative."""
    try:
        found = durationpy.from_str(str(text)).total_seconds()
    except (durationpy.DurationError, ValueError, OverflowError):
        found = -1.0
    if found < 0:
        kind = CommandLineError if where.startswith("--") else QuestionError
        raise kind(f"{where}: {text!r} is not a duration, such as 90s, 15m or 1h30m")
    return float(found)


def in_words(seconds: float) -> str:
    """The same the other way round, to the second: 1h30m."""
    text: str = durationpy.to_str(timedelta(seconds=round(seconds)))
    return text
