"""What manifests leave out of requests for devices: the API's defaults."""

from typing import Any

import pytest
from objects import read

from lib.kube.devices import DeviceRequest, ExactDeviceRequest


@pytest.mark.parametrize(
    ("written", "mode", "count"),
    [
        ({}, "ExactCount", 1),
        ({"allocationMode": "ExactCount"}, "ExactCount", 1),
        ({"count": 2}, "ExactCount", 2),
        ({"allocationMode": "All"}, "All", 0),
    ],
)
def test_a_request_is_for_one_device_unless_it_says_otherwise(written: Any, mode: str, count: int) -> None:
    request = read(ExactDeviceRequest, {"deviceClassName": "gpu", **written})
    assert (request.allocation_mode, request.count) == (mode, count)


@pytest.mark.parametrize(
    ("written", "names"),
    [
        ({"exactly": {"deviceClassName": "gpu"}}, ["r"]),
        ({"firstAvailable": [{"name": "one"}, {"name": "two"}]}, ["r/one", "r/two"]),
    ],
)
def test_alternatives_of_a_request_have_its_name_before_theirs(written: Any, names: list[str]) -> None:
    request = read(DeviceRequest, {"name": "r", **written})
    assert [name for name, _ in request.options] == names
