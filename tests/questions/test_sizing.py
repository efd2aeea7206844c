"""`size`: the nodes that it names are enough, and fewer aren't."""

import json
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
import yaml
from cluster import Cluster, eventually
from poller_process import run_poller
from questions_harness import Run

from lib.kube.objects import Taint
from lib.kube.storage import VolumeNodeResources
from lib.questions.errors import CommandLineError
from lib.questions.sizing.node_types import node_types
from lib.scheduling.resources import amounts

Json = dict[str, Any]

ZONE = "topology.kubernetes.io/zone"


def workload(kind: str, name: str, replicas: int, cpu: str, memory: str = "256Mi", **spec: Any) -> Json:
    labels = {"app": name}
    container = {"name": "main", "image": "nginx", "resources": {"requests": {"cpu": cpu, "memory": memory}}}
    template = {
        "metadata": {"labels": labels},
        "spec": {"schedulerName": "my-scheduler", "containers": [container], **spec},
    }
    more = {} if kind == "DaemonSet" else {"replicas": replicas}
    return {
        "apiVersion": "apps/v1",
        "kind": kind,
        "metadata": {"name": name},
        "spec": {"selector": {"matchLabels": labels}, "template": template, **more},
    }


def spread(name: str, over: str = ZONE) -> list[Json]:
    return [
        {
            "maxSkew": 1,
            "topologyKey": over,
            "whenUnsatisfiable": "DoNotSchedule",
            "labelSelector": {"matchLabels": {"app": name}},
        }
    ]


def apart(name: str) -> Json:
    term = {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"app": name}}}
    return {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}


def written(file: Path, *objects: Json) -> str:
    file.write_text(yaml.safe_dump_all(objects))
    return str(file)


def sized(poller: Run, file: str, *types: str, options: tuple[str, ...] = ()) -> Json:
    named = [word for each in types for word in ("--node-type", each)]
    done = poller("size", "-f", file, *named, *options, "-o", "json")
    assert done.err == "", done.err
    found: Json = json.loads(done.out)
    assert done.status == (0 if found["answer"] == "yes" else 3)
    return found


M5 = "m5=cpu:4,memory:16Gi,price:0.19"


@pytest.mark.parametrize("servers", ["embedded"], indirect=True)
def test_on_the_nodes_that_it_names_all_fit_and_on_fewer_they_do_not(
    cluster: Cluster, poller: Run, tmp_path: Path
) -> None:
    app = [
        workload("Deployment", "web", 8, "900m", topologySpreadConstraints=spread("web")),
        workload("Deployment", "db", 3, "1500m", affinity=apart("db")),
    ]
    whole = written(tmp_path / "whole.yaml", *app, workload("DaemonSet", "agent", 0, "300m"))
    found = sized(poller, whole, f"{M5},zones:a/b/c", "big=cpu:16,memory:64Gi,price:0.80,zones:a/b/c")
    assert found["nodes"] == {"m5": 5}
    assert found["is_proven_cheapest"]
    assert found["pods"] == 11

    def add_node(number: int) -> None:
        cluster.add_node(f"m5-{number}", {ZONE: "abc"[(number - 1) % 3]}, cpu="4", memory="16Gi")
        # The embedded cluster has no DaemonSets: this is what their controller would do.
        cluster.add_pod(f"agent-{number}", nodeName=f"m5-{number}", requests={"cpu": "300m"})

    for number in range(1, 5):
        add_node(number)
    file = written(tmp_path / "app.yaml", *app)
    cluster.kubectl("apply", "--validate=false", "-f", file)
    try:
        with cluster.running_poller() as scheduler:
            eventually(lambda: len(cluster.pods()) == 4 + 11)
            scheduler.says("fits nowhere")
            assert not all(cluster.placement().values())
            add_node(5)
            eventually(lambda: len(cluster.pods()) == 5 + 11 and all(cluster.placement().values()))
    finally:
        cluster.kubectl("delete", "-f", file, "--wait=false")


