"""Whom the loop waits for when it looks something up."""

import time
from collections.abc import Iterator
from math import inf
from threading import Event
from typing import Any

import pytest
from cluster import eventually
from later import Later

from lib.kube.errors import ApiError, UnreachableError
from lib.kube.lookup import MAX_AGE, PATIENCE, Lookup, PendingError


class Slow:
    """Looks up anything at once, but what begins with "bad": that fails when it may go on.

    settings: of the lookup. looked_up: the keys, in order.
    """

    def __init__(self, **settings: Any) -> None:
        self.go_on, self.machine = Event(), Later()
        self.machine.monotonic = lambda: self.machine.seconds  # no other time passes
        self.looked_up: list[str] = []
        self.lookup = Lookup("test", self.find, system=self.machine, **settings)

    def find(self, key: str) -> str:
        self.looked_up.append(key)
        if key.startswith("bad"):
            self.go_on.wait(20)
            raise ApiError("no")
        if key == "away":
            raise UnreachableError("nothing answers")
        return key

    def ask(self, *keys: str, seconds: float) -> float:
        """Returns for how long it was waited."""
        began = time.monotonic()
        self.lookup.begin(keys)
        self.lookup.wait(self.machine.monotonic() + seconds)
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


def test_what_comes_at_once_is_not_waited_for_longer(slow: Slow) -> None:
    assert slow.ask("good", seconds=10) < 5
    assert slow.lookup.of("good") == "good"


def test_others_are_looked_up_beside_one_that_hangs() -> None:
    slow = Slow(threads=2)
    slow.ask("bad-1", "good", seconds=0.05)
    slow.ask("bad-1", "good", seconds=0.05)
    assert slow.looked_up == ["bad-1"]  # its answer may still come in time
    slow.machine.seconds += PATIENCE + 0.1
    slow.ask("bad-1", "good", "bad-2", seconds=0.05)
    eventually(lambda: slow.looked_up == ["bad-1", "good", "bad-2"])
    slow.ask(seconds=0)
    assert slow.lookup.of("good") == "good"
    slow.machine.seconds += PATIENCE + 0.1
    slow.ask("bad-1", "good", "bad-2", "third", seconds=0.05)  # there are two threads at most
    time.sleep(0.1)
    assert slow.looked_up == ["bad-1", "good", "bad-2"]
    slow.go_on.set()


@pytest.mark.parametrize(("age", "looked_up"), [(MAX_AGE / 2, 1), (MAX_AGE + 1, 2)])
def test_answers_are_taken_late_unless_they_are_out_of_date(age: float, looked_up: int) -> None:
    slow = Slow()
    slow.lookup.begin(["good"])
    assert slow.lookup._batch
    eventually(lambda batch=slow.lookup._batch: batch.has_ended)
    slow.machine.seconds += age
    slow.ask("good", seconds=10)
    assert slow.lookup.of("good") == "good"
    assert slow.looked_up == ["good"] * looked_up


def test_when_nothing_answers_nothing_more_is_looked_up(slow: Slow) -> None:
    slow.lookup.begin(["away", "good"])
    with pytest.raises(UnreachableError):
        slow.lookup.wait(inf)
    assert slow.looked_up == ["away"]


def test_so_many_answers_are_kept() -> None:
    slow = Slow(keep=2)
    for keys in (["a"], ["b"], ["a"], ["c"], ["b", "c"], ["a"]):
        slow.ask(*keys, seconds=10)
        assert [slow.lookup.of(key) for key in keys] == keys
    assert slow.looked_up == ["a", "b", "c", "a"]


def test_the_only_tick_waits_for_all(slow: Slow) -> None:
    slow.fail("bad")
    slow.go_on.set()
    slow.ask("bad", seconds=inf)
    assert str(slow.lookup.of("bad")) == "no"
