"""Which devices claims have taken."""

from typing import Any

from objects import read

from lib.kube.devices import AllocationResult
from lib.kube.quantity import Quantity
from lib.scheduling.devices.pools import DeviceId
from lib.scheduling.devices.taken import Taken

GPU = DeviceId("d", "p", "gpu")


def gets(**more: Any) -> AllocationResult:
    """An allocation of the device."""
    result = {"request": "r", "driver": "d", "pool": "p", "device": "gpu", **more}
    found: AllocationResult = read(AllocationResult, {"devices": {"results": [result]}})
    return found


def share(name: str, **consumed: str) -> AllocationResult:
    return gets(shareID=name, consumedCapacity=consumed)


def test_a_device_is_taken_until_the_last_claim_gives_it_back() -> None:
    taken = Taken()
    for _ in range(2):  # two schedulers gave it away at the same time
        taken.add(gets())
    taken.remove(gets())
    assert GPU in taken
    taken.remove(gets())
    assert GPU not in taken


def test_who_only_watches_a_device_takes_nothing() -> None:
    taken = Taken()
    taken.add(gets(adminAccess=True))
    assert GPU not in taken
    assert taken.version == 0
    for _ in range(2):
        taken.add(gets())
    assert [*taken.given_twice(gets())] == [GPU]
    assert [*taken.given_twice(gets(adminAccess=True))] == []


def test_shares_of_a_device_are_added_up() -> None:
    taken = Taken()
    taken.add(share("one", memory="2Gi", cores="1"))
    taken.add(share("two", memory="1Gi"))
    assert GPU in taken.shared
    assert GPU not in taken.devices
    assert taken.consumed[GPU]["memory"] == Quantity.parse("3Gi")
    taken.remove(share("one", memory="2Gi", cores="1"))
    assert taken.consumed[GPU]["memory"] == Quantity.parse("1Gi")
    taken.remove(share("two", memory="1Gi"))
    assert GPU not in taken
    assert not taken.consumed


def test_a_share_of_a_device_without_capacities_consumes_nothing() -> None:
    taken = Taken()
    taken.add(share("one"))
    assert GPU in taken
    assert not taken.consumed
