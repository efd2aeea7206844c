"""`drain` foretells what `kubectl drain` does: its waves, where it sticks, the options that it needs."""

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest
from cluster import PATIENCE, Cluster, Json, eventually
from questions_harness import Run
from test_verbs import a_node, a_pod, write
from test_verbs_end_to_end import answer, ask

from scripts.servers.kubectl import KUBECTL

BUDGETS = "/apis/policy/v1/namespaces/default/poddisruptionbudgets"


def made_by(name: str, kind: str = "ReplicaSet", **labels: str) -> Json:
    owner = {"kind": kind, "apiVersion": "apps/v1", "name": name, "uid": name, "controller": True}
    return {"ownerReferences": [owner], "labels": labels or {"app": name}}


def a_budget(name: str, allowed: int, **labels: str) -> Json:
    return {
        "kind": "PodDisruptionBudget",
        "metadata": {"namespace": "default", "name": name},
        "spec": {"selector": {"matchLabels": labels or {"app": name}}},
        "status": {"disruptionsAllowed": allowed},
    }


def drained(poller: Run, folder: Path, *objects: Json, nodes: tuple[str, ...] = ("n1",)) -> Json:
    file = write(folder / "cluster.json", *objects)
    done = poller("drain", *nodes, "--from", file, "-o", "json")
    found: Json = json.loads(done.out)
    return {**found, "in words": poller("drain", *nodes, "--from", file).out}


def pods(number: int, cpu: str = "100m", on: str = "n1", **spec: Any) -> list[Json]:
    return [a_pod(f"web-{i}", cpu, on, made_by("web"), **spec) for i in range(number)]


def test_a_budget_lets_a_drain_go_on_in_waves(poller: Run, tmp_path: Path) -> None:
    """Before: 10 pods may not be evicted now, and exit status 3, where kubectl drain ended in 7 s."""
    both = [a_node("n1"), a_node("n2")]
    found = drained(poller, tmp_path, *both, *pods(10), a_budget("web", 1))
    assert (found["answer"], found["waves"]) == ("yes", 10)
    assert [each["wave"] for each in found["pods"]] == [*range(1, 11)]
    assert "10 pods to evict, all would have a node; it works in 10 waves" in found["in words"]
    three = drained(poller, tmp_path, *both, *pods(10), a_budget("web", 4))
    assert [each["wave"] for each in three["pods"]] == [1] * 4 + [2] * 4 + [3] * 2


def test_a_drain_sticks_where_the_evicted_pods_have_no_node(poller: Run, tmp_path: Path) -> None:
    objects = [a_node("n1"), a_node("n2", "2"), *pods(4, "1"), a_budget("web", 1)]
    found = drained(poller, tmp_path, *objects)
    assert (found["answer"], found["waves"]) == ("no", 3)
    assert [each["wave"] for each in found["pods"]] == [1, 2, 3, None]
    assert found["pods"][3]["budgets"] == ["default/web"]
    said = " ".join(found["in words"].split())
    assert "stuck at pod default/web-3 after 3 waves" in said
    assert "budget default/web allows no disruption of it, and default/web-2 would have no node by" in said


def test_a_drain_goes_to_no_other_node_while_it_sticks(poller: Run, tmp_path: Path) -> None:
    nodes = [a_node("n1"), a_node("n2"), a_node("n3")]
    rest = a_pod("rest", "1", "n2", made_by("rest"))
    found = drained(poller, tmp_path, *nodes, *pods(1), rest, a_budget("web", 0), nodes=("n1", "n2"))
    assert [(each["pod"], each["wave"]) for each in found["pods"]] == [
        ("default/web-0", None),
        ("default/rest", None),
    ]


def test_two_budgets_are_one_too_many(poller: Run, tmp_path: Path) -> None:
    budgets = a_budget("web", 1), a_budget("other", 1, app="web")
    found = drained(poller, tmp_path, a_node("n1"), a_node("n2"), *pods(1), *budgets)
    assert found["pods"][0]["stuck"].startswith("it has more than one disruption budget")


def test_what_kubectl_needs_to_be_told(poller: Run, tmp_path: Path) -> None:
    local = {"volumes": [{"name": "scratch", "emptyDir": {}}]}
    objects = [
        a_pod("agent", "100m", "n1", made_by("agent", "DaemonSet")),
        a_pod("bare", "100m", "n1"),
        a_pod("local", "100m", "n1", made_by("local"), **local),
    ]
    found = drained(poller, tmp_path, a_node("n1"), a_node("n2"), *objects)
    assert found["kubectl_options"] == {
        "--ignore-daemonsets": ["default/agent"],
        "--delete-emptydir-data": ["default/local"],
        "--force": ["default/bare"],
    }
    assert "without --ignore-daemonsets --delete-emptydir-data --force" in found["in words"]


