"""Odd objects: an object with all fields, and each of its fields in turn missing, null, huge, and so on.

The fields are those of poller's own structures, so a new field is tried, too.
"""

import types
from collections.abc import Iterator
from datetime import datetime
from itertools import islice
from typing import Any, Union, get_args, get_origin, get_type_hints

import msgspec

from lib.kube.objects import Object, Value
from lib.kube.quantity import Quantity

MISSING = object()

LARGE = "300 kB"

POISONS: dict[str, Any] = {
    "missing": MISSING,
    "null": None,
    "a huge number": 10**30,
    "a negative number": -(2**31),
    "a word": "word",
    "an object": {},
    "a list": [],
    "a list with null": [None],
    "control characters": "\x1b[2J\r\n\x00\u202eforged",
    "a path": "../../secrets/x",
    "many digits": "9" * 5000,
    LARGE: "x" * 300_000,
    "an early time": "0000-01-01T00:00:00Z",
}
"""The values that replace a field's value. A real API server wouldn't accept all of them."""

PLAIN: dict[Any, Any] = {
    str: "x",
    int: 1,
    bool: True,
    datetime: "2026-01-01T00:00:00Z",
    Quantity: "1",
    Any: {},
}

BY_NAME: dict[str, Any] = {
    "operator": "In",
    "topologyKey": "kubernetes.io/hostname",
    "effect": "NoSchedule",
    "when_unsatisfiable": "DoNotSchedule",
    "preemptionPolicy": "PreemptLowerPriority",
    "restartPolicy": "Always",
    "phase": "Pending",
}
"""The values of fields that can't have just any value."""


def whole(kind: Any) -> Any:
    """An object of a kind as JSON, with all the fields that poller reads."""
    origin, arguments = get_origin(kind), get_args(kind)
    if hasattr(kind, "__metadata__"):
        return whole(arguments[0])
    if origin in (Union, types.UnionType):
        return whole(next(each for each in arguments if each is not type(None)))
    if origin is dict:
        return {"k": whole(arguments[1])}
    if origin in (list, tuple):
        return [whole(arguments[0])]
    if isinstance(kind, type) and issubclass(kind, Object | Value):
        hints = get_type_hints(kind, include_extras=True)
        fields = msgspec.structs.fields(kind)
        return {each.encode_name: BY_NAME.get(each.encode_name) or whole(hints[each.name]) for each in fields}
    return PLAIN[kind]


def places(body: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The paths to all values in a JSON value."""
    inner = body.items() if isinstance(body, dict) else enumerate(body) if isinstance(body, list) else ()
    for key, value in inner:
        yield (*path, key)
        yield from places(value, (*path, key))


def with_value(body: Any, path: tuple[Any, ...], value: Any) -> Any:
    """The body with another value at this path; MISSING removes it. Other parts are shared, not copied."""
    if not path:
        return value
    key, *rest = path
    changed = body.copy()
    if not rest and value is MISSING:
        del changed[key]
    else:
        changed[key] = with_value(body[key], tuple(rest), value)
    return changed


def poisoned(body: Any, poison: Any, part: tuple[Any, ...] = ()) -> Iterator[tuple[str, Any]]:
    """The body with the odd value at each path of a part of it, the part itself included; and the path."""
    inner = body
    for key in part:
        inner = inner[key]
    for path in (part, *places(inner, part)) if part else places(body):
        yield ".".join(map(str, path)), with_value(body, path, poison)


IDENTITY = ("metadata", "metadata.name", "metadata.namespace", "metadata.uid", "metadata.resourceVersion")
"""The fields that identify an object. The API server makes sure that they exist."""


def odd_ones(body: dict[str, Any], part: tuple[str, ...] = (), namespace: str = "odd") -> list[Any]:
    """The body with each odd value at each path of a part of it, each with a name of its own."""
    found: list[Any] = []
    for poison, value in POISONS.items():
        # At each path, this would make a list of 100 MB: it is tried only where a part begins.
        for where, odd in islice(poisoned(body, value, part), 1 if poison == LARGE and part else None):
            if where not in IDENTITY or (where != "metadata" and isinstance(value, str) and value):
                found.append(named(odd, f"odd-{''.join(part[-1:]).lower()}-{len(found)}", namespace))
    return found


def named(body: dict[str, Any], name: str, namespace: str) -> dict[str, Any]:
    """The body with its own names in place of each "x", the value of the fields that aren't odd."""
    metadata = body.get("metadata")
    if not isinstance(metadata, dict):
        return body
    own = {"name": name, "uid": f"uid-of-{name}", "namespace": namespace}
    names = {field: value for field, value in own.items() if metadata.get(field) == "x"}
    return {**body, "metadata": {**metadata, **names}}
