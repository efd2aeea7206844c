"""With POLLER_ALL_CASES=1 in the environment, tests of many cases run them all, not a part."""

import os

ALL_CASES = bool(os.environ.get("POLLER_ALL_CASES"))

PART = slice(None, None, 1 if ALL_CASES else 5)
"""Of a list of cases, those that run."""


def some(number: int) -> int:
    """Of so many random cases, the number of those that run."""
    return number if ALL_CASES else max(1, number // 4)
