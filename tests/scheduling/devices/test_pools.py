"""Which devices a node can reach: the slices of a pool are of several nodes and generations."""

from typing import Any

import pytest
from objects import node, read

from lib.kube.devices import ResourceSlice
from lib.scheduling.devices.pools import Pool, Pools
from lib.scheduling.node_info import NodeInfo

N1 = NodeInfo(node("n1", {"zone": "a"}))
COUNTERS: Any = {"sharedCounters": [{"name": "gpu", "counters": {"memory": {"value": "8Gi"}}}]}
TAKES = {"consumesCounters": [{"counterSet": "gpu", "counters": {"memory": {"value": "4Gi"}}}]}


def in_zone(zone: str) -> Any:
    term = {"matchExpressions": [{"key": "zone", "operator": "In", "values": [zone]}]}
    return {"nodeSelector": {"nodeSelectorTerms": [term]}}


def part(name: str, of: int = 1, generation: int = 1, *, on: str = "n1", **spec: Any) -> ResourceSlice:
    """A slice of the pool p, one of so many, with a device of its name; on: its node, "" for none."""
    pool = {"name": "p", "generation": generation, "resourceSliceCount": of}
    body = {"driver": "d", "pool": pool, "devices": [{"name": name}], "nodeName": on or None, **spec}
    found: ResourceSlice = read(ResourceSlice, {"metadata": {"name": name}, "spec": body})
    return found


@pytest.mark.parametrize(
    ("slices", "said"),
    [
        pytest.param([part("a")], "a", id="of the node"),
        pytest.param([part("a", on="n2")], None, id="of another node"),
        pytest.param([part("a", on="", allNodes=True)], "a", id="of all nodes"),
        pytest.param([part("a", on="", **in_zone("a"))], "a", id="of its zone"),
        pytest.param([part("a", on="", **in_zone("b"))], None, id="of another zone"),
        pytest.param([part("b", 2), part("a", 2)], "a b", id="of two slices"),
        pytest.param([part("a", 2), part("b", 2, on="n2")], "a", id="another slice is of another node"),
        pytest.param([part("a", 2)], "incomplete", id="a slice is missing"),
        pytest.param([part("old"), part("new", 1, 2)], "new", id="of the newest generation"),
        pytest.param(
            [part("old", 2), part("old2", 2), part("new", 2, 2)], "incomplete", id="the newest isn't complete"
        ),
        pytest.param(
            [part("old", 2), part("new", 2, 2, on="n2")], None, id="a newer generation is on other nodes"
        ),
        pytest.param([part("a", 2), part("b", 2, devices=[{"name": "a"}])], "invalid", id="two of a name"),
        pytest.param(
            [part("a", 2, devices=[{"name": "a", **TAKES}]), part("c", 2, devices=[], **COUNTERS)],
            "a",
            id="with counters",
        ),
        pytest.param(
            [part("a", 2, devices=[{"name": "a", **TAKES}]), part("c", 2, on="n2", devices=[], **COUNTERS)],
            "a",
            id="the counters are in a slice of another node",
        ),
        pytest.param([part("a", devices=[{"name": "a", **TAKES}])], "invalid", id="without its counters"),
        pytest.param(
            [
                part(
                    "a",
                    on="",
                    perDeviceNodeSelection=True,
                    devices=[{"name": "a", "nodeName": "n2"}, {"name": "b", "nodeName": "n1"}],
                )
            ],
            "a b",
            id="each device names its node: that is looked at later",
        ),
    ],
)
def test_the_devices_of_a_pool_that_a_node_reaches(slices: list[ResourceSlice], said: str | None) -> None:
    assert [*map(text_of, Pools(slices).of(N1))] == ([] if said is None else [said])


def text_of(pool: Pool) -> str:
    if pool.is_incomplete:
        return "incomplete"
    return "invalid" if pool.invalid else " ".join(device.id.device for device in pool.devices)


def test_pools_whose_devices_must_get_ready_come_last() -> None:
    slow = part("a", devices=[{"name": "a", "bindingConditions": ["Ready"]}])
    fast = [read(ResourceSlice, {"metadata": {"name": name}, "spec": of(name)}) for name in ("z", "y")]
    assert [pool.name for pool in Pools([slow, *fast]).of(N1)] == ["y", "z", "p"]


def of(name: str) -> Any:
    pool = {"name": name, "generation": 1, "resourceSliceCount": 1}
    return {"driver": "d", "nodeName": "n1", "pool": pool, "devices": [{"name": "a"}]}
