"""What the steps of an evaluation cost, and the work that this cost leaves out. Both are limited.

The cost is Kubernetes' own. It leaves out what calls make, and what they compare inside of lists: without a
limit for that, an expression of some kilobytes could make gigabytes of text, or compare for hours.
kube-scheduler has no such limit.

Source: github.com/google/cel-go, interpreter/runtimecost.go; k8s.io/apiserver/pkg/cel/library/cost.go
"""

from collections.abc import Callable, Mapping, Sequence
from math import ceil
from typing import Any
from urllib.parse import SplitResult

from lib.scheduling.devices.cel.values import (
    Address,
    CelQuantity,
    CelSemver,
    Cidr,
    EndError,
    NamedFormat,
    Optional,
)

MAX_COST = 1_000_000
"""The most that an evaluation may cost (CELSelectorExpressionMaxCost)."""

COST_BETWEEN_CHECKS = 10_000
"""An evaluation that costs so much takes about 10 ms."""

LIST, MAP = 10, 30
"""What a new list and a new map cost."""

STRING_FACTOR, REGEX_FACTOR = 0.1, 0.25

UNIT = CelQuantity | CelSemver | NamedFormat | SplitResult | Address
"""Two of these are compared at the cost of 1."""


class Meter:
    """Counts what is used up. EndError when it is more than `most`.

    check: called each time that about `between_checks` more is used up; it may raise to end the evaluation.
    """

    def __init__(self, most: int, between_checks: int, check: Callable[[], None]) -> None:
        self.used = 0
        self._most, self._between_checks, self._check = most, between_checks, check
        self._next_check = between_checks

    def use(self, amount: int) -> None:
        """Count so much more."""
        self.used += amount
        if self.used > self._next_check:
            if self.used > self._most:
                raise EndError
            self._check()
            self._next_check = min(self._most, self.used + self._between_checks)


def call_cost(name: str, arguments: Sequence[Any]) -> int:
    """What a call costs, besides its arguments. It is known before the call is made."""
    cost = COSTS.get(name)
    return cost(*arguments) if cost else 1


def size(value: Any) -> int:
    """How large a value is; 1 if it has no size."""
    if isinstance(value, Optional) and value.is_there:
        return size(value.value)
    if isinstance(value, Cidr):
        return ceil(value.network.prefixlen / 8)
    if isinstance(value, Address):
        return len(value.packed)
    return len(value) if isinstance(value, str | bytes | list | dict) else 1


def _read(amount: float) -> int:
    return ceil(amount * STRING_FACTOR)


def _joined(texts: Any, by: Any = "") -> int:
    """How long the text is that `join` makes; 1 if it fails."""
    if not isinstance(texts, list) or not all(isinstance(text, str) for text in (*texts, by)):
        return 1
    return sum(map(len, texts)) + len(by) * max(0, len(texts) - 1)


def _sliced(values: Any, start: Any, end: Any) -> int:
    """How long the list is that `slice` makes; 1 if it fails."""
    match values, start, end:
        case list(), int(), int() if 0 <= start <= end <= len(values):
            return end - start
    return 1


def _range(count: Any) -> int:
    return max(0, count) if isinstance(count, int) else 1


def _reversed(values: Any) -> int:
    return len(values) if isinstance(values, list) else 1


def _searched(text: int, pattern: int) -> int:
    return _read(1 + text) * ceil(pattern * REGEX_FACTOR)


def _with_itself(values: Any, keys: Any = None) -> int:
    """Of each element of a list with each."""
    compared = values if keys is None else keys
    is_text = isinstance(compared, list) and compared and isinstance(compared[0], str | bytes)
    return int(size(compared) ** 2 * (2 + STRING_FACTOR * bool(is_text))) + 1 + LIST


def _traversal(value: Any, *_: Any) -> int:
    """Of all that is in a value, at all depths. It isn't counted any further than to MAX_COST."""
    found, seen, left = 0, 0, [value]
    while left and seen <= MAX_COST:
        inner = left.pop()
        seen += 1
        if isinstance(inner, str | bytes):
            found += int(len(inner.encode() if isinstance(inner, str) else inner) * STRING_FACTOR)
        elif isinstance(inner, list):
            left += inner
        elif isinstance(inner, dict):
            left += inner.keys()
            left += inner.values()
        else:
            found += 1
    return found if seen <= MAX_COST else MAX_COST + 1


def _contains_ip(network: Any, other: Any) -> int:
    return _read(2 * size(network)) + (_read(size(other)) if isinstance(other, str) else 0)


def _order(left: Any, right: Any) -> int:
    return _equality(left, right) if isinstance(left, str | bytes) else 1


def _equality(left: Any, right: Any) -> int:
    return _read(min(size(left), size(right)))


def _read_once(value: Any, *_: Any) -> int:
    return _read(size(value))


