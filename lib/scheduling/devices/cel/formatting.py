"""Texts made of values: conversions to text, and the function `format`.

Source: github.com/google/cel-go, common/types and ext/formatting.go
"""

import re
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

from lib.scheduling.devices.cel.cost import check_text
from lib.scheduling.devices.cel.values import Address, CelError, TypeValue, key_value, type_name


def shown_double(value: float) -> str:
    """As Go writes it in its shortest form."""
    if value != value or value in (float("inf"), float("-inf")):
        return {"nan": "NaN", "inf": "+Inf", "-inf": "-Inf"}[str(value)]
    digits = Decimal(repr(value)).normalize()
    exponent = digits.adjusted()
    if value == 0 or -4 <= exponent < 6:
        return f"{digits:f}"
    return f"{value:.{len(digits.as_tuple().digits) - 1}e}"


def shown_duration(value: timedelta) -> str:
    """In seconds."""
    micros = value // timedelta(microseconds=1)
    whole, rest = divmod(abs(micros), 10**6)
    text = f"{whole}.{rest:06}".rstrip("0").rstrip(".") if rest else str(whole)
    return f"{'-' if micros < 0 else ''}{text}s"


def shown_moment(value: datetime) -> str:
    """As RFC 3339 has it."""
    text = value.astimezone(UTC).replace(tzinfo=None).isoformat()
    return (text.rstrip("0") if "." in text else text) + "Z"


def text_of(value: Any) -> str:
    """string(VALUE). CelError if it has no text."""
    match value:
        case bool():
            return str(value).lower()
        case str():
            return value
        case int():
            return str(int(value))
        case float():
            return shown_double(value)
        case bytes():
            try:
                return value.decode()
            except UnicodeDecodeError:
                raise CelError("invalid UTF-8 in bytes, cannot convert to string") from None
        case timedelta():
            return shown_duration(value)
        case datetime():
            return shown_moment(value)
        case TypeValue():
            return value.name
    if isinstance(value, Address):
        return str(value)
    raise CelError(f"no such overload: string({type_name(value)})")


# --- format ---------------------------------------------------------------------------------------------

CLAUSE = re.compile(r"%(?:%|(?:\.([0-9]*))?(.)?)", re.DOTALL)

MOST_DIGITS = 3
"""So many digits the number has that says how many digits are shown: each takes memory."""

WRONG = {
    "s": "string clause can only be used on strings, bools, bytes, ints, doubles, maps, lists, types, "
    "durations, and timestamps, was given {}",
    "d": "decimal clause can only be used on integers, was given {}",
    "f": "fixed-point clause can only be used on doubles, was given {}",
    "e": "scientific clause can only be used on doubles, was given {}",
    "b": "only integers and bools can be formatted as binary, was given {}",
    "x": "only integers, byte buffers, and strings can be formatted as hex, was given {}",
    "o": "octal clause can only be used on integers, was given {}",
}
"""By clause, what is said of a value that has another type."""

SCALARS = ["bool", "bytes", "double", "int", "string", "uint"]

ALLOWED = {
    "s": [*SCALARS, "duration", "list", "map", "null", "timestamp", "type"],
    "d": ["int", "uint"],
    "f": ["double", "string"],
    "e": ["double", "string"],
    "b": ["int", "uint", "bool"],
    "x": ["int", "uint", "string", "bytes"],
    "o": ["int", "uint"],
}
"""By clause, the types of values that it can be used on."""


def clauses(text: str, count: int) -> Iterator[tuple[str, str, int]]:
    """The parts of a format: literal text, a clause or "", and its precision.

    CelError if it isn't valid, or has more clauses than there are values (`count`).
    """
    start = number = 0
    for found in CLAUSE.finditer(text):
        yield text[start : found.start()], "", 0
        start = found.end()
        if found[0] == "%%":
            yield "%", "", 0
            continue
        if number >= count:
            raise CelError(f"index {number} out of range")
        if found[0] == "%":
            raise CelError("unexpected end of string")
        number += 1
        kind = found[2] or ""
        if kind not in tuple("sdfebxXo"):
            why = f'unrecognized formatting clause "{kind}"'
            raise CelError(f"could not parse formatting clause: {why}")
        digits = found[1] or "6"
        if len(digits) > MOST_DIGITS:
            raise CelError("the precision is too large")
        yield "", kind, int(digits)
    yield text[start:], "", 0


def formatted(text: str, values: list[Any]) -> str:
    """TEXT.format(VALUES)."""
    made, length, left = list[str](), 0, iter(values)
    for literal, clause, precision in clauses(text, len(values)):
        made.append(literal)
        if clause:
            try:
                made.append(_clause(clause, precision, next(left)))
            except CelError as error:
                raise CelError(f"error during formatting: {error}") from None
            length += len(made[-1])
            check_text(length)
    return "".join(made)


def _clause(clause: str, precision: int, value: Any) -> str:
    kind = clause.lower()
    if kind == "s":
        return _as_text(value)
    if isinstance(value, int) and kind in ("b" if isinstance(value, bool) else "bdox"):
        return format(int(value), clause)
    if kind == "x" and isinstance(value, str | bytes):
        found = (value.encode() if isinstance(value, str) else value).hex()
        return found.upper() if clause == "X" else found
    if kind in "fe" and (isinstance(value, float) or value in ("NaN", "Infinity", "-Infinity")):
        return _number(kind, precision, float(value))
    raise CelError(WRONG[kind].format(type_name(value)))


def _number(kind: str, precision: int, value: float) -> str:
    if value != value:
        return "NaN"
    if abs(value) == float("inf"):
        return "∞" if value > 0 else "-∞"
    if kind == "f":
        return f"{value:,.{precision}f}"
    digits, _, exponent = f"{value:.{precision}e}".partition("e")
    raised = str(int(exponent)).translate(str.maketrans("0123456789-", "⁰¹²³⁴⁵⁶⁷⁸⁹⁻"))
    return f"{digits}\u202f\u00d7\u202f10{raised.rjust(2, '⁰')}"


def _as_text(value: Any) -> str:
    if isinstance(value, list):
        return f"[{', '.join(map(_inner, value))}]"
    if isinstance(value, dict):
        pairs = sorted((_inner(key_value(key)), _inner(inner)) for key, inner in value.items())
        return "{" + ", ".join(f"{key}:{inner}" for key, inner in pairs) + "}"
    if value is None:
        return "null"
    if isinstance(value, bool | int | float | str | bytes | datetime | timedelta | TypeValue):
        return text_of(value)
    raise CelError(WRONG["s"].format(type_name(value)))


INNER: Mapping[type, Callable[[Any], str]] = {
    str: lambda value: f'"{value}"',
    bytes: lambda value: f'b"{text_of(value)}"',
    float: lambda value: f"{value:.6f}",
    datetime: lambda value: f'timestamp("{shown_moment(value)}")',
    timedelta: lambda value: f'duration("{shown_duration(value)}")',
}


def _inner(value: Any) -> str:
    """A value in a list or a map."""
    known = isinstance(value, bool | int | list | dict) or value is None
    if type(value) not in INNER and not known and not isinstance(value, TypeValue):
        raise CelError(f"no formatting function for {type_name(value)}")
    return INNER.get(type(value), _as_text)(value)
