"""With POLLER_ALL_CASES=1 in the environment, tests of many cases run them all, not a part."""

import os
from collections.abc import Callable, Iterable
from typing import TypeVar

import pytest

T = TypeVar("T")

ALL_CASES = bool(os.environ.get("POLLER_ALL_CASES"))

PART, HALF = (slice(None, None, 1 if ALL_CASES else step) for step in (5, 2))
"""Of a list of cases, those that run: every fifth, every second."""


def some(number: int) -> int:
    """Of so many random cases, the number of those that run."""
    return number if ALL_CASES else max(1, number // 4)


def check_each(cases: Iterable[tuple[str, T]], check: Callable[[T], None]) -> None:
    """Check cases in one test, and name all that fail. A test for each would cost more than its case."""
    failed: list[BaseException] = []
    for name, case in cases:
        try:
            check(case)
        except (Exception, pytest.fail.Exception) as error:
            error.add_note(f"in the case {name}")
            failed.append(error)
    if failed:
        raise BaseExceptionGroup(f"{len(failed)} cases", failed)