def test_a_bare_pod_is_gone_and_a_static_one_stays(poller: Run, tmp_path: Path) -> None:
    """Before, the bare one had a new node, and the static one was to be evicted with --force."""
    static = {"annotations": {"kubernetes.io/config.mirror": "x"}}
    objects = [a_pod("bare", "1", "n1"), a_pod("static", "1", "n1", static), *pods(1)]
    found = drained(poller, tmp_path, a_node("n1"), a_node("n2"), *objects)
    assert (found["answer"], found["stay"]) == ("yes", ["default/static"])
    moved = {each["pod"]: (each["to"], each["made_again"]) for each in found["pods"]}
    assert moved == {"default/bare": (None, False), "default/web-0": ("n2", True)}
    assert found["kubectl_options"] == {"--force": ["default/bare"]}
    assert "2 pods to evict, 1 of them is gone for good, all others would have a node" in found["in words"]


UNREADY = {"phase": "Running", "conditions": [{"type": "Ready", "status": "False"}]}
READY = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}


@pytest.mark.parametrize(
    ("healthy", "policy", "waves"),
    [
        (2, "", [1, 2, 3]),  # there are enough: who isn't ready may go, and who replaces it is ready
        (1, "", [None, None, None]),
        (1, "AlwaysAllow", [1, None, None]),
    ],
)
def test_a_pod_that_is_not_ready_may_go_without_its_budget(
    poller: Run, tmp_path: Path, healthy: int, policy: str, waves: list[int | None]
) -> None:
    web = pods(3)
    for i, pod in enumerate(web):
        pod["status"] = READY if i else UNREADY
    budget = a_budget("web", 0)
    budget["spec"]["unhealthyPodEvictionPolicy"] = policy
    budget["status"] |= {"currentHealthy": healthy, "desiredHealthy": 2}
    found = drained(poller, tmp_path, a_node("n1"), a_node("n2"), *web, budget)
    assert [each["wave"] for each in found["pods"]] == waves


def test_a_budget_with_an_empty_selector_guards_all_pods(poller: Run, tmp_path: Path) -> None:
    """The API server asks it before an eviction, though kube-scheduler ignores it."""
    budget = {**a_budget("all", 1), "spec": {"selector": {}}}
    found = drained(poller, tmp_path, a_node("n1"), a_node("n2"), *pods(2), budget)
    assert [each["wave"] for each in found["pods"]] == [1, 2]
    nothing = {**a_budget("none", 0), "spec": {}}
    found = drained(poller, tmp_path, a_node("n1"), a_node("n2"), *pods(2), nothing)
    assert [each["wave"] for each in found["pods"]] == [1, 1]


def test_who_is_preempted_is_followed(poller: Run, tmp_path: Path) -> None:
    """A pod that moves may preempt another, which a budget protects, and which moves on itself."""
    objects = [
        a_node("n1"),
        a_node("n2"),
        a_pod("boss", "3", "n1", made_by("boss"), priority=10),
        a_pod("low", "3", "n2", made_by("low")),
        a_budget("low", 0),
    ]
    found = drained(poller, tmp_path, *objects)
    boss, low = found["pods"]
    assert (boss["to"], boss["victims"]) == ("n2", ["default/low"])
    assert boss["unprotected_victims"] == {"default/low": ["default/low"]}
    assert (low["displaced_by"], low["to"]) == ("default/boss", None)
    assert "though budget default/low would not allow it" in " ".join(found["in words"].split())
    manifest = tmp_path / "boss.json"
    manifest.write_text(json.dumps({**a_pod("new", "3", priority=10), "kind": "Pod"}))
    high = {"kind": "PriorityClass", "metadata": {"name": "high"}, "value": 10, "globalDefault": True}
    file = write(tmp_path / "cluster.json", *objects[1:2], *objects[3:], high)
    (pod,) = json.loads(poller("try", "-f", str(manifest), "--from", file, "-o", "json").out)["pods"]
    assert pod["unprotected_victims"] == {"default/low": ["default/low"]}


