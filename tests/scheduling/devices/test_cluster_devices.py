"""What is known of devices, as slices, classes and claims come, change and go."""

from math import inf
from typing import Any

import pytest
from objects import node, read
from scheduling.devices.test_given_twice import claim_with

from lib.kube.changes import AnyChange, Change, Kind
from lib.kube.devices import DeviceClass, DeviceObject, ResourceClaim, ResourceSlice
from lib.kube.objects import with_parts
from lib.scheduling.cache import Cache
from lib.scheduling.devices.cluster_devices import ClusterDevices, DeviceUse
from lib.scheduling.node_info import NodeInfo

N1 = NodeInfo(node("n1"))
GPU = "example.com/gpu"


def gpu_class(*expressions: str, name: str = "gpu", created: str = "2026-01-01") -> DeviceClass:
    selectors = [{"cel": {"expression": each}} for each in expressions]
    spec = {"extendedResourceName": GPU, "selectors": selectors}
    metadata = {"name": name, "creationTimestamp": f"{created}T00:00:00Z"}
    found: DeviceClass = read(DeviceClass, {"metadata": metadata, "spec": spec})
    return found


def slice_with(*devices: Any) -> ResourceSlice:
    """A slice of n1."""
    pool = {"name": "n1", "generation": 1, "resourceSliceCount": 1}
    spec = {"driver": "d", "nodeName": "n1", "pool": pool, "devices": devices}
    found: ResourceSlice = read(ResourceSlice, {"metadata": {"name": "of-n1"}, "spec": spec})
    return found


def known(*objects: DeviceObject) -> ClusterDevices:
    devices = Cache().devices
    for each in objects:
        devices.put(each)
    return devices


NO_SUCH_LABEL = {"key": "gpus", "operator": "Exists"}
D0, D1 = {"name": "d0"}, {"name": "d1"}
SHARED = {"name": "d1", "allowMultipleAllocations": True}
IS_D, IS_ALONE = "device.driver == 'd'", "!device.allowMultipleAllocations"


@pytest.mark.parametrize(
    ("devices", "selectors", "use"),
    [
        pytest.param([D0, D1], [], DeviceUse(1, 2), id="all"),
        pytest.param(
            [D0, D1], [IS_D, "device.driver == 'e'"], DeviceUse(0, 0), id="all selectors must match"
        ),
        pytest.param(
            [D0, SHARED], [IS_D, IS_ALONE], DeviceUse(1, 2), id="kube-scheduler shows none as shared"
        ),
        pytest.param(
            [D0, SHARED], [IS_D, f"!({IS_ALONE})"], DeviceUse(0, 0), id="nor is one selected as such"
        ),
    ],
)
def test_how_many_devices_serve_a_resource_and_how_many_are_taken(
    devices: list[Any], selectors: list[str], use: DeviceUse
) -> None:
    there = known(slice_with(*devices), gpu_class(*selectors), claim_with("d0"))
    assert there.use(GPU, N1) == use


@pytest.mark.parametrize(
    ("where", "devices", "count"),
    [
        pytest.param({"nodeName": "n1"}, [D0, D1], 2, id="of the node"),
        pytest.param({"nodeName": "n2"}, [D0, D1], 0, id="of another"),
        pytest.param({"allNodes": True}, [D0, D1], 2, id="of all"),
        pytest.param(
            {"nodeSelector": {"nodeSelectorTerms": [{"matchExpressions": [NO_SUCH_LABEL]}]}},
            [D0, D1],
            0,
            id="of nodes with a label",
        ),
        pytest.param(
            {"perDeviceNodeSelection": True},
            [{**D0, "nodeName": "n1"}, {**D1, "nodeName": "n2"}],
            1,
            id="as each device says",
        ),
    ],
)
def test_only_devices_count_that_a_node_can_reach(where: Any, devices: list[Any], count: int) -> None:
    pool = {"name": "p", "generation": 1, "resourceSliceCount": 1}
    spec = {"driver": "d", "pool": pool, "devices": devices, **where}
    there = known(gpu_class(), read(ResourceSlice, {"metadata": {"name": "s"}, "spec": spec}))
    assert there.use(GPU, N1) == DeviceUse(0, count)


