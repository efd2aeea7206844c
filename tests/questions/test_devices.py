"""Pods that need devices: which node has one, how many more fit, and what is saved of it."""

import json
from pathlib import Path
from typing import Any

import pytest
from cluster import ONE_SERVER, Cluster, Json
from device_objects import Devices, uses
from questions_harness import Run
from test_verbs import a_node, a_pod, write
from test_verbs_end_to_end import ask

API = {"apiVersion": "resource.k8s.io/v1"}
WANTED = {"devices": {"requests": [{"name": "one", "exactly": {"deviceClassName": "gpu"}}]}}

CLASS: Json = {
    **API,
    "kind": "DeviceClass",
    "metadata": {"name": "gpu"},
    "spec": {
        "selectors": [{"cel": {"expression": 'device.driver == "gpu.example.com"'}}],
        "config": [{"opaque": {"driver": "gpu.example.com", "parameters": {"token": "secret"}}}],
        "extendedResourceName": "example.com/gpu",
    },
}
TEMPLATE: Json = {
    **API,
    "kind": "ResourceClaimTemplate",
    "metadata": {"name": "gpu", "namespace": "default"},
    "spec": {"spec": WANTED},
}


def slice_of(node: str, count: int) -> Json:
    pool = {"name": node, "generation": 1, "resourceSliceCount": 1}
    devices = [{"name": f"gpu-{at}"} for at in range(count)]
    spec = {"driver": "gpu.example.com", "nodeName": node, "pool": pool, "devices": devices}
    return {**API, "kind": "ResourceSlice", "metadata": {"name": f"of-{node}"}, "spec": spec}


def claim(name: str, device: str = "") -> Json:
    """A claim, if need be with a device of n2."""
    metadata = {"name": name, "namespace": "default", "uid": f"uid-{name}"}
    body: Json = {**API, "kind": "ResourceClaim", "metadata": metadata, "spec": WANTED, "status": {}}
    if device:
        result = {"request": "one", "driver": "gpu.example.com", "pool": "n2", "device": device}
        here = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n2"]}]}
        devices = {"results": [result]}
        body["status"] = {"allocation": {"devices": devices, "nodeSelector": {"nodeSelectorTerms": [here]}}}
    return body


def claims_of(name: str) -> list[Json]:
    return [{"name": "of", "resourceClaimName": name}]


@pytest.fixture
def cluster_file(tmp_path: Path) -> str:
    """n2 has three devices, of which one is in use; the pod `web` wants one, `lost` has no claim."""
    return write(
        tmp_path / "cluster.json",
        *(a_node(name) for name in ("n1", "n2")),
        *(CLASS, TEMPLATE, slice_of("n2", 3), claim("used", "gpu-0"), claim("free")),
        a_pod("web", "1", resourceClaims=claims_of("free")),
        a_pod("lost", "1", resourceClaims=claims_of("missing")),
    )


def test_why_knows_which_node_has_a_device(poller: Run, cluster_file: str) -> None:
    found = poller("why", "web", "--from", cluster_file, "-o", "json").json
    assert (found["answer"], found["node"]) == ("yes", "n2")
    n1 = found["nodes"]["n1"]
    assert n1["reasons"] == ["cannot allocate all claims"]
    assert n1["details"] == ["claim default/free, request one: no devices are there"]
    lost = poller("why", "lost", "--from", cluster_file)
    assert lost.status == 3
    assert 'could not find ResourceClaim "default/missing"' in lost.out


def workload(tmp_path: Path, replicas: int, **spec: Any) -> str:
    container: Json = {"name": "main", "image": "x"}
    container["resources"] = spec.pop("resources", {})
    template = {"metadata": {"labels": {"app": "train"}}, "spec": {"containers": [container], **spec}}
    body = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "train", "namespace": "default"},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": {"app": "train"}},
            "template": template,
        },
    }
    file = tmp_path / "train.json"
    file.write_text(json.dumps(body))
    return str(file)


def test_why_says_why_a_node_has_no_device_for_a_pod(poller: Run, tmp_path: Path) -> None:
    taken = [claim(f"of-{at}", f"gpu-{at}") for at in range(2)]
    pods = (a_pod("web", "1", resourceClaims=claims_of("free")),)
    cluster = write(tmp_path / "c.json", a_node("n2"), CLASS, slice_of("n2", 2), claim("free"), *taken, *pods)
    found = poller("why", "web", "--from", cluster, "-o", "json").json
    why = "2 devices: 1 in use by default/of-0, 1 in use by default/of-1"
    assert found["nodes"]["n2"]["details"] == [f"claim default/free, request one: {why}"]