def test_who_is_preempted_may_have_moved_before(poller: Run, tmp_path: Path) -> None:
    """In the second wave, a pod takes the room that another of the first wave was given."""
    bosses = [a_pod(f"boss-{i}", "3", "n1", made_by("boss"), priority=10) for i in range(2)]
    low = a_pod("low", "3", "n1", made_by("low"))
    nodes = [a_node("n1", "16"), a_node("n2"), a_node("n3")]
    moved = drained(poller, tmp_path, *nodes, *bosses, low, a_budget("boss", 1))["pods"]
    first, to_n2_or_n3, second, again = moved
    assert [each["pod"].removeprefix("default/") for each in moved] == ["boss-0", "low", "boss-1", "low"]
    assert {first["to"], to_n2_or_n3["to"]} == {"n2", "n3"}
    assert (second["to"], second["victims"]) == (to_n2_or_n3["to"], ["default/low"])
    assert (again["from"], again["to"]) == (to_n2_or_n3["to"], None)
    assert again["displaced_by"] == "default/boss-1"


def test_who_is_being_deleted_needs_no_budget(poller: Run, tmp_path: Path) -> None:
    """Its eviction is no disruption: canIgnorePDB in pkg/registry/core/pod/storage/eviction.go."""
    leaving, other = pods(2)
    leaving["metadata"] |= {
        "deletionTimestamp": "2026-01-01T10:00:30Z",
        "deletionGracePeriodSeconds": 30,
    }
    found = drained(poller, tmp_path, a_node("n1"), a_node("n2"), leaving, other, a_budget("web", 0))
    assert {each["pod"]: each["wave"] for each in found["pods"]} == {
        "default/web-0": 1,
        "default/web-1": None,
    }


def test_of_those_that_are_not_shown_some_would_have_no_node(poller: Run, tmp_path: Path) -> None:
    said = drained(poller, tmp_path, a_node("n1", "32"), a_node("n2", "5"), *pods(30, "1"))["in words"]
    assert "and 22 more pods: 5 would have a node and 17 wouldn't (-o wide" in said


def test_a_budget_says_why_it_allows_nothing(poller: Run, tmp_path: Path) -> None:
    (unready,) = pods(1)
    unready["status"] = UNREADY
    budget, pair = a_budget("web", 0), (a_node("n1"), a_node("n2"))
    budget["status"] |= {"currentHealthy": 0, "desiredHealthy": 1, "expectedPods": 2}
    found = drained(poller, tmp_path, *pair, unready, budget)
    assert found["pods"][0]["why_budgets"]["default/web"] == {
        "healthy": 0,
        "must_be_healthy": 1,
        "pods": 2,
        "condition": "",
        "always_allow_would_help": True,
    }
    assert "0 of its 2 pods are healthy, and 1 must be; with unhealthyPodEvictionPolicy" in found["in words"]
    words = {"reason": "SyncFailed", "message": "found no controllers", "status": "False"}
    budget["status"]["conditions"] = [{"type": "DisruptionAllowed", **words}]
    unready["status"] = READY
    said = drained(poller, tmp_path, *pair, unready, budget)["in words"]
    assert "allows no disruption of it: SyncFailed: found no controllers." in said


def test_what_holds_a_pod_is_said(poller: Run, tmp_path: Path) -> None:
    (pod,) = pods(1)
    pod["metadata"] |= {"finalizers": ["example.com/hold", "batch.kubernetes.io/job-tracking"]}
    pair = a_node("n1"), a_node("n2")
    found = drained(poller, tmp_path, *pair, pod)
    assert found["answer"] == "yes"
    assert found["pods"][0]["held_by"] == "finalizer example.com/hold must be removed before it is gone"
    times = {"deletionTimestamp": "2026-01-01T10:00:30Z", "deletionGracePeriodSeconds": 30}
    pod["metadata"] |= {**times, "finalizers": ["a/b", "c/d"]}
    found = drained(poller, tmp_path, *pair, pod)
    assert found["answer"] == "unknown"
    held = "being deleted since 2026-01-01 10:00:00, and is gone when finalizers a/b and c/d are removed"
    assert f"kubectl drain waits until default/web-0 is gone: it is {held}" in found["in words"]
    pod["metadata"]["finalizers"] = []
    said = drained(poller, tmp_path, *pair, pod)["in words"]
    assert "by 2026-01-01 10:00:30, after 30 s of grace: does the kubelet of n1 run?" in said


def test_nodes_by_pattern_and_by_type(poller: Run, tmp_path: Path) -> None:
    objects = [a_node("n1"), a_node("n2"), a_node("other"), *pods(1)]
    for nodes in (("n*",), ("node/n1", "nodes/n2")):
        assert drained(poller, tmp_path, *objects, nodes=nodes)["nodes"] == ["n1", "n2"]


DEPLOYMENT = {
    "apiVersion": "apps/v1",
    "kind": "Deployment",
    "metadata": {"name": "web", "namespace": "default"},
    "spec": {
        "replicas": 6,
        "selector": {"matchLabels": {"app": "web"}},
        "template": {
            "metadata": {"labels": {"app": "web"}},
            "spec": {"schedulerName": "my-scheduler", "containers": [{"name": "main", "image": "nginx"}]},
        },
    },
}


