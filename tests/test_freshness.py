"""Lists that are older than what was seen before."""

import pytest

from lib.kube.errors import StaleListError
from lib.kube.freshness import LONGEST_LAG, Freshness
from lib.kube.system import System

PODS = "/api/v1/pods"


class Clock(System):
    def __init__(self) -> None:
        self.seconds = 0.0
        self.monotonic = lambda: self.seconds


def test_a_list_that_is_older_than_one_before_is_refused() -> None:
    freshness = Freshness(Clock())
    freshness.check(PODS, "99")
    freshness.check(PODS, "100")
    freshness.check(PODS, "100")
    with pytest.raises(StaleListError, match=r"GET /api/v1/pods: .* version 99, but 100 was seen"):
        freshness.check(PODS, "99")


def test_a_list_that_is_older_than_a_watch_is_refused() -> None:
    freshness = Freshness(Clock())
    freshness.note(PODS, "100")
    with pytest.raises(StaleListError):
        freshness.check("/api/v1/namespaces/default/pods", "99")


@pytest.mark.parametrize(("path", "version"), [("/api/v1/nodes", "5"), (PODS, ""), (PODS, "opaque")])
def test_what_cannot_be_compared_is_taken(path: str, version: str) -> None:
    freshness = Freshness(Clock())
    freshness.check(PODS, "100")
    freshness.check(path, version)


def test_a_cluster_that_was_restored_is_believed_after_a_while() -> None:
    clock = Clock()
    freshness = Freshness(clock)
    freshness.check(PODS, "100")
    for clock.seconds in (0.0, LONGEST_LAG - 1):
        with pytest.raises(StaleListError):
            freshness.check(PODS, "7")
    clock.seconds = LONGEST_LAG
    freshness.check(PODS, "7")
    freshness.check(PODS, "8")
