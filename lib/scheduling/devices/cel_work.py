"""The work that Kubernetes' cost leaves out: what calls make, and what they compare inside of lists.

Without a limit for it, an expression of some kilobytes could make gigabytes of text, or compare for hours.
The work is counted before a call is made. kube-scheduler has no such limit.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from lib.scheduling.devices.cel_cost import MAX_COST, STRING_FACTOR, joined_size, listed_size
from lib.scheduling.devices.cel_values import EndError, Optional

MOST_TEXT = 1 << 20
"""The longest text that a call makes: 1 MiB."""

MOST_WORK = 16 << 20
"""The most work of an evaluation: the letters that are made, ELEMENT for each element of a list or a map that
is made, and 1 for each that is compared.
"""

ELEMENT = 8

WITH_PARTS = (list, dict, Optional)

LIGHT = frozenset([bool, int, float, type(None)])
"""The types of values that weigh 1."""


def weight(value: Any) -> int:
    """How many values are in a value, at all depths. Ten letters of a text count as one.

    The same value counts wherever it occurs. What is heavier than MAX_COST isn't weighed any further.
    """
    found, left = 0, [value]
    while left and found <= MAX_COST:
        each = left.pop()
        found += 1
        if isinstance(each, list):
            if LIGHT.issuperset(map(type, each)):
                found += len(each)
            else:
                left += each
        elif isinstance(each, dict):
            left += each.keys()
            left += each.values()
        elif isinstance(each, str | bytes):
            found += int(len(each) * STRING_FACTOR)
        elif isinstance(each, Optional) and each.is_there:
            left.append(each.value)
    return found


def work(name: str, arguments: Sequence[Any]) -> int:
    """The work of a call. EndError if it would make too long a text, or compare too much."""
    compared = COMPARED.get(name)
    steps = compared(*arguments) if compared else 0
    if steps > MAX_COST:
        raise EndError
    if name not in MADE:
        return steps
    made = MADE[name](*arguments)
    if isinstance(arguments[0], str | bytes) and name != "split":
        check_text(made)
        return steps + made
    return steps + ELEMENT * made


def check_text(length: int) -> None:
    """EndError if a text is too long."""
    if length > MOST_TEXT:
        raise EndError


# --- what is made ---------------------------------------------------------------------------------------


def _replaced(text: Any, old: Any, new: Any, most: Any = -1) -> int:
    if not (isinstance(text, str) and isinstance(old, str) and isinstance(new, str)):
        return 0
    times = text.count(old)
    if isinstance(most, int) and 0 <= most < times:
        times = most
    return len(text) + times * (len(new) - len(old))


def _added(left: Any, right: Any) -> int:
    is_longer = type(left) is type(right) and isinstance(left, str | bytes | list)
    return len(left) + len(right) if is_longer else 0


def _split(text: Any, by: Any, *_: Any) -> int:
    return text.count(by) + 1 if isinstance(text, str) and isinstance(by, str) else 0


MADE: Mapping[str, Callable[..., int]] = {
    "replace": _replaced,
    "_+_": _added,
    "split": _split,
    "join": lambda *values: joined_size(values),
    "slice": lambda *values: listed_size("slice", values),
    "reverse": lambda *values: listed_size("reverse", values),
    "lists.range": lambda *values: listed_size("lists.range", values),
}
"""How long the text or the list is that a call makes. What makes hardly more than it is given isn't here."""


# --- what is compared -----------------------------------------------------------------------------------


def _both(left: Any, right: Any) -> int:
    if not (isinstance(left, WITH_PARTS) and isinstance(right, WITH_PARTS)):
        return 0
    return min(weight(left), weight(right))


def _each(*values: Any) -> int:
    return sum(weight(each) for each in values if isinstance(each, WITH_PARTS))


def _each_with_each(one: Any, other: Any) -> int:
    if not (isinstance(one, list) and isinstance(other, list)):
        return 0
    return max(len(other) * weight(one), len(one) * weight(other))


COMPARED: Mapping[str, Callable[..., int]] = {
    "_==_": _both,
    "_!=_": _both,
    "@in": _each,
    "indexOf": _each,
    "lastIndexOf": _each,
    "includes": _each,
    "format": _each,
    "flatten": _each,
    "distinct": lambda values: _each_with_each(values, values),
    "sets.contains": _each_with_each,
    "sets.intersects": _each_with_each,
    "sets.equivalent": _each_with_each,
}
"""How many values a call compares, or takes apart, at most."""

COUNTED = frozenset([*MADE, *COMPARED])
"""The functions and operators whose calls are work."""
