"""The cases of kube-scheduler's allocator, with its answers.

tests/data/README.md says where they come from.
"""

import gzip
import inspect
import json
import re
import sys
from collections.abc import Iterator
from math import inf
from pathlib import Path
from random import Random
from typing import Any

import msgspec
import pytest
from all_cases import PART, check_each

from lib.kube.devices import DeviceClass, DeviceTaint, DeviceToleration, ResourceClaim, ResourceSlice
from lib.kube.objects import Node, decode_hook
from lib.kube.quantity import Quantity
from lib.scheduling.devices.allocator import (
    AllocationError,
    AllocationTimeoutError,
    Allocator,
    NodeAllocationError,
    is_tolerated,
)
from lib.scheduling.devices.pools import DeviceId, Pools
from lib.scheduling.devices.selectors import Selectors
from lib.scheduling.devices.taken import Taken
from lib.scheduling.node_info import NodeInfo

Json = dict[str, Any]

DATA = Path(__file__).parents[2] / "data"

OTHER_WORDS = {"no-classes"}
"""The table's own lister of classes says `"not found" not found`; the real one names the class."""


def rows(name: str) -> list[Json]:
    with gzip.open(DATA / f"{name}-1.36.jsonl.gz") as file:
        return [json.loads(line) for line in file]


def read(what: Json, kind: type[Any]) -> Any:
    return msgspec.json.decode(json.dumps({**what, "kind": kind.__name__}), type=kind, dec_hook=decode_hook)


def device_id(what: Json) -> DeviceId:
    return DeviceId(what["driver"], what["pool"], what["device"])


def taken(row: Json) -> Taken:
    consumed = {
        device_id(each): {name: Quantity.parse(text) for name, text in each["consumedCapacity"].items()}
        for each in row["consumed"]
    }
    return Taken(
        {*map(device_id, row["allocatedDevices"])}, {*map(device_id, row["allocatedSharedDevices"])}, consumed
    )


def allocator(row: Json, clock: Any = lambda: 0.0) -> Allocator:
    classes = {each["metadata"]["name"]: read(each, DeviceClass) for each in row["classes"]}
    pools = Pools(read(each, ResourceSlice) for each in row["slices"])
    return Allocator(pools, Selectors(), classes, taken(row), Random(1), clock)


def allocated(by: Allocator, node: NodeInfo, claims: list[ResourceClaim], *until: float) -> Any:
    found = by.search(node, claims, *until)
    return found and [*found()]


def answer(row: Json) -> Json:
    """What each claim gets, or the error, in the table's form. The names of shares are left out."""
    node, claims = NodeInfo(read(row["node"], Node)), [read(each, ResourceClaim) for each in row["claims"]]
    try:
        found = allocated(allocator(row), node, claims)
    except NodeAllocationError as error:
        return {"error": str(error), "errorOnNodeOnly": True, "results": None}
    except AllocationError as error:
        return {"error": str(error), "results": None}
    return {"results": json.loads(without_shares(msgspec.json.encode(found).decode()))}


def without_shares(text: str) -> str:
    return re.sub(r'"shareID": ?"[^"]*"', '"shareID":"@"', text)


def test_claims_get_what_kube_scheduler_gives_them() -> None:
    check_each(((f"{row['table']}-{row['name']}", row) for row in rows("allocator")), gives_alike)


def gives_alike(row: Json) -> None:
    wanted = json.loads(without_shares(json.dumps(row["answerDefaultGates"])))
    del wanted["allocateOneInvocations"]
    if row["name"] in OTHER_WORDS:
        wanted["error"] = wanted["error"].replace(
            ' "not found" not found', 'deviceclass.resource.k8s.io "class-a" not found'
        )
    assert answer(row) == wanted


def answers(row: Json) -> list[Json]:
    """What the claims get on each node, one after the other."""
    of_all, claims = allocator(row), [read(each, ResourceClaim) for each in row["claims"]]
    found = []
    for each in row["nodes"]:
        one: Json = {"results": None}
        try:
            one["results"] = allocated(of_all, NodeInfo(read(each, Node)), claims)
        except NodeAllocationError as error:
            one |= {"error": str(error), "errorOnNodeOnly": True}
        except AllocationError as error:
            one["error"] = str(error)
        found.append(one)
    return plain(found)


def plain(found: list[Any]) -> list[Json]:
    """As JSON, without the names of shares; a configuration for all requests has none."""
    decoded: list[Json] = json.loads(without_shares(msgspec.json.encode(found).decode()))
    for one in decoded:
        for result in one["results"] or ():
            for each in result["devices"].get("config", ()):
                if not each.get("requests"):
                    each.pop("requests", None)
    return decoded


def test_random_clusters_are_allocated_as_kube_scheduler_allocates_them() -> None:
    wrong = [row["seed"] for row in rows("allocator-more")[PART] if answers(row) != plain(row["answers"])]
    assert not wrong


