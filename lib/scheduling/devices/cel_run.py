"""Evaluates a CEL expression, as cel-go does: its errors are values, which `||` and `&&` can pass over.

Source: github.com/google/cel-go, interpreter
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

from lib.scheduling.devices.cel_cost import COMPARED_WITH_ITSELF, LIST, MAP, MAX_COST, call_cost
from lib.scheduling.devices.cel_declarations import declarations
from lib.scheduling.devices.cel_formatting import type_name
from lib.scheduling.devices.cel_functions import FUNCTIONS, new_entries
from lib.scheduling.devices.cel_operators import OPERATORS, index, key_of, optional_index
from lib.scheduling.devices.cel_syntax import Call, Constant, List, Loop, Map, Name, Node, Select
from lib.scheduling.devices.cel_values import CelError, Domains, EndError, Optional, TypeValue
from lib.scheduling.devices.cel_work import COUNTED, ELEMENT, MOST_WORK, check_text, work

Scope = dict[str, Any]

GO_TYPES = {"int": "Int", "uint": "Uint", "double": "Double", "string": "String", "bool": "Bool"}
GO_TYPES |= {"bytes": "Bytes", "null_type": "Null"}

COST_BETWEEN_CHECKS = 10_000
"""An evaluation that costs so much takes about 10 ms."""

WORK_BETWEEN_CHECKS = 100_000
"""So much work takes a tenth of a second at most: so long, if values are compared."""

GROWING = "@result"
"""The variable of the macros' loops that make a list or a map. An expression can't name it."""

TEXTS = (str, bytes)

INDEXES = ("_[_]", "_[?_]", "_?._")

BARE = frozenset(["contains", "startsWith", "endsWith", "matches", "find", "findAll"])
"""Functions whose error doesn't name the types that they were given."""

KINDS = {"google.protobuf.Duration": "duration", "google.protobuf.Timestamp": "timestamp"}
KINDS |= {"null_type": "null"}