@pytest.mark.parametrize("servers", ["embedded"], indirect=True)
def test_pods_that_wait_in_a_cluster_need_more_nodes(cluster: Cluster) -> None:
    cluster.add_node("n1", {"disk": "ssd"}, cpu="4")
    cluster.add_node("n2", cpu="8")
    cluster.add_pod("runs", requests={"cpu": "3"}, nodeName="n1")
    for number in range(5):
        cluster.add_pod(f"waits-{number}", requests={"cpu": "3"}, nodeSelector={"disk": "ssd"})

    def asked(*options: str) -> Json:
        done = run_poller("size", f"--proxy={cluster.proxy}", "-o", "json", *options)
        assert done.stderr == ""
        found: Json = json.loads(done.stdout)
        return found

    found = asked()
    assert found["nodes"] == {"like n1": 5}, found["missing"]
    ssd = asked("--node-type=ssd=cpu:6,memory:8Gi,label:disk=ssd", "--node-type=hdd=cpu:64,memory:64Gi")
    assert ssd["nodes"] == {"ssd": 3}
    assert ssd["one_fewer"]["ssd"]["message"].startswith("0/4 nodes are available: ")


def test_a_daemon_set_takes_room_on_each_node(poller: Run, tmp_path: Path) -> None:
    web, agent = workload("Deployment", "web", 8, "1"), workload("DaemonSet", "agent", 0, "100m")
    alone = sized(poller, written(tmp_path / "a.yaml", web), M5)
    assert (alone["nodes"], alone["price"], alone["lower_bound"]) == ({"m5": 2}, 0.38, 0.38)
    both = sized(poller, written(tmp_path / "b.yaml", web, agent), M5)
    assert (both["nodes"], both["lower_bound"]) == ({"m5": 3}, 0.57)
    assert "Insufficient cpu" in both["one_fewer"]["m5"]["message"]


def test_types_are_mixed_if_that_is_cheaper(poller: Run, tmp_path: Path) -> None:
    gpu = workload("Deployment", "train", 2, "1", tolerations=[{"operator": "Exists"}])
    limits = {"nvidia.com/gpu": "1"}
    gpu["spec"]["template"]["spec"]["containers"][0]["resources"]["limits"] = limits
    file = written(tmp_path / "app.yaml", gpu, workload("Deployment", "web", 8, "1"))
    types = M5, "gpu=cpu:4,memory:16Gi,price:3,nvidia.com/gpu:2,most:4,taint:gpu=yes:NoSchedule"
    found = sized(poller, file, *types)
    assert found["nodes"] == {"m5": 2, "gpu": 1}
    assert found["is_proven_cheapest"]


S, L = "s=cpu:2,memory:2Gi,pods:9,price:1", "l=cpu:4,memory:8Gi,pods:9,price:1.5"


@pytest.mark.parametrize(
    ("types", "pods", "nodes", "price"),
    [
        ((S, L), ("1", "1Gi", 2), {"s": 1}, 1.0),
        ((S, L), ("1", "1Gi", 4), {"l": 1}, 1.5),
        ((S, L), ("1", "1Gi", 5), {"s": 1, "l": 1}, 2.5),
        ((S, L), ("1", "2Gi", 2), {"l": 1}, 1.5),  # of cpu, one s has enough; of memory, it hasn't
        ((S, f"{L},most:1"), ("1", "1Gi", 8), {"s": 2, "l": 1}, 3.5),
        ((S, L), ("100m", "1Mi", 10), {"s": 2}, 2.0),  # 9 pods on a node
        ((S.replace("price:1", "price:0.7"), L), ("1", "1Gi", 4), {"s": 2}, 1.4),
    ],
)
def test_the_cheapest_nodes_have_enough_of_all_that_is_requested(
    poller: Run, tmp_path: Path, types: tuple[str, str], pods: tuple[str, str, int], nodes: Json, price: float
) -> None:
    cpu, memory, number = pods
    file = written(tmp_path / "app.yaml", workload("Deployment", "web", number, cpu, memory))
    found = sized(poller, file, *types)
    assert (found["nodes"], found["price"], found["lower_bound"]) == (nodes, price, price)
    assert (found["is_proven_cheapest"], found["cheaper_tried"]) == (True, 0)


def test_manifests_are_sized_without_any_cluster(
    poller: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "there-is-none"))
    file = written(tmp_path / "app.yaml", workload("Deployment", "web", 1, "1"))
    assert sized(poller, file, M5)["nodes"] == {"m5": 1}


