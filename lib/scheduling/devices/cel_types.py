"""Types of CEL expressions: which can take the place of which.

Source: github.com/google/cel-go, checker/types.go, format.go and mapping.go
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

PARAMETER = re.compile(r"[A-Z]|_var\d+")
NULLABLE = ("optional_type", "timestamp", "duration", "any", "net.IP", "net.CIDR")
"""Null can take the place of these types, and of Kubernetes' own."""


@dataclass(frozen=True)
class Type:
    """A type, by its name and parameters: list(int) is Type("list", (Type("int"),))."""

    name: str
    parameters: tuple["Type", ...] = ()

    def __str__(self) -> str:
        """As cel-go's errors have it."""
        if not self.parameters:
            return "!error!" if self.name == "error" else self.name
        return f"{self.name}({', '.join(map(str, self.parameters))})"

    @property
    def is_parameter(self) -> bool:
        """Whether any type can take its place."""
        return PARAMETER.fullmatch(self.name) is not None

    @property
    def is_dynamic(self) -> bool:
        """Whether it is known at run time only."""
        return self.name in ("dyn", "any")

    @property
    def is_unknown(self) -> bool:
        """Whether it is dynamic, or comes from an error that was reported already."""
        return self.is_dynamic or self.name == "error"

    @property
    def is_nullable(self) -> bool:
        """Whether null is one of its values."""
        return self.name in NULLABLE or self.name.startswith("kubernetes.")

    @property
    def element(self) -> "Type":
        """Of an optional type, the type of its value; else the type itself."""
        return self.parameters[0] if self.name == "optional_type" else self


Substitutions = Mapping[Type, Type]
"""By a type's parameter: what stands for it."""

DYN, ERROR, BOOL, INT, STRING = (Type(name) for name in ("dyn", "error", "bool", "int", "string"))


@lru_cache(maxsize=1000)
def parsed(text: str) -> Type:
    """The type of this text, such as map(string, list(A))."""
    name, _, inner = text.strip().partition("(")
    return Type(name, tuple(map(parsed, _split(inner.removesuffix(")")))) if inner else ())


def parsed_list(text: str) -> tuple[Type, ...]:
    """The types of this text, with commas between them."""
    return tuple(map(parsed, _split(text)))


def _split(text: str) -> Iterator[str]:
    depth = start = 0
    for at, letter in enumerate(text):
        depth += {"(": 1, ")": -1}.get(letter, 0)
        if letter == "," and not depth:
            yield text[start:at]
            start = at + 1
    if text[start:].strip():
        yield text[start:]


def substituted(known: Substitutions, of: Type, *, to_dyn: bool = False) -> Type:
    """The type with what is known of its parameters. to_dyn: whether the others become `dyn`."""
    if of in known:
        return substituted(known, known[of], to_dyn=to_dyn)
    if of.is_parameter and to_dyn:
        return DYN
    return Type(of.name, tuple(substituted(known, each, to_dyn=to_dyn) for each in of.parameters))


def unified(known: Substitutions, left: Sequence[Type], right: Sequence[Type]) -> dict[Type, Type] | None:
    """What is known then of parameters, if each type on the right can take those on the left; else None."""
    found = dict(known)
    return found if _all_assignable(found, left, right) else None


def _all_assignable(known: dict[Type, Type], left: Sequence[Type], right: Sequence[Type]) -> bool:
    return len(left) == len(right) and all(
        _assignable(known, one, other) for one, other in zip(left, right, strict=True)
    )


def _assignable(known: dict[Type, Type], left: Type, right: Type) -> bool:
    if right.is_parameter:
        fits, is_known = _stands_for(known, left, right)
        if fits or is_known:
            return fits
    if left.is_parameter:
        return _stands_for(known, right, left)[0]
    if left.is_unknown or right.is_unknown:
        return True
    for one, other in ((left, right), (right, left)):
        if one.name == "null":
            return other.is_nullable or other.name == "null"
    if left.name == right.name == "type":
        return True
    return left.name == right.name and _all_assignable(known, left.parameters, right.parameters)


def _stands_for(known: dict[Type, Type], type_: Type, parameter: Type) -> tuple[bool, bool]:
    """Whether a type can stand for a parameter, and whether something does so already."""
    if type_ == parameter:
        return True, True
    if (now := known.get(parameter)) is not None:
        if type_ == now:
            return True, True
        if not _assignable(known, type_, now):
            return False, True
        most = most_general(type_, now)
        if not _occurs(known, parameter, most):
            known[parameter] = most
        return True, True
    if _occurs(known, parameter, type_):
        return False, False
    known[parameter] = type_
    return True, False


def _occurs(known: Substitutions, parameter: Type, within: Type) -> bool:
    if parameter == within:
        return True
    if within.is_parameter:
        return within in known and _occurs(known, parameter, known[within])
    return any(_occurs(known, parameter, each) for each in within.parameters)


def most_general(one: Type, other: Type) -> Type:
    """Of two types that suit each other, the one that says less."""
    return one if _says_less(one, other) else other


def _says_less(one: Type, other: Type) -> bool:
    if one.is_dynamic or one.is_parameter:
        return True
    if other.is_dynamic or other.is_parameter or one.name != other.name:
        return False
    return one.name == "type" or all(map(_says_less, one.parameters, other.parameters))
