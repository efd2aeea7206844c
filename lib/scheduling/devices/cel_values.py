"""Values of CEL expressions that Python doesn't have: quantities, versions, optional values.

Source: k8s.io/apiserver/pkg/cel (quantity.go, semver.go) and library/semverlib.go; semver.org
"""

import re
from dataclasses import dataclass, field
from functools import total_ordering
from typing import Any

from lib.kube.quantity import Quantity


class CelError(Exception):
    """An expression has no value. The text is cel-go's."""


@dataclass(frozen=True, order=True)
class CelQuantity:
    """A quantity, in billionths of its unit.

    is_decimal: whether it is a fraction of a power of two, as 1.5Gi: Kubernetes takes that for no integer.
    """

    nano: int
    is_decimal: bool = field(default=False, compare=False)

    @classmethod
    def parse(cls, text: str) -> "CelQuantity":
        """CelError if that is no quantity."""
        try:
            return cls(int(Quantity.parse(text)), "." in text and text.endswith("i"))
        except ValueError:
            raise CelError(
                "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
            ) from None

    @property
    def is_integer(self) -> bool:
        """Whether it is a whole number that fits into 64 bits."""
        return not self.is_decimal and self.nano % 10**9 == 0 and abs(self.nano) <= (2**63 - 1) * 10**9


SEMVER = re.compile(
    r"(0|[1-9]\d*)\.(0|[1-9]\d*)\.(0|[1-9]\d*)"
    r"(?:-((?:0|[1-9]\d*|\d*[a-zA-Z-][0-9a-zA-Z-]*)(?:\.(?:0|[1-9]\d*|\d*[a-zA-Z-][0-9a-zA-Z-]*))*))?"
    r"(?:\+([0-9a-zA-Z-]+(?:\.[0-9a-zA-Z-]+)*))?",
    re.ASCII,
)


@total_ordering
@dataclass(frozen=True)
class CelSemver:
    """A version: compared without its build."""

    major: int
    minor: int
    patch: int
    pre: tuple[tuple[int, int, str], ...] = ()

    @classmethod
    def parse(cls, text: str, *, normalize: bool = False) -> "CelSemver":
        """CelError if that is no version. normalize: also "v1.02", as semver.ParseTolerant does."""
        if normalize:
            text = _normalized(text)
        found = SEMVER.fullmatch(text)
        if not found:
            raise CelError(_why_no_version(text))
        pre = tuple(
            (0, int(each), "") if each.isdigit() else (1, 0, each)
            for each in (found[4].split(".") if found[4] else ())
        )
        return cls(int(found[1]), int(found[2]), int(found[3]), pre)

    def __lt__(self, other: "CelSemver") -> bool:
        """A version before a release comes before it."""
        mine, others = (
            (each.major, each.minor, each.patch, not each.pre, each.pre) for each in (self, other)
        )
        return mine < others


def _normalized(text: str) -> str:
    text = text.strip().removeprefix("v")
    core, sep, rest = re.match(r"([^-+]*)([-+]?)(.*)", text, re.DOTALL).groups()  # type: ignore[union-attr]
    parts = [each.lstrip("0") or "0" if each else each for each in core.split(".")]
    parts += ["0"] * (3 - len(parts))
    return ".".join(parts) + sep + rest


def _why_no_version(text: str) -> str:
    if not text:
        return "Version string empty"
    if text.count(".") < 2:
        return "No Major.Minor.Patch elements found"
    return f"invalid version {text!r}"


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
