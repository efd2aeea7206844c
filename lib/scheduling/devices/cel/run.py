"""Evaluates a CEL expression, as cel-go does: its errors are values, which `||` and `&&` can pass over.

Source: github.com/google/cel-go, interpreter
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

from lib.scheduling.devices.cel.cost import (
    COST_BETWEEN_CHECKS,
    ELEMENT,
    LIST,
    MAP,
    MAX_COST,
    MOST_WORK,
    WORK_BETWEEN_CHECKS,
    Meter,
    call_cost,
    check_text,
    work,
)
from lib.scheduling.devices.cel.declarations import declarations
from lib.scheduling.devices.cel.functions import new_entries
from lib.scheduling.devices.cel.operators import OPERATORS, index, optional_index
from lib.scheduling.devices.cel.syntax import Call, Constant, List, Loop, Map, Name, Node, Select
from lib.scheduling.devices.cel.values import (
    AttributeDomains,
    CelError,
    EndError,
    Optional,
    TypeValue,
    key_of,
    key_value,
    type_name,
)

Scope = dict[str, Any]

GO_TYPES = frozenset(["int", "uint", "double", "string", "bool", "bytes", "null_type"])

GROWING = "@result"
"""The variable of the macros' loops that make a list or a map. An expression can't name it."""

INDEXES = ("_[_]", "_[?_]", "_?._")

BARE = frozenset(["contains", "startsWith", "endsWith", "matches", "find", "findAll"])
"""Functions whose error doesn't name the types that they were given."""

KINDS = {"google.protobuf.Duration": "duration", "google.protobuf.Timestamp": "timestamp"}
KINDS |= {"null_type": "null"}


