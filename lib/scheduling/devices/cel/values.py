"""Values of CEL expressions that Python doesn't have: quantities, versions, networks, optional values.

Source: k8s.io/apiserver/pkg/cel (quantity.go, semver.go) and library/semverlib.go; semver.org
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from ipaddress import IPv4Address, IPv4Interface, IPv6Address, IPv6Interface
from typing import Any
from urllib.parse import SplitResult

from lib.kube.quantity import Quantity


class CelError(Exception):
    """An expression has no value. The text is cel-go's."""


class EndError(CelError):
    """The evaluation has ended, as it would take too many steps. No operator passes over this error."""

    def __init__(self, why: str = "operation cancelled: actual cost limit exceeded") -> None:
        super().__init__(why)


QUANTITY = re.compile(r"[+-]?[0-9]*(\.[0-9]*)?[eEinumkKMGTP]*[-+]?[0-9]*")


@dataclass(frozen=True, order=True)
class CelQuantity:
    """A quantity, in billionths of its unit.

    is_decimal: whether Kubernetes keeps it as a decimal, as 1.5Gi or 8Ei: it takes that for no integer.
    """

    nano: int
    is_decimal: bool = field(default=False, compare=False)

    @classmethod
    def parse(cls, text: str) -> "CelQuantity":
        """CelError if that is no quantity."""
        try:
            nano = int(Quantity.parse(text))
        except ValueError:
            if text and QUANTITY.fullmatch(text):
                raise CelError("unable to parse quantity's suffix") from None
            raise CelError(
                "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
            ) from None
        is_fraction = "." in text and text.endswith("i")
        return cls(nano, is_fraction or abs(nano) >= LARGEST or _has_many_digits(text))

    @property
    def is_integer(self) -> bool:
        """Whether it is a whole number that fits into 64 bits."""
        return not self.is_decimal and self.nano % 10**9 == 0 and abs(self.nano) <= LARGEST


LARGEST = (2**63 - 1) * 10**9


def _has_many_digits(text: str) -> bool:
    """Whether there are more digits than Kubernetes puts into an integer."""
    return sum(letter.isdigit() for letter in text.rstrip("EeKMGTPikmun")) > 18


@dataclass(frozen=True, order=True)
class CelSemver:
    """A version: compared without its build. What comes before a release (pre) is less than it."""

    major: int
    minor: int
    patch: int
    is_release: bool
    pre: tuple[tuple[int, int, str], ...]

    @classmethod
    def parse(cls, text: str, *, normalize: bool = False) -> "CelSemver":
        """CelError if that is no version. normalize: also "v1.02"."""
        if normalize:
            text = _normalized(text)
        if not text:
            raise CelError("Version string empty")
        parts = text.split(".", 2)
        if len(parts) != 3:
            raise CelError("No Major.Minor.Patch elements found")
        patch, _, build = parts[2].partition("+")
        patch, _, pre = patch.partition("-")
        major, minor, patch_number = map(_version_part, PARTS, (*parts[:2], patch))
        has_pre = "-" in parts[2].partition("+")[0]
        found = tuple(map(_pre_release, pre.split("."))) if has_pre else ()
        for identifier in build.split(".") if "+" in parts[2] else ():
            if not identifier:
                raise CelError("Build meta data is empty")
            if not IDENTIFIER.fullmatch(identifier):
                raise CelError(f"Invalid character(s) found in build meta data {quoted(identifier)}")
        return cls(major, minor, patch_number, not found, found)


PARTS = ("major", "minor", "patch")
IDENTIFIER = re.compile(r"[0-9A-Za-z-]+")


def _version_part(name: str, text: str) -> int:
    if not re.fullmatch("[0-9]*", text):
        raise CelError(f"Invalid character(s) found in {name} number {quoted(text)}")
    if len(text) > 1 and text.startswith("0"):
        raise CelError(f"{name.capitalize()} number must not contain leading zeroes {quoted(text)}")
    if not text:
        raise CelError('strconv.ParseUint: parsing "": invalid syntax')
    if int(text) >= 1 << 64:
        raise CelError(f"strconv.ParseUint: parsing {quoted(text)}: value out of range")
    return int(text)


def _pre_release(text: str) -> tuple[int, int, str]:
    """Numbers come before words."""
    if not text:
        raise CelError("Prerelease is empty")
    if re.fullmatch("[0-9]+", text):
        if len(text) > 1 and text.startswith("0"):
            raise CelError(f"Numeric PreRelease version must not contain leading zeroes {quoted(text)}")
        return 0, int(text), ""
    if not IDENTIFIER.fullmatch(text):
        raise CelError(f"Invalid character(s) found in prerelease {quoted(text)}")
    return 1, 0, text


def _normalized(text: str) -> str:
    parts = text.removeprefix("v").split(".", 2)
    for at, part in enumerate(parts):
        if len(part) > 1:
            short = part.lstrip("0")
            parts[at] = short if short[:1].isdigit() else f"0{short}"
    if len(parts) < 3:
        if "+" in parts[-1] or "-" in parts[-1]:
            raise CelError("Short version cannot contain PreRelease/Build meta data")
        parts += ["0"] * (3 - len(parts))
    return ".".join(parts)


def quoted(text: str) -> str:
    """A text in quotes, as Go writes it."""
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


@dataclass(frozen=True)
class Optional:
    """A value that may be missing."""

    value: Any = None
    is_there: bool = False

    @classmethod
    def of(cls, value: Any) -> "Optional":
        """One that is there."""
        return cls(value, True)


NONE = Optional()


class Unsigned(int):
    """A CEL uint: another type than int."""


class AttributeDomains(dict[str, Any]):
    """A map in which each key has a value if it is asked for by index: an empty map, if there is none."""


@dataclass(frozen=True)
class NamedFormat:
    """A form that a text can have. pattern_size: what a check is said to cost; problems: what is wrong."""

    name: str
    pattern_size: int
    problems: Callable[[str], list[str]]


@dataclass(frozen=True)
class TypeValue:
    """A type, as a value."""

    name: str


Address = IPv4Address | IPv6Address

Cidr = IPv4Interface | IPv6Interface
"""A network, and an address in it. It is an `Address`, too."""

TYPES: Mapping[type, str] = {
    bool: "bool",
    Unsigned: "uint",
    int: "int",
    float: "double",
    str: "string",
    bytes: "bytes",
    list: "list",
    dict: "map",
    AttributeDomains: "map",
    type(None): "null_type",
    timedelta: "google.protobuf.Duration",
    datetime: "google.protobuf.Timestamp",
    CelQuantity: "kubernetes.Quantity",
    CelSemver: "kubernetes.Semver",
    SplitResult: "kubernetes.URL",
    NamedFormat: "kubernetes.NamedFormat",
    IPv4Address: "net.IP",
    IPv6Address: "net.IP",
    IPv4Interface: "net.CIDR",
    IPv6Interface: "net.CIDR",
    Optional: "optional_type",
    TypeValue: "type",
}


def type_name(value: Any) -> str:
    """CEL's name of a value's type."""
    return TYPES[type(value)]


def key_of(value: Any) -> Any:
    """A map's key: numbers of all types are alike, but true isn't 1."""
    if isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "bool", value
    if isinstance(value, list | dict):  # no map has such a key
        return type(value), id(value)
    return value if isinstance(value, int | float) or value is None else (type(value), str(value))


def key_value(key: Any) -> Any:
    """The value whose key that is: the text of one that is no number, text or bool."""
    return key[1] if isinstance(key, tuple) else key