@pytest.mark.parametrize(
    "spec",
    [
        {"resourceClaims": [{"name": "of", "resourceClaimTemplateName": "gpu"}]},
        {"resources": {"requests": {"example.com/gpu": "1"}, "limits": {"example.com/gpu": "1"}}},
    ],
    ids=["template", "extended resource"],
)
def test_try_and_room_count_devices(poller: Run, cluster_file: str, tmp_path: Path, spec: Json) -> None:
    file = workload(tmp_path, 3, **spec)
    found = json.loads(poller("try", "-f", file, "--from", cluster_file, "-o", "json").out)
    assert found["answer"] == "no"
    assert [each["node"] for each in found["pods"]] == ["n2", "n2", None]
    found = json.loads(poller("room", "-f", file, "--from", cluster_file, "-o", "json").out)
    assert found["workloads"][0]["fit"] == 2


def test_without_devices_in_the_file_it_is_said_that_they_are_not_known(poller: Run, tmp_path: Path) -> None:
    file = write(tmp_path / "c.json", a_node("n1"), a_pod("web", "1", resourceClaims=claims_of("x")))
    done = poller("why", "web", "--from", file)
    assert done.status == 4
    assert "can't be seen" in done.out + done.err


@pytest.mark.parametrize("servers", [ONE_SERVER], indirect=True)
def test_a_saved_cluster_has_its_devices_and_no_parameters(
    cluster: Cluster, tmp_path: Path, poller: Run
) -> None:
    devices = Devices(cluster)
    try:
        cluster.add_node("n1")
        cluster.add_node("n2")
        secret = {"opaque": {"driver": "gpu.example.com", "parameters": {"token": "secret"}}}
        devices.add_class(config=[secret])
        devices.add_devices("n2", 1)
        devices.add_claim("train")
        cluster.add_pod("web", resourceClaims=uses("train"))
        file = tmp_path / "saved.json"
        ask(cluster, "save", str(file))
        assert "secret" not in file.read_text()
        assert poller("why", "web", "--from", str(file), "-o", "json").json["node"] == "n2"
    finally:
        cluster.clear()
        devices.clear()


def test_what_is_saved_has_no_parameters_and_any_label(poller: Run, tmp_path: Path) -> None:
    labelled = a_node("n1")
    labelled["metadata"]["labels"]["opaque"] = "yes"
    cluster, saved = write(tmp_path / "cluster.json", labelled, CLASS), tmp_path / "saved.json"
    assert poller("save", str(saved), "--from", cluster).status == 0
    assert "secret" not in saved.read_text()
    objects = {item["kind"]: item for item in json.loads(saved.read_text())["items"]}
    assert objects["Node"]["metadata"]["labels"] == labelled["metadata"]["labels"]
    assert objects["DeviceClass"]["spec"]["selectors"] == CLASS["spec"]["selectors"]


@pytest.mark.parametrize(("devices_of_n1", "answer"), [(1, "yes"), (0, "no")])
def test_a_drained_pod_leaves_its_device_and_needs_another(
    poller: Run, tmp_path: Path, devices_of_n1: int, answer: str
) -> None:
    owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "uid": "u", "controller": True}
    web = a_pod("web", "1", resourceClaims=claims_of("used"), nodeName="n2")
    web["metadata"]["ownerReferences"] = [owner]
    used = claim("used", "gpu-0")
    used["status"]["reservedFor"] = [
        {"resource": "pods", "name": "web", "uid": web["metadata"].get("uid", "")}
    ]
    slices = slice_of("n2", 3), slice_of("n1", devices_of_n1)
    nodes = (a_node(name) for name in ("n1", "n2"))
    file = write(tmp_path / "cluster.json", *nodes, CLASS, *slices, used, web)
    found = poller("drain", "n2", "-o", "json", "--from", file).json
    assert found["answer"] == answer
    assert found["pods"][0]["to"] == ("n1" if answer == "yes" else None)


def test_each_pod_of_a_daemon_set_needs_a_device_of_its_own(poller: Run, tmp_path: Path) -> None:
    spec = {
        "containers": [{"name": "c", "image": "i"}],
        "resourceClaims": [{"name": "gpu", "resourceClaimTemplateName": "gpu"}],
    }
    labels = {"app": "agent"}
    template = {"metadata": {"labels": labels}, "spec": spec}
    agent = {
        "apiVersion": "apps/v1",
        "kind": "DaemonSet",
        "metadata": {"name": "agent"},
        "spec": {"selector": {"matchLabels": labels}, "template": template},
    }
    manifest = tmp_path / "agent.json"
    manifest.write_text(json.dumps(agent))
    nodes = (a_node(name) for name in ("n1", "n2", "n3"))
    file = write(tmp_path / "c.json", *nodes, CLASS, TEMPLATE, slice_of("n1", 1), slice_of("n3", 1))
    found = poller("try", "-f", str(manifest), "-o", "json", "--from", file).json
    assert {each["pod"]: each["node"] for each in found["pods"]} == {
        "default/agent-n1": "n1",
        "default/agent-n2": None,
        "default/agent-n3": "n3",
    }
