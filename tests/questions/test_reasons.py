"""Reasons with the numbers, or with the cause, that a person needs: sums, volumes, devices."""

from collections.abc import Sequence
from typing import Any

import msgspec
import pytest
from objects import read
from questions.answers import Lack
from questions_harness import a_claim, a_node, a_pod, a_volume, ask_why, using
from test_words import required

from lib.kube.devices import AllocatedDeviceStatus, DeviceClass, ResourceClaim, ResourceSlice
from lib.kube.objects import NodeSelector, NodeSelectorTerm, Object, Pod, Requirement
from lib.kube.storage import (
    SELECTED_NODE,
    CSIDriver,
    CSINode,
    CSIStorageCapacity,
    PersistentVolume,
    StorageClass,
    VolumeAttachment,
)

Json = dict[str, Any]


def container(name: str, cpu: str, **more: Any) -> Json:
    return {"name": name, "resources": {"requests": {"cpu": cpu}}, **more}


DAEMON = {"ownerReferences": [{"apiVersion": "apps/v1", "kind": "DaemonSet", "name": "agent", "uid": "u"}]}
CAPACITY = {"metadata": {"name": "c"}, "storageClassName": "lvm", "capacity": "10Gi"}


def driver_objects(**capacity: Any) -> list[Any]:
    return [
        a_claim("data", storageClassName="lvm", resources={"requests": {"storage": "12Gi"}}),
        read(CSIDriver, {"metadata": {"name": "x.io/p"}, "spec": {"storageCapacity": True}}),
        read(
            StorageClass,
            {
                "metadata": {"name": "lvm"},
                "provisioner": "x.io/p",
                "volumeBindingMode": "WaitForFirstConsumer",
            },
        ),
        read(CSIStorageCapacity, {**CAPACITY, **capacity}),
    ]


def selected_for(node_name: str) -> Any:
    """The claim of `driver_objects`, whose volume is to be made for a node."""
    claim, *_ = driver_objects()
    claim.metadata.annotations[SELECTED_NODE] = node_name
    return claim


def free_volume(
    name: str, size: str = "1Gi", *modes: str, phase: str = "Available", metadata: Any = None, **spec: Any
) -> PersistentVolume:
    body = {
        "metadata": {"name": name, **(metadata or {})},
        "spec": {"capacity": {"storage": size}, "accessModes": modes, **spec},
        "status": {"phase": phase},
    }
    volume: PersistentVolume = read(PersistentVolume, body)
    return volume


def attached(name: str, volume: str) -> VolumeAttachment:
    spec = {"attacher": "ebs", "nodeName": "n1", "source": {"persistentVolumeName": volume}}
    found: VolumeAttachment = read(VolumeAttachment, {"metadata": {"name": name}, "spec": spec})
    return found


def compares(value: str) -> Json:
    expression = {"key": "version", "operator": "Gt", "values": [value]}
    return required("nodeAffinity", {"nodeSelectorTerms": [{"matchExpressions": [expression]}]})


NO_VOLUME = "claim default/data (no class, 1Gi) has no volume, and without a class none is made"
OF_EBS = {"csi": {"driver": "ebs", "volumeHandle": "v"}}


