"""A pod that names its node is there whatever a scheduler would say: only the kubelet checks it."""

import json
from pathlib import Path
from typing import Any

import pytest
from cluster import ONE_SERVER, Cluster, Json
from questions_harness import Run
from test_verbs import a_node, a_pod, write
from test_verbs_end_to_end import a_file, answer

CONTROL_PLANE = {"key": "node-role.kubernetes.io/control-plane", "effect": "NoSchedule"}
GONE = {"key": "gone", "effect": "NoExecute"}
OUT_OF = "OutOf{0}: Node didn't have enough resource: {0}, requested: {1}, used: {2}, capacity: {3}"


def other(node: str, cpu: str, **spec: Any) -> Json:
    """A pod that is on a node already."""
    return a_pod("other", cpu, node, **spec)


def port(number: int) -> Json:
    requests = {"requests": {"cpu": "1"}, "limits": {"example.com/unknown": "1"}}
    ports = [{"containerPort": number, "hostPort": number}]
    return {"containers": [{"name": "main", "image": "nginx", "resources": requests, "ports": ports}]}


@pytest.mark.parametrize(
    ("spec", "node", "said"),
    [
        ({}, {"taints": [CONTROL_PLANE], "unschedulable": True}, ""),
        (port(80), {}, "Predicate NodePorts failed: node(s) didn't have free ports"),
        (port(81), {}, ""),
        (
            {"nodeSelector": {"disk": "ssd"}},
            {},
            "NodeAffinity failed: node(s) didn't match Pod's",
        ),
        (
            {},
            {"taints": [GONE]},
            "TaintToleration failed: node(s) had untolerated",
        ),
        (
            {"tolerations": [{"key": "gone", "operator": "Exists"}]},
            {"taints": [GONE]},
            "",
        ),
        ({"nodeName": "ghost"}, {}, "there is no node ghost: no kubelet starts the pod"),
    ],
)
def test_only_the_kubelet_decides(poller: Run, tmp_path: Path, spec: Json, node: Json, said: str) -> None:
    file = write(tmp_path / "cluster.json", a_node("n1", **node), a_node("n2"), other("n1", "1", **port(80)))
    new = a_file(tmp_path, a_pod("web", "1", **{"nodeName": "n1", **spec}))
    for verb in ("try", "room"):
        done = poller(verb, "-f", new, "--from", file)
        assert (done.status, "would help" in done.out) == (3 if said else 0, False), done.out
        assert said in " ".join(done.out.split())
    found = poller("try", "-f", new, "--from", file, "-o", "json").json
    assert found["pods"][0]["node"] == (None if said else "n1")


@pytest.mark.parametrize(
    ("kind", "nodes"), [("StatefulSet", ["n1"] * 3 + [None]), ("DaemonSet", ["n1"])], ids=str
)
def test_templates_can_name_a_node(poller: Run, tmp_path: Path, kind: str, nodes: list[str | None]) -> None:
    """The fourth pod of four, with 1 of 4 cpu each, beside one with 500m."""
    file = write(tmp_path / "cluster.json", a_node("n1"), a_node("n2"), other("n1", "500m"))
    pod = a_pod("web", "1", "n1")
    template = {"metadata": {"labels": {"app": "web"}}, "spec": pod["spec"]}
    spec = {"selector": {"matchLabels": {"app": "web"}}, "template": template}
    body = {"apiVersion": "apps/v1", "kind": kind, "metadata": {"name": "web"}, "spec": spec}
    if kind == "StatefulSet":
        spec["replicas"] = 4
    new = a_file(tmp_path, body)
    found = json.loads(poller("try", "-f", new, "--from", file, "-o", "json").out)
    assert [each["node"] for each in found["pods"]] == nodes
    if kind == "StatefulSet":
        assert found["pods"][3]["message"] == OUT_OF.format("cpu", 1000, 3500, 4000)
        room = poller("room", "-f", new, "--from", file, "-o", "json").json["workloads"][0]
        assert (room["fit"], room["nodes"]) == (3, {"n1": 3})


def test_room_beside_pods_that_name_a_node(poller: Run, tmp_path: Path) -> None:
    """One pod of each in turn: those that name n1 are there, and the others have room on n2."""
    file = write(tmp_path / "cluster.json", a_node("n1", "2"), a_node("n2", "2"))
    new = a_file(tmp_path, a_pod("named", "1", "n1"), a_pod("free", "1"))
    room = poller("room", "-f", new, "--from", file, "-o", "json").json["workloads"]
    assert [each["nodes"] for each in room] == [{"n1": 2}, {"n2": 2}]


@pytest.mark.parametrize("servers", [ONE_SERVER], indirect=True)
def test_a_live_pod_is_on_the_node_that_it_names(cluster: Cluster, tmp_path: Path) -> None:
    cluster.add_node("n1")
    cluster.patch("/api/v1/nodes/n1", {"spec": {"unschedulable": True}})
    cluster.add_node("n2")
    found = answer(cluster, "try", "-f", a_file(tmp_path, a_pod("web", "1", "n1")))
    assert found["pods"][0]["node"] == "n1"


def test_what_a_runtime_class_adds_is_not_to_be_left_out(poller: Run, tmp_path: Path) -> None:
    kata = {
        "apiVersion": "node.k8s.io/v1",
        "kind": "RuntimeClass",
        "metadata": {"name": "kata"},
        "scheduling": {"nodeSelector": {"kata": "yes"}},
    }
    selector = {"runtimeClassName": "kata", "nodeSelector": {"kata": "yes"}}
    file = write(tmp_path / "cluster.json", kata, a_node("n1"), a_pod("waits", "1", **selector))
    new = a_file(tmp_path, a_pod("web", "1", runtimeClassName="kata"))
    for verb in (["why", "waits"], ["try", "-f", new]):
        said = poller(*verb, "--from", file).out
        assert "with the label kata=yes on n1: n1 fits" in said
        assert "without nodeSelector" not in said
