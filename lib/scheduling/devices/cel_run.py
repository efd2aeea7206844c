"""Evaluates a CEL expression, as cel-go does: its errors are values, which `||` and `&&` can pass over.

Source: github.com/google/cel-go, interpreter; the functions: its ext, and k8s.io/apiserver/pkg/cel/library
"""

import ipaddress
import itertools
import re
from collections.abc import Callable, Mapping
from datetime import datetime, timedelta
from typing import Any
from urllib.parse import urlsplit

import durationpy

from lib.scheduling.devices.cel_syntax import Call, Constant, List, Loop, Map, Name, Node, Select, Unsigned
from lib.scheduling.devices.cel_values import NONE, CelError, CelQuantity, CelSemver, Optional

MAX_COST = 1_000_000
"""The most steps of an evaluation (CELSelectorExpressionMaxCost)."""

RegexSearch = Callable[[str, str], bool]
"""Whether a text has a match of a regular expression: in linear time. ValueError if it is no expression."""

Scope = dict[str, Any]


class Domains(dict[str, Any]):
    """A map in which each key has a value if it is asked for by index: an empty map, if there is none."""


class Evaluation:
    """One evaluation, in which steps are counted. matches: searches with regular expressions."""

    def __init__(self, matches: RegexSearch) -> None:
        self._cost = 0
        self._functions: Mapping[str, Callable[..., Any]] = {**FUNCTIONS, "matches": _search(matches)}

    def run(self, node: Node, scope: Scope) -> Any:
        """The value of an expression. CelError if it has none."""
        return self._value(node, scope)

    def _spend(self, steps: int) -> None:
        self._cost += steps
        if self._cost > MAX_COST:
            raise _CostError("operation cancelled: actual cost limit exceeded")

    def _value(self, node: Node, scope: Scope) -> Any:
        self._spend(1)
        match node:
            case Constant():
                return node.value
            case Name():
                return scope[node.name]
            case Select():
                return self._select(node, scope)
            case Call():
                return self._call(node, scope)
            case List():
                elements = [self._value(each, scope) for each in node.elements]
                self._spend(10)
                return [
                    each.value if at in node.optional else each
                    for at, each in enumerate(elements)
                    if at not in node.optional or each.is_there
                ]
            case Map():
                return self._map(node, scope)
            case Loop():
                return self._loop(node, scope)

    def _select(self, node: Select, scope: Scope) -> Any:
        operand = self._value(node.operand, scope)
        if isinstance(operand, Optional):
            operand = operand.value if operand.is_there else {}
            if node.is_test:
                return isinstance(operand, dict) and node.field in operand
            return _optional_field(operand, node.field)
        if node.is_test:
            return isinstance(operand, Domains) or (isinstance(operand, dict) and node.field in operand)
        if not isinstance(operand, dict):
            raise CelError(f"no such key: {node.field}")
        return _index(operand, node.field)

    def _map(self, node: Map, scope: Scope) -> Any:
        self._spend(30)
        made: dict[Any, Any] = {}
        for key_node, value_node, optional in node.entries:
            key, value = _key(self._value(key_node, scope)), self._value(value_node, scope)
            if optional:
                if not value.is_there:
                    continue
                value = value.value
            if key in made:
                raise CelError(f"Failed with repeated key: {key}")
            made[key] = value
        return made

    def _loop(self, node: Loop, scope: Scope) -> Any:
        over = self._value(node.range, scope)
        if not isinstance(over, list | dict):
            raise CelError(f"got '{type_name(over)}', expected iterable type")
        inner = dict(scope)
        inner[node.result_variable] = self._or_error(node.begin, scope)
        for each in list(over):
            self._spend(1)
            inner[node.variable] = each[1] if isinstance(each, tuple) else each
            if self._or_error(node.condition, inner) is False:
                break
            inner[node.result_variable] = self._or_error(node.step, inner)
        return self._raised(self._or_error(node.result, inner))

    def _or_error(self, node: Node, scope: Scope) -> Any:
        """The value, or the error as a value."""
        try:
            return self._value(node, scope)
        except _CostError:
            raise
        except CelError as error:
            error.__context__ = None
            return error.with_traceback(None)  # it would keep all that was evaluated

    @staticmethod
    def _raised(value: Any) -> Any:
        if isinstance(value, CelError):
            raise value
        return value

    def _call(self, node: Call, scope: Scope) -> Any:
        name, arguments = node.function, node.arguments
        if name in ("_||_", "_&&_"):
            return self._logic(node, scope, decides=name == "_||_")
        if name == "_?_:_":
            chosen = self._raised(self._or_error(arguments[0], scope))
            if not isinstance(chosen, bool):
                raise CelError("no such overload")
            return self._raised(self._or_error(arguments[1 if chosen else 2], scope))
        if name == "@not_strictly_false":
            return self._or_error(arguments[0], scope) is not False
        values = [] if node.target is None else [self._value(node.target, scope)]
        if name in ("or", "orValue") and values and isinstance(values[0], Optional) and values[0].is_there:
            return values[0] if name == "or" else values[0].value
        values += [self._value(each, scope) for each in arguments]
        if any(isinstance(each, CelError) for each in values):  # of a loop's result
            raise next(each for each in values if isinstance(each, CelError))
        for each in values:
            if isinstance(each, str | list | dict):
                self._spend(len(each) // 10)
        function = self._functions.get(name)
        if function is None:
            raise CelError(f"no such overload: {name}")
        try:
            return function(*values)
        except (TypeError, AttributeError, OverflowError):
            if not name.isidentifier():  # an operator
                raise CelError("no such overload") from None
            raise CelError(f"no such overload: {_signature(name, values)}") from None

    def _logic(self, node: Call, scope: Scope, *, decides: bool) -> Any:
        """A side that decides makes the other's error not matter."""
        failed: CelError | None = None
        for each in node.arguments:
            value = self._or_error(each, scope)
            if isinstance(value, bool):
                if value is decides:
                    return decides
                continue
            failed = failed or (value if isinstance(value, CelError) else CelError("no such overload"))
        if failed:
            raise failed
        return not decides


class _CostError(CelError):
    """The evaluation took too many steps: nothing passes over that."""


# --- operators ------------------------------------------------------------------------------------------


def _key(value: Any) -> Any:
    """A map's key: numbers of all types are alike, but true isn't 1."""
    return ("bool", value) if isinstance(value, bool) else value


def _index(container: Any, key: Any) -> Any:
    if isinstance(container, Optional):
        return _optional_field(container.value, key) if container.is_there else NONE
    if isinstance(container, Domains):
        return container.get(key, {})
    if isinstance(container, dict):
        if _key(key) not in container:
            raise CelError(f"no such key: {_text(key)}")
        return container[_key(key)]
    if isinstance(container, list) and _is_number(key):
        if key != int(key):
            raise CelError("unsupported index type 'double' in list")
        if not 0 <= key < len(container):
            raise CelError(f"index out of bounds: {int(key)}")
        return container[int(key)]
    raise CelError("no such overload")


def _optional_field(container: Any, key: Any) -> Optional:
    """CONTAINER[?KEY] and CONTAINER.?KEY."""
    if isinstance(container, Optional):
        if not container.is_there:
            return NONE
        container = container.value
    if isinstance(container, Domains):
        return Optional.of(container.get(key, {}))
    if isinstance(container, dict):
        return Optional.of(container[_key(key)]) if _key(key) in container else NONE
    if isinstance(container, list) and _is_number(key):
        return Optional.of(container[int(key)]) if 0 <= key < len(container) else NONE
    raise CelError(f"no such key: {_text(key)}")


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _equal(left: Any, right: Any) -> bool:
    if _is_number(left) and _is_number(right):
        left, right = _alike(left, right)
        return bool(left == right)
    if isinstance(left, list) and isinstance(right, list):
        return len(left) == len(right) and all(map(_equal, left, right))
    if isinstance(left, dict) and isinstance(right, dict):
        return left.keys() == right.keys() and all(_equal(left[key], right[key]) for key in left)
    if isinstance(left, CelSemver | CelQuantity) != isinstance(right, CelSemver | CelQuantity):
        raise CelError("no such overload")
    return type(left) is type(right) and bool(left == right)


def _in(value: Any, container: Any) -> bool:
    if isinstance(container, dict):
        return _key(value) in container
    if isinstance(container, list):
        return any(_equal(value, each) for each in container)
    raise CelError("no such overload")


COMPARABLE = (str, bytes, bool, timedelta, datetime)


def _alike(left: Any, right: Any) -> tuple[Any, Any]:
    """Two numbers, as doubles if one of them is."""
    return (float(left), float(right)) if float in (type(left), type(right)) else (left, right)


def _unequal(left: Any, right: Any) -> bool:
    """What can't be compared isn't equal."""
    try:
        return not _equal(left, right)
    except CelError:
        return True


def _comparison(compare: Callable[[Any, Any], bool]) -> Callable[[Any, Any], bool]:
    def function(left: Any, right: Any) -> bool:
        if _is_number(left) and _is_number(right):
            return compare(*_alike(left, right))
        if type(left) is not type(right) or not isinstance(left, COMPARABLE):
            raise TypeError
        return compare(left, right)

    return function


def _arithmetic(name: str, compute: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    def function(left: Any, right: Any) -> Any:
        if not (_is_number(left) and _is_number(right)) or type(left) is not type(right):
            raise TypeError
        if isinstance(left, float):
            if name == "%":
                raise TypeError
            if name == "/" and right == 0:
                return float("nan") if left == 0 or left != left else float("inf") * (1 if left > 0 else -1)
            return compute(left, right)
        if right == 0 and name in "/%":
            raise CelError("division by zero" if name == "/" else "modulus by zero")
        return _bounded(compute(left, right), type(left))

    return function


def _bounded(value: int, kind: type) -> int:
    if kind is Unsigned:
        if not 0 <= value < 1 << 64:
            raise CelError("unsigned integer overflow")
        return Unsigned(value)
    if not -(1 << 63) <= value < 1 << 63:
        raise CelError("integer overflow")
    return value


def _add(left: Any, right: Any) -> Any:
    if type(left) is type(right) and isinstance(left, str | bytes | list):
        return left + right
    return _arithmetic("+", lambda a, b: a + b)(left, right)


def _truncated(left: Any, right: Any) -> Any:
    if isinstance(left, float):
        return left / right
    quotient = abs(left) // abs(right)
    return quotient if (left < 0) == (right < 0) else -quotient


def _negated(value: Any) -> Any:
    if not _is_number(value) or isinstance(value, Unsigned):
        raise TypeError
    return -value if isinstance(value, float) else _bounded(-value, int)


def _not(value: Any) -> bool:
    if not isinstance(value, bool):
        raise CelError("no such overload")
    return not value


# --- types ----------------------------------------------------------------------------------------------

TYPES: Mapping[type, str] = {
    bool: "bool",
    Unsigned: "uint",
    int: "int",
    float: "double",
    str: "string",
    bytes: "bytes",
    list: "list",
    dict: "map",
    Domains: "map",
    type(None): "null_type",
    timedelta: "google.protobuf.Duration",
    datetime: "google.protobuf.Timestamp",
    CelQuantity: "kubernetes.Quantity",
    CelSemver: "kubernetes.Semver",
    Optional: "optional_type",
}


def type_name(value: Any) -> str:
    """CEL's name of a value's type."""
    return TYPES.get(type(value), "type")


def _signature(name: str, values: list[Any]) -> str:
    return f"{name}({', '.join(map(type_name, values))})"


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return f"{value:g}" if isinstance(value, float) else str(value)


def _to_int(value: Any) -> int:
    if isinstance(value, str):
        try:
            return _bounded(int(value), int)
        except ValueError:
            raise CelError(f"strconv.ParseInt: parsing {_quoted(value)}: invalid syntax") from None
    if not _is_number(value):
        raise TypeError
    return _bounded(int(value), int)


def _to_uint(value: Any) -> int:
    return _bounded(_to_int(value) if not isinstance(value, Unsigned) else value, Unsigned)


def _to_double(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        raise TypeError
    try:
        return float(value)
    except ValueError:
        raise CelError(f"strconv.ParseFloat: parsing {_quoted(str(value))}: invalid syntax") from None


def _to_bool(value: Any) -> bool:
    if isinstance(value, bool):
        return value
    words = {"true": True, "1": True, "t": True, "True": True, "TRUE": True}
    words |= {"false": False, "0": False, "f": False, "False": False, "FALSE": False}
    if value in words:
        return words[value]
    raise CelError(f"strconv.ParseBool: parsing {_quoted(str(value))}: invalid syntax")


def _quoted(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def _size(value: Any) -> int:
    if not isinstance(value, str | bytes | list | dict):
        raise TypeError
    return len(value)


# --- strings, lists, sets -------------------------------------------------------------------------------


def _of_strings(method: Callable[..., Any]) -> Callable[..., Any]:
    def function(text: Any, *more: Any) -> Any:
        if not isinstance(text, str):
            raise TypeError
        return method(text, *more)

    return function


def _search(matches: RegexSearch) -> Callable[[Any, Any], bool]:
    def function(text: Any, pattern: Any) -> bool:
        if not (isinstance(text, str) and isinstance(pattern, str)):
            raise TypeError
        try:
            return matches(text, pattern)
        except ValueError as error:
            raise CelError(str(error)) from None

    return function


def _substring(text: str, start: int, end: int | None = None) -> str:
    end = len(text) if end is None else end
    if not 0 <= start <= len(text):
        raise CelError(f"index out of range: {start}")
    if not start <= end <= len(text):
        raise CelError(f"index out of range: {end}")
    return text[start:end]


def _char_at(text: str, at: int) -> str:
    if not 0 <= at <= len(text):
        raise CelError(f"index out of range: {at}")
    return text[at : at + 1]


def _split(text: str, by: str, most: int = -1) -> list[str]:
    if most == 0:
        return []
    parts = list(text) if by == "" else text.split(by)
    if 0 < most < len(parts):
        parts = [*parts[: most - 1], by.join(parts[most - 1 :])]
    return parts


def _replace(text: str, old: str, new: str, most: int = -1) -> str:
    return text.replace(old, new, most)


def _index_of(container: Any, wanted: Any, start: int = 0) -> int:
    if isinstance(container, str):
        return container.find(wanted, start)
    return next((at for at, each in enumerate(container) if _equal(each, wanted)), -1)


def _last_index_of(container: Any, wanted: Any) -> int:
    if isinstance(container, str):
        return container.rfind(wanted)
    return max((at for at, each in enumerate(container) if _equal(each, wanted)), default=-1)


def _reverse(value: Any) -> Any:
    if not isinstance(value, str | list):
        raise TypeError
    return value[::-1]


def _extreme(choose: Callable[..., Any], name: str) -> Callable[[Any], Any]:
    def function(values: Any) -> Any:
        if not isinstance(values, list):
            raise TypeError
        if not values:
            raise CelError(f"{name} called on empty list")
        return choose(values)

    return function


def _contains_all(values: list[Any], wanted: list[Any]) -> bool:
    return all(_in(each, values) for each in wanted)


def _slice(values: Any, start: int, end: int) -> list[Any]:
    if not isinstance(values, list):
        raise TypeError
    if start < 0 or end < 0:
        raise CelError(f"cannot slice({start}, {end}), negative indexes not supported")
    if start > end:
        raise CelError(f"cannot slice({start}, {end}), start index must be less than or equal to end index")
    if end > len(values):
        raise CelError(f"cannot slice({start}, {end}), list is length {len(values)}")
    return values[start:end]


def _flatten(values: Any, depth: int = 1) -> list[Any]:
    if not isinstance(values, list):
        raise TypeError
    flat: list[Any] = []
    for each in values:
        flat += _flatten(each, depth - 1) if isinstance(each, list) and depth > 0 else [each]
    return flat


def _distinct(values: Any) -> list[Any]:
    found: list[Any] = []
    for each in values:
        if not _in(each, found):
            found.append(each)
    return found


def _includes(target: Any, wanted: Any) -> bool:
    return _in(wanted, target) if isinstance(target, list) else _equal(target, wanted)


# --- Kubernetes' own ------------------------------------------------------------------------------------


def _can(parse: Callable[..., Any]) -> Callable[..., bool]:
    def function(*values: Any) -> bool:
        try:
            parse(*values)
        except CelError:
            return False
        return True

    return function


def _semver(text: str, normalize: bool = False) -> CelSemver:
    return CelSemver.parse(text, normalize=normalize)


def _ordering(compare: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    def function(left: Any, right: Any) -> Any:
        if type(left) is not type(right) or not isinstance(left, CelSemver | CelQuantity):
            raise TypeError
        return compare(left, right)

    return function


def _summed(sign: int) -> Callable[[CelQuantity, Any], CelQuantity]:
    def function(left: CelQuantity, right: Any) -> CelQuantity:
        more = right.nano if isinstance(right, CelQuantity) else right * 10**9
        return CelQuantity(left.nano + sign * more)

    return function


def _as_integer(value: CelQuantity) -> int:
    if not value.is_integer:
        raise CelError("cannot convert value to integer")
    return value.nano // 10**9


def _ip(text: Any) -> Any:
    if isinstance(text, ipaddress.IPv4Network | ipaddress.IPv6Network):
        return text.network_address
    try:
        return ipaddress.ip_address(text)
    except ValueError:
        raise CelError(f"IP Address {_quoted(str(text))} parse error during conversion from string") from None


def _cidr(text: str) -> Any:
    try:
        return ipaddress.ip_network(text, strict=False)
    except ValueError:
        raise CelError("network address parse error during conversion from string") from None


def _duration(text: Any) -> timedelta:
    try:
        return text if isinstance(text, timedelta) else durationpy.from_str(text)
    except ValueError:
        raise CelError(f"invalid duration {_quoted(str(text))}") from None


def _timestamp(text: Any) -> datetime:
    try:
        return text if isinstance(text, datetime) else datetime.fromisoformat(text)
    except ValueError:
        raise CelError(f"invalid timestamp {_quoted(str(text))}") from None


def _url(text: str) -> Any:
    found = urlsplit(text)
    if not (found.scheme or text.startswith("/")):
        raise CelError(
            f"URL parse error during conversion from string: parse {_quoted(text)}: invalid URI for request"
        )
    return found


FUNCTIONS: Mapping[str, Callable[..., Any]] = {
    "_==_": _equal,
    "_!=_": _unequal,
    "_<_": _comparison(lambda a, b: a < b),
    "_<=_": _comparison(lambda a, b: a <= b),
    "_>_": _comparison(lambda a, b: a > b),
    "_>=_": _comparison(lambda a, b: a >= b),
    "_+_": _add,
    "_-_": _arithmetic("-", lambda a, b: a - b),
    "_*_": _arithmetic("*", lambda a, b: a * b),
    "_/_": _arithmetic("/", _truncated),
    "_%_": _arithmetic("%", lambda a, b: a - b * _truncated(a, b)),
    "-_": _negated,
    "!_": _not,
    "@in": _in,
    "_[_]": _index,
    "_[?_]": _optional_field,
    "_?._": _optional_field,
    "size": _size,
    "int": _to_int,
    "uint": _to_uint,
    "double": _to_double,
    "bool": _to_bool,
    "string": lambda value: value.decode() if isinstance(value, bytes) else _text(value),
    "bytes": lambda value: value.encode() if isinstance(value, str) else value,
    "dyn": lambda value: value,
    "type": type_name,
    "contains": _of_strings(lambda text, part: part in text),
    "startsWith": _of_strings(str.startswith),
    "endsWith": _of_strings(str.endswith),
    "lowerAscii": _of_strings(lambda text: re.sub("[A-Z]+", lambda found: found[0].lower(), text)),
    "upperAscii": _of_strings(lambda text: re.sub("[a-z]+", lambda found: found[0].upper(), text)),
    "trim": _of_strings(str.strip),
    "substring": _of_strings(_substring),
    "charAt": _of_strings(_char_at),
    "split": _of_strings(_split),
    "replace": _of_strings(_replace),
    "join": lambda texts, by="": by.join(texts),
    "strings.quote": _quoted,
    "indexOf": _index_of,
    "lastIndexOf": _last_index_of,
    "reverse": _reverse,
    "min": _extreme(min, "min"),
    "max": _extreme(max, "max"),
    "sum": lambda values: sum(values),
    "isSorted": lambda values: all(a <= b for a, b in itertools.pairwise(values)),
    "slice": _slice,
    "flatten": _flatten,
    "distinct": _distinct,
    "lists.range": lambda count: [*range(count)],
    "sets.contains": _contains_all,
    "sets.equivalent": lambda a, b: _contains_all(a, b) and _contains_all(b, a),
    "sets.intersects": lambda a, b: any(_in(each, a) for each in b),
    "includes": _includes,
    "optional.of": Optional.of,
    "optional.none": lambda: NONE,
    "optional.ofNonZeroValue": lambda value: Optional.of(value) if value else NONE,
    "hasValue": lambda value: value.is_there,
    "value": lambda value: value.value if value.is_there else _fail("optional.none() dereference"),
    "or": lambda value, other: value if value.is_there else other,
    "orValue": lambda value, other: value.value if value.is_there else other,
    "duration": _duration,
    "timestamp": _timestamp,
    "getFullYear": lambda moment: moment.year,
    "quantity": CelQuantity.parse,
    "isQuantity": _can(CelQuantity.parse),
    "semver": _semver,
    "isSemver": _can(_semver),
    "isGreaterThan": _ordering(lambda a, b: a > b),
    "isLessThan": _ordering(lambda a, b: a < b),
    "compareTo": _ordering(lambda a, b: (a > b) - (a < b)),
    "add": _summed(1),
    "sub": _summed(-1),
    "sign": lambda value: (value.nano > 0) - (value.nano < 0),
    "isInteger": lambda value: value.is_integer,
    "asInteger": _as_integer,
    "asApproximateFloat": lambda value: value.nano / 10**9,
    "major": lambda version: version.major,
    "minor": lambda version: version.minor,
    "patch": lambda version: version.patch,
    "ip": _ip,
    "isIP": _can(_ip),
    "family": lambda address: address.version,
    "isLoopback": lambda address: address.is_loopback,
    "isUnspecified": lambda address: address.is_unspecified,
    "cidr": _cidr,
    "isCIDR": _can(_cidr),
    "containsIP": lambda network, address: _ip(address) in network,
    "prefixLength": lambda network: network.prefixlen,
    "url": _url,
    "isURL": _can(_url),
    "getScheme": lambda url: url.scheme,
    "getHost": lambda url: url.netloc.rpartition("@")[2],
    "getHostname": lambda url: url.hostname or "",
    "getPort": lambda url: str(url.port or ""),
    "getEscapedPath": lambda url: url.path,
}
"""By name; what they are given has the types that were checked, or any (`dyn`)."""


def _fail(why: str) -> Any:
    raise CelError(why)