COSTS: Mapping[str, Callable[..., int]] = {
    **dict.fromkeys(("lowerAscii", "upperAscii", "substring", "trim", "strings.quote"), _read_once),
    **dict.fromkeys(("startsWith", "endsWith", "format"), _read_once),
    **dict.fromkeys(("cidr", "isCIDR", "isIP", "isQuantity", "isSemver", "quantity", "semver"), _read_once),
    "url": _read_once,
    "ip": lambda value: 1 if isinstance(value, Cidr) else _read(size(value)),
    "bytes": lambda value: _read(size(value)) if isinstance(value, str) else 1,
    "string": lambda value: _read(size(value)) if isinstance(value, bytes) else 1,
    **dict.fromkeys(("replace", "split", "ip.isCanonical"), lambda first, *_: _read(2 * size(first))),
    "join": lambda *values: _read(2 * _joined(*values)),
    **dict.fromkeys(
        ("matches", "find", "findAll"), lambda text, pattern, *_: _searched(size(text), size(pattern))
    ),
    "validate": lambda of, text: _searched(size(text), of.pattern_size) if isinstance(of, NamedFormat) else 1,
    "contains": lambda text, part: _read(size(text)) * _read(size(part)),
    "containsIP": _contains_ip,
    "containsCIDR": lambda network, other: _contains_ip(network, other) + _read(size(network)) + 1,
    **dict.fromkeys(("isSorted", "sum", "max", "min", "indexOf", "lastIndexOf"), _traversal),
    **dict.fromkeys(("distinct", "sort", "@sortByAssociatedKeys"), _with_itself),
    "slice": lambda *values: _sliced(*values) + 1 + LIST,
    "lists.range": lambda count: _range(count) + 1 + LIST,
    "reverse": lambda values: len(values) + 1 + LIST if isinstance(values, list) else 1,
    "flatten": lambda values, depth=1: size(values) * (depth if isinstance(depth, int) else 1) + 1 + LIST,
    "sets.contains": lambda one, other: 1 + size(one) * size(other),
    "sets.intersects": lambda one, other: 1 + size(one) * size(other),
    "sets.equivalent": lambda one, other: 1 + 2 * size(one) * size(other),
    "@in": lambda _, container: len(container) if isinstance(container, list) else 1,
    **dict.fromkeys(("_<_", "_<=_", "_>_", "_>=_"), _order),
    "_==_": lambda left, right: 1 if isinstance(left, UNIT) else _equality(left, right),
    "_!=_": _equality,
    "_+_": lambda left, right: _read(size(left) + size(right)) if isinstance(left, str | bytes) else 1,
}
"""What the calls cost that don't cost 1."""


# --- work -----------------------------------------------------------------------------------------------

MOST_TEXT = 1 << 20
"""The longest text that a call makes: 1 MiB."""

MOST_WORK = 16 << 20
"""The most work of an evaluation: the letters that are made, ELEMENT for each element of a list or a map that
is made, and 1 for each that is compared.
"""

WORK_BETWEEN_CHECKS = 100_000
"""So much work takes a tenth of a second at most: so long, if values are compared."""

ELEMENT = 8

WITH_PARTS = (list, dict, Optional)

LIGHT = frozenset([bool, int, float, type(None)])
"""The types of values that weigh 1."""


def work(name: str, arguments: Sequence[Any]) -> int:
    """The work of a call. EndError if it would make too long a text, or compare too much."""
    compared, made = COMPARED.get(name), MADE.get(name)
    steps = compared(*arguments) if compared else 0
    if steps > MAX_COST:
        raise EndError
    if made is None:
        return steps
    length = made(*arguments)
    if isinstance(arguments[0], str | bytes) and name != "split":
        check_text(length)
        return steps + length
    return steps + ELEMENT * length


def check_text(length: int) -> None:
    """EndError if a text is too long."""
    if length > MOST_TEXT:
        raise EndError


def weight(value: Any) -> int:
    """How many values are in a value, at all depths. Ten letters of a text count as one.

    The same value counts wherever it occurs. What is heavier than MAX_COST isn't weighed any further.
    """
    found, left = 0, [value]
    while left and found <= MAX_COST:
        inner = left.pop()
        found += 1
        if isinstance(inner, list):
            if LIGHT.issuperset(map(type, inner)):
                found += len(inner)
            else:
                left += inner
        elif isinstance(inner, dict):
            left += inner.keys()
            left += inner.values()
        elif isinstance(inner, str | bytes):
            found += int(len(inner) * STRING_FACTOR)
        elif isinstance(inner, Optional) and inner.is_there:
            left.append(inner.value)
    return found


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
    "join": _joined,
    "slice": _sliced,
    "reverse": _reversed,
    "lists.range": _range,
}
"""How long the text or the list is that a call makes. What makes hardly more than it is given isn't here."""


def _both(left: Any, right: Any) -> int:
    if not (isinstance(left, WITH_PARTS) and isinstance(right, WITH_PARTS)):
        return 0
    return min(weight(left), weight(right))


def _all(*values: Any) -> int:
    return sum(weight(value) for value in values if isinstance(value, WITH_PARTS))


def _each_with_each(one: Any, other: Any) -> int:
    if not (isinstance(one, list) and isinstance(other, list)):
        return 0
    return max(len(other) * weight(one), len(one) * weight(other))


COMPARED: Mapping[str, Callable[..., int]] = {
    **dict.fromkeys(("_==_", "_!=_"), _both),
    **dict.fromkeys(("@in", "indexOf", "lastIndexOf", "includes", "format", "flatten"), _all),
    "distinct": lambda values: _each_with_each(values, values),
    **dict.fromkeys(("sets.contains", "sets.intersects", "sets.equivalent"), _each_with_each),
}
"""How many values a call compares, or takes apart, at most."""
