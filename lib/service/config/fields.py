"""How fields of the configuration file are read, and what is said of those that are wrong."""

import re
from collections.abc import Iterable, Iterator, Sequence
from difflib import get_close_matches
from pathlib import Path
from types import NoneType, UnionType
from typing import Annotated, Any, TypeVar, get_args, get_origin

import durationpy
import msgspec

VERSION = "kubescheduler.config.k8s.io/v1"

T = TypeVar("T")


class ConfigError(Exception):
    """A configuration can't be used. Each problem names the field, what is wrong, and what to do."""

    def __init__(self, problems: Sequence[str], file: Path | None = None) -> None:
        self.problems = problems
        said = problems[0] if len(problems) == 1 else "".join(f"\n- {each}" for each in problems)
        super().__init__(f"{file}: {said}" if file else said)


class Duration(float):
    """Seconds, written as Go does: "5s", "1m30s", "100ms"."""


class Strict(msgspec.Struct, rename="camel", forbid_unknown_fields=True, kw_only=True):
    """Base of all parts: a field that isn't known is an error."""


Found = tuple[T, list[str]]
"""What was read, and what is wrong with it."""


def read(raw: Any, kind: type[T], path: str = "") -> Found[T]:
    """A part of the file as what it is, and all that is wrong with it, each with its place.

    What can't be read has its default in what is returned, or else nothing ("", 0): so the rest can be
    checked. path: where the part stands, as `profiles[0].pluginConfig[1].args`; the whole file has none.
    """
    problems: list[str] = []
    return _read(raw, kind, path, problems), problems


def without_repetitions(problems: Iterable[str]) -> list[str]:
    """The first problem of each place: what was put in place of something unreadable may be wrong, too."""
    by_place: dict[str, str] = {}
    for problem in problems:
        by_place.setdefault(problem.split(": ", 1)[0], problem)
    return list(by_place.values())


def _read(raw: Any, kind: Any, path: str, problems: list[str]) -> Any:
    """Convert, part by part where it can't be done as a whole."""
    try:
        return msgspec.convert(raw, type=kind, dec_hook=_decode)
    except msgspec.ValidationError as error:
        first = str(error)
    if isinstance(kind, UnionType):  # something, or None where it isn't given
        kind = next(each for each in get_args(kind) if each is not NoneType)
    if get_origin(kind) is tuple and isinstance(raw, list):
        item = get_args(kind)[0]
        return tuple(_read(each, item, f"{path}[{i}]", problems) for i, each in enumerate(raw))
    if not (_is_struct(kind) and isinstance(raw, dict)):
        problems.append(_in_words(first, path))
        return _stand_in(kind)
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
            found = len(problems)
            value = _read(raw[name], field.type, _at(path, name), problems)
            if len(problems) == found or _is_struct(field.type) or get_origin(field.type) is tuple:
                values[field.name] = value
                continue
        elif field.required:
            problems.append(f"{_at(path, name)}: is missing")
        if field.required:
            values[field.name] = _stand_in(field.type)
    try:
        return kind(**values)
    except ValueError as error:
        if len(problems) == before:  # else it may be what stands in for something that is wrong
            problems.append(f"{path}: {error}" if path else str(error))
    return _stand_in(kind)


def _at(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name


def _is_struct(kind: Any) -> bool:
    return isinstance(kind, type) and issubclass(kind, msgspec.Struct)


def _stand_in(kind: Any) -> Any:
    """What is taken for something that can't be read: nothing, of the same type."""
    if get_origin(kind) is Annotated:
        kind = get_args(kind)[0]
    if isinstance(kind, UnionType):
        return None
    if _is_struct(kind):
        required = [field for field in msgspec.structs.fields(kind) if field.required]
        return kind(**{field.name: _stand_in(field.type) for field in required})
    return (get_origin(kind) or kind)()


def _decode(kind: type, raw: Any) -> Any:
    if kind is Duration and isinstance(raw, str):
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
"""What msgspec's names of types are to someone who writes a file."""


def _in_words(error: str, path: str) -> str:
    """What msgspec says, with the place first: `Expected `int`, got `str` - at `$.profiles[0]`."""
    what, _, where = error.partition(" - at ")
    place = (path + where.strip("`$")).lstrip(".")
    what = re.sub(r"`([a-z]+)( \| null)?`", lambda name: WORDS.get(name[1], name[0]), what)
    return f"{place}: {what[0].lower()}{what[1:]}" if place else what


def without_nulls(raw: Any) -> Any:
    """A field that is null is one that isn't given. ConfigError when the file is part of itself."""
    try:
        return _without_nulls(raw)
    except RecursionError as error:
        raise ConfigError(["it is nested too deeply, or contains itself"]) from error


def _without_nulls(raw: Any) -> Any:
    if isinstance(raw, dict):
        return {str(name): _without_nulls(value) for name, value in raw.items() if value is not None}
    return [_without_nulls(each) for each in raw] if isinstance(raw, list) else raw


def wrong_head(raw: Any, kind: str, path: str = "") -> Iterator[str]:
    """What is wrong with apiVersion and kind, where they are given."""
    for name, expected in (("apiVersion", VERSION), ("kind", kind)):
        if (found := raw.get(name, expected)) != expected:
            yield f"{path}{name}: is {found!r}, not {expected}"


# --- checks ---------------------------------------------------------------------------------------------


def not_between(place: str, number: int, lowest: int, highest: int) -> Iterator[str]:
    """A number that is out of its range."""
    if not lowest <= number <= highest:
        yield f"{place}: {number} is not between {lowest} and {highest}"


def not_among(place: str, word: str, words: Iterable[str]) -> Iterator[str]:
    """A word that isn't one of those that there are."""
    if word not in words:
        yield f"{place}: {word!r} is not one of {', '.join(words)}" if word else f"{place}: is missing"


_NAME = "[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?"
_DOMAIN = "(?=.{1,253}/)[a-z0-9]([-a-z0-9]*[a-z0-9])?([.][a-z0-9]([-a-z0-9]*[a-z0-9])?)*"


def no_label_key(place: str, text: str) -> Iterator[str]:
    """What can't be a label's key, such as `example.com/name` or `name` (validation.IsQualifiedName)."""
    if not re.fullmatch(f"({_DOMAIN}/)?{_NAME}", text):
        yield f"{place}: {text!r} is not a valid name, such as example.com/name or name"


def no_label_value(place: str, text: str) -> Iterator[str]:
    """What can't be a label's value (validation.IsValidLabelValue)."""
    if text and not re.fullmatch(_NAME, text):
        yield f"{place}: no label has the value {text!r}"