def test_a_device_takes_its_counters_once_however_many_claims_have_a_share_of_it() -> None:
    memory = {"value": "8Gi"}
    counters = [{"name": "gpu", "counters": {"memory": memory}}]
    takes = [{"counterSet": "gpu", "counters": {"memory": memory}}]
    of_node = {
        "driver": "d",
        "nodeName": "n",
        "pool": {"name": "p", "generation": 1, "resourceSliceCount": 2},
    }
    device = {"allowMultipleAllocations": True, "capacity": {"memory": memory}, "consumesCounters": takes}
    whole = {"name": "d0", **device}
    specs = [{**of_node, "sharedCounters": counters}, {**of_node, "devices": [whole]}]
    slices = [{"metadata": {"name": f"s{i}"}, "spec": spec} for i, spec in enumerate(specs)]
    d0 = {"driver": "d", "pool": "p", "device": "d0"}
    consumed = [{**d0, "consumedCapacity": {"memory": "6Gi"}}]
    has_share = {**HARD, "slices": slices, "allocatedSharedDevices": [d0], "consumed": consumed}
    request = {"deviceClassName": "all", "capacity": {"requests": {"memory": "2Gi"}}}
    devices = {"requests": [{"name": "r", "exactly": request}]}
    claim = read({"metadata": {"name": "c"}, "spec": {"devices": devices}}, ResourceClaim)
    node = NodeInfo(read({"metadata": {"name": "n"}}, Node))
    (found,) = allocated(allocator(has_share), node, [claim])
    assert [result.device for result in found.devices.results] == ["d0"]


ANY_VALUE, SAME_VALUE = {"key": "old", "operator": "Exists"}, {"key": "old", "value": "yes"}


@pytest.mark.parametrize(
    ("effect", "toleration", "gets_it"),
    [
        ("NoSchedule", None, False),
        ("NoExecute", None, False),
        ("None", None, True),  # it only informs
        ("NoSchedule", {"operator": "Exists"}, True),
        ("NoSchedule", ANY_VALUE, True),
        ("NoSchedule", {**ANY_VALUE, "key": "other"}, False),
        ("NoSchedule", {**ANY_VALUE, "effect": "NoSchedule"}, True),
        ("NoSchedule", {**ANY_VALUE, "effect": "NoExecute"}, False),
        ("NoSchedule", SAME_VALUE, True),
        ("NoSchedule", {**SAME_VALUE, "operator": "Equal"}, True),
        ("NoSchedule", {**SAME_VALUE, "value": "no"}, False),
        ("NoSchedule", {**SAME_VALUE, "operator": "Gt"}, False),
    ],
)
def test_a_device_with_a_taint_is_for_requests_that_tolerate_it(
    effect: str, toleration: Json | None, gets_it: bool
) -> None:
    taint = DeviceTaint("old", "yes", effect)
    tolerations = [msgspec.convert(toleration, DeviceToleration)] if toleration else []
    assert is_tolerated(taint, tolerations) == gets_it


HARD: Json = {
    "classes": [{"metadata": {"name": "all"}}],
    "slices": [
        {
            "metadata": {"name": "s"},
            "spec": {
                "driver": "d",
                "nodeName": "n",
                "pool": {"name": "p", "generation": 1, "resourceSliceCount": 1},
                "devices": [{"name": f"d{at}", "attributes": {"half": {"int": at % 2}}} for at in range(40)],
            },
        }
    ],
    "allocatedDevices": [],
    "allocatedSharedDevices": [],
    "consumed": [],
}
"""Devices of two kinds, 20 of each: 21 that are alike can't be had, and to find that out takes for ever."""


def test_the_search_ends_when_its_time_is_up() -> None:
    request = {"deviceClassName": "all", "allocationMode": "ExactCount", "count": 21}
    devices = {
        "requests": [{"name": "r", "exactly": request}],
        "constraints": [{"matchAttribute": "d/half"}],
    }
    claim = read({"metadata": {"name": "c"}, "spec": {"devices": devices}}, ResourceClaim)
    steps = iter(range(10**9))
    with pytest.raises(AllocationTimeoutError):
        allocator(HARD, lambda: next(steps)).search(
            NodeInfo(read({"metadata": {"name": "n"}}, Node)), [claim], 5000
        )


@pytest.fixture
def few_calls() -> Iterator[None]:
    """No more than a hundred calls within each other."""
    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(len(inspect.stack(0)) + 100)
    yield
    sys.setrecursionlimit(limit)


@pytest.mark.usefixtures("few_calls")
def test_a_thousand_devices_are_allocated() -> None:
    """32 claims of a pod with 32 devices each: the search isn't stopped by Python's limit of calls."""
    slices = [
        {
            "metadata": {"name": f"s{number}"},
            "spec": {
                "driver": "d",
                "nodeName": "n",
                "pool": {"name": f"p{number:02}", "generation": 1, "resourceSliceCount": 1},
                "devices": [{"name": f"d{at}"} for at in range(32)],
            },
        }
        for number in range(32)
    ]
    request = {"deviceClassName": "all", "allocationMode": "ExactCount", "count": 32}
    claims = [
        read(
            {
                "metadata": {"name": f"c{number}"},
                "spec": {"devices": {"requests": [{"name": "r", "exactly": request}]}},
            },
            ResourceClaim,
        )
        for number in range(32)
    ]
    node = NodeInfo(read({"metadata": {"name": "n"}}, Node))
    found = allocated(allocator({**HARD, "slices": slices}), node, claims, inf)
    assert found is not None
    assert [len(each.devices.results) for each in found] == [32] * 32
