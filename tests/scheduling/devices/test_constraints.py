"""Constraints between the devices of a claim."""

from typing import Any

import pytest
from objects import read

from lib.kube.devices import Device, DeviceClass, ExactDeviceRequest, ResourceSlice
from lib.scheduling.devices.constraints import Constraint
from lib.scheduling.devices.pools import DeviceId, PoolDevice
from lib.scheduling.devices.results import RequestToMeet

NUMA = "d.io/numa"


def device(value: Any = None, *, name: str = NUMA, driver: str = "d.io") -> PoolDevice:
    """A device with this value of an attribute; None if it has no such attribute."""
    attributes = {} if value is None else {name: value if isinstance(value, dict) else {"int": value}}
    found = read(Device, {"name": "gpu", "attributes": attributes})
    of = read(ResourceSlice, {"metadata": {"name": "s"}, "spec": {"driver": driver, "pool": {"name": "p"}}})
    return PoolDevice(DeviceId(driver, "p", "gpu"), found, of)


def request(name: str) -> RequestToMeet:
    """A request, or a subrequest as `request/sub`."""
    parent, _, own = name.rpartition("/")
    return RequestToMeet(own, parent, ExactDeviceRequest(), read(DeviceClass, {"metadata": {"name": "gpu"}}))


OF_NEW_TYPE: dict[str, Any] = {"list": [1]}


@pytest.mark.parametrize(
    ("devices", "suit"),
    [
        pytest.param([device(1), device(1), device(2)], [True, True, False], id="the same value"),
        pytest.param([device(1), device({"string": "1"})], [True, False], id="another type"),
        pytest.param([device(None)], [False], id="no such attribute"),
        pytest.param(
            [device(1), device(1, name="numa")], [True, True], id="the driver's domain may be left out"
        ),
        pytest.param(
            [device(1), device(1, name="numa", driver="e.io")],
            [True, False],
            id="another driver's is another",
        ),
        pytest.param(
            [device(OF_NEW_TYPE), device(OF_NEW_TYPE)],
            [True, False],
            id="a type that isn't known is like none",
        ),
    ],
)
def test_devices_must_have_the_same_value(devices: list[PoolDevice], suit: list[bool]) -> None:
    constraint = Constraint((), NUMA, distinct=False)
    assert [constraint.add(request("r"), each) for each in devices] == suit


@pytest.mark.parametrize(
    ("devices", "suit"),
    [
        pytest.param(
            [("a", device(1)), ("b", device(2)), ("c", device(1))], [True, True, False], id="requests"
        ),
        pytest.param([("a", device(1)), ("a/x", device(1))], [True, False], id="a subrequest of another"),
        pytest.param([("a", device(None))], [False], id="no such attribute"),
    ],
)
def test_devices_must_have_different_values(devices: list[tuple[str, PoolDevice]], suit: list[bool]) -> None:
    constraint = Constraint((), NUMA, distinct=True)
    assert [constraint.add(request(name), each) for name, each in devices] == suit


@pytest.mark.parametrize(
    ("name", "suits"),
    [("a", False), ("other", True), ("b", True), ("b/x", False), ("b/y", True), ("c/x", False)],
)
def test_a_constraint_is_for_the_requests_that_it_names(name: str, suits: bool) -> None:
    """A request's name stands for all of its subrequests."""
    constraint = Constraint(("a", "b/x", "c"), NUMA, distinct=False)
    assert constraint.add(request("a"), device(1))
    assert constraint.add(request(name), device(2)) == suits


def test_of_devices_with_different_values_only_the_one_that_is_given_back_counts_no_more() -> None:
    constraint = Constraint((), NUMA, distinct=True)
    assert constraint.add(request("a"), device(1))
    assert constraint.add(request("b"), device(2))
    constraint.remove(request("b"))
    assert not constraint.add(request("c"), device(1))
    assert constraint.add(request("c"), device(2))


@pytest.mark.parametrize("distinct", [False, True])
def test_a_device_that_is_given_back_counts_no_more(distinct: bool) -> None:
    constraint = Constraint((), NUMA, distinct=distinct)
    assert constraint.add(request("a"), device(1))
    other = device(1 if distinct else 2)
    assert not constraint.add(request("b"), other)
    constraint.remove(request("a"))
    assert constraint.add(request("b"), other)
