"""How fields of the configuration file are read, and what is said of those that are wrong."""

import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, TypeVar

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


def read(raw: Any, kind: type[T], path: str = "") -> T:
    """A part of the file, as what it is. ConfigError when it is something else.

    path: where it stands, as `profiles[0].pluginConfig[1].args`; the whole file has none.
    """
    try:
        return msgspec.convert(raw, type=kind, dec_hook=_decode)
    except msgspec.ValidationError as error:
        raise ConfigError([_in_words(str(error), path)]) from error


def _decode(kind: type, raw: Any) -> Any:
    if kind is Duration and isinstance(raw, str):
        return Duration(durationpy.from_str(raw).total_seconds())
    raise ValueError(f"{raw!r} is no {kind.__name__}, such as 5s")


WORDS = {
    "array": "a list",
    "bool": "true or false",
    "float": "a number",
    "int": "a whole number",
    "null": "nothing",
    "object": "fields with values",
    "str": "text",
}
"""What msgspec's names of types are to someone who writes a file."""


def _in_words(error: str, path: str) -> str:
    """What msgspec says, with the place first: `Expected `int`, got `str` - at `$.profiles[0]`."""
    what, _, where = error.partition(" - at ")
    place = (path + where.strip("`$")).lstrip(".")
    if field := re.fullmatch("Object (contains unknown|missing required) field `(.*)`", what):
        place = f"{place}.{field[2]}".lstrip(".")
        what = "there is no such field" if field[1] == "contains unknown" else "is missing"
    what = re.sub(r"`([a-z]+)( \| null)?`", lambda name: WORDS.get(name[1], name[0]), what)
    return f"{place}: {what[0].lower()}{what[1:]}" if place else what


def without_nulls(raw: Any) -> Any:
    """A field that is null is one that isn't given. ConfigError when the file is part of itself."""
    try:
        return _without_nulls(raw)
    except RecursionError as error:
        raise ConfigError(["it is nested too deep, or in itself"]) from error


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
        yield f"{place}: {word!r} is none of {', '.join(words)}" if word else f"{place}: is missing"


_NAME = "[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?"
_DOMAIN = "(?=.{1,253}/)[a-z0-9]([-a-z0-9]*[a-z0-9])?([.][a-z0-9]([-a-z0-9]*[a-z0-9])?)*"


def no_label_key(place: str, text: str) -> Iterator[str]:
    """What can't be a label's key, such as `example.com/name` or `name` (validation.IsQualifiedName)."""
    if not re.fullmatch(f"({_DOMAIN}/)?{_NAME}", text):
        yield f"{place}: {text!r} is no name such as example.com/name or name"


def no_label_value(place: str, text: str) -> Iterator[str]:
    """What can't be a label's value (validation.IsValidLabelValue)."""
    if text and not re.fullmatch(_NAME, text):
        yield f"{place}: no label has the value {text!r}"
