"""Functions of expressions about texts, lists, sets, moments, and conversions.

Source: github.com/google/cel-go, common/types, common/stdlib and ext
"""

import itertools
import operator
import re
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta, timezone
from functools import reduce
from typing import Any
from zoneinfo import ZoneInfo

import durationpy

from lib.scheduling.devices.cel_formatting import formatted, text_of, type_name
from lib.scheduling.devices.cel_kubernetes import FUNCTIONS as OF_KUBERNETES
from lib.scheduling.devices.cel_library import find, find_all, matches
from lib.scheduling.devices.cel_operators import COMPARABLE, OPERATORS, bounded, is_equal, is_in, key_of
from lib.scheduling.devices.cel_values import NONE, CelError, Optional, TypeValue, Unsigned

MOMENT = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)")


# --- conversions ----------------------------------------------------------------------------------------


def _no_conversion(value: Any, to: str) -> CelError:
    return CelError(f"type conversion error from '{type_name(value)}' to '{to}'")


def _integer(value: Any, kind: type, name: str) -> int:
    match value:
        case str():
            pattern = "[0-9]+" if kind is Unsigned else "[+-]?[0-9]+"
            if not re.fullmatch(pattern, value):
                raise _no_conversion(value, name)
            try:
                return bounded(int(value), kind)
            except CelError:
                raise _no_conversion(value, name) from None
        case float():
            if value != value or (abs(value) >= 2**63 and (kind is int or value >= 2**64 or value < 0)):
                raise CelError(f"{'unsigned ' if kind is Unsigned else ''}integer overflow")
            return bounded(int(value), kind)
        case datetime():
            return int(value.timestamp() // 1)
        case timedelta():
            return value // timedelta(microseconds=1) * 1000
    return bounded(int(value), kind)


DOUBLE = re.compile(r"[+-]?((\d+\.?\d*|\.\d+)([eE][+-]?\d+)?|inf|infinity|nan)", re.IGNORECASE)


def _double(value: Any) -> float:
    if isinstance(value, str) and not DOUBLE.fullmatch(value):
        raise _no_conversion(value, "double")
    return float(value)


WORDS = dict.fromkeys(("true", "1", "t", "True", "TRUE"), True)
WORDS |= dict.fromkeys(("false", "0", "f", "False", "FALSE"), False)


def _bool(value: Any) -> bool:
    if isinstance(value, bool):
        return value
    if value not in WORDS:
        raise _no_conversion(value, "bool")
    return WORDS[value]


def _bytes(value: Any) -> bytes:
    return value.encode() if isinstance(value, str) else value


def _duration(value: Any) -> timedelta:
    if isinstance(value, timedelta):
        return value
    if isinstance(value, int):
        return timedelta(microseconds=value / 1000)
    try:
        if re.search("[dwy]", value) or re.search("[0-9.]$", value.removesuffix("0")):
            raise ValueError(value)
        return durationpy.from_str(value)
    except (ValueError, OverflowError):
        raise _no_conversion(value, "google.protobuf.Duration") from None


def _timestamp(value: Any) -> datetime:
    if isinstance(value, datetime):
        return value
    wrong = _no_conversion(value, "google.protobuf.Timestamp")
    try:
        if isinstance(value, int):
            return datetime.fromtimestamp(value, UTC)
        if not MOMENT.fullmatch(value):
            raise wrong
        return datetime.fromisoformat(value).astimezone(UTC)
    except (ValueError, OverflowError, OSError):
        raise wrong from None


# --- moments --------------------------------------------------------------------------------------------


def _moment(field: Callable[[datetime], int], of_duration: timedelta | None = None) -> Callable[..., int]:
    def function(moment: Any, zone: str = "") -> int:
        if isinstance(moment, timedelta):
            if of_duration is None:
                raise TypeError
            return int(moment / of_duration)
        return field(moment.astimezone(_zone(zone)))

    return function


MOMENTS: Mapping[str, Callable[..., int]] = {
    "getFullYear": _moment(lambda moment: moment.year),
    "getMonth": _moment(lambda moment: moment.month - 1),
    "getDayOfYear": _moment(lambda moment: moment.timetuple().tm_yday - 1),
    "getDayOfMonth": _moment(lambda moment: moment.day - 1),
    "getDate": _moment(lambda moment: moment.day),
    "getDayOfWeek": _moment(lambda moment: moment.isoweekday() % 7),
    "getHours": _moment(lambda moment: moment.hour, timedelta(hours=1)),
    "getMinutes": _moment(lambda moment: moment.minute, timedelta(minutes=1)),
    "getSeconds": _moment(lambda moment: moment.second, timedelta(seconds=1)),
    "getMilliseconds": _moment(lambda moment: moment.microsecond // 1000, timedelta(milliseconds=1)),
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


def _index_of(container: Any, wanted: Any, start: int = 0) -> int:
    if isinstance(container, list):
        return next((at for at, each in enumerate(container) if is_equal(each, wanted)), -1)
    if wanted == "":
        return start
    if start < 0:
        raise _at(start)
    return int(container.find(wanted, start))


def _last_index_of(container: Any, wanted: Any, last: int | None = None) -> int:
    if isinstance(container, list):
        return max((at for at, each in enumerate(container) if is_equal(each, wanted)), default=-1)
    if last is None:
        return int(container.rfind(wanted))
    if wanted == "":
        return last
    if last < 0:
        raise _at(last)
    return -1 if last >= len(container) else int(container.rfind(wanted, 0, last + len(wanted)))


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
    if not all(isinstance(each, COMPARABLE | int | float) for each in values):
        raise TypeError
    return not any(_is_less(after, before) for before, after in itertools.pairwise(values))


def _extreme(name: str, is_better: Callable[[Any, Any], bool]) -> Callable[[Any], Any]:
    def function(values: Any) -> Any:
        if not values:
            raise CelError(f"{name} called on empty list")
        return reduce(lambda best, each: each if is_better(each, best) else best, values)

    return function


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
    for each in values:
        flat += _flatten(each, depth - 1) if isinstance(each, list) and depth > 0 else [each]
    return flat


def _distinct(values: list[Any]) -> list[Any]:
    found: list[Any] = []
    for each in values:
        if not is_in(each, found):
            found.append(each)
    return found


def _sorted(values: list[Any], keys: list[Any] | None = None) -> list[Any]:
    keys = values if keys is None else keys
    kinds = {type(each) for each in keys}
    if len(kinds) > 1:
        raise CelError("list elements must have the same type")
    if not all(isinstance(each, COMPARABLE | int | float) for each in keys):
        raise CelError("list elements must be comparable")
    return [values[at] for at in sorted(range(len(values)), key=lambda at: keys[at])]


def _contains_all(values: list[Any], wanted: list[Any]) -> bool:
    return all(is_in(each, values) for each in wanted)


def _includes(target: Any, wanted: Any) -> bool:
    return is_in(wanted, target) if isinstance(target, list) else is_equal(target, wanted)


def new_entries(target: dict[Any, Any], *more: Any) -> dict[Any, Any]:
    """What is inserted into a map: the entries of another map, or one. CelError if a key is there already."""
    entries = more[0] if len(more) == 1 else {key_of(more[0]): more[1]}
    for key in entries:
        if key in target:
            raise CelError(f"insert failed: key {text_of(key)} already exists")
    return entries


def _value(optional: Optional) -> Any:
    if not optional.is_there:
        raise CelError("optional.none() dereference")
    return optional.value


def _non_zero(value: Any) -> Optional:
    return Optional.of(value) if value else NONE


FUNCTIONS: Mapping[str, Callable[..., Any]] = {
    **OF_KUBERNETES,
    "size": len,
    "int": lambda value: _integer(value, int, "int"),
    "uint": lambda value: _integer(value, Unsigned, "uint"),
    "double": _double,
    "bool": _bool,
    "string": text_of,
    "bytes": _bytes,
    "dyn": lambda value: value,
    "type": lambda value: TypeValue(type_name(value)),
    "duration": _duration,
    "timestamp": _timestamp,
    "contains": lambda text, part: part in text,
    "startsWith": str.startswith,
    "endsWith": str.endswith,
    "matches": matches,
    "find": find,
    "findAll": find_all,
    "lowerAscii": lambda text: re.sub("[A-Z]+", lambda found: found[0].lower(), text),
    "upperAscii": lambda text: re.sub("[a-z]+", lambda found: found[0].upper(), text),
    "trim": lambda text: text.strip(SPACES),
    "substring": _substring,
    "charAt": _char_at,
    "split": _split,
    "replace": lambda text, old, new, most=-1: text.replace(old, new, most),
    "join": lambda texts, by="": by.join(texts),
    "format": formatted,
    "strings.quote": lambda text: f'"{text.translate(ESCAPES)}"',
    "indexOf": _index_of,
    "lastIndexOf": _last_index_of,
    "reverse": lambda values: values[::-1],
    "min": _extreme("min", _is_less),
    "max": _extreme("max", lambda one, best: _is_less(best, one)),
    "sum": _sum,
    "isSorted": _is_sorted,
    "sort": _sorted,
    "@sortByAssociatedKeys": _sorted,
    "slice": _slice,
    "flatten": _flatten,
    "distinct": _distinct,
    "first": lambda values: Optional.of(values[0]) if values else NONE,
    "last": lambda values: Optional.of(values[-1]) if values else NONE,
    "lists.range": lambda count: [*range(count)],
    "sets.contains": _contains_all,
    "sets.equivalent": lambda a, b: _contains_all(a, b) and _contains_all(b, a),
    "sets.intersects": lambda a, b: any(is_in(each, a) for each in b),
    "includes": _includes,
    "optional.of": Optional.of,
    "optional.none": lambda: NONE,
    "optional.ofNonZeroValue": _non_zero,
    "hasValue": lambda value: value.is_there,
    "value": _value,
    **MOMENTS,
}
"""By name. They are given values of the types that were declared."""