@pytest.mark.parametrize(
    ("pod", "objects", "said"),
    [
        (
            a_pod("p", "3500m", overhead={"cpu": "1"}),
            [],
            ["needs cpu 4500m (3500m of main and 1 of its RuntimeClass's overhead), the node has 4 in all"],
        ),
        (
            a_pod(
                "p",
                containers=[container("a", "500m")],
                initContainers=[
                    container("j", "1"),
                    container("s", "2", restartPolicy="Always"),
                    container("i", "3"),
                ],
            ),
            [],
            [
                "needs cpu 5 (3 of init container i and 2 of the sidecars that run beside it), "
                "the node has 4 in all"
            ],
        ),
        (
            a_pod(
                "p",
                containers=[container("a", "500m")],
                initContainers=[container("i", "5"), container("s", "2", restartPolicy="Always")],
            ),
            [],
            ["needs cpu 5 (5 of init container i), the node has 4 in all"],
        ),
        (
            a_pod(
                "p",
                containers=[container("a", "3"), container("b", "1")],
                initContainers=[container("s", "1", restartPolicy="Always"), container("i", "3")],
            ),
            [],
            ["needs cpu 5 (3 of a, 1 of b and 1 of sidecar s), the node has 4 in all"],
        ),
        (
            a_pod("p", "1", resources={"requests": {"cpu": "6"}}),
            [],
            ["needs cpu 6 (6 of the pod as a whole), the node has 4 in all"],
        ),
        (
            a_pod("p", "3800m"),
            [a_pod("agent", "300m", on="n1", metadata=DAEMON)],
            ["needs cpu 3800m, the node has 4 in all, and DaemonSets' and static pods have 300m of them"],
        ),
        (
            a_pod("p", **compares("150.1")),
            [],
            ["node affinity version Gt [150.1]: 150.1 is no whole number, and so the term matches no node"],
        ),
        (
            a_pod("p", **compares("15")),
            [],
            ["node affinity version Gt [15]: the node has version=v2, which is no whole number"],
        ),
        (
            a_pod("p", **using("data")),
            [a_claim("data"), a_volume("pv", claimRef={"namespace": "default", "name": "old", "uid": "x"})],
            [NO_VOLUME, "volume pv is held by claim default/old"],
        ),
        (
            a_pod("p", **using("data")),
            [
                a_claim("data", accessModes=["ReadWriteMany"]),
                free_volume("small", "500Mi", "ReadWriteMany"),
                free_volume("once", "2Gi", "ReadWriteOnce"),
                free_volume("both", "2", "ReadWriteOnce"),
            ],
            [
                NO_VOLUME,
                "volume small has 500Mi (the claim wants 1Gi)",
                "volume once has ReadWriteOnce (the claim wants ReadWriteMany)",
            ],
        ),
        (
            a_pod("p", **using("data")),
            driver_objects(nodeTopology={}),
            [
                "x.io/p has not enough free storage here for claim default/data (class lvm, 12Gi): "
                "10Gi at most"
            ],
        ),
        (
            a_pod("p", **using("data")),
            driver_objects(nodeTopology={"matchLabels": {"on": "another"}}),
            [
                "x.io/p has not enough free storage here for claim default/data (class lvm, 12Gi): "
                "it publishes no capacity of class lvm for this node"
            ],
        ),
        (
            a_pod("p", **using("data")),
            [*driver_objects(nodeTopology={}), selected_for("n1")],
            [
                "x.io/p has not enough free storage here for claim default/data (class lvm, 12Gi): "
                "10Gi at most"
            ],
        ),
        (
            a_pod("p", **using("data")),
            [*driver_objects(nodeTopology={}), selected_for("n2")],
            ["claim default/data (class lvm, 12Gi) is to get its volume on n2"],
        ),
        (
            a_pod("p", **using("data")),
            [
                *(a_claim("data", "pv"), a_volume("pv", **OF_EBS)),
                *(a_claim("old", "left"), a_volume("left", csi={"driver": "ebs", "volumeHandle": "w"})),
                read(
                    CSINode,
                    {
                        "metadata": {"name": "n1"},
                        "spec": {"drivers": [{"name": "ebs", "allocatable": {"count": 2}}]},
                    },
                ),
                a_pod("other", on="n1", **using("used")),
                *(a_claim("used", "pv2"), a_volume("pv2", csi={"driver": "ebs", "volumeHandle": "u"})),
                *(attached("va", "left"), attached("va2", "pv2")),
            ],
            [
                "driver ebs attaches no more than 2 volumes here: pod default/other has 1, "
                "volume left is still attached, and no pod here uses it (VolumeAttachment va)"
            ],
        ),
    ],
)
def test_a_reason_has_its_numbers(pod: Pod, objects: list[Object], said: list[str]) -> None:
    answer = ask_why(pod, [a_node("n1", labels={"version": "v2"}), *objects])
    assert answer.details["n1"] == said


OLD: Any = {"claimRef": {"namespace": "default", "name": "old", "uid": "x"}}
KEPT = {"namespace": "default", "name": "data"}
DELETED = {"deletionTimestamp": "2026-01-01T00:00:00Z"}
A_LABEL = {"selector": {"matchLabels": {"disk": "ssd"}}}


