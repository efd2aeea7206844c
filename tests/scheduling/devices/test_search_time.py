"""Pods whose claims take for ever don't hold up the others: what slow searches take together is limited."""

from datetime import UTC, datetime, timedelta
from random import Random
from typing import Any

import pytest
from objects import read

from lib.kube.devices import Device, DeviceClass, ResourceClaim, ResourceSlice
from lib.kube.objects import Node, Pod
from lib.scheduling.cache import Cache
from lib.scheduling.decision import Outcome
from lib.scheduling.devices.search_time import SHARE, SHORTEST, SearchTime
from lib.scheduling.devices.selectors import Selectors
from lib.scheduling.handle import Handle
from lib.scheduling.node_info import NodeInfo
from lib.scheduling.plugins.registry import default_profile
from lib.scheduling.scheduling_cycle import Scheduler

LIMIT = 10.0
NODE, OTHER = (NodeInfo(read(Node, {"metadata": {"name": name, "labels": {}}})) for name in ("n1", "n2"))


def test_the_first_search_gets_all_the_time_and_those_after_it_little() -> None:
    time = SearchTime()
    assert time.limit(b"first", NODE, LIMIT, 0) == LIMIT
    time.took(b"first", NODE, 10, LIMIT, ended=False)
    assert time.limit(b"second", NODE, LIMIT, 10) == pytest.approx(1, abs=0.02)  # a tenth of the 10 s
    time.took(b"second", NODE, 1, 1, ended=False)
    assert time.limit(b"third", NODE, LIMIT, 10) == pytest.approx(SHORTEST)


def test_who_has_searched_in_vain_is_given_twice_the_time_when_there_is_so_much() -> None:
    time = SearchTime()
    time.limit(b"first", NODE, LIMIT, 0)
    time.took(b"first", NODE, 10, LIMIT, ended=False)
    time.took(b"second", NODE, SHORTEST, SHORTEST, ended=False)
    assert time.limit(b"second", NODE, LIMIT, 0.1) == 0
    assert time.limit(b"second", NODE, LIMIT, 2 * SHORTEST / SHARE + 1) >= 2 * SHORTEST
    assert time.limit(b"first", OTHER, LIMIT, LIMIT) == 0
    assert time.limit(b"first", OTHER, LIMIT, LIMIT / SHARE + 1) == LIMIT


def test_who_was_given_all_the_time_is_not_tried_again_there_until_devices_may_be_there() -> None:
    time = SearchTime()
    time.took(b"first", NODE, LIMIT, time.limit(b"first", NODE, LIMIT, 0), ended=False)
    later = LIMIT / SHARE + 1
    assert time.limit(b"first", NODE, LIMIT, later) == 0
    assert time.limit(b"first", OTHER, LIMIT, later) == LIMIT
    time.devices_may_be_there()
    assert time.limit(b"first", NODE, LIMIT, later) == LIMIT


def test_searches_that_end_soon_leave_all_the_time() -> None:
    time = SearchTime()
    for number in range(10_000):
        assert time.limit(b"usual", NODE, LIMIT, number / 1000) == LIMIT
        time.took(b"usual", NODE, 0.005, LIMIT, ended=True)


class Clock:
    """A millisecond later each time it is asked."""

    def __init__(self) -> None:
        self.began = self.now = datetime(2026, 1, 1, tzinfo=UTC)

    def __call__(self) -> datetime:
        self.now += timedelta(milliseconds=1)
        return self.now

    @property
    def seconds(self) -> float:
        return (self.now - self.began).total_seconds()


def claim(name: str, request: dict[str, Any], count: int) -> ResourceClaim:
    exactly = {"deviceClassName": "all", "allocationMode": "ExactCount", "count": count, **request}
    devices = {"requests": [{"name": name, "exactly": exactly}]}
    constraints = [{"matchAttribute": "d/half"}] if count > 1 else []
    metadata = {"name": name, "namespace": "default", "uid": name}
    spec = {"devices": {**devices, "constraints": constraints}}
    found: ResourceClaim = read(ResourceClaim, {"metadata": metadata, "spec": spec})
    return found


def pod(name: str) -> Pod:
    spec = {"resourceClaims": [{"name": "of", "resourceClaimName": name}], "containers": [{"name": "c"}]}
    found: Pod = read(Pod, {"metadata": {"name": name, "namespace": "default", "uid": name}, "spec": spec})
    return found


def test_a_thousand_pods_that_search_for_ever_leave_time_for_another() -> None:
    """No two of them are alike. Without a common limit each would take 10 s."""
    clock = Clock()
    node: Node = read(
        Node, {"metadata": {"name": "n1"}, "status": {"allocatable": {"cpu": "4", "pods": "2000"}}}
    )
    cache = Cache([node])
    cache.devices.put(read(DeviceClass, {"metadata": {"name": "all"}}))
    halves = [{"name": f"d{at}", "attributes": {"half": {"int": at % 2}}} for at in range(40)]
    pool = {"name": "n1", "generation": 1, "resourceSliceCount": 1}
    spec = {"driver": "d", "nodeName": "n1", "pool": pool, "devices": halves}
    cache.devices.put(read(ResourceSlice, {"metadata": {"name": "s"}, "spec": spec}))
    scheduler = Scheduler(default_profile("s", handle=Handle(Random(1), cache=cache, now=clock)), Random(1))
    for number in range(1000):
        cache.devices.put(claim(f"c{number}", {}, 21))
        assert scheduler.schedule_one(pod(f"c{number}"), cache).outcome == Outcome.ERROR
    assert clock.seconds < 12 + 1000 * 2 * SHORTEST

    cache.devices.put(claim("good", {}, 1))
    began = clock.seconds
    assert scheduler.schedule_one(pod("good"), cache).outcome == Outcome.SCHEDULED
    assert clock.seconds < began + SHORTEST


def test_a_long_evaluation_is_ended() -> None:
    ones = "[" + ",".join("1" * 90) + "]"
    dear = f"{ones}.all(x, {ones}.all(y, {ones}.isSorted()))"  # it costs three quarters of what it may cost

    class TooLongError(Exception):
        pass

    def check() -> None:
        raise TooLongError

    selectors, device = Selectors(), Device("a")
    with pytest.raises(TooLongError):
        selectors.match(dear, device, "d", check)
    assert selectors.match(dear, device, "d")  # the interruption wasn't taken for a result
