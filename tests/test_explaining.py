"""Every decision explained, end to end: as JSON, as a table, on the pod; several schedulers; own policies."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
from cluster import Cluster

from scripts.servers.process import ROOT

ON_ONE_SERVER = True

EXAMPLES = ROOT / "scripts" / "examples"


def explained(cluster: Cluster, *arguments: str) -> dict[str, Any]:
    """What `--explain json` says of each pod, after a dry run."""
    done = cluster.poller("--dry-run", "--explain", "json", *arguments)
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    return {line["pod"]: line for line in lines}


@pytest.fixture
def three_nodes(cluster: Cluster) -> Cluster:
    """n1 small and cordoned, n2 with an advising taint, n3 as it should be."""
    cluster.add_node("n1", cpu="1")
    cluster.add_node("n2")
    cluster.add_node("n3")
    cluster.kubectl("cordon", "n1")
    cluster.kubectl("taint", "nodes", "n2", "flaky:PreferNoSchedule")
    return cluster


def test_a_dry_run_tells_where_a_pod_would_go_and_why(three_nodes: Cluster) -> None:
    three_nodes.add_pod("web", requests={"cpu": "1", "memory": "1Gi"})
    three_nodes.add_pod("big", requests={"cpu": "64"})
    before = three_nodes.pods()
    said = explained(three_nodes)
    assert said["default/web"] == {
        "pod": "default/web",
        "scheduler": "my-scheduler",
        "outcome": "scheduled",
        "node": "n3",
        "message": "would be assigned to n3",
        "nodes": {
            "n1": {"rejected_by": "NodeUnschedulable", "reasons": ["node(s) were unschedulable"]},
            "n2": {
                "scores": {
                    "TaintToleration": 0,
                    "NodeResourcesFit": 81,
                    "NodeResourcesBalancedAllocation": 71,
                    "ImageLocality": 0,
                },
                "total": 152,
            },
            "n3": {
                "scores": {
                    "TaintToleration": 300,
                    "NodeResourcesFit": 81,
                    "NodeResourcesBalancedAllocation": 71,
                    "ImageLocality": 0,
                },
                "total": 452,
            },
        },
    }
    assert said["default/big"]["outcome"] == "unschedulable"
    assert said["default/big"]["node"] is None
    assert said["default/big"]["nodes"]["n3"] == {
        "rejected_by": "NodeResourcesFit",
        "reasons": ["Insufficient cpu"],
    }
    assert three_nodes.pods() == before


def test_a_table_shows_it_to_people(three_nodes: Cluster) -> None:
    three_nodes.add_pod("web", requests={"cpu": "1", "memory": "1Gi"})
    table = three_nodes.poller("--dry-run", "--explain", "table", afresh=True).stdout
    assert table.startswith("default/web: would be assigned to n3\n")
    rows = [line.split() for line in table.splitlines()]
    assert ["->", "n3", "300", "81", "71", "0", "452"] in rows
    assert ["n2", "0", "81", "71", "0", "152"] in rows
    assert ["n1", "NodeUnschedulable:", "node(s)", "were", "unschedulable"] in rows


def test_a_wide_clusters_table_is_cut_and_says_so(cluster: Cluster) -> None:
    for i in range(30):
        cluster.add_node(f"full-{i:02}", pods="0")
    for i in range(10):
        cluster.add_node(f"free-{i}")
    cluster.add_pod("web")
    table = cluster.poller("--dry-run", "--explain", "table").stdout
    assert len(re.findall("free-", table)) - 1 == 6  # and once in the first line
    assert re.search(r"full-00 and 29 more +NodeResourcesFit: Too many pods", table)
    assert "nodes not shown: 4 that fit" in table


def test_the_pod_itself_says_why_it_is_there(three_nodes: Cluster) -> None:
    three_nodes.add_pod("web", requests={"cpu": "1", "memory": "1Gi"})
    three_nodes.poller()
    said = json.loads(three_nodes.pod("web")["metadata"]["annotations"]["poller/decision"])
    assert said == {
        "feasible": "2/3",
        "total": 452,
        "scores": {
            "TaintToleration": 300,
            "NodeResourcesFit": 81,
            "NodeResourcesBalancedAllocation": 71,
            "ImageLocality": 0,
        },
        "runnerUp": {"n2": 152},
    }
    three_nodes.add_pod("shy")
    three_nodes.poller("--no-annotate")
    assert "annotations" not in three_nodes.pod("shy")["metadata"]


def test_one_process_serves_two_schedulers_and_a_name_one(three_nodes: Cluster) -> None:
    for name, scheduler in (("a", "my-scheduler"), ("b", "random-scheduler"), ("c", "mine")):
        three_nodes.add_pod(name, scheduler=scheduler)
    said = explained(three_nodes)
    assert said.keys() == {"default/a", "default/b"}
    assert said["default/b"]["scheduler"] == "random-scheduler"
    assert list(said["default/b"]["nodes"]["n3"]["scores"]) == ["Random"]

    said = explained(three_nodes, "--scheduler-name", "mine")
    assert said.keys() == {"default/c"}
    assert "TaintToleration" in said["default/c"]["nodes"]["n3"]["scores"]
    said = explained(three_nodes, "--scheduler-name", "mine", "--policy", "random")
    assert list(said["default/c"]["nodes"]["n3"]["scores"]) == ["Random"]

    three_nodes.poller()
    three_nodes.poller("--scheduler-name", "mine")
    sources = {event["source"]["component"] for event in three_nodes.events("Scheduled")}
    assert sources == {"my-scheduler", "random-scheduler", "mine"}


# --- policies of one's own ------------------------------------------------------------------------------


def test_the_best_price(cluster: Cluster) -> None:
    for name, price in (("n1", "0.9"), ("n2", "0.1"), ("n3", "cheap")):
        cluster.add_node(name)
        cluster.kubectl("annotate", "node", name, f"example.com/price={price}")
    cluster.add_pod("web")
    nodes = explained(cluster, "--plugin", str(EXAMPLES / "best_price.py"))["default/web"]["nodes"]
    assert {name: each["scores"]["best_price"] for name, each in nodes.items()} == {
        "n1": 50,
        "n2": 450,
        "n3": 0,
    }


def test_bin_packing(cluster: Cluster) -> None:
    for name in ("n1", "n2"):
        cluster.add_node(name)
    packed = ("--plugin", str(EXAMPLES / "bin_packing.py"))
    for i in range(4):
        cluster.add_pod(f"p{i}", requests={"cpu": "1"})
    assert cluster.poller(*packed).returncode == 0
    assert len(set(cluster.placement().values())) == 1  # kube-scheduler would have put two on each


def test_headroom(cluster: Cluster) -> None:
    cluster.add_node("n1", cpu="1")
    cluster.add_node("n2", cpu="2")
    cluster.add_pod("web", requests={"cpu": "900m"})
    nodes = explained(cluster, "--plugin", str(EXAMPLES / "headroom.py"))["default/web"]["nodes"]
    assert nodes["n1"]["reasons"] == ["node(s) would have less than 20% of their cpu free"]
    assert nodes["n2"] == {"scores": {}, "total": 0}


def test_spread_by_rack(cluster: Cluster) -> None:
    for i in range(4):
        cluster.add_node(f"n{i}", labels={"example.com/rack": f"r{i % 2}"})
    for i in range(3):
        cluster.add_pod(f"p{i}", metadata={"labels": {"app": "web"}})
    done = cluster.poller("--plugin", str(EXAMPLES / "spread_by_rack.py"), afresh=True)
    assert done.returncode == 3
    racks = [int(node[1]) % 2 for node in cluster.placement().values() if node]
    assert sorted(racks) == [0, 1]
    assert "4 node(s) were in a rack that runs the application already" in done.stderr


def test_a_broken_policy_stops_its_pod_and_nothing_else(cluster: Cluster, tmp_path: Path) -> None:
    file = tmp_path / "moody.py"
    file.write_text("def filter(pod, node):\n    return bool(pod.metadata.labels['mood'])\n")
    cluster.add_node("n1")
    cluster.add_pod("glad", metadata={"labels": {"mood": "good"}})
    cluster.add_pod("plain")
    with cluster.running_poller("--plugin", str(file)) as poller:
        poller.says("default/glad is bound to n1")
        poller.says("default/plain: plugin moody failed at moody.py:2 for node n1: KeyError: 'mood'")
        cluster.kubectl("label", "pod", "plain", "mood=better")
        poller.says("default/plain is bound to n1")
    (event,) = cluster.events("FailedScheduling")
    assert event["message"] == "plugin moody failed at moody.py:2 for node n1: KeyError: 'mood'"


def test_a_file_that_is_no_policy_is_a_bad_option(servers: Cluster, tmp_path: Path) -> None:
    (tmp_path / "broken.py").write_text("def score(pod, node)\n")
    done = servers.poller("--plugin", str(tmp_path / "broken.py"), COLUMNS="200")
    assert done.returncode == 2
    assert "broken.py:1: expected ':'" in done.stderr


# --- what the picture holds -----------------------------------------------------------------------------


def test_pods_of_a_service_are_spread_by_default(cluster: Cluster) -> None:
    for name in ("n1", "n2", "n3"):
        cluster.add_node(name, labels={"topology.kubernetes.io/zone": name})
    cluster.post(
        "/api/v1/namespaces/default/services",
        {"metadata": {"name": "web"}, "spec": {"selector": {"app": "web"}, "ports": [{"port": 80}]}},
    )
    try:
        for i in range(3):
            cluster.add_pod(f"web-{i}", metadata={"labels": {"app": "web"}})
        cluster.add_pod("alone")
        said = explained(cluster)
        assert "PodTopologySpread" in said["default/web-0"]["nodes"]["n1"]["scores"]
        assert "PodTopologySpread" not in said["default/alone"]["nodes"]["n1"]["scores"]
        cluster.poller()
        placement = cluster.placement()
        assert len({placement[f"web-{i}"] for i in range(3)}) == 3
    finally:
        cluster.api.delete("/api/v1/namespaces/default/services/web")


def test_namespaces_are_selected_by_their_labels(cluster: Cluster) -> None:
    for name in ("n1", "n2"):
        cluster.add_node(name)
    cluster.add_pod("bound", namespace="kube-system", metadata={"labels": {"app": "db"}}, nodeName="n2")
    near = {
        "topologyKey": "kubernetes.io/hostname",
        "labelSelector": {"matchLabels": {"app": "db"}},
        "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "kube-system"}},
    }
    affinity = {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [near]}}
    cluster.add_pod("web", affinity=affinity)
    assert cluster.poller().returncode == 0
    assert cluster.placement()["web"] == "n2"


DELAY = """
from lib.scheduling.plugins.node_number import NodeNumber

class Delay(NodeNumber):
    name = "Delay"
"""


def test_a_permit_plugin_delays_a_binding(cluster: Cluster, tmp_path: Path) -> None:
    (tmp_path / "delay.py").write_text(DELAY)
    cluster.add_node("n1")
    cluster.add_pod("web")
    with cluster.running_poller("--plugin", str(tmp_path / "delay.py")) as poller:
        poller.says("default/web has n1 held for it: waits 1 s for n1")
        assert cluster.placement() == {"web": None}
        poller.says("default/web is bound to n1")
    assert cluster.placement() == {"web": "n1"}
