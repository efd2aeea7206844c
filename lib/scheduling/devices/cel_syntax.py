"""A CEL expression as a tree: decoded from the form in which the library hands it out.

That form is a protobuf message, cel.expr.ParsedExpr (github.com/google/cel-spec, proto/cel/expr).
"""

import struct
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from lib.scheduling.devices.cel_values import Unsigned


@dataclass(frozen=True)
class Constant:
    """A value that is written in the expression."""

    value: Any
    at: int = -1


@dataclass(frozen=True)
class Name:
    """A variable."""

    name: str
    at: int = -1


@dataclass(frozen=True)
class Select:
    """OPERAND.FIELD; with `is_test`, has(OPERAND.FIELD)."""

    operand: "Node"
    field: str
    is_test: bool
    at: int = -1


@dataclass(frozen=True)
class Call:
    """FUNCTION(ARGUMENTS), or TARGET.FUNCTION(ARGUMENTS); operators are functions, too."""

    function: str
    target: "Node | None"
    arguments: Sequence["Node"]
    at: int = -1


@dataclass(frozen=True)
class List:
    """A list; those of its elements with these numbers are left out if they have no value."""

    elements: Sequence["Node"]
    optional: Sequence[int]
    at: int = -1


@dataclass(frozen=True)
class Map:
    """A map: keys, values, and whether an entry is left out if its value is none."""

    entries: Sequence[tuple["Node", "Node", bool]]
    at: int = -1


@dataclass(frozen=True)
class Loop:
    """What the macros `all`, `exists`, `map` and so on become."""

    variable: str
    range: "Node"
    result_variable: str
    begin: "Node"
    condition: "Node"
    step: "Node"
    result: "Node"
    at: int = -1
    second_variable: str = ""


Fields = Mapping[int, Sequence[Any]]
"""A message: the values of each field, by its number. Integers as they are, all else as bytes."""


@dataclass(frozen=True)
class Struct:
    """A message TYPE{FIELD: VALUE}. No type of a selector has any."""

    type_name: str
    at: int = -1


Node = Constant | Name | Select | Call | List | Map | Loop | Struct
"""Each with its place in the expression: `at`, or -1 if it has none."""


def parts(node: Node) -> Iterator[Node]:
    """The nodes of which a node is made."""
    match node:
        case Select():
            yield node.operand
        case Call():
            if node.target:
                yield node.target
            yield from node.arguments
        case List():
            yield from node.elements
        case Map():
            for key, value, _ in node.entries:
                yield from (key, value)
        case Loop():
            yield from (node.range, node.begin, node.condition, node.step, node.result)
        case Constant() | Name() | Struct():
            return


def with_parts(node: Node, change: Callable[[Node], Node]) -> Node:
    """A node with changed parts."""
    match node:
        case Select():
            return replace(node, operand=change(node.operand))
        case Call():
            target = change(node.target) if node.target else None
            return replace(node, target=target, arguments=[*map(change, node.arguments)])
        case List():
            return replace(node, elements=[*map(change, node.elements)])
        case Map():
            return replace(node, entries=[(change(k), change(v), opt) for k, v, opt in node.entries])
        case Loop():
            return replace(
                node,
                range=change(node.range),
                begin=change(node.begin),
                condition=change(node.condition),
                step=change(node.step),
                result=change(node.result),
            )
        case Constant() | Name() | Struct():
            return node


def decoded(serialized: bytes) -> Node:
    """The tree of a serialized expression. ValueError if it has a form that isn't known."""
    parsed = _fields(_fields(serialized)[2][0])
    places: dict[int, int] = {}
    for entry in _fields(parsed[3][0])[4] if parsed[3] else ():
        pair = _fields(entry)
        places[pair[1][0]] = pair[2][0] if pair[2] else 0
    return _node(parsed[2][0], places)


def _node(message: bytes, places: Mapping[int, int]) -> Node:
    fields = _fields(message)
    (number,) = fields[2] or [0]
    at = places.get(number, -1)
    kind = next(each for each in range(3, 10) if fields[each])
    inner = _fields(fields[kind][0])

    def nodes(field: int) -> list[Node]:
        return [_node(each, places) for each in inner[field]]

    if kind == 3:
        return Constant(_constant(inner), at)
    if kind == 4:
        return Name(inner[1][0].decode(), at)
    if kind == 5:
        return Select(nodes(1)[0], inner[2][0].decode(), bool(inner[3]), at)
    if kind == 6:
        return Call(inner[2][0].decode(), next(iter(nodes(1)), None), nodes(3), at)
    if kind == 7:
        return List(nodes(1), [*_integers(inner[2])], at)
    if kind == 8:
        if inner[1]:
            return Struct(inner[1][0].decode(), at)
        entries = [_fields(each) for each in inner[2]]
        found = [(_node(e[3][0], places), _node(e[4][0], places), bool(e[5])) for e in entries]
        return Map(found, at)
    return Loop(
        inner[1][0].decode(),
        nodes(2)[0],
        inner[3][0].decode(),
        nodes(4)[0],
        nodes(5)[0],
        nodes(6)[0],
        nodes(7)[0],
        at,
    )


def _constant(fields: Fields) -> Any:
    kind, (value, *_) = next((number, values) for number, values in fields.items() if values)
    if kind == 1:
        return None
    if kind == 2:
        return bool(value)
    if kind == 3:
        return value - (1 << 64) if value >> 63 else value
    if kind == 4:
        return Unsigned(value)
    if kind == 5:
        return struct.unpack("<d", value)[0]
    if kind == 6:
        return value.decode()
    if kind == 7:
        return bytes(value)
    raise ValueError("a constant of an unknown type")


# --- protobuf's wire format -----------------------------------------------------------------------------


def _fields(message: bytes) -> Fields:
    found: dict[int, list[Any]] = defaultdict(list)
    at = 0
    while at < len(message):
        tag, at = _integer(message, at)
        number, kind = tag >> 3, tag & 7
        if kind == 0:
            value: Any
            value, at = _integer(message, at)
        else:
            size, at = _integer(message, at) if kind == 2 else ({1: 8, 5: 4}[kind], at)
            value, at = message[at : at + size], at + size
        found[number].append(value)
    return found


def _integer(message: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = message[at]
        value |= (byte & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if byte < 0x80:
            return value, at


def _integers(packed: Sequence[Any]) -> Iterator[int]:
    """Repeated integers: each by itself, or several in one value."""
    for each in packed:
        if isinstance(each, int):
            yield each
            continue
        at = 0
        while at < len(each):
            value, at = _integer(each, at)
            yield value
