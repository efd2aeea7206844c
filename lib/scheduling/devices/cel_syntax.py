"""A CEL expression as a tree: decoded from the form in which the library hands it out.

That form is a protobuf message, cel.expr.CheckedExpr (github.com/google/cel-spec, proto/cel/expr).
"""

import struct
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Constant:
    """A value that is written in the expression."""

    value: Any


@dataclass(frozen=True)
class Name:
    """A variable."""

    name: str


@dataclass(frozen=True)
class Select:
    """OPERAND.FIELD; with `is_test`, has(OPERAND.FIELD)."""

    operand: "Node"
    field: str
    is_test: bool


@dataclass(frozen=True)
class Call:
    """FUNCTION(ARGUMENTS), or TARGET.FUNCTION(ARGUMENTS); operators are functions, too."""

    function: str
    target: "Node | None"
    arguments: Sequence["Node"]


@dataclass(frozen=True)
class List:
    """A list; those of its elements with these numbers are left out if they have no value."""

    elements: Sequence["Node"]
    optional: Sequence[int]


@dataclass(frozen=True)
class Map:
    """A map: keys, values, and whether an entry is left out if its value is none."""

    entries: Sequence[tuple["Node", "Node", bool]]


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


Node = Constant | Name | Select | Call | List | Map | Loop


class Unsigned(int):
    """A CEL uint: another type than int."""


Fields = Mapping[int, Sequence[Any]]
"""A message: the values of each field, by its number. Integers as they are, all else as bytes."""


def decoded(serialized: bytes) -> Node:
    """The tree of a serialized expression. ValueError if it has a form that isn't known."""
    checked = _fields(_fields(serialized)[2][0])
    names: dict[int, str] = {}  # a dotted name such as device.driver is one variable
    for entry in checked[2]:
        pair = _fields(entry)
        if name := _fields(pair[2][0])[1]:
            names[pair[1][0]] = name[0].decode()
    return _node(checked[4][0], names)


def _node(message: bytes, names: Mapping[int, str]) -> Node:
    fields = _fields(message)
    (number,) = fields[2] or [0]
    kind = next(each for each in range(3, 10) if fields[each])
    inner = _fields(fields[kind][0])

    def nodes(field: int) -> list[Node]:
        return [_node(each, names) for each in inner[field]]

    if kind in (4, 5) and number in names:
        return Name(names[number])
    if kind == 3:
        return Constant(_constant(inner))
    if kind == 4:
        return Name(inner[1][0].decode())
    if kind == 5:
        return Select(nodes(1)[0], inner[2][0].decode(), bool(inner[3]))
    if kind == 6:
        return Call(inner[2][0].decode(), next(iter(nodes(1)), None), nodes(3))
    if kind == 7:
        return List(nodes(1), [*_integers(inner[2])])
    if kind == 8:
        if inner[1]:
            raise ValueError(f"there is no type {inner[1][0].decode()}")
        entries = [_fields(each) for each in inner[2]]
        return Map([(_node(e[3][0], names), _node(e[4][0], names), bool(e[5])) for e in entries])
    return Loop(
        inner[1][0].decode(),
        nodes(2)[0],
        inner[3][0].decode(),
        nodes(4)[0],
        nodes(5)[0],
        nodes(6)[0],
        nodes(7)[0],
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