@pytest.mark.parametrize(
    ("claim", "volumes", "said"),
    [
        ({}, [free_volume("pv", metadata=DELETED)], ["pv is being deleted"]),
        (
            {},
            [free_volume("pv", phase="Released", **OLD)],
            ["pv is released: its claimRef still names the earlier claim default/old"],
        ),
        ({}, [free_volume("pv", phase="Failed")], ["pv has the phase Failed, not Available"]),
        ({}, [free_volume("pv", phase="")], ["pv has the phase unknown, not Available"]),
        ({}, [free_volume("pv", storageClassName="fast")], ["pv has class fast"]),
        ({"storageClassName": "none"}, [free_volume("pv")], ["pv has no class"]),
        (
            {},
            [free_volume("pv", volumeMode="Block")],
            ["pv has the volume mode Block (the claim wants Filesystem)"],
        ),
        (
            {},
            [free_volume("pv", volumeAttributesClassName="gold")],
            ["pv has another VolumeAttributesClass"],
        ),
        (A_LABEL, [free_volume("pv")], ["pv isn't selected by the claim's selector"]),
        (A_LABEL, [free_volume("pv", metadata={"labels": {"disk": "ssd"}})], []),
        (
            {},
            [free_volume("pv", "1", volumeMode="Block")],
            ["pv has 1 (the claim wants 1Gi) and has the volume mode Block (the claim wants Filesystem)"],
        ),
        ({}, [free_volume("pv", "1", claimRef=KEPT)], ["pv has 1 (the claim wants 1Gi)"]),
        # Of several volumes, those with which the least is wrong.
        (
            {},
            [free_volume("b", "1", volumeMode="Block"), free_volume("a", "1")],
            ["a has 1 (the claim wants 1Gi)"],
        ),
        (
            {},
            [free_volume(name, volumeMode="Block") for name in "abcd"],
            [
                "a has the volume mode Block (the claim wants Filesystem)",
                "b has the volume mode Block (the claim wants Filesystem)",
                "as little is wrong with 2 more volumes",
            ],
        ),
    ],
)
def test_a_volume_that_a_claim_nearly_could_get(
    claim: Json, volumes: list[PersistentVolume], said: list[str]
) -> None:
    answer = ask_why(a_pod("p", **using("data")), [a_node("n1"), a_claim("data", **claim), *volumes])
    assert [line.removeprefix("volume ") for line in answer.details["n1"][1:]] == said


@pytest.mark.parametrize(
    ("names", "said"),
    [("a", "volume a is held by other claims"), ("ab", "volumes a, b are held by other claims")],
)
def test_volumes_that_are_all_in_use_are_said_to_be(names: str, said: str) -> None:
    used = [free_volume(name, **OLD) for name in names]
    answer = ask_why(a_pod("p", **using("data")), [a_node("n1"), a_claim("data"), a_claim("old", "a"), *used])
    assert answer.details["n1"] == [NO_VOLUME, said]


def test_attached_volumes_are_said_as_numbers_too() -> None:
    drivers = [{"name": "ebs", "allocatable": {"count": 2}}, {"name": "nfs", "allocatable": {"count": 9}}]
    objects = [
        read(CSINode, {"metadata": {"name": "n1"}, "spec": {"drivers": drivers}}),
        *(a_pod("other", on="n1", **using("used", "both")), a_claim("used", "pv1"), a_claim("both", "pv2")),
        *(
            a_claim("new", "pv3"),
            a_claim("net", "pv4"),
            a_volume("pv4", csi={"driver": "nfs", "volumeHandle": "d"}),
        ),
        *(a_volume(f"pv{i}", csi={"driver": "ebs", "volumeHandle": f"v{i}"}) for i in (1, 2, 3)),
    ]
    numbers = {"needs": 1, "has": 2, "free": 0, "held_by": {"default/other": 2}}
    pod = a_pod("p", **using("new", "both", "net"))
    assert numbers_of(pod, objects) == [{"resource": "volumes", "driver": "ebs", **numbers}]


