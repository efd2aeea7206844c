"""Quantities are read as Kubernetes reads them, and counted exactly."""

from contextlib import suppress
from fractions import Fraction

import pytest
from hypothesis import given, strategies as st

from lib.kube.quantity import Quantity

LARGEST = 2**63 - 1


@pytest.mark.parametrize(
    ("text", "milli", "value"),
    [
        ("0", 0, 0),
        ("1", 1000, 1),
        ("500m", 500, 1),  # half a core; a whole unit when units are counted, since both round up
        ("100m", 100, 1),
        ("1.5", 1500, 2),
        (".5", 500, 1),
        ("5.", 5000, 5),
        ("+2", 2000, 2),
        ("-1.5", -1500, -1),
        ("1k", 10**6, 1000),
        ("64Mi", 64 * 2**20 * 1000, 64 * 2**20),
        ("1.5Gi", 3 * 2**29 * 1000, 3 * 2**29),
        ("1E", 10**21, 10**18),  # exa
        ("1E3", 10**6, 1000),  # ten to the third
        ("3e9", 3 * 10**12, 3 * 10**9),
        ("12e-3", 12, 1),
        ("1u", 1, 1),
        ("1n", 1, 1),
        ("0.1n", 1, 1),  # finer than the finest step: rounded up to it
        ("1e-400", 1, 1),
        ("10Ei", LARGEST * 1000, LARGEST),  # beyond what an int64 holds: cut to that
        ("9e99999999", LARGEST * 1000, LARGEST),
    ],
)
def test_a_quantity_counts(text: str, milli: int, value: int) -> None:
    assert (Quantity.parse(text).milli, Quantity.parse(text).value) == (milli, value)


@pytest.mark.parametrize(
    "text",
    ["", ".", "m", "Gi", "1 ", " 1", "1KI", "1i", "1e", "--1", "1,5", "1_0", "0x10", "NaN", "inf", "\u0661"],
)
def test_what_is_no_quantity_is_refused_by_name(text: str) -> None:
    with pytest.raises(ValueError, match="not a quantity"):
        Quantity.parse(text)


SUFFIXES = {
    "": 1,
    "m": Fraction(1, 1000),
    "k": 1000,
    "M": 10**6,
    "Ki": 1024,
    "Mi": 2**20,
    "e3": 1000,
    "E-2": Fraction(1, 100),
}


@given(st.integers(-(10**9), 10**9), st.integers(0, 999), st.sampled_from(sorted(SUFFIXES)))
def test_a_quantity_is_exact(whole: int, thousandths: int, suffix: str) -> None:
    exact = Fraction(f"{whole}.{thousandths:03}") * SUFFIXES[suffix]
    assert Quantity.parse(f"{whole}.{thousandths:03}{suffix}") == exact * 10**9


@given(st.text(alphabet="0123456789.+-eEKMGTPnumki", max_size=12))
def test_no_text_leads_to_anything_but_a_number_or_a_value_error(text: str) -> None:
    with suppress(ValueError):
        assert abs(Quantity.parse(text).value) <= LARGEST
