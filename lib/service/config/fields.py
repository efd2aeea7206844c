"""Reads the fields of the configuration file, and describes what is wrong with them."""

import re
from collections.abc import Iterable, Iterator
from difflib import get_close_matches
from types import NoneType, UnionType
from typing import Annotated, Any, TypeVar, get_args, get_origin

import durationpy
import msgspec

from lib.service.config import ConfigError
from lib.service.config.strict import VERSION, Duration

T = TypeVar("T")


Found = tuple[T, list[str]]
"""A value, and the problems with it."""


def read(raw: Any, kind: type[T], path: str = "") -> Found[T]:
    """Convert a part of the file to a type; returns it with all problems, each with its place.

    An invalid value is replaced by its default, or by "" or 0, so that the rest can be checked. path: the
    place of the part, such as `profiles[0].pluginConfig[1].args`; "" for the whole file.
    """
    problems: list[str] = []
    return _read(raw, kind, path, problems), problems


def without_repetitions(problems: Iterable[str]) -> list[str]:
    """The first problem of each place: the value that replaces an invalid one may be a problem, too."""
    by_place: dict[str, str] = {}
    for problem in problems:
        by_place.setdefault(problem.split(": ", 1)[0], problem)
    return list(by_place.values())


def _read(raw: Any, kind: Any, path: str, problems: list[str]) -> Any:
    """Convert as a whole or, if that fails, part by part."""
    try:
        return msgspec.convert(raw, type=kind, dec_hook=_decode)
    except msgspec.ValidationError as error:
        first = str(error)
    if isinstance(kind, UnionType):  # a type, or None if it isn't given
        kind = next(given for given in get_args(kind) if given is not NoneType)
    if get_origin(kind) is tuple and isinstance(raw, list):
        item = get_args(kind)[0]
        return tuple(_read(part, item, f"{path}[{i}]", problems) for i, part in enumerate(raw))
    if not (_is_struct(kind) and isinstance(raw, dict)):
        problems.append(_in_words(first, path))
        return _stand_in(kind)
    return _read_fields(raw, kind, path, problems)


def _read_fields(raw: dict[str, Any], kind: Any, path: str, problems: list[str]) -> Any:
    """Convert a mapping of fields to a struct, field by field."""
    fields = {field.encode_name: field for field in msgspec.structs.fields(kind)}
    before = len(problems)
    for name in raw:
        if name not in fields:
            near = get_close_matches(name, fields, 1)
            hint = f"; did you mean {near[0]}?" if near else ""
            problems.append(f"{_at(path, name)}: unknown field{hint}")
    values: dict[str, Any] = {}
    for name, field in fields.items():
        if name in raw:
            count = len(problems)
            value = _read(raw[name], field.type, _at(path, name), problems)
            if len(problems) == count or _is_struct(field.type) or get_origin(field.type) is tuple:
                values[field.name] = value
                continue
        elif field.required:
            problems.append(f"{_at(path, name)}: is missing")
        if field.required:
            values[field.name] = _stand_in(field.type)
    try:
        return kind(**values)
    except ValueError as error:
        if len(problems) == before:  # else the problem may be a value that replaces an invalid one
            problems.append(f"{path}: {error}")
    return _stand_in(kind)


def _at(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name


def _is_struct(kind: Any) -> bool:
    return isinstance(kind, type) and issubclass(kind, msgspec.Struct)


def _stand_in(kind: Any) -> Any:
    """The value that replaces an invalid one: the empty one of the same type."""
    if get_origin(kind) is Annotated:
        kind = get_args(kind)[0]
    if isinstance(kind, UnionType):
        return None
    if _is_struct(kind):
        required = [field for field in msgspec.structs.fields(kind) if field.required]
        return kind(**{field.name: _stand_in(field.type) for field in required})
    return (get_origin(kind) or kind)()


def _decode(kind: type, raw: Any) -> Any:
    if kind is Duration and isinstance(raw, str) and raw:
        return Duration(durationpy.from_str(raw).total_seconds())
    raise ValueError(f"{raw!r} is not a duration, such as 5s")


WORDS = {
    "array": "a list",
    "bool": "true or false",
    "float": "a number",
    "int": "a whole number",
    "null": "nothing",
    "object": "a mapping of fields",
    "str": "text",
}
"""msgspec's names of types, in the words of a user."""


def _in_words(error: str, path: str) -> str:
    """msgspec's message, with the place first: `Expected `int`, got `str` - at `$.profiles[0]`."""
    what, _, where = error.partition(" - at ")
    place = (path + where.strip("`$")).lstrip(".")
    what = re.sub(r"`([a-z]+)( \| null)?`", lambda name: WORDS.get(name[1], name[0]), what)
    return f"{place}: {what[0].lower()}{what[1:]}" if place else what


def without_nulls(raw: Any) -> Any:
    """Remove fields that are null: they count as not given. ConfigError when nesting is too deep."""
    try:
        return _without_nulls(raw)
    except RecursionError as error:
        raise ConfigError(["it is nested too deeply, or contains itself"]) from error


def _without_nulls(raw: Any) -> Any:
    if isinstance(raw, dict):
        return {str(name): _without_nulls(value) for name, value in raw.items() if value is not None}
    return [_without_nulls(item) for item in raw] if isinstance(raw, list) else raw


def wrong_head(raw: Any, kind: str, path: str = "") -> Iterator[str]:
    """A line for apiVersion and for kind, if they are given and aren't as expected."""
    for name, expected in (("apiVersion", VERSION), ("kind", kind)):
        if (found := raw.get(name, expected)) != expected:
            yield f"{path}{name}: is {found!r}, not {expected}"
