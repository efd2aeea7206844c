"""The claim that is made for a pod's extended resources (KEP 5004)."""

from typing import Any

import pytest
from objects import pod, read

from lib.kube.devices import DeviceClass, ResourceClaim
from lib.kube.objects import OwnerReference
from lib.scheduling.cache import Cache
from lib.scheduling.devices.cluster_devices import ClusterDevices
from lib.scheduling.devices.extended_resources import (
    ANNOTATION,
    claim_for,
    requested_of_classes,
    with_requests,
)

GPU, NIC = "example.com/gpu", "example.com/nic"


def devices() -> ClusterDevices:
    """Of a cluster with a class for each of the two resources."""
    found = Cache().devices
    for name, resource in (("gpu", GPU), ("nic", NIC)):
        spec = {"extendedResourceName": resource}
        found.put(read(DeviceClass, {"metadata": {"name": name}, "spec": spec}))
    return found


def container(name: str, gpus: int = 0, nics: int = 0, **more: Any) -> dict[str, Any]:
    requests = {"cpu": "1", **({GPU: gpus} if gpus else {}), **({NIC: nics} if nics else {})}
    return {"name": name, "resources": {"requests": requests}, **more}


def sidecar(name: str, gpus: int) -> dict[str, Any]:
    return container(name, gpus, restartPolicy="Always")


def requested(init: list[dict[str, Any]], containers: list[dict[str, Any]]) -> tuple[Any, Any]:
    """How many devices each request is for; and by container, the requests whose devices it has."""
    asking = pod(initContainers=init, containers=containers)
    there = devices()
    claim, mappings = with_requests(claim_for(asking, there), asking, {GPU}, there)
    counts = {
        each.name: each.exactly.count for each in claim.spec.devices.requests if each.exactly is not None
    }
    by_container: dict[str, list[str]] = {}
    for each in mappings:
        assert each.resource_name == GPU
        by_container.setdefault(each.container_name, []).append(each.request_name)
    return counts, {name: sorted(found) for name, found in by_container.items()}


FIRST, SECOND, THIRD = (f"container-{i}-request-1" for i in range(3))
"""Requests by the container's number, init containers first; cpu sorts before the resource."""


@pytest.mark.parametrize(
    ("init", "containers", "counts", "by_container"),
    [
        pytest.param(
            [],
            [container("a", 1), container("b", 2), container("c")],
            {FIRST: 1, SECOND: 2},
            {"a": [FIRST], "b": [SECOND]},
            id="each container has its own",
        ),
        pytest.param(
            [container("i", 1)],
            [container("a", 2)],
            {SECOND: 2},
            {"i": [SECOND], "a": [SECOND]},
            id="an init container has those of a container that starts later",
        ),
        pytest.param(
            [container("i", 3)],
            [container("a", 2)],
            {FIRST: 1, SECOND: 2},
            {"i": [FIRST, SECOND], "a": [SECOND]},
            id="and those that it needs in addition",
        ),
        pytest.param(
            [container("i", 3)],
            [container("a", 2), container("b", 1)],
            {SECOND: 2, THIRD: 1},
            {"i": [SECOND, THIRD], "a": [SECOND], "b": [THIRD]},
            id="those of several containers",
        ),
        pytest.param(
            [container("i", 2), container("j", 3)],
            [container("a")],
            {SECOND: 3},
            {"i": [SECOND], "j": [SECOND]},
            id="init containers run one after the other: the most is enough",
        ),
        pytest.param(
            [container("i", 3), container("j", 3)],
            [container("a")],
            {FIRST: 3},
            {"i": [FIRST], "j": [FIRST]},
            id="of equal ones, the first",
        ),
        pytest.param(
            [container("i", 1), container("j", 3)],
            [container("a", 1)],
            {SECOND: 2, THIRD: 1},
            {"i": [THIRD], "j": [SECOND, THIRD], "a": [THIRD]},
            id="only what isn't there already",
        ),
        pytest.param(
            [sidecar("s", 1), container("i", 1)],
            [container("a")],
            {FIRST: 1, SECOND: 1},
            {"s": [FIRST], "i": [SECOND]},
            id="a sidecar keeps its devices",
        ),
        pytest.param(
            [container("i", 1), sidecar("s", 1)],
            [container("a")],
            {SECOND: 1},
            {"i": [SECOND], "s": [SECOND]},
            id="before a sidecar starts, its devices are free",
        ),
    ],
)
def test_which_devices_are_requested_for_which_container(
    init: Any, containers: Any, counts: Any, by_container: Any
) -> None:
    assert requested(init, containers) == (counts, by_container)


@pytest.mark.parametrize(
    ("requests", "counted"),
    [
        ({GPU: "1"}, {GPU: 1}),
        ({GPU: "1", "example.com/other": "2"}, {GPU: 1, "example.com/other": 2}),
        ({"example.com/other": "2"}, {}),
        ({"cpu": "1", "memory": "1Gi"}, {}),
        ({GPU: "0"}, {}),
        ({"deviceclass.resource.kubernetes.io/gpu": "1"}, {"deviceclass.resource.kubernetes.io/gpu": 1}),
    ],
)
def test_devices_are_needed_if_a_class_serves_one_of_the_resources(
    requests: dict[str, str], counted: dict[str, int]
) -> None:
    assert requested_of_classes(pod(requests=requests), devices()) == counted


@pytest.mark.parametrize(
    ("annotations", "owner", "is_it"),
    [
        ({ANNOTATION: "true"}, "uid-of-web", True),
        ({ANNOTATION: "true"}, "another", False),
        ({}, "uid-of-web", False),
    ],
)
def test_the_claim_that_an_earlier_attempt_made_for_a_pod_is_found(
    annotations: dict[str, str], owner: str, is_it: bool
) -> None:
    there = devices()
    made = read(ResourceClaim, {"metadata": {"namespace": "default", "name": "made"}})
    made.metadata.annotations = annotations
    made.metadata.owner_references = [OwnerReference(kind="Pod", name="web", uid=owner, controller=True)]
    there.put(made)
    assert (claim_for(pod(requests={GPU: "1"}), there) is made) == is_it
