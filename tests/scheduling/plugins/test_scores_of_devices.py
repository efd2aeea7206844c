"""Nodes are scored by the devices that serve an extended resource, if they have none of it themselves.

The figures are those of kube-scheduler 1.36's own plugins for these objects.
"""

from random import Random
from typing import Any

import pytest
from objects import node, pod, read
from plugin_harness import raw_scores

from lib.kube.changes import Change, Kind
from lib.kube.devices import DeviceClass, ResourceClaim, ResourceSlice
from lib.scheduling.cache import Cache
from lib.scheduling.framework.interface import Plugin, Profile
from lib.scheduling.plugins.default_binder import DefaultBinder
from lib.scheduling.plugins.node_resources_balanced_allocation import NodeResourcesBalancedAllocation
from lib.scheduling.plugins.node_resources_fit import NodeResourcesFit
from lib.scheduling.scheduling_cycle import Scheduler

GPU = "example.com/gpu"
BIG = 'device.attributes["d"].kind == "big"'
ROOM = {"cpu": "4", "memory": "8Gi"}


def gpu_class(*expressions: str) -> DeviceClass:
    selectors = [{"cel": {"expression": each}} for each in expressions]
    spec = {"extendedResourceName": GPU, "selectors": selectors}
    return read(DeviceClass, {"metadata": {"name": "gpu"}, "spec": spec})


def devices_on(name: str, number: int) -> ResourceSlice:
    """A slice with devices of the kind big, but the first: that is small."""
    kinds = [{"kind": {"string": "big" if i else "small"}} for i in range(number)]
    devices = [{"name": f"g{i}", "attributes": kind} for i, kind in enumerate(kinds)]
    pool = {"name": name, "generation": 1, "resourceSliceCount": 1}
    spec = {"driver": "d", "nodeName": name, "pool": pool, "devices": devices}
    return read(ResourceSlice, {"metadata": {"name": name}, "spec": spec})


def claim_of(*devices: str) -> ResourceClaim:
    """A claim that has devices of the node `five`."""
    of = {"request": "r", "driver": "d", "pool": "five"}
    allocation = {"devices": {"results": [{**of, "device": each} for each in devices]}}
    metadata = {"name": "other", "namespace": "default", "uid": "other"}
    return read(ResourceClaim, {"metadata": metadata, "status": {"allocation": allocation}})


def cluster(*more: Any) -> Cache:
    """The node `five` has five big devices, `three` has three; `own` has the resource itself, no devices."""
    nodes = [node("five", has=ROOM), node("three", has=ROOM), node("own", has={**ROOM, GPU: "8"})]
    found = Cache(nodes)
    for each in (devices_on("five", 6), devices_on("three", 4), *more):
        found.apply(Change(Kind.ADDED, each))
    return found


def fit(strategy: str) -> NodeResourcesFit:
    return NodeResourcesFit(strategy=strategy, resources={GPU: 1})


BALANCED = NodeResourcesBalancedAllocation(resources={"cpu": 1, GPU: 1})


@pytest.mark.parametrize(
    ("plugin", "kind", "expected"),
    [
        (fit("LeastAllocated"), gpu_class(BIG), {"five": 40, "three": 66, "own": 87}),
        (fit("MostAllocated"), gpu_class(BIG), {"five": 60, "three": 33, "own": 12}),
        (fit("LeastAllocated"), gpu_class(), {"five": 50, "three": 75, "own": 87}),
        (BALANCED, gpu_class(), {"five": 77, "three": 75, "own": 71}),
        # A selector fails: none of the devices count.
        (fit("LeastAllocated"), gpu_class("device.attributes.d.none"), {"five": 0, "three": 0, "own": 87}),
    ],
)
def test_taken_devices_are_used_ones_of_all(plugin: Plugin, kind: DeviceClass, expected: Any) -> None:
    asking = pod(requests={"cpu": "1", GPU: "1"})
    assert raw_scores(plugin, asking, cluster(kind, claim_of("g1", "g2"))) == expected


def test_without_a_class_a_resource_that_a_node_lacks_is_not_scored() -> None:
    asking = pod(requests={"cpu": "1", GPU: "1"})
    expected = {"five": 0, "three": 0, "own": 87}
    assert raw_scores(fit("LeastAllocated"), asking, cluster(claim_of("g1", "g2"))) == expected


@pytest.mark.parametrize("plugin", [fit("MostAllocated"), BALANCED])
def test_what_becomes_of_devices_meanwhile_counts_for_the_next_pod_alike(plugin: Plugin) -> None:
    """No pod has come or gone, and no node has changed: results for pods alike are kept until then."""
    found = cluster(gpu_class())
    scheduler = Scheduler(Profile("p", (plugin, DefaultBinder()), {plugin.name: 1}), Random(1))

    def of_next_pod(name: str) -> Any:
        asking = pod(name, requests={"cpu": "1", GPU: "1"})
        afresh = raw_scores(plugin, asking, found)
        decided = scheduler.schedule_one(asking, found)
        assert {node: scores[plugin.name] for node, scores in decided.scores.items()} == afresh
        return afresh

    before = of_next_pod("first")
    assert of_next_pod("second")["five"] == before["five"]
    found.apply(Change(Kind.ADDED, claim_of("g1", "g2", "g3")))
    assert of_next_pod("third")["five"] != before["five"]
    found.apply(Change(Kind.DELETED, claim_of("g1", "g2", "g3")))
    of_next_pod("fourth")
    found.apply(Change(Kind.MODIFIED, devices_on("five", 2)))
    of_next_pod("fifth")
    found.apply(Change(Kind.MODIFIED, gpu_class(BIG)))
    of_next_pod("sixth")
