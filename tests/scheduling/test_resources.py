"""What a pod requests: containers, init containers, sidecars, the pod as a whole, overhead."""

from typing import Any

import pytest
from objects import pod, read

from lib.kube.objects import Pod
from lib.scheduling.resources import pod_requests


def container(cpu: str, sidecar: bool = False) -> dict[str, Any]:
    restart = {"restartPolicy": "Always"} if sidecar else {}
    return {"resources": {"requests": {"cpu": cpu}}, **restart}


@pytest.mark.parametrize(
    ("spec", "cpu"),
    [
        ({"containers": [container("100m"), container("200m")]}, 300),
        # Init containers run before the others, one at a time: the larger need counts.
        ({"containers": [container("100m")], "initContainers": [container("50m"), container("80m")]}, 100),
        ({"containers": [container("100m")], "initContainers": [container("500m")]}, 500),
        # A sidecar goes on running beside the containers …
        ({"containers": [container("100m")], "initContainers": [container("50m", sidecar=True)]}, 150),
        # … and beside the init containers that start after it, not those before.
        (
            {
                "containers": [container("100m")],
                "initContainers": [container("300m"), container("50m", sidecar=True), container("290m")],
            },
            340,
        ),
        ({"containers": [container("100m")], "overhead": {"cpu": "20m"}}, 120),
        # What the pod requests as a whole stands for all its containers.
        ({"containers": [container("100m")], "resources": {"requests": {"cpu": "1"}}}, 1000),
        (
            {
                "containers": [container("100m")],
                "resources": {"requests": {"cpu": "1"}},
                "overhead": {"cpu": "20m"},
            },
            1020,
        ),
        # Fractions are added up before they are rounded up.
        ({"containers": [container("100u")] * 10}, 1),
    ],
)
def test_cpu_requested(spec: dict[str, Any], cpu: int) -> None:
    assert pod_requests(pod(**spec)) == {"cpu": cpu}


def test_every_resource_counts_in_its_own_unit() -> None:
    wants = {"cpu": "1500m", "memory": "1.5Gi", "example.com/gpu": "2", "ephemeral-storage": "1G"}
    assert pod_requests(pod(requests=wants)) == {
        "cpu": 1500,
        "memory": 3 * 2**29,
        "example.com/gpu": 2,
        "ephemeral-storage": 10**9,
    }


def resized(asked: str, allotted: str, given: str, infeasible: bool = False) -> dict[str, int]:
    """What counts of a pod with one container that is being resized."""
    status = {
        "name": "main",
        "allocatedResources": {"cpu": allotted},
        "resources": {"requests": {"cpu": given}},
    }
    pending = {"type": "PodResizePending", "status": "True", "reason": "Infeasible"}
    spec = {"containers": [{"name": "main", "resources": {"requests": {"cpu": asked}}}]}
    conditions = [pending] if infeasible else []
    body = {"metadata": {}, "spec": spec, "status": {"containerStatuses": [status], "conditions": conditions}}
    return pod_requests(read(Pod, body))


@pytest.mark.parametrize(
    ("asked", "allotted", "given", "infeasible", "cpu"),
    [
        ("1", "1", "1", False, 1000),
        ("2", "1", "1", False, 2000),  # it is to grow: the room is kept for it
        ("100m", "2", "2", False, 2000),  # it is to shrink, and hasn't yet
        ("100m", "100m", "2", False, 2000),
        ("64", "1", "1", True, 1000),  # it can never grow so far here
    ],
)
def test_while_a_pod_is_resized_the_most_it_may_have_counts(
    asked: str, allotted: str, given: str, infeasible: bool, cpu: int
) -> None:
    assert resized(asked, allotted, given, infeasible) == {"cpu": cpu}


@pytest.mark.parametrize(
    ("asked", "allotted", "given", "infeasible", "cpu"),
    [
        ("1", None, None, False, 1000),
        ("2", "1", "1", False, 2000),
        ("100m", "2", "1", False, 2000),
        ("100m", "100m", "2", False, 2000),
        ("64", "1", "1", True, 1000),
    ],
)
def test_a_resize_of_the_pod_as_a_whole_counts_alike(
    asked: str, allotted: str | None, given: str | None, infeasible: bool, cpu: int
) -> None:
    """Source: k8s.io/component-helpers/resource/helpers.go, PodRequests, with a pod's own status."""
    status: dict[str, Any] = {}
    if given:
        status = {
            "allocatedResources": {"cpu": allotted, "memory": "1Gi"},
            "resources": {"requests": {"cpu": given}},
        }
    if infeasible:
        status["conditions"] = [{"type": "PodResizePending", "status": "True", "reason": "Infeasible"}]
    spec = {"containers": [{"name": "main"}], "resources": {"requests": {"cpu": asked}}}
    assert pod_requests(read(Pod, {"metadata": {}, "spec": spec, "status": status})) == {"cpu": cpu}
