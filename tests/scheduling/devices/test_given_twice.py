"""A device that another scheduler gives away while a pod is held isn't given to that pod, too."""

from typing import Any

import pytest
from objects import read
from test_kept_answers import WANTED, World, slice_of

from lib.kube.devices import ResourceClaim
from lib.scheduling.decision import Outcome


def claim_with(device: str, **more: Any) -> ResourceClaim:
    """Another scheduler's claim that has a device of n1."""
    result = {"driver": "d", "pool": "n1", "device": device, "request": "r", **more}
    status = {"allocation": {"devices": {"results": [result]}}}
    metadata = {"namespace": "default", "name": "theirs", "uid": "theirs"}
    found: ResourceClaim = read(ResourceClaim, {"metadata": metadata, "status": status})
    return found


@pytest.mark.parametrize(
    ("theirs", "outcome"),
    [
        (claim_with("d0"), Outcome.ERROR),
        (claim_with("d1"), Outcome.WAITING),
        (claim_with("d0", adminAccess=True), Outcome.WAITING),  # who only watches it takes nothing
    ],
)
def test_a_device_is_not_given_twice(theirs: ResourceClaim, outcome: Outcome) -> None:
    world = World(keeps=True)
    world.devices.put(slice_of("n1", 2, 1))
    decision = world.decide("ours", WANTED[0])
    assert decision.node_name == "n1"
    world.devices.put(theirs)
    bound = world.scheduler.bind(decision, world.cache)
    assert bound.outcome == outcome
    if outcome == Outcome.ERROR:
        assert "device d/n1/d0 got allocated elsewhere in the meantime" in bound.message
    else:
        assert [each.allocation.devices.results[0].device for each in bound.writes] == ["d0"]