def test_devices_are_counted_anew_when_slices_or_classes_change() -> None:
    there = known(slice_with(D0, D1), gpu_class())
    assert there.use(GPU, N1).capacity == 2
    there.put(slice_with(D0))
    assert there.use(GPU, N1).capacity == 1
    there.put(gpu_class("device.driver == 'e'"))
    assert there.use(GPU, N1).capacity == 0
    there.put(gpu_class())
    there.delete(slice_with(D0))
    assert there.use(GPU, N1).capacity == 0


def test_of_several_classes_for_a_resource_the_newest_serves_it_until_it_goes() -> None:
    there = known(gpu_class(name="old"))
    assert there.served[GPU] == "old"
    assert there.put(gpu_class(name="b", created="2026-02-01"))
    assert there.put(gpu_class(name="a", created="2026-02-01"))
    assert there.served[GPU] == "a"
    assert not there.put(gpu_class(name="a", created="2026-02-01"))
    for name, left in (("a", "b"), ("b", "old"), ("old", None)):
        assert there.delete(gpu_class(name=name))
        assert there.served.get(GPU) == left


def searched_in_vain(there: ClusterDevices) -> bool:
    """Whether claims that were searched for as long as is allowed aren't searched for again."""
    return there.search_time.limit(b"claims", N1, 10, 1e9) == 0


@pytest.mark.parametrize(
    "comes",
    [
        pytest.param(lambda there: there.put(slice_with(D0)), id="a slice"),
        pytest.param(lambda there: there.delete(claim_with("d0")), id="a claim gives its device back"),
        pytest.param(lambda there: there.unreserve("ours"), id="a pod isn't bound"),
    ],
)
def test_a_search_that_took_too_long_is_made_again_when_devices_may_be_there(comes: Any) -> None:
    there = known(slice_with(D0), claim_with("d0"))
    reserved = claim_with("d1").status.allocation
    assert reserved
    there.reserve("ours", reserved)
    there.search_time.limit(b"claims", N1, 10, 0.0)
    there.search_time.took(b"claims", N1, 10, inf, ended=False)
    there.unreserve("nobody")
    assert searched_in_vain(there)
    comes(there)
    assert not searched_in_vain(there)


WITH, WITHOUT = claim_with("d0"), with_parts(claim_with("d0"), status={"allocation": None})


@pytest.mark.parametrize(
    ("seen", "is_otherwise"),
    [
        pytest.param(Change(Kind.MODIFIED, WITHOUT, WITHOUT), True, id="it got devices and lost them"),
        pytest.param(Change(Kind.DELETED, WITHOUT, WITHOUT), True, id="it got devices and went"),
        pytest.param(Change(Kind.DELETED, WITH, WITHOUT), True, id="it went with its devices"),
        pytest.param(Change(Kind.MODIFIED, WITH, WITHOUT), False, id="it has the devices"),
        pytest.param(Change(Kind.MODIFIED, slice_with(), slice_with()), False, id="a slice"),
    ],
)
def test_a_claim_that_poller_gave_devices_meanwhile_gives_them_back(
    seen: AnyChange, is_otherwise: bool
) -> None:
    there = known(WITHOUT)
    assert there.with_own_writes(seen) == seen
    there.written(WITH, "theirs")
    before = there.with_own_writes(seen).before
    assert before is (there.claim("default", "theirs") if is_otherwise else seen.before)


def test_the_change_of_a_claim_that_is_not_known_stays_as_it_is() -> None:
    seen: Change[ResourceClaim] = Change(Kind.MODIFIED, WITHOUT, WITH)
    assert known().with_own_writes(seen) is seen