def device_objects(requests: list[Json], devices: list[Json], **spec: Any) -> list[Object]:
    claim = {
        "metadata": {"name": "c", "namespace": "default", "uid": "c"},
        "spec": {
            "devices": {
                "requests": [
                    {
                        "name": f"r{i}",
                        "exactly": {"deviceClassName": "gpu", "allocationMode": "ExactCount", "count": 1}
                        | each,
                    }
                    for i, each in enumerate(requests)
                ],
                **spec,
            }
        },
    }
    pool = {"name": "n1", "generation": 1, "resourceSliceCount": 2}
    slices = {"driver": "d.io", "nodeName": "n1", "pool": pool}
    counters = [{"name": "gpu", "counters": {"memory": {"value": "8Gi"}}}]
    return [
        read(DeviceClass, {"metadata": {"name": "gpu"}}),
        read(ResourceClaim, claim),
        read(ResourceSlice, {"metadata": {"name": "s1"}, "spec": {**slices, "sharedCounters": counters}}),
        read(ResourceSlice, {"metadata": {"name": "s2"}, "spec": {**slices, "devices": devices}}),
    ]


def takes(memory: str) -> Json:
    return {"consumesCounters": [{"counterSet": "gpu", "counters": {"memory": {"value": memory}}}]}


def asks(memory: str) -> Json:
    return {"capacity": {"requests": {"memory": memory}}}


AT_MOST_2 = {"default": "1Gi", "validValues": ["1Gi", "2Gi"]}
A_DEVICE: list[Json] = [{"name": "a"}]
USES_C = a_pod("p", resourceClaims=[{"name": "c", "resourceClaimName": "c"}])
HAS_16 = {"capacity": {"memory": {"value": "16Gi"}}}
SHARED = {**HAS_16, "allowMultipleAllocations": True}
HAS_NO_MEMORY = [{"cel": {"expression": "!('memory' in device.capacity['d.io'])"}}]
ONE_OF_TWO = "2 devices: 1 has no memory (the request wants 12Gi), 1 could be had (the request wants 1)"
SAME = {"constraints": [{"matchAttribute": "d.io/numa"}]}