class Evaluation:
    """One evaluation. check: called now and then; it may raise to end it. cost: what it has cost so far.

    _work: what it has done besides (cel_work.py).
    """

    def __init__(self, check: Callable[[], None] = lambda: None) -> None:
        self.cost, self._check = 0, check
        self._next_check = COST_BETWEEN_CHECKS
        self._work, self._next_check_of_work = 0, WORK_BETWEEN_CHECKS

    def run(self, node: Node, scope: Scope) -> Any:
        """The value of an expression. CelError if it has none."""
        return self._value(node, scope)

    def _spend(self, cost: int) -> None:
        self.cost += cost
        if self.cost > self._next_check:
            if self.cost > MAX_COST:
                raise EndError
            self._check()
            self._next_check = min(MAX_COST, self.cost + COST_BETWEEN_CHECKS)

    def _count(self, work: int) -> None:
        self._work += work
        if self._work > self._next_check_of_work:
            if self._work > MOST_WORK:
                raise EndError
            self._check()
            self._next_check_of_work = self._work + WORK_BETWEEN_CHECKS

    def _value(self, node: Node, scope: Scope) -> Any:
        match node:
            case Constant():
                return node.value
            case Name():
                if node.name not in scope:  # of a type
                    return TypeValue(node.name)
                self._spend(1)
                value = scope[node.name]
                return self._raised(value.value() if isinstance(value, _Later) else value)
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

    def _select(self, node: Select, scope: Scope) -> Any:
        operand = self._value(node.operand, scope)
        if not (node.is_test and _is_attribute(node.operand)):
            self._spend(1 if _is_attribute(node.operand) or node.is_test else 2)
        if isinstance(operand, Optional):
            found = optional_index(operand, node.field)
            return found.is_there if node.is_test else found
        if node.is_test:
            return isinstance(operand, Domains) or (isinstance(operand, dict) and node.field in operand)
        if not isinstance(operand, dict):
            raise CelError(f"no such key: {node.field}")
        return index(operand, node.field)

    def _list(self, node: List, scope: Scope) -> list[Any]:
        elements = [self._value(each, scope) for each in node.elements]
        self._spend(LIST)
        self._count(ELEMENT * len(elements))
        return [
            each.value if at in node.optional else each
            for at, each in enumerate(elements)
            if at not in node.optional or each.is_there
        ]

    def _map(self, node: Map, scope: Scope) -> dict[Any, Any]:
        made: dict[Any, Any] = {}
        for key_node, value_node, optional in node.entries:
            key, value = key_of(self._value(key_node, scope)), self._value(value_node, scope)
            if optional:
                if not value.is_there:
                    continue
                value = value.value
            made[key] = value
        self._spend(MAP)
        self._count(ELEMENT * len(made))
        return made

    def _loop(self, node: Loop, scope: Scope) -> Any:
        over = self._value(node.range, scope)
        if isinstance(over, Optional) or not isinstance(over, list | dict):
            kind = type_name(over)
            shown = f"types.{GO_TYPES[kind]}" if kind in GO_TYPES else kind
            raise CelError(f"got '{shown}', expected iterable type")
        inner = dict(scope)
        inner[node.result_variable] = _Later(cache(lambda: self._begun(node, scope)))
        for at, each in enumerate(over):
            element = each[1] if isinstance(each, tuple) else each
            inner[node.variable] = element
            if node.second_variable:
                pair = (at, element) if isinstance(over, list) else (element, over[each])
                inner[node.variable], inner[node.second_variable] = pair
            if self._or_error(node.condition, inner) is False:
                break
            inner[node.result_variable] = self._or_error(node.step, inner)
        return self._raised(self._or_error(node.result, inner))

    def _begun(self, node: Loop, scope: Scope) -> Any:
        begun = self._or_error(node.begin, scope)
        is_growing = node.result_variable == GROWING and isinstance(begun, list | dict)
        return begun.copy() if is_growing else begun  # it may be a constant

    def _or_error(self, node: Node, scope: Scope) -> Any:
        """The value, or the error as a value."""
        try:
            return self._value(node, scope)
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

    # --- calls ------------------------------------------------------------------------------------------

    def _call(self, node: Call, scope: Scope) -> Any:
        name, arguments = node.function, node.arguments
        if name in ("_||_", "_&&_"):
            return self._logic(node, scope, decides=name == "_||_")
        if name == "_?_:_":
            chosen = self._raised(self._or_error(arguments[0], scope))
            if not isinstance(chosen, bool):
                raise CelError("no such overload")
            branch = arguments[1 if chosen else 2]
            if _is_attribute(branch):
                self._spend(-1)
            return self._raised(self._or_error(branch, scope))
        if name == "@not_strictly_false":
            found = self._or_error(arguments[0], scope) is not False
            self._spend(1)
            return found
        values = [] if node.target is None else [self._or_error(node.target, scope)]
        if name in ("or", "orValue") and values and isinstance(values[0], Optional):
            if values[0].is_there:
                return values[0] if name == "or" else values[0].value
            return self._value(arguments[0], scope)
        if name in INDEXES:
            return self._index(node, name, scope)
        for each in arguments:
            values.append(self._or_error(each, scope))
            if len(arguments) > 2:
                self._raised(values[-1])
        for each in values:
            if isinstance(each, CelError):
                if (
                    name in COMPARED_WITH_ITSELF and name != "sort"
                ):  # kube-scheduler's count of the cost fails then
                    what = "interface conversion: *types.Err is not traits.Lister: missing method Add"
                    raise EndError(f"internal error: {what}")
                self._spend(call_cost(name, values))  # the call is made, with the error
                raise each
        if not (name == "@in" and isinstance(arguments[1], Constant) and isinstance(values[1], list)):
            self._spend(call_cost(name, values))
        first = arguments[0] if arguments else None
        if isinstance(first, Name) and first.name == GROWING:
            return self._grown(node, name, values)
        if name in COUNTED and (steps := work(name, values)):
            self._count(steps)
        result = self._result(node, name, values)
        if type(result) in TEXTS:
            check_text(len(result))
        return result

    def _grown(self, node: Call, name: str, values: Sequence[Any]) -> Any:
        """A macro's list or map with what a step of its loop adds. It isn't copied: nobody else has it."""
        match name, values:
            case "_+_", [list() as grown, list() as more]:
                self._count(ELEMENT * len(more))
                grown += more
                return grown
            case "cel.@mapInsert", [dict() as grown, *more]:
                entries = new_entries(grown, *more)
                self._count(ELEMENT * len(entries))
                grown |= entries
                return grown
        return self._result(node, name, values)

    def _index(self, node: Call, name: str, scope: Scope) -> Any:
        values = [self._value(each, scope) for each in node.arguments]
        self._spend((1 if _is_attribute(node.arguments[0]) else 2) - _is_attribute(node.arguments[1]))
        found = self._result(node, name, values)
        if isinstance(found, Optional) and not found.is_there:
            self._spend(-1)
        return found

    def _result(self, node: Call, name: str, values: Sequence[Any]) -> Any:
        if (operator := OPERATORS.get(name)) is not None:
            try:
                return operator(*values)
            except (TypeError, OverflowError, ValueError):
                raise CelError("no such overload") from None
        function = FUNCTIONS.get(name)
        if function is None or not _fits(name, values, is_member=node.target is not None):
            raise _no_overload(name, values)
        try:
            return function(*values)
        except (TypeError, AttributeError, OverflowError):
            raise _no_overload(name, values) from None
        except ValueError as error:  # of a number with thousands of digits, for example
            raise CelError(str(error)) from None

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


@dataclass
class _Later:
    """The first value of a loop's result: it is found out when it is needed."""

    value: Callable[[], Any]


def _no_overload(name: str, values: Sequence[Any]) -> CelError:
    if name in BARE:
        return CelError("no such overload")
    types = "" if name == "size" else f"({', '.join(map(type_name, values))})"
    return CelError(f"no such overload: {name}{types}")


def _is_attribute(node: Node) -> bool:
    """Whether a node is a variable, or a part of one."""
    if isinstance(node, Select):
        return not node.is_test
    return isinstance(node, Name) or (isinstance(node, Call) and node.function in INDEXES)


def _fits(name: str, values: Sequence[Any], *, is_member: bool) -> bool:
    """Whether a function has a form for values of these types."""
    return any(
        overload.is_member == is_member
        and len(overload.parameters) == len(values)
        and all(map(_has_type, values, overload.parameters))
        for overload in declarations().get(name, ())
    )


def _has_type(value: Any, type_: str) -> bool:
    kind = type_name(value)
    return type_ == "dyn" or type_.startswith("~") or KINDS.get(kind, kind) == type_
