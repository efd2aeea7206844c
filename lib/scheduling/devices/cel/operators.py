"""Operators of expressions, as cel-go computes them.

Source: github.com/google/cel-go, common/types
"""

import operator
from collections.abc import Callable, Mapping
from datetime import datetime, timedelta
from typing import Any

from lib.scheduling.devices.cel.formatting import text_of
from lib.scheduling.devices.cel.values import (
    NONE,
    AttributeDomains,
    CelError,
    CelQuantity,
    CelSemver,
    Optional,
    Unsigned,
    key_of,
    type_name,
)

COMPARABLE = str | bytes | bool | timedelta | datetime

ADDED = (timedelta, datetime, str, bytes, list)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _shown(key: Any) -> str:
    try:
        return text_of(key)
    except CelError:
        return type_name(key)


def index(container: Any, key: Any) -> Any:
    """CONTAINER[KEY]."""
    if isinstance(container, Optional):
        return optional_index(container.value, key) if container.is_there else NONE
    if isinstance(container, AttributeDomains):
        return container.get(key, {})
    if isinstance(container, dict):
        if key_of(key) not in container:
            raise CelError(f"no such key: {_shown(key)}")
        return container[key_of(key)]
    if isinstance(container, list) and _is_number(key):
        if key != int(key):
            raise CelError("unsupported index type 'double' in list")
        if not 0 <= key < len(container):
            raise CelError(f"index out of bounds: {int(key)}")
        return container[int(key)]
    if isinstance(container, list):
        raise CelError("no such overload")
    raise CelError(f"no such key: {_shown(key)}")


def optional_index(container: Any, key: Any) -> Optional:
    """CONTAINER[?KEY] and CONTAINER.?KEY."""
    if isinstance(container, Optional):
        if not container.is_there:
            return NONE
        container = container.value
    if isinstance(container, AttributeDomains):
        return Optional.of(container.get(key, {}))
    if isinstance(container, dict):
        return Optional.of(container[key_of(key)]) if key_of(key) in container else NONE
    if isinstance(container, list) and _is_number(key):
        return Optional.of(container[int(key)]) if 0 <= key < len(container) else NONE
    return NONE


def equal(left: Any, right: Any) -> bool:
    """LEFT == RIGHT. CelError if a version or a quantity is compared with something else."""
    if _is_number(left) and _is_number(right):
        left, right = _alike(left, right)
        return bool(left == right)
    if isinstance(left, list) and isinstance(right, list):
        return len(left) == len(right) and all(map(equal, left, right))
    if isinstance(left, dict) and isinstance(right, dict):
        return left.keys() == right.keys() and all(equal(left[key], right[key]) for key in left)
    if isinstance(left, CelSemver | CelQuantity) != isinstance(right, CelSemver | CelQuantity):
        raise CelError("no such overload")
    if isinstance(left, Optional) and isinstance(right, Optional):
        return left.is_there == right.is_there and equal(left.value, right.value)
    return type(left) is type(right) and bool(left == right)


def is_in(value: Any, container: Any) -> bool:
    """VALUE in CONTAINER."""
    if isinstance(container, dict):
        return key_of(value) in container
    if isinstance(container, list):
        return any(is_equal(value, element) for element in container)
    raise CelError("no such overload")


def is_equal(value: Any, other: Any) -> bool:
    """Whether values are equal; no if they can't be compared."""
    try:
        return equal(value, other)
    except CelError:
        return False


def _alike(left: Any, right: Any) -> tuple[Any, Any]:
    """Two numbers, as doubles if one of them is."""
    return (float(left), float(right)) if float in (type(left), type(right)) else (left, right)


def _comparison(name: str, compare: Callable[[Any, Any], bool]) -> Callable[[Any, Any], bool]:
    def function(left: Any, right: Any) -> bool:
        if _is_number(left) and _is_number(right):
            if left != left or right != right:
                raise CelError("NaN values cannot be ordered")
            return compare(*_alike(left, right))
        if isinstance(left, COMPARABLE) or _is_number(left):
            if type(left) is not type(right):
                raise TypeError
            return compare(left, right)
        raise CelError(f"no such overload: {name}")

    return function


def _arithmetic(name: str, compute: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    def function(left: Any, right: Any) -> Any:
        if not _is_number(left) and not isinstance(left, ADDED):
            raise CelError(f"no such overload: _{name}_")
        if not _is_number(left) or type(left) is not type(right):
            raise TypeError
        if isinstance(left, float):
            return compute(left, right)
        if right == 0 and name in "/%":
            raise CelError("division by zero" if name == "/" else "modulus by zero")
        return bounded(compute(left, right), type(left))

    return function


def bounded(value: int, kind: type) -> int:
    """A number of this type. CelError if it doesn't fit."""
    if kind is Unsigned:
        if not 0 <= value < 1 << 64:
            raise CelError("unsigned integer overflow")
        return Unsigned(value)
    if not -(1 << 63) <= value < 1 << 63:
        raise CelError("integer overflow")
    return value


def _add(left: Any, right: Any) -> Any:
    match left, right:
        case (str(), str()) | (bytes(), bytes()) | (list(), list()):
            return left + right
        case timedelta(), timedelta() | datetime():
            return right + left
        case datetime(), timedelta():
            return left + right
    return _sum(left, right)


def _subtract(left: Any, right: Any) -> Any:
    match left, right:
        case (datetime(), datetime() | timedelta()) | (timedelta(), timedelta()):
            return left - right
    return _difference(left, right)


_sum, _difference = _arithmetic("+", operator.add), _arithmetic("-", operator.sub)


def _quotient(left: Any, right: Any) -> Any:
    """Rounded towards 0; of doubles, infinite if the divisor is 0."""
    if isinstance(left, float):
        if right == 0:
            return float("nan") if left == 0 or left != left else float("inf") * (1 if left > 0 else -1)
        return left / right
    quotient = abs(left) // abs(right)
    return quotient if (left < 0) == (right < 0) else -quotient


def _remainder(left: Any, right: Any) -> Any:
    if isinstance(left, float):
        raise TypeError
    return left - right * _quotient(left, right)


def _negated(value: Any) -> Any:
    if not _is_number(value) or isinstance(value, Unsigned):
        raise TypeError
    return -value if isinstance(value, float) else bounded(-value, int)


def _not(value: Any) -> bool:
    if not isinstance(value, bool):
        raise TypeError
    return not value


OPERATORS: Mapping[str, Callable[..., Any]] = {
    "_==_": equal,
    "_!=_": lambda left, right: not is_equal(left, right),
    "_<_": _comparison("_<_", operator.lt),
    "_<=_": _comparison("_<=_", operator.le),
    "_>_": _comparison("_>_", operator.gt),
    "_>=_": _comparison("_>=_", operator.ge),
    "_+_": _add,
    "_-_": _subtract,
    "_*_": _arithmetic("*", operator.mul),
    "_/_": _arithmetic("/", _quotient),
    "_%_": _arithmetic("%", _remainder),
    "-_": _negated,
    "!_": _not,
    "_[_]": index,
    "_[?_]": optional_index,
    "_?._": optional_index,
    "@in": is_in,
}
"""By cel-go's names. TypeError for values of other types."""
