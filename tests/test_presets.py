"""The configurations in scripts/examples/presets do what their page says."""

import json
import subprocess
from collections.abc import Iterator

import pytest
from cluster import Cluster, eventually
from conftest import embedded

from scripts.servers.process import ROOT

PRESETS = ROOT / "scripts/examples/presets"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """The embedded server, which has metrics.k8s.io."""
    with embedded(tmp_path_factory.mktemp("presets")) as cluster:
        yield cluster


@pytest.fixture
def nodes(server: Cluster) -> Iterator[Cluster]:
    """Four nodes, two in each of two zones."""
    for i, zone in enumerate("aabb", start=1):
        server.add_node(f"n{i}", labels={"topology.kubernetes.io/zone": zone})
    yield server
    server.clear()


def once(cluster: Cluster, preset: str, *options: str) -> "subprocess.CompletedProcess[str]":
    return cluster.poller("--once", "--config", str(PRESETS / preset), *options)


def uses(cluster: Cluster, node: str, cpu: str, memory: str = "1Gi") -> None:
    usage = {"minicluster/usage": json.dumps({"cpu": cpu, "memory": memory})}
    cluster.patch(f"/api/v1/nodes/{node}", {"metadata": {"annotations": usage}})


def add(cluster: Cluster, scheduler: str, names: str, cpu: str, **spec: object) -> None:
    for name in names:
        cluster.add_pod(name, scheduler, requests={"cpu": cpu}, **spec)


def where(cluster: Cluster) -> dict[str, str | None]:
    return cluster.placement()


def test_all_presets_are_on_the_page() -> None:
    page = (PRESETS / "README.md").read_text()
    assert all(f"[{each.name}]({each.name})" in page for each in PRESETS.glob("*.yaml"))


def test_user_pods_fill_a_node_before_they_take_the_next(nodes: Cluster) -> None:
    nodes.add_pod("first", "someone-else", requests={"cpu": "1"}, nodeName="n3")
    add(nodes, "user-scheduler", "abc", "1")
    assert once(nodes, "jupyterhub.yaml").returncode == 0
    assert where(nodes) == dict.fromkeys(["first", "a", "b", "c"], "n3")
    add(nodes, "user-scheduler", "de", "1")
    once(nodes, "jupyterhub.yaml")
    assert where(nodes)["d"] == where(nodes)["e"] != "n3"


def test_jobs_are_packed_and_groups_get_all_or_none(nodes: Cluster) -> None:
    add(nodes, "batch-scheduler", "abcd", "1")
    assert once(nodes, "batch.yaml").returncode == 0
    (full,) = set(where(nodes).values())
    gang = {"labels": {"poller/group": "gang"}, "annotations": {"poller/group-size": "4"}}
    for name in "wxyz":
        nodes.add_pod(name, "batch-scheduler", requests={"cpu": "3"}, metadata=gang)
    assert once(nodes, "batch.yaml").returncode == 3  # three nodes are free, and four are needed
    assert {name: where(nodes)[name] for name in "wxyz"} == dict.fromkeys("wxyz")
    nodes.add_node("n5")
    assert once(nodes, "batch.yaml").returncode == 0
    assert {where(nodes)[name] for name in "wxyz"} == {"n1", "n2", "n3", "n4", "n5"} - {full}


def test_a_services_pods_are_spread_over_zones_and_nodes(nodes: Cluster) -> None:
    nodes.add_node("n6", labels={"topology.kubernetes.io/zone": "a"}, cpu="64", memory="64Gi")
    nodes.post(
        "/api/v1/namespaces/default/services",
        {"metadata": {"name": "web"}, "spec": {"selector": {"app": "web"}, "ports": [{"port": 80}]}},
    )
    for name in "abcd":
        nodes.add_pod(name, "spread-scheduler", requests={"cpu": "1"}, metadata={"labels": {"app": "web"}})
    assert once(nodes, "availability.yaml").returncode == 0
    found = where(nodes)
    assert len(set(found.values())) == 4
    assert sum(node in ("n3", "n4") for node in found.values()) == 2
    nodes.api.delete("/api/v1/namespaces/default/services/web")


def test_pods_go_where_little_is_used_whatever_was_requested(nodes: Cluster) -> None:
    nodes.add_pod("idle", "someone-else", requests={"cpu": "3"}, nodeName="n2")
    eventually(lambda: nodes.pod("idle")["status"]["phase"] == "Running")
    long_ago = {"status": {"startTime": "2026-01-01T00:00:00Z"}}
    nodes.patch("/api/v1/namespaces/default/pods/idle/status", long_ago)
    for node, cpu in {"n1": "3", "n2": "100m", "n3": "3500m", "n4": "2"}.items():
        uses(nodes, node, cpu)
    add(nodes, "load-scheduler", "a", "100m")
    assert once(nodes, "actual-load.yaml").returncode == 0
    assert where(nodes)["a"] == "n2"


def test_nodes_are_filled_up_to_the_target_by_what_they_use(nodes: Cluster) -> None:
    for node, cpu in {"n1": "100m", "n2": "2", "n3": "3", "n4": "500m"}.items():
        uses(nodes, node, cpu)
    add(nodes, "load-packing-scheduler", "a", "300m")
    assert once(nodes, "actual-load.yaml").returncode == 0
    assert where(nodes)["a"] == "n2"  # 58 % with it; n3 would be beyond the target


def test_pods_that_just_came_count_with_what_they_request(nodes: Cluster) -> None:
    """Their use isn't in the metrics yet: or all would go to the node that was idle a minute ago."""
    for node, cpu in {"n1": "1", "n2": "1", "n3": "1", "n4": "500m"}.items():
        uses(nodes, node, cpu)
    add(nodes, "load-scheduler", "abcd", "1")
    assert once(nodes, "actual-load.yaml").returncode == 0
    assert len(set(where(nodes).values())) == 4


def test_without_metrics_requests_count_and_that_is_said(cluster: Cluster) -> None:
    """The real server has no metrics; the embedded one has none for these nodes."""
    cluster.add_node("n1")
    cluster.add_node("n2")
    cluster.add_pod("there", "someone-else", requests={"cpu": "2"}, nodeName="n1")
    cluster.add_pod("a", "load-scheduler", requests={"cpu": "1"})
    done = once(cluster, "actual-load.yaml")
    assert done.returncode == 0, done.stderr
    assert where(cluster)["a"] == "n2"
    lacks_api = cluster.api.get("/apis/metrics.k8s.io/v1beta1/nodes").status_code == 404
    assert done.stderr.count("going on without what nodes use (ActualLoad): GET") == lacks_api
