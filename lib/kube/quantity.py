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
    """An exact amount, counted in billionths of its unit: the finest step Kubernetes keeps."""

    __slots__ = ()

    @classmethod
    def parse(cls, text: str) -> "Quantity":
        """Read a quantity as the API writes it; ValueError when it is none.

        What is finer than a billionth is rounded away from zero, what is larger than 2**63-1 is cut
        to that, both as Kubernetes does.
        """
        return cls(_nano(text))

    @property
    def milli(self) -> int:
        """Thousandths, rounded up: what cpu is counted in (Quantity.MilliValue)."""
        return -(-self // 10**6)

    @property
    def value(self) -> int:
        """Whole units, rounded up: what everything else is counted in (Quantity.Value)."""
        return -(-self // _NANO)


@lru_cache(maxsize=4096)
def _nano(text: str) -> int:
    match = _FORM.fullmatch(text)
    if not match:
        raise ValueError(f"not a quantity: {text!r}")
    digits = int(match["whole"] + match["part"])
    suffix = match["suffix"] or ""
    multiplier = _BINARY.get(suffix, 1)
    power = int(match["exponent"] or _DECIMAL.get(suffix, 0)) - len(match["part"]) + 9
    # A power beyond 40 overflows and one beneath -400 vanishes whatever the digits: no need to compute it.
    power = max(min(power, 40), -400 - len(text))
    amount: int = digits * multiplier * 10 ** max(power, 0)
    amount = min(-(-amount // 10 ** max(-power, 0)), _LARGEST)
    return -amount if match["sign"] == "-" else amount
