"""Kubernetes quantities: "500m", "2Gi", "3e9" as exact integers.

The grammar is that of k8s.io/apimachinery/pkg/api/resource/quantity.go.
"""

import re
from functools import lru_cache

_NANO = 10**9
_LARGEST = (2**63 - 1) * _NANO
_DECIMAL = {"n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_BINARY = {"Ki": 2**10, "Mi": 2**20, "Gi": 2**30, "Ti": 2**40, "Pi": 2**50, "Ei": 2**60}
_FORM = re.compile(
    r"(?P<sign>[+-]?)(?=\.?[0-9])(?P<whole>[0-9]*)\.?(?P<part>[0-9]*)"
    r"(?:(?P<suffix>[KMGTPE]i|[numkMGTPE]?)|[eE](?P<exponent>[+-]?[0-9]+))",
)


class Quantity(int):
    """An exact amount in billionths of its unit, the smallest step that Kubernetes keeps."""

    __slots__ = ()

    @staticmethod
    @lru_cache(maxsize=4096)
    def parse(text: str) -> "Quantity":
        """Parse a quantity as the API writes it; ValueError when it is invalid.

        As in Kubernetes, the amount is rounded away from zero to billionths, and is 2**63-1 at most.
        """
        return Quantity(_nano(text))

    @property
    def milli(self) -> int:
        """In thousandths, rounded up: the unit of cpu (Quantity.MilliValue)."""
        return -(-self // 10**6)

    @property
    def value(self) -> int:
        """In whole units, rounded up: the unit of all other resources (Quantity.Value)."""
        return -(-self // _NANO)


def _nano(text: str) -> int:
    match = _FORM.fullmatch(text)
    if not match:
        raise ValueError(f"not a quantity: {text!r}")
    digits = int(match["whole"] + match["part"])
    suffix = match["suffix"] or ""
    multiplier = _BINARY.get(suffix, 1)
    power = int(match["exponent"] or _DECIMAL.get(suffix, 0)) - len(match["part"]) + 9
    # Above 40 the result overflows and below -400 it is 0, whatever the digits: no need to compute it.
    power = max(min(power, 40), -400 - len(text))
    amount: int = digits * multiplier * 10 ** max(power, 0)
    amount = min(-(-amount // 10 ** max(-power, 0)), _LARGEST)
    return -amount if match["sign"] == "-" else amount


def canonical(text: str) -> str:
    """A quantity as the API server writes it: 0.5 is 500m, 1024Ki is 1Mi, 1e3 stays (CanonicalizeBytes).

    ValueError when it is invalid.
    """
    amount, match = Quantity.parse(text), _FORM.fullmatch(text)
    assert match
    sign, left = "-" if amount < 0 else "", abs(int(amount))
    if (match["suffix"] or "") in _BINARY and left >= 1024 * _NANO:
        whole, power = -(-left // _NANO), 0
        while whole % 1024 == 0 and power < len(_BINARY):
            whole, power = whole // 1024, power + 1
        return f"{sign}{whole}{['', *_BINARY][power]}"
    power = -9
    while left and left % 1000 == 0 and power < 18:
        left, power = left // 1000, power + 3
    if match["exponent"] is not None:
        return f"{sign}{left}e{power}" if left and power else f"{sign}{left}"
    suffixes = {power: suffix for suffix, power in _DECIMAL.items()}
    return f"{sign}{left}{suffixes[power]}" if left else "0"
