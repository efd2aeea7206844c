"""The functions `find` and `findAll`, which say what a regular expression matches.

Google's library only says whether there is a match. Python's own regular expressions say what it is, but may
take forever: so only those are used that can't.
"""

import re
from functools import lru_cache
from typing import Any

from lib.scheduling.devices.cel_values import CelError

MOST_STEPS = 1_000_000
"""The most steps that a search may take, at worst."""

REPEATS = ("MAX_REPEAT", "MIN_REPEAT")


def find(pattern: str, text: str) -> str:
    """The first match; "" if there is none. CelError if that could take too long."""
    found = _compiled(pattern, text).search(text)
    return found[0] if found else ""


def find_all(pattern: str, text: str, most: int = -1) -> list[str]:
    """All matches, or so many. CelError if that could take too long."""
    if most == 0:
        return []
    found = [each[0] for each in _compiled(pattern, text).finditer(text)]
    return found if most < 0 else found[:most]


def _compiled(pattern: str, text: str) -> re.Pattern[str]:
    compiled, repeats = _read(pattern)
    if len(text) ** (repeats + 1) > MOST_STEPS:
        raise CelError(f"the regular expression may take too long: {pattern}")
    return compiled


@lru_cache(maxsize=1000)
def _read(pattern: str) -> tuple[re.Pattern[str], int]:
    """A regular expression, and how many times a text's length a search may take: as a power."""
    try:
        compiled = re.compile(pattern.replace(r"\z", r"\Z"), re.ASCII)
        from re import _parser  # type: ignore[attr-defined]

        return compiled, _repeats(_parser.parse(pattern.replace(r"\z", r"\Z")), within=1)
    except (re.error, RecursionError, OverflowError) as error:
        raise CelError(f"the regular expression isn't supported: {error}") from None


def _repeats(parsed: Any, within: int) -> int:
    """The repetitions of a pattern; one within another counts as many."""
    total = 0
    for operator, argument in parsed:
        if str(operator) in REPEATS:
            low, high, inner = argument
            total += within if high != low else 0
            total += _repeats(inner, within * 10)
        else:
            for each in _patterns(argument):
                total += _repeats(each, within)
    return total


def _patterns(argument: Any) -> list[Any]:
    """The patterns in an operator's argument."""
    if type(argument).__name__ == "SubPattern":
        return [argument]
    if isinstance(argument, tuple | list):
        return [inner for each in argument for inner in _patterns(each)]
    return []
