"""Functions of expressions about texts, lists, sets, moments, and conversions.

Source: github.com/google/cel-go, common/types, common/stdlib and ext
"""

import itertools
import operator
import re
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime, timedelta, timezone
from functools import reduce
from typing import Any
from zoneinfo import ZoneInfo

import durationpy

from lib.scheduling.devices.cel.formatting import formatted, text_of
from lib.scheduling.devices.cel.library import find, find_all, matches
from lib.scheduling.devices.cel.operators import COMPARABLE, OPERATORS, bounded, is_equal, is_in
from lib.scheduling.devices.cel.values import (
    NONE,
    CelError,
    Optional,
    TypeValue,
    Unsigned,
    key_of,
    key_value,
    type_name,
)

MOMENT = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)")


# --- conversions ----------------------------------------------------------------------------------------


def _no_conversion(to: str) -> CelError:
    return CelError(f"type conversion error from 'string' to '{to}'")


def _integer(text: str, kind: type, name: str) -> int:
    if not re.fullmatch("[0-9]+" if kind is Unsigned else "[+-]?[0-9]+", text):
        raise _no_conversion(name)
    try:
        return bounded(int(text), kind)
    except CelError:
        raise _no_conversion(name) from None


def _truncated(value: float, kind: type) -> int:
    """CelError if it doesn't fit; as in cel-go, the least integer doesn't."""
    fits = -(2.0**63) < value < 2.0**64
    return bounded(int(value) if fits else 1 << 64, kind)


DOUBLE = re.compile(r"[+-]?((\d+\.?\d*|\.\d+)([eE][+-]?\d+)?|inf|infinity|nan)", re.IGNORECASE)


def _double(text: str) -> float:
    if not DOUBLE.fullmatch(text):
        raise _no_conversion("double")
    return float(text)


WORDS = dict.fromkeys(("true", "1", "t", "True", "TRUE"), True)
WORDS |= dict.fromkeys(("false", "0", "f", "False", "FALSE"), False)


def _bool(text: str) -> bool:
    if text not in WORDS:
        raise _no_conversion("bool")
    return WORDS[text]


def _duration(text: str) -> timedelta:
    try:
        if re.search("[dwy]", text) or re.search("[0-9.]$", text.removesuffix("0")):
            raise ValueError(text)
        return durationpy.from_str(text)
    except (ValueError, OverflowError):
        raise _no_conversion("google.protobuf.Duration") from None


def _timestamp(value: str | int) -> datetime:
    try:
        if isinstance(value, int):
            return datetime.fromtimestamp(value, UTC)
        if not MOMENT.fullmatch(value):
            raise ValueError(value)
        return datetime.fromisoformat(value).astimezone(UTC)
    except (ValueError, OverflowError, OSError):
        kind = type_name(value)
        raise CelError(f"type conversion error from '{kind}' to 'google.protobuf.Timestamp'") from None


# --- moments --------------------------------------------------------------------------------------------


def _of_moment(field: Callable[[datetime], int]) -> Callable[..., int]:
    return lambda moment, zone="": field(moment.astimezone(_zone(zone)))


def _of_duration(unit: timedelta) -> Callable[[timedelta], int]:
    return lambda duration: int(duration / unit)


MOMENTS: Mapping[str, Callable[[datetime], int]] = {
    "getFullYear": lambda moment: moment.year,
    "getMonth": lambda moment: moment.month - 1,
    "getDayOfYear": lambda moment: moment.timetuple().tm_yday - 1,
    "getDayOfMonth": lambda moment: moment.day - 1,
    "getDate": lambda moment: moment.day,
    "getDayOfWeek": lambda moment: moment.isoweekday() % 7,
    "getHours": lambda moment: moment.hour,
    "getMinutes": lambda moment: moment.minute,
    "getSeconds": lambda moment: moment.second,
    "getMilliseconds": lambda moment: moment.microsecond // 1000,
}

UNITS = {
    "getHours": timedelta(hours=1),
    "getMinutes": timedelta(minutes=1),
    "getSeconds": timedelta(seconds=1),
    "getMilliseconds": timedelta(milliseconds=1),
}


def _zone(name: str) -> Any:
    if not name:
        return UTC
    if found := re.fullmatch(r"([+-]?)(\d\d):(\d\d)", name):
        offset = timedelta(hours=int(found[2]), minutes=int(found[3]))
        return timezone(-offset if found[1] == "-" else offset)
    try:
        return ZoneInfo(name)
    except (ValueError, OSError, LookupError):
        raise CelError(f"unknown time zone {name}") from None


# --- texts ----------------------------------------------------------------------------------------------


def _at(number: int) -> CelError:
    return CelError(f"index out of range: {number}")


def _char_at(text: str, at: int) -> str:
    if not 0 <= at <= len(text):
        raise _at(at)
    return text[at : at + 1]


