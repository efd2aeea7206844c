"""Claims that have devices already, and what is written and undone of a pod's claims."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from objects import node, pod, read
from plugin_harness import fitting, reasons

from lib.kube.changes import Change, Kind
from lib.kube.devices import DeviceClass, DeviceObject, DeviceRequest, ResourceClaim, ResourceSlice
from lib.kube.objects import OwnerReference
from lib.kube.resource_claims import DeallocateClaim, DeleteClaim, ReleaseClaim, ReserveClaim
from lib.scheduling.cache import Cache
from lib.scheduling.devices.pod_devices import MAX_SUBREQUESTS
from lib.scheduling.handle import Handle
from lib.scheduling.plugins.dynamic_resources import DynamicResources
from lib.scheduling.status import CycleState, PluginError, Status

NOW = datetime(2026, 1, 1, tzinfo=UTC)
PLUGIN = DynamicResources(handle=Handle(now=lambda: NOW))
GPU = "example.com/gpu"

WEB = pod(resourceClaims=[{"name": "gpu", "resourceClaimName": "gpu"}])
USED_BY_WEB = [{"resource": "pods", "name": "web", "uid": WEB.metadata.uid}]
ON_N1 = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n1"]}]}
OF_N1 = {"request": "r", "driver": "d", "pool": "n1", "device": "gpu"}
ATTACHED = {"bindingConditions": ["Attached"], "bindingFailureConditions": ["Failed"]}
TWO = {**ATTACHED, "bindingConditions": ["Attached", "Prepared"]}
LATE = timedelta(seconds=PLUGIN.binding_timeout + 1)


def claim(status: Any = None, uid: str = "gpu") -> ResourceClaim:
    """A claim for one device of the class gpu."""
    requests = [{"name": "r", "exactly": {"deviceClassName": "gpu"}}]
    body = {
        "metadata": {"namespace": "default", "name": "gpu", "uid": uid},
        "spec": {"devices": {"requests": requests}},
        "status": status or {},
    }
    found: ResourceClaim = read(ResourceClaim, body)
    return found


def given(*attached: Any, ago: timedelta = timedelta(), says: str = "", **allocation: Any) -> Any:
    """The status of a claim that got devices so long ago: the first is the device that OF_N1 names.

    attached: what the devices must do to get ready. says: the conditions that the driver reports of the first
    one, as `Attached=True`.
    """
    results = [{**OF_N1, "device": f"gpu{i or ''}", **each} for i, each in enumerate(attached or ({},))]
    time = (NOW - ago).isoformat()
    conditions = [dict(zip(("type", "status"), each.split("="), strict=True)) for each in says.split()]
    which = {name: OF_N1[name] for name in ("driver", "pool", "device")}
    return {
        "allocation": {"devices": {"results": results}, "allocationTimestamp": time, **allocation},
        "devices": [{**which, "conditions": conditions}] if says else [],
    }


def slice_of(name: str) -> ResourceSlice:
    pool = {"name": name, "generation": 1, "resourceSliceCount": 1}
    spec = {"driver": "d", "nodeName": name, "pool": pool, "devices": [{"name": "gpu"}]}
    found: ResourceSlice = read(ResourceSlice, {"metadata": {"name": name}, "spec": spec})
    return found


def cluster(*objects: DeviceObject) -> Cache:
    """The nodes n1 and n2 with a device each, and a class that serves GPU."""
    cache = Cache([node("n1"), node("n2")])
    kind = read(DeviceClass, {"metadata": {"name": "gpu"}, "spec": {"extendedResourceName": GPU}})
    for each in (kind, slice_of("n1"), slice_of("n2"), *objects):
        cache.devices.put(each)
    return cache


@pytest.mark.parametrize(
    ("status", "fit"),
    [
        pytest.param(given(), "n1 n2", id="from all nodes"),
        pytest.param(given(nodeSelector={"nodeSelectorTerms": [ON_N1]}), "n1", id="from one node"),
        pytest.param(given(ago=LATE), "n1 n2", id="it needn't get ready"),
        pytest.param(given(ATTACHED), "n1 n2", id="it gets ready"),
        pytest.param(given(ATTACHED, ago=LATE), "", id="it hasn't got ready in time"),
        pytest.param(given(ATTACHED, ago=LATE, says="Attached=True"), "n1 n2", id="it is ready"),
        pytest.param(given(ATTACHED, says="Failed=True"), "", id="it has failed"),
        pytest.param(
            given(ATTACHED, ago=LATE, says="Attached=True Failed=False"), "n1 n2", id="it hasn't failed"
        ),
        pytest.param(given(ATTACHED, ago=LATE, says="Attached=False"), "", id="it isn't ready"),
        pytest.param(given(TWO, ago=LATE, says="Attached=True"), "", id="one of two conditions is met"),
        pytest.param(given({}, ATTACHED, ago=LATE), "", id="one of two devices hasn't got ready in time"),
    ],
)
def test_from_where_devices_that_a_claim_has_can_be_used(status: Any, fit: str) -> None:
    assert fitting(PLUGIN, WEB, cluster(claim(status))) == fit


def test_a_claim_that_has_devices_needs_its_class_no_more() -> None:
    cache = cluster(claim(given()))
    cache.devices.delete(cache.devices.classes["gpu"])
    assert fitting(PLUGIN, WEB, cache) == "n1 n2"


def held(cache: Cache, web: Any = WEB) -> CycleState:
    """What is known of a pod for which n1 was picked."""
    state: CycleState = {}
    assert PLUGIN.pre_filter(state, web, cache) is None
    assert PLUGIN.filter(state, web, cache.nodes["n1"]) is None
    PLUGIN.reserve(state, web, "n1")
    return state


def written(waiting: Status | None) -> list[ReserveClaim]:
    """What is to be written before a pod is bound."""
    assert waiting
    return [step for step in waiting.writes if isinstance(step, ReserveClaim)]


def bind(state: CycleState) -> Status | None:
    return PLUGIN.pre_bind(state, WEB, "n1")


@pytest.mark.parametrize(
    ("status", "answer"),
    [
        pytest.param(given(), None, id="it needn't get ready"),
        pytest.param(given(ATTACHED), "waiting for binding conditions", id="it gets ready"),
        pytest.param({}, "waiting for binding conditions", id="its device was taken away"),
        pytest.param(given(ATTACHED, ago=LATE, says="Attached=True"), None, id="it is ready"),
        pytest.param(
            given(ATTACHED, ago=LATE), PluginError("device binding timeout: claim=gpu"), id="too late"
        ),
        pytest.param(
            given(ATTACHED, says="Failed=True"), PluginError("device binding failed"), id="it has failed"
        ),
    ],
)
def test_a_pod_that_has_its_claim_already_waits_only_until_its_device_is_ready(
    status: Any, answer: Any
) -> None:
    cache = cluster(claim(given() | {"reservedFor": USED_BY_WEB}))
    state = held(cache)
    cache.devices.put(claim(status | {"reservedFor": USED_BY_WEB}))
    if isinstance(answer, PluginError):
        with pytest.raises(PluginError, match=str(answer)):
            bind(state)
        return
    bound = bind(state)
    if answer is None:
        assert bound is None
    else:
        assert bound
        assert bound.reasons[0].startswith(answer)
        assert not bound.writes


@pytest.mark.parametrize(
    ("now", "is_released"),
    [
        pytest.param(claim(given() | {"reservedFor": USED_BY_WEB}), True, id="it is written"),
        pytest.param(claim(given()), False, id="the pod doesn't use it"),
        pytest.param(claim(given() | {"reservedFor": USED_BY_WEB}, uid="new"), False, id="it was made again"),
        pytest.param(None, False, id="it is gone"),
    ],
)
def test_a_claim_is_released_only_if_the_pod_still_uses_it(
    now: ResourceClaim | None, is_released: bool
) -> None:
    cache = cluster(claim())
    state = held(cache)
    assert [step.claim.metadata.name for step in written(bind(state))] == ["gpu"]
    if now:
        cache.devices.put(now)
    else:
        cache.devices.delete(claim())
    assert PLUGIN.unreserve(state, WEB, "n1") == ([ReleaseClaim(now, WEB)] if now and is_released else [])


def test_nothing_is_undone_of_a_pod_of_which_nothing_was_written() -> None:
    cache = cluster(claim(given() | {"reservedFor": USED_BY_WEB}))
    assert PLUGIN.unreserve(held(cache), WEB, "n1") == []


def test_the_claim_for_a_pods_extended_resources_is_deleted_if_the_pod_is_not_bound() -> None:
    asking, cache = pod(requests={GPU: "1"}), cluster()
    state = held(cache, asking)
    (step,) = written(PLUGIN.pre_bind(state, asking, "n1"))
    made = claim(given() | {"reservedFor": USED_BY_WEB})
    made.metadata.annotations, made.metadata.owner_references = (
        step.claim.metadata.annotations,
        step.claim.metadata.owner_references,
    )
    cache.devices.written(made, step.claim.metadata.uid)
    assert PLUGIN.unreserve(state, asking, "n1") == [DeleteClaim(made)]
    assert cache.devices.claim("default", "gpu") is None
    assert not cache.devices.taken.devices


def test_no_claim_is_made_for_a_resource_that_the_node_has_itself() -> None:
    cache = cluster(claim())
    cache.apply(Change(Kind.MODIFIED, node("n1", has={GPU: "1"}), cache.nodes["n1"].node))
    asking = pod(requests={GPU: "1"}, resourceClaims=WEB.spec.resource_claims)
    state = held(cache, asking)
    assert [step.claim.metadata.name for step in written(PLUGIN.pre_bind(state, asking, "n1"))] == ["gpu"]


def test_a_claim_for_extended_resources_that_an_earlier_attempt_has_left_is_deleted() -> None:
    asking = pod(requests={GPU: "1"})
    left = claim(given())
    left.metadata.annotations = {"resource.kubernetes.io/extended-resource-claim": "true"}
    owner = {"kind": "Pod", "name": "web", "uid": asking.metadata.uid, "controller": True}
    left.metadata.owner_references = [read(OwnerReference, owner)]
    cache, state = cluster(left), CycleState()
    assert PLUGIN.pre_filter(state, asking, cache) is None
    rejection = PLUGIN.filter(state, asking, cache.nodes["n1"])
    assert rejection
    assert rejection.reasons == ("cannot schedule extended resource claim",)
    assert PLUGIN.post_filter(state, asking, cache, {}, lambda _: None).undo == (DeleteClaim(left),)


def test_a_claim_that_another_pod_is_getting_devices_for_is_waited_for() -> None:
    cache = cluster(claim())
    held(cache)
    second = pod("second", resourceClaims=WEB.spec.resource_claims)
    answer = PLUGIN.pre_filter({}, second, cache)
    assert isinstance(answer, Status)
    assert answer.reasons == ("resource claim default/gpu is in the process of being allocated",)


ELSEWHERE = {"matchExpressions": [{"key": "zone", "operator": "In", "values": ["other"]}]}


@pytest.mark.parametrize(
    ("users", "is_freed"), [([], True), (USED_BY_WEB, True), ([{**USED_BY_WEB[0], "uid": "other"}], False)]
)
def test_devices_that_cannot_be_used_are_taken_away_unless_another_pod_uses_them(
    users: Any, is_freed: bool
) -> None:
    has = claim(given(nodeSelector={"nodeSelectorTerms": [ELSEWHERE]}) | {"reservedFor": users})
    cache, state = cluster(has), CycleState()
    assert PLUGIN.pre_filter(state, WEB, cache) is None
    assert PLUGIN.filter(state, WEB, cache.nodes["n1"])
    freed = PLUGIN.post_filter(state, WEB, cache, {}, lambda _: None)
    assert freed.undo == ((DeallocateClaim(has),) if is_freed else ())


def test_a_request_of_a_type_that_is_not_known_rejects_the_pod() -> None:
    odd = claim()
    odd.spec.devices.requests = (DeviceRequest("r"),)
    answer = PLUGIN.pre_filter({}, WEB, cluster(odd))
    assert isinstance(answer, Status)
    assert answer.reasons == ("resource claim default/gpu, request r: unknown request type",)


def test_first_choices_of_all_claims_are_added_up() -> None:
    requests = ({"name": "r", "firstAvailable": [{"name": "one", "deviceClassName": "gpu"}]},)
    has, wants = claim(given({"request": "r/one"})), claim(uid="wants")
    wants.metadata.name = "wants"
    for each in (has, wants):
        each.spec.devices.requests = tuple(read(DeviceRequest, request) for request in requests)
    uses = [{"name": name, "resourceClaimName": name} for name in ("gpu", "wants")]
    web, cache, state = pod(resourceClaims=uses), cluster(has, wants), CycleState()
    assert PLUGIN.pre_filter(state, web, cache) is None
    assert PLUGIN.filter(state, web, cache.nodes["n2"]) is None
    assert PLUGIN.score(state, web, cache.nodes["n2"]) == 2 * MAX_SUBREQUESTS


def test_a_pod_whose_claims_have_devices_prefers_no_node() -> None:
    choice = read(DeviceRequest, {"name": "r", "firstAvailable": [{"name": "one", "deviceClassName": "gpu"}]})
    has = claim(given())
    has.spec.devices.requests = (choice,)
    cache, state = cluster(has), CycleState()
    assert PLUGIN.pre_filter(state, WEB, cache) is None
    assert [PLUGIN.filter(state, WEB, each) for each in cache.node_list] == [None, None]
    assert [PLUGIN.score(state, WEB, each) for each in cache.node_list] == [0, 0]


def test_a_resource_that_neither_the_node_nor_a_class_has_rules_the_node_out() -> None:
    asking = pod(requests={GPU: "1", "example.com/fpga": "1"})
    said = ["cannot fit resource"]
    assert reasons(PLUGIN, asking, cluster()) == {"n1": said, "n2": said}
