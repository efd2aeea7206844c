"""What /statusz and /flagz say."""

from datetime import UTC, datetime, timedelta
from enum import Enum
from pathlib import Path

import pytest

from lib.service.telemetry.observer import Address
from lib.service.telemetry.zpages import flagz, statusz

BEGAN = datetime(2026, 1, 1, 9, 5, 7, tzinfo=UTC)


class Way(Enum):
    POLL = "poll"


@pytest.mark.parametrize(
    ("up", "said"),
    [
        (timedelta(seconds=7.9), "0 hr 00 min 07 sec"),
        (timedelta(minutes=59, seconds=59), "0 hr 59 min 59 sec"),
        (timedelta(hours=1), "1 hr 00 min 00 sec"),
        (timedelta(days=4, hours=4, minutes=5), "100 hr 05 min 00 sec"),
    ],
)
def test_how_long_it_has_been_up(up: timedelta, said: str) -> None:
    _, text = statusz(BEGAN, BEGAN + up, ["/readyz", "/livez"])
    assert f"\nUp: {said}\n" in text
    assert "\nStarted: Thu Jan 01 09:05:07 UTC 2026\n" in text
    assert "\nPaths: /livez /readyz\n" in text


@pytest.mark.parametrize(
    ("value", "said"),
    [
        (None, ""),
        (True, "true"),
        (1.0, "1"),
        (0.25, "0.25"),
        (["a", "b"], "[a,b]"),
        (Address("::1", 80), "[::1]:80"),
        (Path("x.yaml"), "x.yaml"),
        (Way.POLL, "poll"),
    ],
)
def test_an_option_is_written_as_go_writes_it(value: object, said: str) -> None:
    _, text = flagz({"interval": value, "alone": 3})
    assert text.endswith(f"\nalone=3\ninterval={said}\n")
