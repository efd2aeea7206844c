"""How much of a device's capacities a request takes, by their request policies (KEP 5075)."""

from typing import Any

import pytest
from objects import read

from lib.kube.devices import CapacityRequirements, Device
from lib.kube.quantity import Quantity
from lib.scheduling.devices.consumption import consumed_by, is_enough

STEPS = {"default": "2Gi", "validRange": {"min": "2Gi", "max": "8Gi", "step": "2Gi"}}
FROM_ZERO = {"default": "1Gi", "validRange": {"min": "0", "step": "1Gi"}}
NO_STEP = {"default": "2Gi", "validRange": {"min": "2Gi"}}
NO_MIN = {"default": "2Gi", "validRange": {"max": "8Gi"}}
VALUES = {"default": "1Gi", "validValues": ["1Gi", "4Gi"]}


def with_memory(policy: Any = None) -> Device:
    """A device with 10Gi of memory."""
    memory = {"value": "10Gi", **({"requestPolicy": policy} if policy else {})}
    found: Device = read(Device, {"name": "gpu", "capacity": {"memory": memory}})
    return found


def asking(**amounts: str) -> CapacityRequirements:
    found: CapacityRequirements = read(CapacityRequirements, {"requests": amounts})
    return found


@pytest.mark.parametrize(
    ("policy", "wanted", "taken"),
    [
        pytest.param(None, "3Gi", "3Gi", id="without a policy, what is wanted"),
        pytest.param(None, None, "10Gi", id="without a policy, all"),
        pytest.param(STEPS, None, "2Gi", id="the default"),
        pytest.param(STEPS, "1", "2Gi", id="at least the minimum"),
        pytest.param(STEPS, "4Gi", "4Gi", id="a whole step"),
        pytest.param(STEPS, "4097Mi", "6Gi", id="rounded up to a step"),
        pytest.param(STEPS, "9Gi", None, id="more than the maximum"),
        pytest.param(FROM_ZERO, "0", "0", id="nothing"),
        pytest.param(NO_STEP, "3G", "3G", id="without steps, what is wanted"),
        pytest.param(NO_MIN, "1Gi", "1Gi", id="without a minimum, what is wanted"),
        pytest.param(NO_MIN, "8Gi", "8Gi", id="the maximum"),
        pytest.param(NO_MIN, "9Gi", None, id="without a minimum, more than the maximum"),
        pytest.param(VALUES, "1Gi", "1Gi", id="a valid value"),
        pytest.param(VALUES, "2Gi", "4Gi", id="the next valid value"),
        pytest.param(VALUES, "5Gi", None, id="more than all valid values"),
        pytest.param(None, "11Gi", None, id="more than there is"),
    ],
)
def test_a_request_takes_as_much_as_the_policy_says(
    policy: Any, wanted: str | None, taken: str | None
) -> None:
    device, request = with_memory(policy), asking(memory=wanted) if wanted else None
    assert is_enough(device, request, {}) == (taken is not None)
    if taken is not None:
        assert consumed_by(device, request) == {"memory": taken}


@pytest.mark.parametrize(("others", "is_left"), [("7Gi", True), ("7169Mi", False)])
def test_a_request_gets_what_others_leave(others: str, is_left: bool) -> None:
    assert is_enough(with_memory(), asking(memory="3Gi"), {"memory": Quantity.parse(others)}) == is_left


def test_a_device_without_a_capacity_has_not_enough_of_it() -> None:
    assert not is_enough(with_memory(), asking(memory="1Gi", cores="1"), {})
