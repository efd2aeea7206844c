"""Claims that take for ever hold up no other pod: a search that took too long isn't made again in vain."""

import gc
import json
from datetime import UTC, datetime, timedelta
from random import Random
from typing import Any

import pytest
from objects import read

from lib.kube.devices import DeviceClass, ResourceClaim, ResourceSlice
from lib.kube.objects import Node, Pod
from lib.scheduling.cache import Cache
from lib.scheduling.decision import Decision, Outcome
from lib.scheduling.handle import Handle
from lib.scheduling.plugins.registry import default_profile
from lib.scheduling.scheduling_cycle import Scheduler

OTHERS = [{"cel": {"expression": "device.driver == 'other'"}}]


class Clock:
    """A second (or `step`) later each time it is asked, beginning with the search."""

    step = timedelta(seconds=1)

    def __init__(self) -> None:
        self.now, self.asked = datetime(2026, 1, 1, tzinfo=UTC), 0

    def __call__(self) -> datetime:
        self.asked += 1
        self.now += self.step
        return self.now


def slices(count: int) -> list[ResourceSlice]:
    """So many devices of two kinds, on the node n1."""
    devices = [{"name": f"d{at}", "attributes": {"half": {"int": at % 2}}} for at in range(count)]
    parts = [devices[at : at + 128] for at in range(0, count, 128)]
    pool = {"name": "n1", "generation": 1, "resourceSliceCount": len(parts)}
    return [
        read(
            ResourceSlice,
            {
                "metadata": {"name": f"s{number}"},
                "spec": {"driver": "d", "nodeName": "n1", "pool": pool, "devices": part},
            },
        )
        for number, part in enumerate(parts)
    ]


def claim(**exactly: Any) -> ResourceClaim:
    request = {"deviceClassName": "all", "allocationMode": "ExactCount", "count": 1, **exactly}
    devices: dict[str, Any] = {"requests": [{"name": "r", "exactly": request}]}
    if exactly.get("count", 1) > 1:
        devices["constraints"] = [{"matchAttribute": "d/half"}]
    metadata = {"name": "c", "namespace": "default", "uid": "c"}
    found: ResourceClaim = read(ResourceClaim, {"metadata": metadata, "spec": {"devices": devices}})
    return found


class World:
    """A node with devices, and a pod that wants some."""

    def __init__(self, devices: int, wanted: ResourceClaim) -> None:
        self.clock = Clock()
        self.cache = Cache([read(Node, json.loads(NODE))])
        self.cache.devices.put(read(DeviceClass, {"metadata": {"name": "all"}}))
        for each in [*slices(devices), wanted]:
            self.cache.devices.put(each)
        handle = Handle(Random(1), cache=self.cache, now=self.clock)
        self.scheduler = Scheduler(default_profile("s", handle=handle), Random(1))
        spec = {
            "resourceClaims": [{"name": "of", "resourceClaimName": "c"}],
            "containers": [{"name": "c", "image": "i"}],
        }
        self.pod = read(Pod, {"metadata": {"name": "web", "namespace": "default", "uid": "p"}, "spec": spec})

    def decide(self) -> Decision:
        return self.scheduler.schedule_one(self.pod, self.cache)


NODE = '{"metadata": {"name": "n1"}, "status": {"allocatable": {"cpu": "4", "memory": "8Gi", "pods": "110"}}}'


@pytest.mark.parametrize(
    ("devices", "wanted"),
    [
        (40, claim(count=21)),
        (10_000, claim(selectors=OTHERS)),
        (
            10_000,
            claim(selectors=OTHERS, allocationMode="All"),
        ),
    ],
    ids=["search", "ten thousand devices", "all of them"],
)
def test_what_takes_too_long_is_tried_again_only_when_devices_have_changed(
    devices: int, wanted: ResourceClaim
) -> None:
    world = World(devices, wanted)
    decision = world.decide()
    assert decision.outcome == Outcome.ERROR
    assert decision.message == (
        'running "DynamicResources" filter plugin: node n1: timed out trying to allocate devices'
    )
    asked = world.clock.asked
    again = world.decide()
    assert (again.outcome, again.message) == (decision.outcome, decision.message)
    assert world.clock.asked < asked + 5
    world.cache.devices.put(slices(devices)[0])
    world.clock.now += timedelta(minutes=5)  # slow searches get a tenth of the time
    world.decide()
    assert world.clock.asked > asked + 5


def test_a_selector_without_a_value_takes_no_more_memory_however_often_its_pod_is_tried() -> None:
    """An exception that is kept and raised again has a longer traceback each time."""
    world = World(1, claim(selectors=[{"cel": {"expression": 'device.attributes["d"].nope == 1'}}]))
    world.clock.step = timedelta(0)

    def tried(times: int) -> int:
        for _ in range(times):
            assert "no such key: nope" in world.decide().message
        gc.collect()
        return len(gc.get_objects())

    before = tried(10)
    assert tried(100) < before + 100