def test_a_pod_whose_daemon_set_is_gone_is_evicted(poller: Run, tmp_path: Path) -> None:
    """Of a cluster whose DaemonSets aren't known, each is taken to be there."""
    there = {"kind": "DaemonSet", "metadata": {"namespace": "default", "name": "there", "uid": "there"}}
    daemons = [a_pod(f"of-{name}", "1", "n1", made_by(name, "DaemonSet")) for name in ("there", "gone")]
    nodes = a_node("n1"), a_node("n2")
    assert drained(poller, tmp_path, *nodes, *daemons)["stay"] == ["default/of-there", "default/of-gone"]
    found = drained(poller, tmp_path, *nodes, *daemons, there)
    assert found["stay"] == ["default/of-there"]
    assert [(each["pod"], each["made_again"]) for each in found["pods"]] == [("default/of-gone", False)]
    assert found["kubectl_options"]["--force"] == ["default/of-gone"]


@pytest.mark.parametrize("servers", ["real"], indirect=True)
def test_finished_pods_and_those_of_a_daemon_set_that_is_gone_are_evicted(
    cluster: Cluster, poller: Run, tmp_path: Path
) -> None:
    """As kubectl says in its dry run; from a file as well."""
    cluster.add_node("n1")
    daemons, template = "/apis/apps/v1/namespaces/default/daemonsets", DEPLOYMENT["spec"]["template"]
    spec = {"selector": DEPLOYMENT["spec"]["selector"], "template": template}
    there = cluster.post(daemons, {"metadata": {"name": "there"}, "spec": spec})["metadata"]["uid"]
    for name, uid in (("there", there), ("gone", "uid-of-gone")):
        owner = {"apiVersion": "apps/v1", "kind": "DaemonSet", "name": name, "uid": uid, "controller": True}
        cluster.add_pod(f"of-{name}", nodeName="n1", metadata={"ownerReferences": [owner]})
    cluster.add_pod("finished", nodeName="n1")
    patch = {"status": {"phase": "Succeeded"}}
    cluster.kubectl("patch", "pod", "finished", "--subresource=status", "--patch", json.dumps(patch))
    said = cluster.kubectl("drain", "n1", "--dry-run=client", "--ignore-daemonsets", "--force")
    evicted = sorted(line.split()[2] for line in said.splitlines() if "evicting pod" in line)
    file = tmp_path / "cluster.json"
    file.write_text(cluster.kubectl("get", "nodes,pods,daemonsets", "-o", "json"))
    for found in (
        answer(cluster, "drain", "n1"),
        poller("drain", "n1", "--from", str(file), "-o", "json").json,
    ):
        assert sorted(each["pod"] for each in found["pods"]) == evicted
        assert found["stay"] == ["default/of-there"]
        assert found["kubectl_options"]["--force"] == ["default/of-gone"]


@pytest.mark.parametrize("servers", ["embedded"], indirect=True)
def test_kubectl_drain_does_what_was_foretold(cluster: Cluster) -> None:
    """On the server with controllers and kubelets: kubectl drain ends, with as many waits as waves."""
    for name in ("n1", "n2"):
        cluster.add_node(name)
    with cluster.running_poller("--scheduler-name=my-scheduler"):
        cluster.post("/apis/apps/v1/namespaces/default/deployments", DEPLOYMENT)
        spec = {"selector": {"matchLabels": {"app": "web"}}, "maxUnavailable": 1}
        cluster.post(BUDGETS, {"metadata": {"name": "web"}, "spec": spec})
        try:
            eventually(lambda: cluster.api.get(f"{BUDGETS}/web").json()["status"]["disruptionsAllowed"] == 1)
            foretold = answer(cluster, "drain", "n1")
            assert foretold["answer"] == "yes"
            assert foretold["waves"] == len(foretold["pods"]) > 1
            command = [str(KUBECTL), f"--kubeconfig={cluster.kubeconfig}", "drain", "n1", "--timeout=50s"]
            done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE + 30)
            assert done.returncode == 0, done.stderr
            assert done.stderr.count("Cannot evict pod") >= foretold["waves"] - 1
            assert {each["to"] for each in foretold["pods"]} == {"n2"}
            eventually(lambda: [*cluster.placement().values()] == ["n2"] * 6)
            bare = ask(cluster, "drain", "n2")
            assert bare.returncode == 3
        finally:
            cluster.api.delete(f"{BUDGETS}/web")
            cluster.api.delete("/apis/apps/v1/namespaces/default/deployments/web")
