"""What the steps of an evaluation cost. Kubernetes limits their sum.

Source: github.com/google/cel-go, interpreter/runtimecost.go; k8s.io/apiserver/pkg/cel/library/cost.go
"""

from collections.abc import Sequence
from ipaddress import IPv4Address, IPv6Address
from math import ceil
from typing import Any

from lib.scheduling.devices.cel_values import CelQuantity, CelSemver, Cidr, NamedFormat, Optional, Url

MAX_COST = 1_000_000
"""The most that an evaluation may cost (CELSelectorExpressionMaxCost)."""

LIST, MAP = 10, 30
"""What a new list and a new map cost."""

STRING_FACTOR, REGEX_FACTOR = 0.1, 0.25

UNIT = (CelQuantity, CelSemver, Cidr, NamedFormat, Url, IPv4Address, IPv6Address)
"""Two of these are compared at the cost of 1."""

TRAVERSED = frozenset(["isSorted", "sum", "max", "min", "indexOf", "lastIndexOf"])
READ_ONCE = frozenset(
    [
        "url",
        "lowerAscii",
        "upperAscii",
        "substring",
        "trim",
        "cidr",
        "isIP",
        "isCIDR",
        "ip",
        "quantity",
        "isQuantity",
        "semver",
        "isSemver",
        "startsWith",
        "endsWith",
        "strings.quote",
        "format",
    ]
)
READ_TWICE = frozenset(("replace", "split", "ip.isCanonical"))
COMPARED_WITH_ITSELF = frozenset(("distinct", "sort", "@sortByAssociatedKeys"))
SEARCHED = frozenset(("matches", "find", "findAll"))
ORDERING = frozenset(("_<_", "_<=_", "_>_", "_>=_", "_==_", "_!=_"))


def size(value: Any) -> int:
    """How large a value is; 1 if it has no size."""
    if isinstance(value, Optional) and value.is_there:
        return size(value.value)
    if isinstance(value, Cidr):
        return value.size
    if isinstance(value, IPv4Address | IPv6Address):
        return len(value.packed)
    return len(value) if isinstance(value, str | bytes | list | dict) else 1


def _read(amount: float) -> int:
    return ceil(amount * STRING_FACTOR)


def joined_size(arguments: Sequence[Any]) -> int:
    """How long the text is that `join` makes; 1 if it fails."""
    texts, by = arguments[0], arguments[1] if len(arguments) > 1 else ""
    if not isinstance(texts, list) or not all(isinstance(each, str) for each in (*texts, by)):
        return 1
    return sum(map(len, texts)) + len(by) * max(0, len(texts) - 1)


def listed_size(name: str, arguments: Sequence[Any]) -> int:
    """How long the list is that `slice`, `lists.range` or `reverse` makes; 1 if it fails."""
    match name, arguments:
        case "slice", [list() as values, int() as start, int() as end] if 0 <= start <= end <= len(values):
            return end - start
        case "lists.range", [int() as count]:
            return max(0, count)
        case "reverse", [list() as values]:
            return len(values)
    return 1


def call_cost(name: str, arguments: Sequence[Any]) -> int:
    """What a call costs, besides its arguments. It is known before the call is made."""
    first = arguments[0] if arguments else None
    if name in TRAVERSED:
        return _traversal(first)
    if name in READ_ONCE:
        return 1 if name == "ip" and isinstance(first, Cidr) else _read(size(first))
    if name in READ_TWICE:
        return ceil(size(first) * 2 * STRING_FACTOR)
    if name == "join":
        return ceil(joined_size(arguments) * 2 * STRING_FACTOR)
    if name in SEARCHED:
        return _searched(size(first), size(arguments[1]))
    if name == "contains":
        return _read(size(first)) * _read(size(arguments[1]))
    if name in ("containsIP", "containsCIDR"):
        cost = _read(2 * size(first))
        if name == "containsCIDR":
            cost += _read(size(first)) + 1
        return cost + (_read(size(arguments[1])) if isinstance(arguments[1], str) else 0)
    if name == "validate" and isinstance(first, NamedFormat):
        return _searched(size(arguments[1]), first.pattern_size)
    if name in COMPARED_WITH_ITSELF:
        return _self_comparison(arguments[-1] if name.startswith("@") else first)
    if name in ("slice", "lists.range") or (name == "reverse" and isinstance(first, list)):
        return listed_size(name, arguments) + 1 + LIST
    if name == "flatten":
        return size(first) * _depth(*arguments[1:]) + 1 + LIST
    if name.startswith("sets."):
        return 1 + size(first) * size(arguments[1]) * (2 if name == "sets.equivalent" else 1)
    if name == "@in" and isinstance(arguments[1], list):
        return len(arguments[1])
    if name in ORDERING:
        if name not in ("_==_", "_!=_") and not isinstance(first, str | bytes):
            return 1
        if name == "_==_" and isinstance(first, UNIT):
            return 1
        return _read(min(size(first), size(arguments[1])))
    if name == "_+_" and isinstance(first, str | bytes):
        return _read(size(first) + size(arguments[1]))
    if (name, type(first)) in (("bytes", str), ("string", bytes)):
        return _read(size(first))
    return 1


def _depth(depth: Any = 1) -> int:
    """Of `flatten`; 1 if it fails."""
    return depth if isinstance(depth, int) else 1


def _self_comparison(values: Any) -> int:
    """Of each element of a list with each."""
    is_text = isinstance(values, list) and values and isinstance(values[0], str | bytes)
    return int(size(values) ** 2 * (2 + STRING_FACTOR * bool(is_text))) + 1 + LIST


def _searched(text: int, pattern: int) -> int:
    return _read(1 + text) * ceil(pattern * REGEX_FACTOR)


def _traversal(value: Any) -> int:
    """Of all that is in a value, at all depths. It isn't counted any further than to MAX_COST."""
    found, seen, left = 0, 0, [value]
    while left and seen <= MAX_COST:
        each = left.pop()
        seen += 1
        if isinstance(each, str | bytes):
            found += int(len(each.encode() if isinstance(each, str) else each) * STRING_FACTOR)
        elif isinstance(each, list):
            left += each
        elif isinstance(each, dict):
            left += each.keys()
            left += each.values()
        else:
            found += 1
    return found if seen <= MAX_COST else MAX_COST + 1
