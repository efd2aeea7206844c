"""The verbs, as people type them: their answers are what schedulers then do, or have done."""

import json
import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from cluster import ONE_SERVER, Cluster, Json, eventually
from poller_process import run_poller
from test_namespaces import granted
from test_verbs import OWNED

from scripts.servers.kubectl import KUBECTL, kubectl_proxy
from scripts.servers.process import ROOT
from scripts.servers.real import assets

MANIFESTS = [
    {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "labels": {"app": name[0]}},
        "spec": {
            "schedulerName": "my-scheduler",
            "containers": [
                {"name": "main", "image": "nginx", "resources": {"requests": {"cpu": cpu, "memory": "64Mi"}}}
            ],
        },
    }
    for name, cpu in (("a1", "1"), ("a2", "1"), ("b1", "2500m"), ("b2", "100m"), ("c1", "3"), ("d1", "64"))
]


def ask(cluster: Cluster | None, *arguments: str, **environment: str) -> "subprocess.CompletedProcess[str]":
    """Run poller.py with a verb, to its end; without a cluster it must be told where to read from."""
    where = [f"--proxy={cluster.proxy}"] if cluster and "--proxy" not in " ".join(arguments) else []
    return run_poller(*arguments, *where, **environment)


def answer(cluster: Cluster | None, *arguments: str, **environment: str) -> Json:
    """What a verb answers as JSON; it says nothing else."""
    done = ask(cluster, *arguments, "-o", "json", **environment)
    assert done.stderr == "", done.stderr
    found: Json = json.loads(done.stdout)
    assert done.returncode == (0 if found["answer"] == "yes" else 3)
    return found


def a_file(folder: Path, *objects: Json) -> str:
    file = folder / f"{uuid4().hex[:8]}.json"
    file.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": objects}))
    return str(file)


@pytest.fixture
def four_nodes(cluster: Cluster) -> Cluster:
    """n1 and n2 alike, n3 larger, n4 tainted."""
    for name, cpu in (("n1", "4"), ("n2", "4"), ("n3", "6"), ("n4", "8")):
        cluster.add_node(name, cpu=cpu)
    cluster.kubectl("taint", "nodes", "n4", "gpu=true:NoSchedule")
    return cluster


def test_where_pods_would_go_is_where_poller_puts_them(four_nodes: Cluster, tmp_path: Path) -> None:
    file = a_file(tmp_path, *MANIFESTS)
    found = answer(four_nodes, "try", "-f", file, "--seed", "7")
    four_nodes.kubectl("apply", "-f", file)
    four_nodes.poller("--seed", "7")
    assert {each["pod"]: each["node"] for each in found["pods"]} == {
        f"default/{name}": node for name, node in four_nodes.placement().items()
    }
    assert [each["name"] for each in found["workloads"] if each["placed"] < each["pods"]] == ["d1"]
    (event,) = four_nodes.events("FailedScheduling")
    assert found["why"][0]["message"] == event["message"]

    waiting = answer(four_nodes, "why", "d1")
    assert waiting["message"] == waiting["said"]["message"] == event["message"]
    assert waiting["said"]["by"] == waiting["scheduler"] == "my-scheduler"
    assert waiting["nodes"]["n4"]["details"] == ["taint gpu=true:NoSchedule is not tolerated"]
    bound = answer(four_nodes, "why", "default/a1")
    assert bound["bound_to"] == four_nodes.placement()["a1"]
    assert bound["said"]["reason"] == "Scheduled"


@pytest.mark.parametrize("servers", [ONE_SERVER], indirect=True)
def test_an_eviction_that_is_foretold_is_made(priorities: Cluster, tmp_path: Path) -> None:
    priorities.add_node("n1")
    priorities.add_pod("low", priorityClassName="low", requests={"cpu": "2"}, nodeName="n1")
    priorities.add_pod("middle", priorityClassName="middle", requests={"cpu": "2"}, nodeName="n1")
    boss = json.loads(json.dumps(MANIFESTS[0]))
    boss["metadata"]["name"], boss["spec"]["priorityClassName"] = "boss", "high"
    file = a_file(tmp_path, boss)
    (pod,) = answer(priorities, "try", "-f", file)["pods"]
    assert pod == {"pod": "default/boss", "node": "n1", "message": "", "victims": ["default/low"]}
    priorities.kubectl("apply", "-f", file)
    if ONE_SERVER == "embedded":  # its kubelets start pods, and a change of theirs isn't one of poller's
        eventually(
            lambda: all(priorities.pod(each)["status"]["phase"] == "Running" for each in ("low", "middle"))
        )
    before = priorities.pods()
    found = answer(priorities, "why", "boss")
    assert (found["nominated"], found["victims"]) == ("n1", ["default/low"])
    assert priorities.pods() == before
    priorities.poller()
    assert priorities.pod("boss")["status"]["nominatedNodeName"] == "n1"
    left = {name for name, each in priorities.pods().items() if "deletionTimestamp" not in each["metadata"]}
    assert left == {"middle", "boss"}


