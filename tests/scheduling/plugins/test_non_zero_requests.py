"""What a pod is taken to use where nodes are scored: 100m cpu and 200Mi for a container that requests none.

As calculateResource and getNonMissingContainerRequests in pkg/scheduler/framework/types.go have it.
"""

from typing import Any

import pytest
from objects import pod

from lib.scheduling.resources import counted_requests, non_zero_requests, pod_requests

MI = 1024 * 1024


def container(requests: str = "", **more: Any) -> dict[str, Any]:
    """A container with requests from `cpu=1 memory=1Gi`."""
    return {"resources": {"requests": dict(each.split("=") for each in requests.split())}, **more}


SIDECAR = {"restartPolicy": "Always"}


@pytest.mark.parametrize(
    ("spec", "cpu", "memory"),
    [
        ({"containers": [container()]}, 100, 200 * MI),
        ({"containers": [container(), container()]}, 200, 400 * MI),
        ({"containers": []}, 0, 0),
        ({"containers": [container("cpu=1 memory=1Gi")]}, 1000, 1024 * MI),
        # Less than that is less, and 0 is 0, if it is said.
        ({"containers": [container("cpu=10m memory=1Mi")]}, 10, MI),
        ({"containers": [container("cpu=0 memory=0")]}, 0, 0),
        # Each resource for itself.
        ({"containers": [container("cpu=1")]}, 1000, 200 * MI),
        ({"containers": [container("memory=1Gi"), container("cpu=1")]}, 1100, 1224 * MI),
        # Init containers, too: the larger need counts, and sidecars add to it.
        ({"containers": [container("cpu=10m memory=1Mi")], "initContainers": [container()]}, 100, 200 * MI),
        ({"containers": [container()], "initContainers": [container(**SIDECAR)]}, 200, 400 * MI),
        # The overhead comes on top.
        ({"containers": [container()], "overhead": {"cpu": "5m"}}, 105, 200 * MI),
        # A pod that requests something as a whole is taken at its word …
        (
            {"containers": [container()], "resources": {"requests": {"cpu": "1", "memory": "1Gi"}}},
            1000,
            1024 * MI,
        ),
        ({"containers": [container()], "resources": {"requests": {"cpu": "50m", "memory": "0"}}}, 50, 0),
        # … and what it doesn't say is filled in for each container, if none of them says it;
        ({"containers": [container(), container()], "resources": {"requests": {"cpu": "1"}}}, 1000, 400 * MI),
        # if one does, that is all.
        (
            {"containers": [container("memory=10Mi"), container()], "resources": {"requests": {"cpu": "1"}}},
            1000,
            10 * MI,
        ),
        (
            {"containers": [container("cpu=30m"), container()], "resources": {"requests": {"memory": "1Gi"}}},
            30,
            1024 * MI,
        ),
        # What can't be requested for a whole pod is none of that.
        (
            {"containers": [container("cpu=30m"), container()], "resources": {"requests": {"x/y": "1"}}},
            130,
            400 * MI,
        ),
        (
            {"containers": [container(), container()], "resources": {"requests": {"hugepages-2Mi": "2Mi"}}},
            200,
            400 * MI,
        ),
        (
            {
                "containers": [container("cpu=30m"), container()],
                "resources": {"requests": {"hugepages-2Mi": "2Mi"}},
            },
            30,
            400 * MI,
        ),
    ],
)
def test_what_a_pod_is_taken_to_use(spec: dict[str, Any], cpu: int, memory: int) -> None:
    one = pod(**spec)
    found = non_zero_requests(one)
    assert (found.get("cpu", 0), found.get("memory", 0)) == (cpu, memory)
    assert [*counted_requests(one)] == [pod_requests(one), found]


def test_nothing_else_is_filled_in() -> None:
    wants = {"ephemeral-storage": "1Gi", "example.com/gpu": "1"}
    assert non_zero_requests(pod(requests=wants)) == {
        "cpu": 100,
        "memory": 200 * MI,
        "ephemeral-storage": 1024 * MI,
        "example.com/gpu": 1,
    }
    assert pod_requests(pod()) == {}


def test_what_is_requested_for_the_pod_as_a_whole_replaces_its_containers_requests() -> None:
    wants = {"cpu": "1", "hugepages-2Mi": "4Mi", "example.com/gpu": "9"}
    asking = pod(
        containers=[container("cpu=2 memory=1Mi hugepages-2Mi=2Mi example.com/gpu=1")],
        resources={"requests": wants},
    )
    assert pod_requests(asking) == {
        "cpu": 1000,
        "memory": MI,
        "hugepages-2Mi": 4 * MI,
        "example.com/gpu": 1,  # not for a pod as a whole
    }
