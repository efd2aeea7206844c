"""Whom the loop waits for when it looks something up."""

import time
from collections.abc import Iterator
from math import inf
from threading import Event

import pytest

from lib.kube.errors import ApiError
from lib.kube.lookup import Lookup, PendingError


class Slow:
    """Looks up anything at once, but what begins with "bad": that fails when it may go on."""

    def __init__(self) -> None:
        self.go_on = Event()
        self.lookup = Lookup("test", self.find)

    def find(self, key: str) -> str:
        if key.startswith("bad"):
            self.go_on.wait(20)
            raise ApiError("no")
        return key

    def ask(self, *keys: str, seconds: float) -> float:
        """Returns for how long it was waited."""
        began = time.monotonic()
        self.lookup.begin(keys)
        self.lookup.wait(began + seconds)
        return time.monotonic() - began

    def fail(self, key: str) -> None:
        """Let a lookup fail once."""
        self.go_on.set()
        self.ask(key, seconds=inf)
        self.go_on.clear()


@pytest.fixture
def slow() -> Iterator[Slow]:
    slow = Slow()
    yield slow
    slow.go_on.set()


def test_a_new_lookup_is_waited_for(slow: Slow) -> None:
    assert slow.ask("bad", seconds=0.2) >= 0.2
    assert isinstance(slow.lookup.of("bad"), PendingError)


def test_what_failed_the_last_time_is_not_waited_for(slow: Slow) -> None:
    slow.fail("bad")
    assert slow.ask("bad", "good", seconds=10) < 5
    assert slow.lookup.of("good") == "good"
    assert isinstance(slow.lookup.of("bad"), PendingError)


def test_the_only_tick_waits_for_all(slow: Slow) -> None:
    slow.fail("bad")
    slow.go_on.set()
    slow.ask("bad", seconds=inf)
    assert str(slow.lookup.of("bad")) == "no"