def _substring(text: str, start: int, end: int | None = None) -> str:
    if end is None:
        end = len(text)
    elif start > end:
        raise CelError(f"invalid substring range. start: {start}, end: {end}")
    if not 0 <= start <= len(text):
        raise _at(start)
    if end > len(text):
        raise _at(end)
    return text[start:end]


def _split(text: str, by: str, most: int = -1) -> list[str]:
    if most == 0:
        return []
    parts = list(text) if by == "" else text.split(by)
    if 0 < most < len(parts):
        parts = [*parts[: most - 1], by.join(parts[most - 1 :])]
    return parts


def _index_of(text: str, wanted: str, start: int = 0) -> int:
    if wanted == "":
        return start
    if start < 0:
        raise _at(start)
    return text.find(wanted, start)


def _last_index_of(text: str, wanted: str, last: int | None = None) -> int:
    if last is None:
        return text.rfind(wanted)
    if wanted == "":
        return last
    if last < 0:
        raise _at(last)
    return -1 if last >= len(text) else text.rfind(wanted, 0, last + len(wanted))


ESCAPES = str.maketrans(
    {letter: f"\\{short}" for letter, short in zip('\a\b\f\n\r\t\v\\"', 'abfnrtv\\"', strict=True)}
)
SPACES = "\t\n\v\f\r\x85 \xa0\u1680\u2028\u2029\u202f\u205f\u3000" + "".join(map(chr, range(0x2000, 0x200B)))
"""What is white space in Go. Python's strip() would take more."""


# --- lists and sets -------------------------------------------------------------------------------------


def _is_less(one: Any, other: Any) -> bool:
    """Whether a value is less than another; no if they can't be compared."""
    try:
        return bool(OPERATORS["_<_"](one, other))
    except (CelError, TypeError):
        return False


def _is_sorted(values: list[Any]) -> bool:
    if not all(isinstance(value, COMPARABLE | int | float) for value in values):
        raise TypeError
    return not any(_is_less(after, before) for before, after in itertools.pairwise(values))


def _extreme(name: str, is_better: Callable[[Any, Any], bool]) -> Callable[[Any], Any]:
    def function(values: Any) -> Any:
        if not values:
            raise CelError(f"{name} called on empty list")
        return reduce(lambda best, value: value if is_better(value, best) else best, values)

    return function


def _places(values: list[Any], wanted: Any) -> Iterator[int]:
    return (at for at, value in enumerate(values) if is_equal(value, wanted))


def _sum(values: list[Any]) -> Any:
    if not values:
        return 0
    total = reduce(operator.add, values)
    return bounded(total, type(values[0])) if isinstance(total, int) else total


def _slice(values: list[Any], start: int, end: int) -> list[Any]:
    if start < 0 or end < 0:
        raise CelError(f"cannot slice({start}, {end}), negative indexes not supported")
    if start > end:
        raise CelError(f"cannot slice({start}, {end}), start index must be less than or equal to end index")
    if end > len(values):
        raise CelError(f"cannot slice({start}, {end}), list is length {len(values)}")
    return values[start:end]


def _flatten(values: list[Any], depth: int = 1) -> list[Any]:
    if depth < 0:
        raise CelError("level must be non-negative")
    flat: list[Any] = []
    for value in values:
        flat += _flatten(value, depth - 1) if isinstance(value, list) and depth > 0 else [value]
    return flat


def _distinct(values: list[Any]) -> list[Any]:
    found: list[Any] = []
    for value in values:
        if not is_in(value, found):
            found.append(value)
    return found


def _sorted(values: list[Any], keys: list[Any] | None = None) -> list[Any]:
    keys = values if keys is None else keys
    kinds = {type(key) for key in keys}
    if len(kinds) > 1:
        raise CelError("list elements must have the same type")
    if not all(isinstance(key, COMPARABLE | int | float) for key in keys):
        raise CelError("list elements must be comparable")
    return [values[at] for at in sorted(range(len(values)), key=lambda at: keys[at])]


def _contains_all(values: list[Any], wanted: list[Any]) -> bool:
    return all(is_in(value, values) for value in wanted)


def _includes(target: Any, wanted: Any) -> bool:
    return is_in(wanted, target) if isinstance(target, list) else is_equal(target, wanted)


def new_entries(target: dict[Any, Any], *more: Any) -> dict[Any, Any]:
    """What is inserted into a map: the entries of another map, or one. CelError if a key is there already."""
    entries = more[0] if len(more) == 1 else {key_of(more[0]): more[1]}
    for key in entries:
        if key in target:
            raise CelError(f"insert failed: key {text_of(key_value(key))} already exists")
    return entries


def _value(optional: Optional) -> Any:
    if not optional.is_there:
        raise CelError("optional.none() dereference")
    return optional.value


CONVERTED = ("bool", "bytes", "double", "duration", "int", "timestamp", "uint")
"""Types with a function of their name, which leaves their own values as they are."""

ORDERED = "{int|uint|double|bool|duration|timestamp|string|bytes}"
SUMMED = "{int|uint|double|duration}"
SIZED = "{bytes|list<~A>|map<~A,~B>|string}"
"""Choices of types, in a form."""

