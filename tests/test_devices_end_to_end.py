"""Pods with resource claims go where their devices are, and no device is given away twice.

What a claim controller and drivers would do, the tests do.
"""

import re
import signal
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from cluster import Cluster, eventually
from device_objects import Devices, uses, uses_template
from faults import Fault, answer, delay, faulty, lose_answer

WITHIN = 60
"""Seconds; what is waited for takes far fewer."""


@pytest.fixture
def devices(cluster: Cluster) -> Iterator[Devices]:
    """A cluster with the nodes n1, n2 and n3; only n2 has a device, of the class gpu."""
    for name in ("n1", "n2", "n3"):
        cluster.add_node(name)
    devices = Devices(cluster)
    devices.add_class()
    devices.add_devices("n2", 1)
    yield devices
    cluster.clear()
    devices.clear()


WATCHING = pytest.mark.parametrize("options", [[], ["--watch"]], ids=["polling", "watching"])


def test_a_pod_goes_where_its_claim_gets_a_device(cluster: Cluster, devices: Devices) -> None:
    devices.add_claim("train")
    cluster.add_pod("web", resourceClaims=uses("train"))
    cluster.poller()
    assert cluster.placement() == {"web": "n2"}
    claim = devices.claim("train")
    assert claim["metadata"]["finalizers"] == ["resource.kubernetes.io/delete-protection"]
    assert claim["status"]["allocation"]["allocationTimestamp"]
    assert (devices.device_of("train"), devices.users_of("train")) == ("n2/gpu-0", ["web"])


def test_a_claim_with_blanks_in_its_opaque_parameters_gets_its_device(
    cluster: Cluster, devices: Devices
) -> None:
    """As Python's json writes them. A patch of such a claim is refused: the server leaves the blanks out."""
    devices.add_claim_with_blanks("train", labels={"team": "a"}, finalizers=["example.com/mine"])
    before = devices.claim("train")
    cluster.add_pod("web", resourceClaims=uses("train"))
    cluster.poller()
    assert cluster.placement() == {"web": "n2"}
    assert (devices.device_of("train"), devices.users_of("train")) == ("n2/gpu-0", ["web"])
    after = devices.claim("train")
    assert after["spec"] == before["spec"]
    mine = ["example.com/mine", "resource.kubernetes.io/delete-protection"]
    assert after["metadata"]["finalizers"] == mine
    for field in ("uid", "labels", "creationTimestamp"):
        assert after["metadata"][field] == before["metadata"][field]


@WATCHING
def test_two_pods_race_for_one_device(cluster: Cluster, devices: Devices, options: list[str]) -> None:
    for name in ("left", "right"):
        devices.add_claim(f"of-{name}")
        cluster.add_pod(name, resourceClaims=uses(f"of-{name}"))
    with cluster.running_poller(*options) as poller:
        poller.says("0/3 nodes are available: 3 cannot allocate all claims. still not schedulable", WITHIN)
        first = eventually(lambda: next((n for n, node in cluster.placement().items() if node), None), WITHIN)
        other = {"left": "right", "right": "left"}[first]
        cluster.api.delete(f"/api/v1/namespaces/default/pods/{first}", params={"gracePeriodSeconds": "0"})
        devices.free(f"of-{first}")
        poller.says(f"default/{other} is bound to n2", WITHIN)
        assert devices.device_of(f"of-{other}") == "n2/gpu-0"


@WATCHING
def test_a_pod_waits_for_the_claim_of_its_template(
    cluster: Cluster, devices: Devices, options: list[str], request: pytest.FixtureRequest
) -> None:
    with cluster.running_poller(*options) as poller:
        cluster.add_pod("web", resourceClaims=uses_template("gpus"))
        poller.says('pod "default/web": ResourceClaim not created yet', WITHIN)
        assert not cluster.events("FailedScheduling")
        if "embedded" in request.node.name:
            devices.add_template("gpus")
        else:
            devices.make_claim_of("web", "gpu")
        poller.says("default/web is bound to n2", WITHIN)


def test_a_pod_whose_claim_is_missing_is_not_tried_even_if_that_becomes_known_late(
    cluster: Cluster, devices: Devices
) -> None:
    slow = Fault("GET", "/resourceclaims", delay(1), times=1000)
    with (
        faulty(cluster.proxy, slow) as between,
        cluster.running_poller(proxy=between.url) as poller,
    ):
        cluster.add_pod("web", resourceClaims=uses("train"))
        poller.says('could not find ResourceClaim "default/train"', WITHIN)
        assert not cluster.events("FailedScheduling")
        devices.add_claim("train")
        poller.says("default/web is bound to n2", WITHIN)