class Evaluation:
    """One evaluation. check: called now and then; it may raise to end it."""

    def __init__(self, check: Callable[[], None] = lambda: None) -> None:
        self._cost = Meter(MAX_COST, COST_BETWEEN_CHECKS, check)
        self._work = Meter(MOST_WORK, WORK_BETWEEN_CHECKS, check)

    @property
    def cost(self) -> int:
        """What it has cost so far."""
        return self._cost.used

    def value(self, node: Node, scope: Scope) -> Any:
        """The value of an expression. CelError if it has none."""
        match node:
            case Constant():
                return node.value
            case Name():
                return self._name(node, scope)
            case Select():
                return self._select(node, scope)
            case Call():
                return self._call(node, scope)
            case List():
                return self._list(node, scope)
            case Map():
                return self._map(node, scope)
            case Loop():
                return self._loop(node, scope)

    def _or_error(self, node: Node, scope: Scope) -> Any:
        """The value, or the error as a value."""
        try:
            return self.value(node, scope)
        except EndError:
            raise
        except CelError as error:
            error.__context__ = None
            return error.with_traceback(None)  # it would keep all that was evaluated

    @staticmethod
    def _raised(value: Any) -> Any:
        if isinstance(value, CelError):
            raise value
        return value

    def _name(self, node: Name, scope: Scope) -> Any:
        if node.name not in scope:
            return TypeValue(node.name)
        self._cost.use(1)
        value = scope[node.name]
        return self._raised(value.value() if isinstance(value, _Later) else value)

    def _select(self, node: Select, scope: Scope) -> Any:
        operand = self.value(node.operand, scope)
        if not (node.is_test and _is_attribute(node.operand)):
            self._cost.use(1 if _is_attribute(node.operand) or node.is_test else 2)
        if isinstance(operand, Optional):
            found = optional_index(operand, node.field)
            return found.is_there if node.is_test else found
        if node.is_test:
            return isinstance(operand, AttributeDomains) or (
                isinstance(operand, dict) and node.field in operand
            )
        if not isinstance(operand, dict):
            raise CelError(f"no such key: {node.field}")
        return index(operand, node.field)

    def _list(self, node: List, scope: Scope) -> list[Any]:
        elements = [self.value(element, scope) for element in node.elements]
        self._cost.use(LIST)
        self._work.use(ELEMENT * len(elements))
        return [
            element.value if at in node.optional else element
            for at, element in enumerate(elements)
            if at not in node.optional or element.is_there
        ]

    def _map(self, node: Map, scope: Scope) -> dict[Any, Any]:
        made: dict[Any, Any] = {}
        for at, (key_node, value_node) in enumerate(zip(node.keys, node.values, strict=True)):
            key, value = key_of(self.value(key_node, scope)), self.value(value_node, scope)
            if at not in node.optional:
                made[key] = value
            elif value.is_there:
                made[key] = value.value
        self._cost.use(MAP)
        self._work.use(ELEMENT * len(made))
        return made

    # --- loops ------------------------------------------------------------------------------------------

    def _loop(self, node: Loop, scope: Scope) -> Any:
        over = self.value(node.range, scope)
        if not isinstance(over, list | dict):
            kind = type_name(over)
            shown = f"types.{kind.removesuffix('_type').capitalize()}" if kind in GO_TYPES else kind
            raise CelError(f"got '{shown}', expected iterable type")
        inner = dict(scope)
        inner[node.result_variable] = _Later(cache(lambda: self._begun(node, scope)))
        for key, value in enumerate(over) if isinstance(over, list) else over.items():
            if node.second_variable:
                inner[node.variable], inner[node.second_variable] = key_value(key), value
            else:
                inner[node.variable] = value if isinstance(over, list) else key_value(key)
            if self._or_error(node.condition, inner) is False:
                break
            inner[node.result_variable] = self._or_error(node.step, inner)
        return self.value(node.result, inner)

    def _begun(self, node: Loop, scope: Scope) -> Any:
        begun = self._or_error(node.begin, scope)
        is_growing = node.result_variable == GROWING and isinstance(begun, list | dict)
        return begun.copy() if is_growing else begun  # it may be a constant

    def _grown(self, node: Call, values: Sequence[Any]) -> Any:
        """A macro's list or map with what a step of its loop adds. It isn't copied: nobody else has it."""
        match node.function, values:
            case "_+_", [list() as grown, list() as more]:
                self._work.use(ELEMENT * len(more))
                grown += more
                return grown
            case "cel.@mapInsert", [dict() as grown, *more]:
                entries = new_entries(grown, *more)
                self._work.use(ELEMENT * len(entries))
                grown |= entries
                return grown
        return _result(node, values)

    # --- calls ------------------------------------------------------------------------------------------

    def _call(self, node: Call, scope: Scope) -> Any:
        if special := SPECIAL.get(node.function):
            return special(self, node, scope)
        target = [] if node.target is None else [self._or_error(node.target, scope)]
        return self._with_arguments(node, target, scope)

    def _with_arguments(self, node: Call, target: Sequence[Any], scope: Scope) -> Any:
        evaluate = self._or_error if len(node.arguments) < 3 else self.value
        return self._called(node, [*target, *[evaluate(argument, scope) for argument in node.arguments]])

    def _called(self, node: Call, values: Sequence[Any]) -> Any:
        """What a function returns for these values. One of them that is an error is the call's error."""
        name, arguments = node.function, node.arguments
        for value in values:
            if isinstance(value, CelError):
                self._use_failed(name, values)
                raise value
        if not (name == "@in" and isinstance(arguments[1], Constant) and isinstance(values[1], list)):
            self._cost.use(call_cost(name, values))
        if arguments and isinstance(arguments[0], Name) and arguments[0].name == GROWING:
            return self._grown(node, values)
        self._work.use(work(name, values))
        result = _result(node, values)
        if isinstance(result, str | bytes):
            check_text(len(result))
        return result

    def _use_failed(self, name: str, values: Sequence[Any]) -> None:
        """Count the cost of a call with an error. kube-scheduler can't always tell it."""
        if name in ("distinct", "@sortByAssociatedKeys"):
            what = "interface conversion: *types.Err is not traits.Lister: missing method Add"
            raise EndError(f"internal error: {what}")
        self._cost.use(call_cost(name, values))

    # --- what doesn't need all of its arguments ---------------------------------------------------------

    def _alternative(self, node: Call, scope: Scope) -> Any:
        """OPTIONAL.or(OTHER), and OPTIONAL.orValue(OTHER)."""
        assert node.target
        found = self._or_error(node.target, scope)
        if not isinstance(found, Optional):
            return self._with_arguments(node, [found], scope)
        if not found.is_there:
            return self.value(node.arguments[0], scope)
        return found if node.function == "or" else found.value

    def _index(self, node: Call, scope: Scope) -> Any:
        values = [self.value(argument, scope) for argument in node.arguments]
        self._cost.use((1 if _is_attribute(node.arguments[0]) else 2) - _is_attribute(node.arguments[1]))
        found = _result(node, values)
        if isinstance(found, Optional) and not found.is_there:
            self._cost.use(-1)
        return found

    def _choice(self, node: Call, scope: Scope) -> Any:
        condition, *branches = node.arguments
        chosen = self.value(condition, scope)
        if not isinstance(chosen, bool):
            raise CelError("no such overload")
        branch = branches[not chosen]
        if _is_attribute(branch):
            self._cost.use(-1)
        return self.value(branch, scope)

    def _not_strictly_false(self, node: Call, scope: Scope) -> bool:
        found = self._or_error(node.arguments[0], scope) is not False
        self._cost.use(1)
        return found

    def _logic(self, node: Call, scope: Scope) -> Any:
        """A side that decides makes the other's error not matter."""
        decides = node.function == "_||_"
        failed: CelError | None = None
        for argument in node.arguments:
            value = self._or_error(argument, scope)
            if isinstance(value, bool):
                if value is decides:
                    return decides
                continue
            failed = failed or (value if isinstance(value, CelError) else CelError("no such overload"))
        if failed:
            raise failed
        return not decides