def test_max_utilization_leaves_room(poller: Run, tmp_path: Path) -> None:
    file = written(tmp_path / "app.yaml", workload("Deployment", "web", 8, "1"))
    assert sized(poller, file, M5, options=("--max-utilization", "75"))["nodes"] == {"m5": 3}


def test_volumes_count(poller: Run, tmp_path: Path) -> None:
    disks = {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "StorageClass",
        "metadata": {"name": "disk"},
        "provisioner": "disk.example.com",
        "volumeBindingMode": "WaitForFirstConsumer",
    }
    db = workload("StatefulSet", "db", 6, "100m")
    claim = {"storageClassName": "disk", "resources": {"requests": {"storage": "1Gi"}}}
    db["spec"]["volumeClaimTemplates"] = [
        {"metadata": {"name": "data"}, "spec": {"accessModes": ["ReadWriteOnce"], **claim}}
    ]
    file = written(tmp_path / "app.yaml", disks, db)
    assert sized(poller, file, M5)["nodes"] == {"m5": 1}
    assert sized(poller, file, f"{M5},volumes/disk.example.com:2")["nodes"] == {"m5": 3}


def test_what_fits_on_no_node_is_said(poller: Run, tmp_path: Path) -> None:
    file = written(
        tmp_path / "app.yaml", workload("Deployment", "web", 2, "1"), workload("Deployment", "huge", 1, "5")
    )
    found = sized(poller, file, M5)
    assert (found["nodes"], [*found["missing"]]) == (None, ["default/huge-1"])
    assert "Insufficient cpu" in found["missing"]["default/huge-1"]
    limited = sized(
        poller, written(tmp_path / "b.yaml", workload("Deployment", "web", 9, "1")), f"{M5},most:2"
    )
    assert (limited["nodes"], len(limited["missing"])) == (None, 1)
    assert limited["missing_on"] == {"m5": 2}
    assert found["is_proven_impossible"]
    assert limited["is_proven_impossible"]


def test_a_type_that_is_too_small_spoils_nothing(
    poller: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("lib.questions.sizing.search.MOST_TRIES", 20)
    web = workload("Deployment", "web", 4, "900m", topologySpreadConstraints=spread("web"))
    file, small = written(tmp_path / "app.yaml", web), "small=cpu:500m,memory:1Gi,price:0.01,zones:a/b/c"
    found = sized(poller, file, small, f"{M5},zones:a/b/c")
    assert (found["nodes"], found["is_proven_cheapest"]) == ({"m5": 1}, True)
    said = poller("size", "-f", file, "--node-type", small).out
    assert said.startswith("4 of 4 pods would have no node, however many nodes there are")
    far = workload("Deployment", "far", 2, "900m", topologySpreadConstraints=spread("far", "rack"))
    said = poller("size", "-f", written(tmp_path / "far.yaml", far), "--node-type", M5).out
    assert said.startswith(
        "no choice was found that is enough, and there may be one: with 3 m5, 2 of 2 pods would have no node"
    )


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("m5", "is not of the form NAME=cpu:4,memory:16Gi,price:0.19"),
        ("m5=cpu:4", "memory is missing"),
        ("m5=cpu:4,memory", "'memory' is not of the form KEY:VALUE"),
        ("m5=cpu:4,memory:much", "memory: 'much' is not an amount"),
        ("m5=cpu:4,memory:1Gi,price:free", "price: 'free' is not a price"),
        ("m5=cpu:4,memory:1Gi,price:0", "price: '0' is not a price"),
        ("m5=cpu:4,memory:1Gi,gpu:1", "there is no resource gpu; an extended one has a / in it"),
        ("m5=cpu:4,memory:1Gi,most:few", "most: 'few' is not a whole number"),
        ("m5=cpu:4,memory:1Gi,taint:a=b:Never", "taint a=b:Never: write KEY=VALUE:EFFECT"),
        ("M 5=cpu:4,memory:1Gi", "is not of the form"),
    ],
)
def test_a_wrong_type_is_named(poller: Run, tmp_path: Path, text: str, why: str) -> None:
    file = written(tmp_path / "app.yaml", workload("Deployment", "web", 1, "1"))
    done = poller("size", "-f", file, "--node-type", text)
    assert (done.status, done.out) == (2, "")
    assert why in done.err