@WATCHING
def test_what_a_killed_poller_leaves_the_next_one_finishes(
    cluster: Cluster, devices: Devices, options: list[str]
) -> None:
    devices.add_claim("train")
    cluster.add_pod("web", resourceClaims=uses("train"))
    refused = Fault("POST", "/pods/web/binding$", answer(429, headers={"Retry-After": "30"}), times=1000)
    with (
        faulty(cluster.proxy, refused) as between,
        cluster.running_poller(*options, proxy=between.url) as poller,
    ):
        eventually(lambda: devices.users_of("train") == ["web"], WITHIN)
        poller.stop(signal.SIGKILL)
    assert cluster.placement() == {"web": None}
    with cluster.running_poller(*options) as poller:
        poller.says("default/web is bound to n2", WITHIN)
    assert devices.users_of("train") == ["web"]


@WATCHING
@pytest.mark.parametrize("path", ["/resourceclaims/train$", "/resourceclaims/train/status$"])
def test_a_claim_whose_answer_is_lost_is_looked_up(
    cluster: Cluster, devices: Devices, path: str, options: list[str]
) -> None:
    devices.add_claim("train")
    cluster.add_pod("web", resourceClaims=uses("train"))
    with (
        faulty(cluster.proxy, Fault("PATCH", path, lose_answer())) as between,
        cluster.running_poller(*options, proxy=between.url) as poller,
    ):
        poller.says("default/web is bound to n2", WITHIN)
    assert devices.users_of("train") == ["web"]


def test_a_claim_of_a_pod_that_is_not_bound_is_released(cluster: Cluster, devices: Devices) -> None:
    devices.add_claim("train")
    cluster.add_pod("web", resourceClaims=uses("train"))
    said = '{"kind":"Status","status":"Failure","message":"no","code":422}'
    refused = Fault("POST", "/pods/web/binding$", answer(422, said), times=1000)
    with (
        faulty(cluster.proxy, refused) as between,
        cluster.running_poller(proxy=between.url) as poller,
    ):
        poller.says("default/web: binding failed", WITHIN)
        eventually(lambda: devices.device_of("train") and not devices.users_of("train"), WITHIN)


@WATCHING
def test_a_more_important_pod_gets_the_device(
    cluster: Cluster, devices: Devices, priorities: None, options: list[str]
) -> None:
    """The device's claim is freed when its pod has gone; the claim itself was in the way before."""
    devices.add_claim("shared")
    leaves = {"terminationGracePeriodSeconds": 0}  # no kubelet runs on the real server
    cluster.add_pod("low", resourceClaims=uses("shared"), requests={"cpu": "3"}, **leaves)
    cluster.poller()
    assert cluster.placement() == {"low": "n2"}
    with cluster.running_poller(*options) as poller:
        cluster.add_pod(
            "high", resourceClaims=uses("shared"), requests={"cpu": "3"}, priorityClassName="high"
        )
        poller.says("default/high is bound to n2", WITHIN)
        assert "low" not in cluster.placement()
        assert "high" in devices.users_of("shared")


@WATCHING
def test_a_pod_is_bound_when_its_device_is_ready_and_only_then(
    cluster: Cluster, devices: Devices, options: list[str]
) -> None:
    conditions = {"bindingConditions": ["attached"], "bindingFailureConditions": ["broken"]}
    devices.add_devices("n3", 1, **conditions)
    devices.add_claim("fabric")
    with cluster.running_poller(*options) as poller:
        cluster.add_pod("web", resourceClaims=uses("fabric"), nodeSelector={"kubernetes.io/hostname": "n3"})
        poller.says("default/web has n3 held for it: waiting for binding conditions", WITHIN)
        assert cluster.pod("web")["status"]["nominatedNodeName"] == "n3"
        assert cluster.events("BindingConditionsPending")
        devices.meet("fabric", "attached")
        poller.says("default/web is bound to n3", WITHIN)


@WATCHING
def test_a_device_that_breaks_is_given_up(cluster: Cluster, devices: Devices, options: list[str]) -> None:
    conditions = {"bindingConditions": ["attached"], "bindingFailureConditions": ["broken"]}
    devices.add_devices("n3", 1, **conditions)
    devices.add_claim("fabric")
    with cluster.running_poller(*options) as poller:
        cluster.add_pod("web", resourceClaims=uses("fabric"), nodeSelector={"kubernetes.io/hostname": "n3"})
        poller.says("default/web has n3 held for it: waiting for binding conditions", WITHIN)
        devices.meet("fabric", "broken")
        poller.says("device binding failed: claim=fabric, reason=r", WITHIN)
        poller.says("deallocation of ResourceClaim completed", WITHIN)


@WATCHING
def test_a_resource_of_a_device_class_is_served_by_a_device(
    cluster: Cluster, devices: Devices, options: list[str]
) -> None:
    devices.add_class("cheap", extendedResourceName="example.com/gpu")
    with cluster.running_poller(*options) as poller:
        asked = {"requests": {"example.com/gpu": "1"}, "limits": {"example.com/gpu": "1"}}
        cluster.add_pod("web", containers=[{"name": "c", "image": "i", "resources": asked}])
        poller.says("default/web is bound to n2", WITHIN)
    (claim,) = devices.claims().values()
    assert claim["metadata"]["name"].startswith("web-extended-resources-")
    about = cluster.pod("web")["status"]["extendedResourceClaimStatus"]
    assert about["resourceClaimName"] == claim["metadata"]["name"]
    mapping = {
        "containerName": "c",
        "resourceName": "example.com/gpu",
        "requestName": "container-0-request-0",
    }
    assert about["requestMappings"] == [mapping]


