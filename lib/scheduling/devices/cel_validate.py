"""What cel-go finds out about an expression before it is evaluated: wrong literals, and constant parts.

Source: github.com/google/cel-go, cel/validator.go, ext/formatting.go and interpreter/decorators.go
"""

from collections.abc import Callable, Iterator, Mapping

from lib.scheduling.devices.cel_check import Checker
from lib.scheduling.devices.cel_formatting import ALLOWED, TYPES, WRONG, clauses
from lib.scheduling.devices.cel_functions import FUNCTIONS
from lib.scheduling.devices.cel_run import Evaluation
from lib.scheduling.devices.cel_syntax import Call, Constant, List, Map, Node, parts, with_parts
from lib.scheduling.devices.cel_types import Type
from lib.scheduling.devices.cel_values import CelError

CONVERSIONS = frozenset(
    ["bool", "bytes", "double", "dyn", "duration", "int", "string", "timestamp", "type", "uint"]
)
"""Their results for constants are found out before the evaluation."""

Problem = tuple[int, str]
"""Where something is wrong, and what."""

PatternError = Callable[[str], str]
"""Why a text is no regular expression; "" if it is one."""


def problems(node: Node, checker: Checker, pattern_error: PatternError) -> list[Problem]:
    """What is wrong in a checked expression."""
    return [*_problems(node, checker, pattern_error, in_format=False)]


def _problems(
    node: Node, checker: Checker, pattern_error: PatternError, *, in_format: bool
) -> Iterator[Problem]:
    match node:
        case Call():
            yield from _of_call(node, pattern_error)
            if node.function == "format" and node.target:
                in_format = True
                yield from _of_format(node, checker)
        case List() if not in_format:
            types = [(each, checker.type_of(each)) for each in node.elements]
            yield from _mixed([(each, _inner(t, at in node.optional)) for at, (each, t) in enumerate(types)])
        case Map() if not in_format:
            yield from _mixed([(key, checker.type_of(key)) for key, _, _ in node.entries], all_of_them=True)
            values = [(each, _inner(checker.type_of(each), opt)) for _, each, opt in node.entries]
            yield from _mixed(values, all_of_them=True)
    for each in parts(node):
        yield from _problems(each, checker, pattern_error, in_format=in_format)


def _inner(type_: Type, is_optional: bool) -> Type:
    return type_.element if is_optional else type_


def _mixed(typed: list[tuple[Node, Type]], *, all_of_them: bool = False) -> Iterator[Problem]:
    """The elements whose type isn't the first one's; for a list, the first of them."""
    for node, type_ in typed[1:]:
        if type_ != typed[0][1]:
            yield node.at, f"expected type '{typed[0][1]}' but found '{type_}'"
            if not all_of_them:
                return


def _of_call(node: Call, pattern_error: PatternError) -> Iterator[Problem]:
    first = node.arguments[0] if node.arguments else None
    if not isinstance(first, Constant):
        return
    if node.function in ("duration", "timestamp"):
        try:
            FUNCTIONS[node.function](first.value)
        except CelError:
            yield first.at, f"invalid {node.function} argument"
    elif node.function == "matches" and isinstance(first.value, str) and pattern_error(first.value):
        yield first.at, "invalid matches argument"


def _of_format(node: Call, checker: Checker) -> Iterator[Problem]:
    (values,) = node.arguments
    if not (isinstance(node.target, Constant) and isinstance(values, List)):
        return
    seen = 0
    try:
        for _, clause, _ in clauses(node.target.value, len(values.elements)):
            if clause:
                bad = _bad_value(clause.lower(), values.elements[seen], checker)
                seen += 1
                if bad:
                    yield bad
                    return
    except CelError as error:
        yield node.at, str(error)
        return
    if len(values.elements) > seen:
        given = len(values.elements)
        yield node.at, f"too many arguments supplied to string.format (expected {seen}, got {given})"


RUNTIME_NAMES: Mapping[str, str] = {
    "any": "google.protobuf.Any",
    "timestamp": "google.protobuf.Timestamp",
    "duration": "google.protobuf.Duration",
    "null": "null_type",
}


def _bad_value(clause: str, node: Node, checker: Checker) -> Problem | None:
    type_ = checker.type_of(node)
    if type_.name != "dyn" and type_.name not in ALLOWED[clause]:
        kind = RUNTIME_NAMES.get(type_.name, type_.name)
        return node.at, f"error during formatting: {WRONG[clause].format(kind)}"
    if clause == "s" and isinstance(node, List | Map):
        for each in parts(node):
            if bad := _bad_value(clause, each, checker):
                return bad
    return None


# --- constants ------------------------------------------------------------------------------------------


def folded(node: Node, pattern_error: PatternError) -> Node:
    """The expression with its constant parts computed. CelError if one of these has no value."""
    node = with_parts(node, lambda part: folded(part, pattern_error))
    match node:
        case List() if not node.optional and all(isinstance(each, Constant) for each in node.elements):
            return _computed(node)
        case Map() if not any(optional for _, _, optional in node.entries):
            if all(isinstance(each, Constant) for each in parts(node)):
                return _computed(node)
        case Call():
            return _folded_call(node, pattern_error)
    return node


def _computed(node: Node) -> Node:
    return Constant(Evaluation({}).run(node, {}), node.at)


def _folded_call(node: Call, pattern_error: PatternError) -> Node:
    last = node.arguments[-1] if node.arguments else None
    if node.function in ("matches", "find", "findAll"):
        pattern = node.arguments[0 if node.target else 1]
        if isinstance(pattern, Constant) and (why := pattern_error(pattern.value)):
            raise CelError(f"error parsing regexp: {why}")
    if not isinstance(last, Constant):
        return node
    is_conversion = node.target is None and node.function in CONVERSIONS and len(node.arguments) == 1
    if is_conversion and type(last.value) in TYPES:
        return _computed(node)
    if node.function == "@in" and last.value == []:
        return Constant(False, node.at)
    return node