SPECIAL: Mapping[str, Callable[[Evaluation, Call, Scope], Any]] = {
    "_||_": Evaluation._logic,
    "_&&_": Evaluation._logic,
    "_?_:_": Evaluation._choice,
    **dict.fromkeys(INDEXES, Evaluation._index),
    **dict.fromkeys(("or", "orValue"), Evaluation._alternative),
    "@not_strictly_false": Evaluation._not_strictly_false,
}


@dataclass
class _Later:
    """The first value of a loop's result: it is found out when it is needed."""

    value: Callable[[], Any]


def _is_attribute(node: Node) -> bool:
    """Whether a node is a variable, or a part of one."""
    if isinstance(node, Select):
        return not node.is_test
    return isinstance(node, Name) or (isinstance(node, Call) and node.function in INDEXES)


def _result(node: Call, values: Sequence[Any]) -> Any:
    """What an operator or a function returns. CelError if it has no form for values of these types."""
    if (operator := OPERATORS.get(node.function)) is not None:
        try:
            return operator(*values)
        except (TypeError, OverflowError, ValueError):
            raise CelError("no such overload") from None
    try:
        return _function(node, values)(*values)
    except (TypeError, AttributeError, OverflowError):
        raise _no_overload(node.function, values) from None
    except ValueError as error:  # of a number with thousands of digits, for example
        raise CelError(str(error)) from None


def _function(node: Call, values: Sequence[Any]) -> Callable[..., Any]:
    for overload in declarations().get(node.function, ()):
        if (
            overload.compute
            and overload.is_member == (node.target is not None)
            and len(overload.parameters) == len(values)
            and all(map(_has_type, values, overload.parameters))
        ):
            return overload.compute
    raise _no_overload(node.function, values)


def _has_type(value: Any, type_: str) -> bool:
    kind = type_name(value)
    return type_ == "dyn" or type_.startswith("~") or KINDS.get(kind, kind) == type_


def _no_overload(name: str, values: Sequence[Any]) -> CelError:
    if name in BARE:
        return CelError("no such overload")
    types = "" if name == "size" else f"({', '.join(map(type_name, values))})"
    return CelError(f"no such overload: {name}{types}")
