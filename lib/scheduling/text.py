"""Names and amounts as text for people."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from lib.kube.objects import Pod, Requirement, Taint

BYTES = ("memory", "ephemeral-storage", "hugepages-", "storage")
"""Prefixes of resources that are counted in bytes."""

_UNITS = (("Ei", 2**60), ("Pi", 2**50), ("Ti", 2**40), ("Gi", 2**30), ("Mi", 2**20), ("Ki", 2**10))


class Line(str):
    """A detail in words. numbers: the same for programs, with amounts in the scheduler's units."""

    numbers: Mapping[str, Any]

    def __new__(cls, words: str, **numbers: Any) -> "Line":
        """The words, and the numbers."""
        line = super().__new__(cls, words)
        line.numbers = numbers
        return line


def is_bytes(resource: str) -> bool:
    """Whether a resource is counted in bytes."""
    return resource.startswith(BYTES)


def amount(resource: str, value: int) -> str:
    """An amount in the scheduler's units (cpu in thousandths) as a quantity, never rounded up.

    Bytes have one digit after the point, rounded down: 2.9Gi.
    """
    if resource == "cpu":
        return str(value // 1000) if value % 1000 == 0 else f"{value}m"
    if is_bytes(resource):
        for unit, size in _UNITS:
            if abs(value) >= size:
                tenths = abs(value) * 10 // size
                sign = "-" if value < 0 else ""
                return f"{sign}{tenths // 10}{f'.{tenths % 10}' if tenths % 10 else ''}{unit}"
    return str(value)


def exact_amount(resource: str, value: int) -> str:
    """An amount in the scheduler's units as the shortest exact quantity: 2900Mi."""
    if is_bytes(resource):
        for unit, size in _UNITS:
            if value and value % size == 0:
                return f"{value // size}{unit}"
        return str(value)
    return amount(resource, value)


def names(some: Sequence[str], most: int = 5) -> str:
    """Names in a row; of many names, the first ones and the number of the others."""
    if len(some) <= most:
        return ", ".join(some)
    return f"{', '.join(some[: most - 1])} and {len(some) - most + 1} more"


def count(number: int, thing: str, things: str = "") -> str:
    """`1 node`, `2 nodes`."""
    return f"{number:,} {thing if number == 1 else things or thing + 's'}"


def sentence(text: str) -> str:
    """The text, with one mark at its end: a full stop, unless it has a mark of its own."""
    text = text.rstrip(" .")
    return text if text.endswith(("!", "?", "…")) else f"{text}."


def verb(number: int, one: str, many: str) -> str:
    """The form of a verb for this number of things."""
    return one if number == 1 else many


def taint_text(taint: Taint) -> str:
    """A taint as kubectl writes it: key=value:Effect."""
    value = f"={taint.value}" if taint.value else ""
    return f"{taint.key}{value}:{taint.effect}"


def labels_text(labels: Mapping[str, str]) -> str:
    """Labels as kubectl writes them."""
    return ",".join(f"{key}={value}" for key, value in labels.items())


def listed(things: Iterable[str]) -> str:
    """`a, b and c`; "" for nothing."""
    *most, last = [*things] or [""]
    return f"{', '.join(most)} and {last}" if most else last


def requirement_text(requirement: Requirement) -> str:
    """`zone In [a, b]`."""
    values = f" [{', '.join(requirement.values)}]" if requirement.values else ""
    return f"{requirement.key} {requirement.operator}{values}"


def pods_text(pods: Iterable[Pod]) -> str:
    """Pods by their names; if there are many, only some of them."""
    return names([str(pod) for pod in pods])