@WATCHING
def test_the_device_of_a_claim_that_no_list_has_shown_is_free_when_that_claim_is_gone(
    cluster: Cluster, devices: Devices, options: list[str]
) -> None:
    """The claim is made when the pod is bound; then no pod needs devices, and nothing of them is listed."""
    devices.add_class("cheap", extendedResourceName="example.com/gpu")
    asked = {"requests": {"example.com/gpu": "1"}, "limits": {"example.com/gpu": "1"}}
    containers = [{"name": "c", "image": "i", "resources": asked}]
    with cluster.running_poller(*options) as poller:
        cluster.add_pod("web", containers=containers)
        poller.says("default/web is bound to n2", WITHIN)
        cluster.api.delete("/api/v1/namespaces/default/pods/web", params={"gracePeriodSeconds": "0"})
        devices.delete_claims()
        cluster.add_pod("next", containers=containers)
        poller.says("default/next is bound to n2", WITHIN)


def test_nodes_are_packed_by_the_devices_that_serve_a_resource(
    cluster: Cluster, devices: Devices, tmp_path: Path
) -> None:
    """The node with one device is full first, then one of the others."""
    devices.add_class("cheap", extendedResourceName="example.com/gpu")
    for name in ("n1", "n3"):
        devices.add_devices(name, 4)
    config = tmp_path / "config.yaml"
    resources = "resources: [{name: example.com/gpu, weight: 1}]"
    args = f"{{name: NodeResourcesFit, args: {{scoringStrategy: {{type: MostAllocated, {resources}}}}}}}"
    config.write_text(
        "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"
        f"profiles: [{{schedulerName: my-scheduler, pluginConfig: [{args}]}}]\n"
    )
    asked = {"requests": {"example.com/gpu": "1"}, "limits": {"example.com/gpu": "1"}}
    for number in range(5):
        cluster.add_pod(f"web-{number}", containers=[{"name": "c", "image": "i", "resources": asked}])
    cluster.poller(f"--config={config}")
    nodes = Counter(cluster.placement().values())
    assert nodes["n2"] == 1
    assert sorted(nodes.values()) == [1, 4]


def test_a_resource_that_the_node_itself_has_needs_no_device(cluster: Cluster, devices: Devices) -> None:
    """A device plugin serves it there, though a class could, too. The pod's own claim gets its device."""
    devices.add_class("cheap", extendedResourceName="example.com/gpu")
    has = {"example.com/gpu": "1"}
    cluster.patch("/api/v1/nodes/n2/status", {"status": {"capacity": has, "allocatable": has}})
    devices.add_claim("train")
    asked = {"requests": has, "limits": has}
    cluster.add_pod(
        "web", resourceClaims=uses("train"), containers=[{"name": "c", "image": "i", "resources": asked}]
    )
    cluster.poller()
    assert cluster.placement() == {"web": "n2"}
    assert [*devices.claims()] == ["train"]
    assert devices.users_of("train") == ["web"]


@WATCHING
def test_nothing_of_devices_is_read_while_no_pod_needs_it(cluster: Cluster, options: list[str]) -> None:
    cluster.add_node("n1")
    cluster.add_pod("web", requests={"cpu": "1"})
    about_devices = Fault("GET", r"/resource\.k8s\.io/", answer(500, "nobody asked for devices"), times=1000)
    with (
        faulty(cluster.proxy, about_devices) as between,
        cluster.running_poller(*options, proxy=between.url) as poller,
    ):
        poller.says("default/web is bound to n1", WITHIN)
        assert "devices" not in poller.said


FOR_DEVICES = re.compile(
    r"import time:.*(lib\.kube\.(devices|claim_writes)|lib\.scheduling\.devices|cel_expr)"
)


def test_what_is_for_devices_is_imported_only_when_a_pod_needs_it(cluster: Cluster, devices: Devices) -> None:
    cluster.add_pod("web", requests={"cpu": "1"})
    done = cluster.poller(afresh=True, PYTHONPROFILEIMPORTTIME="1")
    assert "is bound to" in done.stderr
    assert "lib.scheduling.plugins.dynamic_resources" in done.stderr
    assert not FOR_DEVICES.search(done.stderr)
    devices.add_claim("train")
    cluster.add_pod("needs", resourceClaims=uses("train"))
    done = cluster.poller(afresh=True, PYTHONPROFILEIMPORTTIME="1")
    assert "default/needs is bound to n2" in done.stderr
    assert FOR_DEVICES.search(done.stderr)