@pytest.mark.parametrize("servers", [ONE_SERVER], indirect=True)
def test_files_tell_what_the_cluster_does(four_nodes: Cluster, tmp_path: Path) -> None:
    four_nodes.kubectl("apply", "-f", a_file(tmp_path, *MANIFESTS))
    four_nodes.poller()
    live = answer(four_nodes, "why", "d1")
    listed, saved = tmp_path / "listed.json", tmp_path / "saved.json.gz"
    listed.write_text(four_nodes.kubectl("get", "nodes,pods,namespaces,services", "-A", "-o", "json"))
    assert ask(four_nodes, "save", str(saved)).returncode == 0
    # What the environment says of a proxy is meant for other questions.
    elsewhere = {"POLLER_START_PROXY": "1", "POLLER_PROXY": "http://127.0.0.1:1"}
    for file in (listed, saved):
        read = answer(None, "why", "d1", "--from", str(file), **elsewhere)
        assert read["said"]["message"] == live["message"]
        assert {**read, "said": None} == {**live, "said": None}


@pytest.mark.parametrize("servers", [ONE_SERVER], indirect=True)
def test_the_pods_of_a_node_that_is_drained(four_nodes: Cluster) -> None:
    four_nodes.add_pod("small", nodeName="n1", metadata={"labels": {"app": "web"}, **OWNED})
    four_nodes.add_pod("large", nodeName="n3", requests={"cpu": "5"}, metadata=OWNED)
    running = {"status": {"phase": "Running"}}  # a pod that doesn't run yet has no protection
    four_nodes.patch("/api/v1/namespaces/default/pods/small/status", running)
    budget = {
        "metadata": {"name": "web"},
        "spec": {"selector": {"matchLabels": {"app": "web"}}, "minAvailable": 1},
    }
    four_nodes.post("/apis/policy/v1/namespaces/default/poddisruptionbudgets", budget)
    try:
        found = answer(four_nodes, "drain", "n1", "n3")
    finally:
        four_nodes.api.delete("/apis/policy/v1/namespaces/default/poddisruptionbudgets/web")
    moved = {each["pod"]: (each["to"], each["budgets"]) for each in found["pods"]}
    assert moved == {"default/small": ("n2", ["default/web"]), "default/large": (None, [])}


@pytest.mark.parametrize("servers", [ONE_SERVER], indirect=True)
def test_kubectl_poller_asks_the_cluster_of_kubectl(four_nodes: Cluster, tmp_path: Path) -> None:
    four_nodes.add_pod("web", requests={"cpu": "64"})
    for name in ("kubectl-poller", "kubectl_complete-poller"):
        (tmp_path / name).symlink_to(ROOT / "scripts" / name)
    (tmp_path / "kubectl").symlink_to(KUBECTL)
    kubeconfig = tmp_path / "kubeconfig"
    kubeconfig.write_bytes(four_nodes.kubeconfig.read_bytes())
    path = f"{tmp_path}:{os.environ['PATH']}"

    def kubectl(*arguments: str) -> "subprocess.CompletedProcess[str]":
        return subprocess.run(
            ["kubectl", *arguments],
            env={**os.environ, "PATH": path, "KUBECONFIG": str(kubeconfig)},
            capture_output=True,
            text=True,
            timeout=180,
        )

    done = kubectl("poller", "why", "web")
    assert (done.returncode, done.stderr) == (3, "")
    assert done.stdout.startswith("default/web waits: it fits on none of 4 nodes")
    kubectl("config", "set-context", "--current", "--namespace=kube-system")
    words = "kubectl poller why: there is no pod web in namespace kube-system that hasn't finished"
    assert kubectl("poller", "why", "web").stderr.startswith(words)
    kubectl("config", "set-context", "--current", "--namespace=default")
    assert "Usage: kubectl poller" in kubectl("poller").stdout
    there = kubectl("config", "current-context").stdout.strip()
    kubectl("config", "set-context", "elsewhere", "--cluster=nowhere")
    kubectl("config", "use-context", "elsewhere")
    for words in (
        ["--context", there, "-n", "default", "why", "web"],
        ["why", "pod/web", f"--context={there}", "--namespace=default", f"--kubeconfig={kubeconfig}"],
    ):
        assert kubectl("poller", *words).stdout.startswith("default/web waits: it fits on none of 4 nodes")
    kubectl("config", "use-context", there)
    once = kubectl("poller", "--once", "--dry-run", "--scheduler-name=other")
    assert (once.returncode, "pods: none to schedule\n" in once.stderr) == (0, True), once.stderr
    once = kubectl("poller", "--once", "--dry-run", "--explain=table", "--scheduler-name=other")
    assert "none to schedule: no pod that waits names other; --scheduler-name chooses" in once.stderr
    for words, candidates in (
        (["why", "w"], ["web"]),
        (["drain", "n"], ["n1", "n2", "n3", "n4"]),
    ):
        offered = kubectl("__complete", "poller", *words).stdout.splitlines()
        assert [each for each in offered if not each.startswith(":")] == candidates


