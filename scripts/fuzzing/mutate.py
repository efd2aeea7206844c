"""Changes inputs: as trees of JSON, and byte by byte."""

import json
from collections.abc import Iterator, Sequence
from random import Random
from typing import Any

ODD: tuple[Any, ...] = (
    None,
    True,
    0,
    -1,
    10**30,
    1.5,
    "",
    "x",
    "\x1b[2J\x00\u202e",
    "../../x",
    "9" * 5000,
    "1e999999",
    "100m",
    "In",
    "DoesNotExist",
    "0000-01-01T00:00:00Z",
    "2026-01-01T00:00:00Z",
    [],
    [None],
    {},
    {"": None},
    [[[[[]]]]],
)
"""Values that replace others."""

TOKENS = (
    b"\x00",
    b"\xff",
    b"[" * 3000,
    b'{"a":' * 12_000,
    b"{" * 9,
    b'"',
    b"\\ud800",
    b"\r\n",
    b"&a ",
    b"*a",
    b"!!",
    b"- ",
    b"9" * 99,
)

MOST_BYTES = 1 << 16
"""Of an input: larger ones only take longer."""


def mutated(data: bytes, others: Sequence[bytes], chance: Random) -> bytes:
    """Another input. others: to take parts from."""
    for _ in range(chance.choice((1, 1, 2, 5))):
        if chance.random() < 0.7:
            data = _tree_mutated(data, others, chance)
        else:
            data = _bytes_mutated(data, others, chance)
    return data[:MOST_BYTES]


def _tree_mutated(data: bytes, others: Sequence[bytes], chance: Random) -> bytes:
    try:
        tree = json.loads(data)
    except (ValueError, RecursionError):
        return _bytes_mutated(data, others, chance)
    places = [*_places(tree)]
    if not places:
        return json.dumps(chance.choice(ODD)).encode()
    parent, key = chance.choice(places)
    roll = chance.random()
    if roll < 0.5:
        parent[key] = chance.choice(ODD)
    elif roll < 0.65:
        del parent[key]
    elif roll < 0.8:
        other, place = chance.choice(places)
        parent[key] = other[place] if other is not parent else chance.choice(ODD)
    elif isinstance(parent, dict):
        parent[f"{key}x"] = parent.pop(key)
    else:
        parent.insert(chance.randrange(len(parent) + 1), parent[key])
    try:
        return json.dumps(tree).encode()
    except (ValueError, RecursionError):  # a part that was put into itself
        return data


def _places(tree: Any) -> Iterator[tuple[Any, Any]]:
    """Each value's parent, and its key there."""
    due = [tree]
    while due:
        parent = due.pop()
        keys = (
            [*parent] if isinstance(parent, dict) else range(len(parent)) if isinstance(parent, list) else ()
        )
        for key in keys:
            yield parent, key
            due.append(parent[key])


def _bytes_mutated(data: bytes, others: Sequence[bytes], chance: Random) -> bytes:
    begin = chance.randrange(len(data) + 1)
    end = min(len(data), begin + chance.choice((0, 1, 1, 4, 50)))
    roll = chance.random()
    if roll < 0.3:
        new = bytes([chance.randrange(256)])
    elif roll < 0.6:
        new = chance.choice(TOKENS)
    elif roll < 0.8:
        new = b""
    else:
        other = chance.choice(others)
        start = chance.randrange(len(other) + 1)
        new = other[start : start + chance.randrange(80)]
    return data[:begin] + new + data[end:]