@pytest.mark.parametrize(
    ("requests", "devices", "spec", "said"),
    [
        (
            [asks("24Gi")],
            [{"name": "a", **HAS_16}, {"name": "b", **HAS_16}],
            {},
            ["r0: 2 devices: 2 have 16Gi of memory (the request wants 24Gi)"],
        ),
        ([asks("1Gi")], [{"name": "a"}], {}, ["r0: 1 device: 1 has no memory (the request wants 1Gi)"]),
        (
            [asks("12Gi"), asks("12Gi")],
            [{"name": "a", **SHARED}],
            {},
            [
                "r0: 1 device: 1 could be had (the request wants 1)",
                "r1: 1 device: 1 could be had (the request wants 1)",
                "together the requests want 24Gi of memory, and these devices have 16Gi left",
            ],
        ),
        (  # the third request's device has no such capacity
            [asks("12Gi"), asks("12Gi"), {"selectors": HAS_NO_MEMORY}],
            [{"name": "a", **SHARED}, {"name": "nic"}],
            {},
            [
                f"r0: {ONE_OF_TWO}",
                f"r1: {ONE_OF_TWO}",
                "r2: 2 devices: 1 not selected by the claim, 1 could be had (the request wants 1)",
                "together the requests want 24Gi of memory, and these devices have 16Gi left",
            ],
        ),
        (
            [{}],
            [{"name": "a", "taints": [{"key": "old", "effect": "NoSchedule"}]}],
            {},
            ["r0: 1 device: 1 with a taint that isn't tolerated"],
        ),
        (
            [asks("3Gi")],
            [{"name": "a", "capacity": {"memory": {"value": "16Gi", "requestPolicy": AT_MOST_2}}}],
            {},
            ["r0: 1 device: 1 gives no 3Gi of memory: its request policy forbids that amount"],
        ),
        (
            [{"allocationMode": "All"}],
            [{"name": "a"}, {"name": "b", "taints": [{"key": "old", "effect": "NoSchedule"}]}],
            {},
            ["r0: 2 devices: 1 with a taint that isn't tolerated, 1 could be had (the request wants all)"],
        ),
        (
            [{"count": 2}],
            [{"name": "a", "attributes": {"numa": {"int": 0}}}, {"name": "b"}],
            SAME,
            [
                "r0: 2 devices: 2 could be had (the request wants 2)",
                "constraint matchAttribute d.io/numa: the devices must have the same value, "
                "and have 0 (1) and no such attribute (1)",
            ],
        ),
        (
            [{}],
            [{"name": "a", **takes("10Gi")}],
            {},
            ["r0: 1 device: 1 needs 10Gi of shared counter gpu/memory (8Gi left)"],
        ),
        (
            [{"count": 2}],
            [{"name": n, "attributes": {"numa": {"int": 0}}} for n in "ab"],
            {"constraints": [{"distinctAttribute": "d.io/numa"}]},
            [
                "r0: 2 devices: 2 could be had (the request wants 2)",
                "constraint distinctAttribute d.io/numa: the devices must have different values, "
                "and have 0 (2)",
            ],
        ),
        (
            [{}, {}],
            [{"name": "a"}],
            {},
            [
                "r0: 1 device: 1 could be had (the request wants 1)",
                "r1: 1 device: 1 could be had (the request wants 1)",
                "together the requests want 2 devices, and 1 could be had",
            ],
        ),
        (
            [{"allocationMode": "All"}, {}],
            [{"name": "a"}, {"name": "b"}],
            {},
            [
                "r0: 2 devices: 2 could be had (the request wants all)",
                "r1: 2 devices: 2 could be had (the request wants 1)",
                "together the requests want 3 devices, and 2 could be had",
            ],
        ),
        (  # without the constraint, the counters are too few all the same
            [{"count": 2}],
            [{"name": n, "attributes": {"numa": {"int": i}}, **takes("5Gi")} for i, n in enumerate("ab")],
            SAME,
            [
                "r0: 2 devices: 2 could be had (the request wants 2)",
                "these devices share counters of their pool, and can't all be had at the same time",
            ],
        ),
        (
            [{"count": 2}],
            [{"name": "a", **takes("8Gi")}, {"name": "b", **takes("5Gi")}],
            {},
            [
                "r0: 2 devices: 2 could be had (the request wants 2)",
                "these devices share counters of their pool, and can't all be had at the same time",
            ],
        ),
        (
            [{"count": 2}],
            [{"name": n, "attributes": {"numa": {"int": i}}} for i, n in enumerate("ab")],
            SAME,
            [
                "r0: 2 devices: 2 could be had (the request wants 2)",
                "constraint matchAttribute d.io/numa: the devices must have the same value, "
                "and have 0 (1) and 1 (1)",
            ],
        ),
    ],
)
def test_devices_that_will_not_do_are_said_with_numbers(
    requests: list[Json], devices: list[Json], spec: Json, said: list[str]
) -> None:
    pytest.importorskip("cel_expr_python", reason="poller knows devices only with cel-expr-python")
    answer = ask_why(USES_C, [a_node("n1"), *device_objects(requests, devices, **spec)])
    lines = [each.removeprefix("claim default/c, ").removeprefix("request ") for each in answer.details["n1"]]
    assert lines == said


def holder_of(device: str, name: str = "holder", **result: Any) -> ResourceClaim:
    """A claim that has a device of n1."""
    found = {"request": "r", "driver": "d.io", "pool": "n1", "device": device, **result}
    body = {
        "metadata": {"name": name, "namespace": "default", "uid": name},
        "spec": {"devices": {"requests": [{"name": "r", "exactly": {"deviceClassName": "gpu"}}]}},
        "status": {"allocation": {"devices": {"results": [found]}}},
    }
    claim: ResourceClaim = read(ResourceClaim, body)
    return claim


def test_a_device_for_an_extended_resource_is_explained_as_one_of_a_claim() -> None:
    pytest.importorskip("cel_expr_python", reason="poller knows devices only with cel-expr-python")
    _, _, *slices = device_objects([], A_DEVICE)
    serving = {"metadata": {"name": "gpu"}, "spec": {"extendedResourceName": "example.com/gpu"}}
    pod = a_pod("p", requests={"example.com/gpu": "1"})
    answer = ask_why(pod, [a_node("n1"), read(DeviceClass, serving), holder_of("a"), *slices])
    assert answer.details["n1"] == [
        "claim default/<extended-resources>, request container-0-request-0: "
        "1 device: 1 in use by default/holder"
    ]


