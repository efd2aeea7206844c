"""Durations and times, as they are written in options and annotations."""

from datetime import datetime, time, timedelta

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


def time_in(text: str, where: str, after: datetime) -> datetime:
    """A time: 02:13, 02:13:05, or 2026-11-28T02:13 with a zone or without one. CommandLineError.

    Without a zone, it is in that of this machine; without a date, it is the first such time after `after`.
    """
    try:
        of_day = time.fromisoformat(text)
    except ValueError:
        try:
            return datetime.fromisoformat(text).astimezone()
        except ValueError:
            raise CommandLineError(
                f"{where} {text}: is not a time, such as 02:13 or 2026-11-28T02:13Z"
            ) from None
    local = after.astimezone()
    found = datetime.combine(local.date(), of_day).astimezone()
    if found < local:
        found = datetime.combine(local.date() + timedelta(days=1), of_day).astimezone()
    return found


def time_text(at: datetime, beside: datetime) -> str:
    """A time, as people write it: 02:13:05; with the date, if it isn't that of another time."""
    local = at.astimezone()
    same_day = local.date() == beside.astimezone().date()
    return local.strftime("%H:%M:%S" if same_day else "%Y-%m-%d %H:%M:%S")
