"""What cel-go finds out about an expression before it is evaluated: wrong literals, and constant parts.

Source: github.com/google/cel-go, cel/validator.go, ext/formatting.go and interpreter/decorators.go
"""

from collections.abc import Collection, Iterator, Mapping, Sequence

from lib.scheduling.devices.cel_formatting import ALLOWED, WRONG, clauses
from lib.scheduling.devices.cel_library import pattern_error
from lib.scheduling.devices.cel_run import Evaluation
from lib.scheduling.devices.cel_syntax import Call, Constant, List, Map, Node, Type, parts, with_parts
from lib.scheduling.devices.cel_values import CelError

CONVERSIONS = frozenset(
    ["bool", "bytes", "double", "dyn", "duration", "int", "string", "timestamp", "type", "uint"]
)
"""Their results for constants are found out before the evaluation."""

Types = Mapping[int, Type]
"""The types of nodes, by `id`."""

Problem = tuple[Node, str]
"""Which node is wrong, and why."""


def problems(node: Node, types: Types, *, in_format: bool = False) -> Iterator[Problem]:
    """What is wrong in a checked expression. in_format: whether it is a value to be formatted."""
    match node:
        case Call("flatten", list_, ()) if list_ and not _is_nested(types[list_.id]):
            yield node, f"found no matching overload for 'flatten' applied to '{types[list_.id]}.()'"
        case Call():
            yield from _of_call(node)
            if node.function == "format" and node.target:
                in_format = True
                yield from _of_format(node, types)
        case List() if not in_format:
            yield from _mixed(node.elements, types, node.optional)
        case Map() if not in_format:
            yield from _mixed(node.keys, types)
            yield from _mixed(node.values, types, node.optional)
    for each in parts(node):
        yield from problems(each, types, in_format=in_format)


def _is_nested(type_: Type) -> bool:
    """Whether a list may be one of lists."""
    return all(each.name in ("list", "dyn", "any") for each in type_.parameters)


def _mixed(nodes: Sequence[Node], types: Types, optional: Collection[int] = ()) -> Iterator[Problem]:
    """The nodes whose type isn't the first one's. optional: the numbers of those that are optional."""
    found = [types[node.id].element if at in optional else types[node.id] for at, node in enumerate(nodes)]
    for node, type_ in zip(nodes, found, strict=True):
        if type_ != found[0]:
            yield node, f"expected type '{found[0]}' but found '{type_}'"


def _of_call(node: Call) -> Iterator[Problem]:
    first = node.arguments[0] if node.arguments else None
    if not isinstance(first, Constant):
        return
    if node.function in ("duration", "timestamp"):
        try:
            _computed(node)
        except CelError:
            yield first, f"invalid {node.function} argument"
    elif node.function == "matches" and isinstance(first.value, str) and pattern_error(first.value):
        yield first, "invalid matches argument"


def _of_format(node: Call, types: Types) -> Iterator[Problem]:
    (values,) = node.arguments
    if not (isinstance(node.target, Constant) and isinstance(values, List)):
        return
    seen = 0
    try:
        for _, clause, _ in clauses(node.target.value, len(values.elements)):
            if clause:
                bad = _bad_value(clause.lower(), values.elements[seen], types)
                seen += 1
                if bad:
                    yield bad
                    return
    except CelError as error:
        yield node, str(error)
        return
    if len(values.elements) > seen:
        given = len(values.elements)
        yield node, f"too many arguments supplied to string.format (expected {seen}, got {given})"


def _bad_value(clause: str, node: Node, types: Types) -> Problem | None:
    type_ = types[node.id]
    if type_.name != "dyn" and type_.name not in ALLOWED[clause]:
        return node, f"error during formatting: {WRONG[clause].format(type_.name)}"
    if clause == "s" and isinstance(node, List | Map):
        for each in parts(node):
            if bad := _bad_value(clause, each, types):
                return bad
    return None


# --- constants ------------------------------------------------------------------------------------------


def folded(node: Node) -> Node:
    """The expression with its constant parts computed. CelError if one of these has no value."""
    node = with_parts(node, folded)
    match node:
        case List() | Map() if not node.optional and all(isinstance(each, Constant) for each in parts(node)):
            return _computed(node)
        case Call():
            return _folded_call(node)
    return node


def _computed(node: Node) -> Node:
    return Constant(Evaluation().value(node, {}), node.id)


def _folded_call(node: Call) -> Node:
    last = node.arguments[-1] if node.arguments else None
    if node.function in ("matches", "find", "findAll"):
        pattern = node.arguments[0 if node.target else 1]
        value = pattern.value if isinstance(pattern, Constant) else None
        if isinstance(value, str) and (why := pattern_error(value)):
            raise CelError(f"error parsing regexp: {why}")
    if not isinstance(last, Constant):
        return node
    if node.target is None and node.function in CONVERSIONS and len(node.arguments) == 1:
        return _computed(node)
    if node.function == "@in" and last.value == []:
        return Constant(False, node.id)
    return node
