"""A CEL expression as a tree: decoded from the form in which the library hands it out.

That form is a protobuf message: cel.expr.ParsedExpr, or CheckedExpr (github.com/google/cel-spec,
proto/cel/expr).
"""

import struct
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from lib.scheduling.devices.cel.values import Unsigned

DEVICE = "device."
"""What the names of `device`'s fields begin with: the library is told of each as a variable."""


@dataclass(frozen=True)
class Constant:
    """A value that is written in the expression."""

    value: Any
    id: int = 0


@dataclass(frozen=True)
class Name:
    """A variable, or a type."""

    name: str
    id: int = 0


@dataclass(frozen=True)
class Select:
    """OPERAND.FIELD; with `is_test`, has(OPERAND.FIELD)."""

    operand: "Node"
    field: str
    is_test: bool = False
    id: int = 0


@dataclass(frozen=True)
class Call:
    """FUNCTION(ARGUMENTS), or TARGET.FUNCTION(ARGUMENTS); operators are functions, too."""

    function: str
    target: "Node | None"
    arguments: tuple["Node", ...]
    id: int = 0


@dataclass(frozen=True)
class List:
    """A list. optional: the numbers of the elements that are left out if they have no value."""

    elements: tuple["Node", ...]
    optional: frozenset[int]
    id: int = 0


@dataclass(frozen=True)
class Map:
    """A map. optional: the numbers of the entries that are left out if they have no value."""

    keys: tuple["Node", ...]
    values: tuple["Node", ...]
    optional: frozenset[int]
    id: int = 0


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
    second_variable: str = ""
    id: int = 0


Node = Constant | Name | Select | Call | List | Map | Loop
"""Each with the number that the expression's tables have for it: `id`."""


class Expression(NamedTuple):
    """An expression. places, types: of its nodes, by `id`; types only if they were checked.

    A type is written as in cel-go's errors, such as list(int).
    """

    node: Node
    places: Mapping[int, int]
    types: Mapping[int, str]


def nodes(node: Node) -> Iterator[Node]:
    """A node, and all of which it is made."""
    yield node
    for part in parts(node):
        yield from nodes(part)


def parts(node: Node) -> Iterator[Node]:
    """The nodes of which a node is made."""
    for part in vars(node).values():
        if isinstance(part, Node):
            yield part
        elif isinstance(part, tuple):
            yield from part


def with_parts(node: Node, change: Callable[[Node], Node]) -> Node:
    """A node with changed parts."""
    changed: dict[str, Any] = {}
    for name, part in vars(node).items():
        if isinstance(part, Node):
            changed[name] = change(part)
        elif isinstance(part, tuple):
            changed[name] = tuple(map(change, part))
    return replace(node, **changed)


Fields = Mapping[int, Sequence[Any]]
"""A message: the values of each field, by its number. Integers as they are, all else as bytes."""


def decoded(serialized: bytes, *, checked: bool) -> Expression:
    """A serialized expression. ValueError if it has a form that isn't known."""
    message = _fields(_fields(serialized)[2][0])
    tree, info = (message[4], message[5]) if checked else (message[2], message[3])
    places = _entries(_fields(info[0])[4])
    types = (
        {id_: _type(message_of_type) for id_, message_of_type in _entries(message[3]).items()}
        if checked
        else {}
    )
    return Expression(_node(tree[0]), places, types)


def _entries(messages: Sequence[bytes]) -> dict[int, Any]:
    """A map with integers as keys."""
    pairs = map(_fields, messages)
    return {next(iter(pair[1]), 0): next(iter(pair[2]), 0) for pair in pairs}


def _node(message: bytes) -> Node:
    fields = _fields(message)
    (id_,) = fields[2] or [0]
    kind = next(field for field in range(3, 10) if fields[field])
    inner = _fields(fields[kind][0])

    def inner_nodes(field: int) -> tuple[Node, ...]:
        return tuple(map(_node, inner[field]))

    if kind == 3:
        return Constant(_constant(inner), id_)
    if kind == 4:
        name = inner[1][0].decode().removeprefix(".")
        if name.startswith(DEVICE):
            return Select(Name("device"), name.removeprefix(DEVICE), id=id_)
        return Name(name, id_)
    if kind == 5:
        return Select(inner_nodes(1)[0], inner[2][0].decode(), bool(inner[3]), id_)
    if kind == 6:
        return Call(inner[2][0].decode(), next(iter(inner_nodes(1)), None), inner_nodes(3), id_)
    if kind == 7:
        return List(inner_nodes(1), frozenset(_integers(inner[2])), id_)
    if kind == 8:
        if inner[1]:
            raise ValueError(f"a message can't be made: {inner[1][0].decode()}")
        entries = [_fields(entry) for entry in inner[2]]
        keys, values = (tuple(_node(entry[at][0]) for entry in entries) for at in (3, 4))
        return Map(keys, values, frozenset(at for at, entry in enumerate(entries) if entry[5]), id_)
    second = next((name.decode() for name in inner[8]), "")
    variable, result_variable = inner[1][0].decode(), inner[3][0].decode()
    over, begin, condition, step, result = (inner_nodes(field)[0] for field in (2, 4, 5, 6, 7))
    return Loop(variable, over, result_variable, begin, condition, step, result, second, id_)


CONSTANTS: Mapping[int, Callable[[Any], Any]] = {
    1: lambda _: None,
    2: bool,
    3: lambda value: value - (1 << 64) if value >> 63 else value,
    4: Unsigned,
    5: lambda value: struct.unpack("<d", value)[0],
    6: bytes.decode,
    7: bytes,
}
"""How a constant is read, by the number of its type."""


def _constant(fields: Fields) -> Any:
    kind, (value, *_) = next((number, values) for number, values in fields.items() if values)
    if kind not in CONSTANTS:
        raise ValueError("a constant of an unknown type")
    return CONSTANTS[kind](value)


PRIMITIVES = ("dyn", "bool", "int", "uint", "double", "string", "bytes")
WELL_KNOWN = ("dyn", "any", "timestamp", "duration")


def _type(message: bytes) -> str:
    value: Any
    kind, (value, *_) = next(iter(_fields(message).items()), (0, (b"",)))
    if kind in (3, 5):
        return (PRIMITIVES if kind == 3 else WELL_KNOWN)[value]
    if kind not in (6, 7, 11, 14):
        return "null" if kind == 2 else "dyn"
    inner = {1: [b"type"], 2: [value]} if kind == 11 else _fields(value)
    name = {6: "list", 7: "map"}.get(kind) or inner[1][0].decode()
    parameters = [*inner[1], *inner[2]] if kind in (6, 7) else inner[2]
    return f"{name}({', '.join(map(_type, parameters))})" if parameters else name


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


def _integers(packed: Sequence[bytes]) -> Iterator[int]:
    """Repeated integers, several in one value."""
    for run in packed:
        at = 0
        while at < len(run):
            value, at = _integer(run, at)
            yield value