# --- on the real server only ------------------------------------------------------------------------------


READ = ["get", "list"]
RULES = [
    {"apiGroups": [""], "resources": ["*"], "verbs": READ},
    {
        "apiGroups": [
            "apps",
            "policy",
            "scheduling.k8s.io",
            "scheduling.x-k8s.io",
            "storage.k8s.io",
            "node.k8s.io",
            "resource.k8s.io",
        ],
        "resources": ["*"],
        "verbs": READ,
    },
]


@contextmanager
def someone(cluster: Cluster, rules: list[Json]) -> Iterator[str]:
    """The URL of a proxy that speaks for someone with these rights."""
    user = f"user-{uuid4().hex[:8]}"
    rights = a_file(cluster.folder, *granted("ClusterRole", user, rules, {}))
    cluster.kubectl("apply", "-f", rights)
    assert cluster.kubeconfig_for
    with kubectl_proxy(cluster.server, cluster.kubeconfig_for(user)) as proxy:
        yield proxy
    cluster.kubectl("delete", "-f", rights)


@pytest.mark.parametrize("servers", ["real"], indirect=True)
def test_rights_to_read_are_enough_and_fewer_are_told_of(four_nodes: Cluster, tmp_path: Path) -> None:
    four_nodes.add_pod("web", requests={"cpu": "64"})
    file = a_file(tmp_path, MANIFESTS[0])
    with someone(four_nodes, RULES) as proxy:
        at = f"--proxy={proxy}"
        assert answer(four_nodes, "why", "web", at)["answer"] == "no"
        assert answer(four_nodes, "try", "-f", file, at)["answer"] == "yes"
        done = ask(four_nodes, "save", str(tmp_path / "saved.json"), at)
        assert (done.returncode, done.stderr) == (0, "")
    nodes_and_pods = [{"apiGroups": [""], "resources": ["nodes", "pods"], "verbs": READ}]
    with someone(four_nodes, nodes_and_pods) as proxy:
        done = ask(four_nodes, "why", "web", f"--proxy={proxy}")
        assert done.returncode == 3
        assert "poller.py why: going on without disruption budgets: GET" in done.stderr
        assert 'resources: ["poddisruptionbudgets"]' in done.stderr
    with someone(four_nodes, [{"apiGroups": [""], "resources": ["nodes"], "verbs": READ}]) as proxy:
        done = ask(four_nodes, "why", "web", f"--proxy={proxy}")
        assert done.returncode == 1
        assert 'resources: ["pods"], verbs: ["list"]' in done.stderr


@contextmanager
def kube_scheduler(cluster: Cluster, folder: Path) -> Iterator[None]:
    binary = shutil.which("kube-scheduler", path=assets())
    if binary is None:
        pytest.skip("no kube-scheduler beside kube-apiserver")
    config: dict[str, Any] = {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "leaderElection": {"leaderElect": False},
        "clientConnection": {"kubeconfig": str(cluster.kubeconfig)},
    }
    file = folder / "kube-scheduler.yaml"
    file.write_text(json.dumps(config))
    command = [binary, f"--config={file}", "--secure-port=0"]
    with (folder / "kube-scheduler.log").open("w") as log, subprocess.Popen(command, stderr=log) as process:
        try:
            yield
        finally:
            process.terminate()


@pytest.mark.parametrize("servers", ["real"], indirect=True)
def test_why_names_the_reasons_that_kube_scheduler_gave(four_nodes: Cluster, tmp_path: Path) -> None:
    four_nodes.add_pod("db", requests={"cpu": "3"}, nodeName="n1")
    four_nodes.add_pod("big", scheduler="default-scheduler", requests={"cpu": "7"})
    four_nodes.add_pod("picky", scheduler="default-scheduler", nodeSelector={"disktype": "ssd"})
    with kube_scheduler(four_nodes, tmp_path):
        eventually(lambda: len(failed(four_nodes)) == 2)
    for name in ("big", "picky"):
        found = answer(four_nodes, "why", name)
        said = failed(four_nodes)[name]
        assert found["message"] == said
        assert found["said"]["by"] == "default-scheduler"
        assert found["said"]["message"] == failed(four_nodes)[name]
        assert found["said"]["at"]


def failed(cluster: Cluster) -> dict[str, str]:
    """By pod, the message of its event FailedScheduling."""
    return {each["involvedObject"]["name"]: each["message"] for each in cluster.events("FailedScheduling")}
