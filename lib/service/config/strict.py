"""What the parts of a configuration file have in common: an unknown field is an error, as are some values."""

import re
from collections.abc import Iterable, Iterator

import msgspec

VERSION = "kubescheduler.config.k8s.io/v1"


class Duration(float):
    """Seconds, written as in Go: "5s", "1m30s", "100ms"."""


class Strict(msgspec.Struct, rename="camel", forbid_unknown_fields=True, kw_only=True):
    """Base of all parts: an unknown field is an error."""


def not_between(place: str, number: int, lowest: int, highest: int) -> Iterator[str]:
    """The problem of a number that is out of range."""
    if not lowest <= number <= highest:
        yield f"{place}: {number} is not between {lowest} and {highest}"


def not_among(place: str, word: str, words: Iterable[str]) -> Iterator[str]:
    """The problem of a word that isn't one of the allowed ones."""
    if word not in words:
        yield f"{place}: {word!r} is not one of {', '.join(words)}" if word else f"{place}: is missing"


_NAME = "[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?"
_DOMAIN = "(?=.{1,253}/)[a-z0-9]([-a-z0-9]*[a-z0-9])?([.][a-z0-9]([-a-z0-9]*[a-z0-9])?)*"


def no_label_key(place: str, text: str) -> Iterator[str]:
    """The problem of a label key that isn't like `example.com/name` or `name` (IsQualifiedName)."""
    if not re.fullmatch(f"({_DOMAIN}/)?{_NAME}", text):
        yield f"{place}: {text!r} is not a valid name, such as example.com/name or name"


def no_label_value(place: str, text: str) -> Iterator[str]:
    """The problem of an invalid label value (validation.IsValidLabelValue)."""
    if text and not re.fullmatch(_NAME, text):
        yield f"{place}: no label has the value {text!r}"