def test_all_types_have_prices_or_none_has(poller: Run, tmp_path: Path) -> None:
    file = written(tmp_path / "app.yaml", workload("Deployment", "web", 1, "1"))
    done = poller("size", "-f", file, "--node-type", M5, "--node-type", "b=cpu:1,memory:1Gi")
    assert "--node-type b: price is missing" in done.err
    assert "which nodes can be had?" in poller("size", "-f", file).err


@pytest.mark.parametrize(
    ("types", "nodes"),
    [
        ([], {"like n-1": 2}),  # one of the pods has room on n-1
        (["--node-type=big=cpu:7,memory:8Gi"], {"big": 1}),
        (["--node-type=big=cpu:6,memory:8Gi"], {"big": 2}),
        (["--node-type=n=cpu:7,memory:8Gi"], {"n": 1}),  # not n-1, which is there
    ],
)
def test_pods_that_wait_need_more_nodes_and_so_do_the_pods_of_daemon_sets_there(
    poller: Run, tmp_path: Path, types: list[str], nodes: Json
) -> None:
    """On a new node, each DaemonSet has a pod that is like the one on a node of the cluster."""
    field = {"key": "metadata.name", "operator": "In", "values": ["n-1"]}
    required = {"nodeSelectorTerms": [{"matchFields": [field]}]}
    affinity = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}}
    owner = {"kind": "DaemonSet", "apiVersion": "apps/v1", "name": "agent", "uid": "d", "controller": True}

    def a_pod(name: str, cpu: str, **more: Any) -> Json:
        metadata = {"name": name, "namespace": "default", "uid": name}
        container = {"name": "main", "resources": {"requests": {"cpu": cpu}}}
        spec = {"schedulerName": "my-scheduler", "containers": [container], **more}
        return {"kind": "Pod", "apiVersion": "v1", "metadata": metadata, "spec": spec}

    agent = a_pod("agent", "1", nodeName="n-1", affinity=affinity)
    agent["metadata"]["ownerReferences"] = [owner]
    allocatable = {"cpu": "4", "memory": "8Gi", "pods": "10"}
    node = {"kind": "Node", "metadata": {"name": "n-1"}, "status": {"allocatable": allocatable}}
    gated = a_pod("gated", "1", schedulingGates=[{"name": "not-yet"}])
    waiting = [a_pod(f"waits-{i}", "3") for i in range(3)]
    file = tmp_path / "cluster.json"
    file.write_text(json.dumps({"kind": "List", "items": [node, agent, gated, *waiting]}))
    assert poller("size", "--from", str(file), *types, "-o", "json").json["nodes"] == nodes


def test_pods_may_use_a_share_of_the_cpu_and_memory_of_a_node_and_all_else() -> None:
    told = "m5=cpu:4,memory:16Gi,pods:58,example.com/gpu:3,zones:a/b"
    (node_type,) = node_types([told], 0.5)
    nodes = [new.node for new in node_type.make(3)]
    assert [node.metadata.labels[ZONE] for node in nodes] == ["a", "b", "a"]
    assert [amounts(node.status.allocatable) for node in nodes] == [
        {"cpu": 2000, "memory": 8 << 30, "pods": 58, "example.com/gpu": 3}
    ] * 3


def test_a_type_says_what_its_nodes_are_like_and_how_many_can_be_had() -> None:
    told = f"{M5},most:2,label:disk=ssd,taint:dedicated=db:NoSchedule,volumes/ebs.csi.aws.com:25"
    (node_type,) = node_types([told], 1)
    assert (node_type.price, node_type.most, node_type.kinds) == (Decimal("0.19"), 2, 1)
    new, _ = node_type.make(2)
    assert amounts(new.node.status.allocatable) == {"cpu": 4000, "memory": 16 << 30, "pods": 110}
    assert new.node.metadata.labels["disk"] == "ssd"
    assert new.node.spec.taints == [Taint("dedicated", "db", "NoSchedule")]
    assert new.csi_node
    assert new.csi_node.spec.drivers
    drivers = {driver.name: driver.allocatable for driver in new.csi_node.spec.drivers}
    assert drivers == {"ebs.csi.aws.com": VolumeNodeResources(25)}


def test_each_type_is_named_once() -> None:
    with pytest.raises(CommandLineError, match="--node-type m5: is there twice"):
        node_types([M5, M5], 1)