def test_devices_that_a_claim_has_elsewhere_are_said_to_be_there() -> None:
    pytest.importorskip("cel_expr_python", reason="poller knows devices only with cel-expr-python")
    kind, _, *slices = device_objects([], A_DEVICE)
    claim = holder_of("a", "c")
    assert claim.status.allocation
    term = NodeSelectorTerm((Requirement("zone", "In", ("other",)),))
    claim.status.allocation.node_selector = NodeSelector((term,))
    answer = ask_why(USES_C, [a_node("n1"), kind, claim, *slices])
    assert answer.details["n1"] == ["the devices of claim default/c can't be used there"]


def test_a_device_that_will_never_be_ready_is_said_to_have_failed() -> None:
    pytest.importorskip("cel_expr_python", reason="poller knows devices only with cel-expr-python")
    kind, _, *slices = device_objects([], A_DEVICE)
    claim = holder_of("a", "c", bindingConditions=["Ready"], bindingFailureConditions=["Failed"])
    failed = {"type": "Failed", "status": "True", "reason": "Hot", "message": "too hot"}
    which = {"driver": "d.io", "pool": "n1", "device": "a"}
    claim.status.devices = (read(AllocatedDeviceStatus, {**which, "conditions": [failed]}),)
    answer = ask_why(USES_C, [a_node("n1"), kind, claim, *slices])
    assert answer.details["n1"] == [
        "the devices of claim default/c can't be used: "
        'device binding failed: claim=c, reason=Hot, message="too hot"'
    ]


def test_devices_and_volumes_are_said_as_numbers_too() -> None:
    pytest.importorskip("cel_expr_python", reason="poller knows devices only with cel-expr-python")
    large = {**asks("24Gi"), "count": 2}
    devices = [{"name": "a", **HAS_16}, {"name": "b", **HAS_16}, {"name": "c", **SHARED}]
    gpus = [holder_of("a"), *device_objects([large], devices)]
    gi, of_claim = 2**30, {"claim": "default/c", "request": "r0", "class": "gpu"}
    lack = {"resource": "memory", "needs": 24 * gi, "has": 16 * gi, "free": 16 * gi, "devices": 2}
    assert numbers_of(USES_C, gpus) == [
        {
            **{"resource": "devices", **of_claim, "needs": 2, "has": 3, "free": 0},
            **{"held_by": {"default/holder": 1}, "lacks": [lack]},
        }
    ]
    assert numbers_of(USES_C, device_objects([{"allocationMode": "All", "count": 0}], [])) == [
        {**{"resource": "devices", **of_claim, "needs": 1, "has": 0, "free": 0}, "held_by": {}, "lacks": []}
    ]
    small = {"resource": "storage", "claim": "default/data", "class": "", "needs": gi}
    assert numbers_of(
        a_pod("p", **using("data")), [a_claim("data"), free_volume("small", "500Mi", "ReadWriteMany")]
    ) == [
        {**small, "has": 0, "free": 0},
        {**small, "has": 500 * 2**20, "free": 500 * 2**20, "volume": "small"},
    ]
    published = numbers_of(a_pod("p", **using("data")), driver_objects(nodeTopology={}))
    assert published == [{**small, "class": "lvm", "needs": 12 * gi, "has": 10 * gi, "free": 10 * gi}]


def test_places_for_pods_are_said_as_numbers_too() -> None:
    full = [a_pod(f"o{i}", on="n1") for i in range(10)]
    assert numbers_of(a_pod("p"), full) == [{"resource": "pods", "needs": 1, "has": 10, "free": 0}]


def numbers_of(pod: Pod, objects: Sequence[Object]) -> list[Json]:
    """What a node lacks, in the form that the schema says."""
    answer = ask_why(pod, [a_node("n1"), *objects]).as_json()["nodes"]["n1"]
    lacks: list[Json] = msgspec.to_builtins(answer["lacks"])
    msgspec.convert(lacks, list[Lack])
    return lacks


def test_who_is_being_deleted_makes_room() -> None:
    times = {"deletionTimestamp": "2026-01-01T10:00:30Z", "deletionGracePeriodSeconds": 30}
    low = a_pod("low", "3", on="n1", metadata={**times, "finalizers": ["example.com/hold"]})
    answer = ask_why(a_pod("p", "2"), [a_node("n1"), low])
    assert answer.as_json()["leaving"] == {
        "n1": {
            "default/low": "it is being deleted since 2026-01-01 10:00:00, "
            "and is gone when finalizer example.com/hold is removed"
        }
    }
    assert not [each for each in answer.suggestions if each.removed]