FUNCTIONS: Mapping[str, Callable[..., Any]] = {
    "type(~A) type<~A>": lambda value: TypeValue(type_name(value)),
    "dyn(~A) dyn": lambda value: value,
    **{f"{name}({name}) {name}": lambda value: value for name in CONVERTED},
    "bool(string) bool": _bool,
    "bytes(string) bytes": str.encode,
    "double({int|uint}) double": float,
    "double(string) double": _double,
    "duration(int) duration": lambda nanoseconds: timedelta(microseconds=nanoseconds / 1000),
    "duration(string) duration": _duration,
    "int(uint) int": lambda value: bounded(int(value), int),
    "int(double) int": lambda value: _truncated(value, int),
    "int(duration) int": lambda value: value // timedelta(microseconds=1) * 1000,
    "int(string) int": lambda text: _integer(text, int, "int"),
    "int(timestamp) int": lambda value: int(value.timestamp() // 1),
    "uint(int) uint": lambda value: bounded(value, Unsigned),
    "uint(double) uint": lambda value: _truncated(value, Unsigned),
    "uint(string) uint": lambda text: _integer(text, Unsigned, "uint"),
    "timestamp({int|string}) timestamp": _timestamp,
    "string({string|bool|bytes|double|duration|int|timestamp|uint|net.IP|net.CIDR}) string": text_of,
    # texts
    f"size({SIZED}) int": len,
    f"{SIZED}.size() int": len,
    "matches(string,string) bool": matches,
    "string.matches(string) bool": matches,
    "string.find(string) string": find,
    "string.findAll(string{|,int}) list<string>": find_all,
    "string.contains(string) bool": lambda text, part: part in text,
    "string.startsWith(string) bool": str.startswith,
    "string.endsWith(string) bool": str.endswith,
    "string.charAt(int) string": _char_at,
    "string.indexOf(string{|,int}) int": _index_of,
    "string.lastIndexOf(string{|,int}) int": _last_index_of,
    "string.substring(int{|,int}) string": _substring,
    "string.lowerAscii() string": lambda text: re.sub("[A-Z]+", lambda found: found[0].lower(), text),
    "string.upperAscii() string": lambda text: re.sub("[a-z]+", lambda found: found[0].upper(), text),
    "string.trim() string": lambda text: text.strip(SPACES),
    "string.replace(string,string{|,int}) string": str.replace,
    "string.split(string{|,int}) list<string>": _split,
    "string.format(list<dyn>) string": formatted,
    r"strings\.quote(string) string": lambda text: f'"{text.translate(ESCAPES)}"',
    "list<string>.join({|string}) string": lambda texts, by="": by.join(texts),
    # moments
    **{f"timestamp.{name}({{|string}}) int": _of_moment(field) for name, field in MOMENTS.items()},
    **{f"duration.{name}() int": _of_duration(unit) for name, unit in UNITS.items()},
    # lists and sets
    "list<~A>.indexOf(~A) int": lambda values, wanted: next(_places(values, wanted), -1),
    "list<~A>.lastIndexOf(~A) int": lambda values, wanted: max(_places(values, wanted), default=-1),
    f"list<{ORDERED}>.isSorted() bool": _is_sorted,
    f"list<{ORDERED}>.min() {ORDERED}": _extreme("min", _is_less),
    f"list<{ORDERED}>.max() {ORDERED}": _extreme("max", lambda one, best: _is_less(best, one)),
    f"list<{SUMMED}>.sum() {SUMMED}": _sum,
    f"list<{ORDERED}>.sort()": _sorted,
    f"list<~T>.@sortByAssociatedKeys(list<{ORDERED}>)": _sorted,
    "list<~A>.slice(int,int)": _slice,
    "list<list<~A>>.flatten()": _flatten,
    "list<dyn>.flatten(int)": _flatten,
    r"lists\.range(int)": lambda count: [*range(count)],
    "list<~A>.reverse()": lambda values: values[::-1],
    "list<~A>.distinct()": _distinct,
    "list<~A>.first()": lambda values: Optional.of(values[0]) if values else NONE,
    "list<~A>.last()": lambda values: Optional.of(values[-1]) if values else NONE,
    r"sets\.contains(list<~A>,list<~A>) bool": _contains_all,
    r"sets\.equivalent(list<~A>,list<~A>) bool": lambda a, b: _contains_all(a, b) and _contains_all(b, a),
    r"sets\.intersects(list<~A>,list<~A>) bool": lambda a, b: any(is_in(value, a) for value in b),
    "dyn.includes(dyn) bool": _includes,
    # optional values
    r"optional\.of(~A)": Optional.of,
    r"optional\.ofNonZeroValue(~A)": lambda value: Optional.of(value) if value else NONE,
    r"optional\.none()": lambda: NONE,
    "optional_type<~A>.hasValue()": lambda optional: optional.is_there,
    "optional_type<~A>.value()": _value,
}
"""What is called, by its form (declarations.py)."""
