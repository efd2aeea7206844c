"""The arguments of plugins, as a configuration file has them; each plugin's are beside it.

Source: k8s.io/kube-scheduler/config/v1/types_pluginargs.go; in pkg/scheduler/apis/config, v1/defaults.go and
validation/validation_pluginargs.go
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Any

import msgspec
from msgspec.structs import asdict

VERSION = "kubescheduler.config.k8s.io/v1"


class Duration(float):
    """Seconds, written as in Go: "5s", "1m30s", "100ms"."""


class Strict(msgspec.Struct, rename="camel", forbid_unknown_fields=True, kw_only=True):
    """Base of all parts: an unknown field is an error."""


class Args(Strict):
    """Base of the arguments of a plugin, which names their type as `args`."""

    api_version: str = VERSION
    kind: str = ""

    def problems(self, path: str) -> Iterator[str]:
        """A line for each invalid field: `PATH: why`."""
        raise NotImplementedError

    def for_plugin(self) -> dict[str, Any]:
        """The arguments of the plugin's constructor; by default they have the same names."""
        fields = asdict(self)
        return {name: fields[name] for name in fields if name not in ("api_version", "kind")}


class ResourceSpec(Strict):
    """A resource that is scored, and its weight."""

    name: str
    weight: int = 1

    def __post_init__(self) -> None:
        self.weight = self.weight or 1


CPU_AND_MEMORY = (ResourceSpec(name="cpu"), ResourceSpec(name="memory"))


class UtilizationShapePoint(Strict):
    """The score (0 to 10) of a resource at a utilization (0 to 100)."""

    utilization: int = 0
    score: int = 0


# --- checks ---------------------------------------------------------------------------------------------


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
