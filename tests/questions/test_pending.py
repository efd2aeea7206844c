"""`why` without a pod's name: all pods that wait, by cause, what helps most, and who can't create pods."""

from pathlib import Path

import pytest
from cluster import ONE_SERVER, Cluster, Json
from objects import read
from questions_harness import Run
from test_drain import made_by
from test_verbs import a_node, a_pod, write
from test_verbs_end_to_end import answer, ask

from lib.questions.events import Said
from lib.questions.pending import Creator, Pending, Uncreated, missing_text
from lib.questions.subjects import parse_selector

NOT_READY = {"taints": [{"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"}]}


@pytest.fixture
def cluster_file(tmp_path: Path) -> str:
    """Three pods of web-1 that are too large for n1, one that wants a label, and one that would fit."""
    return write(
        tmp_path / "cluster.json",
        a_node("n1", "2"),
        a_node("n2", "9", **NOT_READY),
        a_pod("db", "1", "n1"),
        *(a_pod(f"web-{i}", "3", metadata=made_by("web-1", app="web")) for i in range(3)),
        a_pod("picky", "100m", metadata={"labels": {"app": "picky"}}, nodeSelector={"disk": "ssd"}),
        a_pod("small", "100m"),
        {**a_pod("far", "64"), "metadata": {"name": "far", "namespace": "other", "uid": "far"}},
    )


def test_all_pods_that_wait_by_cause(poller: Run, cluster_file: str) -> None:
    found = poller("why", "--from", cluster_file, "-o", "json").json
    assert found["answer"] == "no"
    assert [each["pods"] for each in found["causes"]] == [
        [f"default/web-{i}" for i in range(3)],
        ["default/picky"],
    ]
    assert (found["placed"], found["would_be_placed"]) == (1, ["default/small"])
    assert found["what_helps_most"][0] == {"changes": ["once n2 is Ready"], "pods_with_a_node": 3}
    assert {"changes": ["with the label disk=ssd on n1"], "pods_with_a_node": 1} in found["what_helps_most"]
    said = poller("why", "--from", cluster_file).out
    first, second, *_ = said.splitlines()
    assert first == "4 pods in namespace default wait, for 2 reasons; 1 pod has a node"
    assert second == "1 pod would get a node now: default/small."
    nothing = "No pod in namespace empty waits in vain; 0 pods have a node"
    assert poller("why", "-n", "empty", "--from", cluster_file).out.startswith(nothing)
    assert poller("why", "-A", "--from", cluster_file).out.startswith("5 pods wait, for 2 reasons")
    assert "once n2 is Ready: 3 of 4 pods would have a node" in said
    assert "3 pods wait: default/web-0, default/web-1, default/web-2" in said


@pytest.mark.parametrize(
    ("words", "pods"),
    [
        (["-A"], 5),
        (["-n", "other"], 1),
        (["-l", "app=web"], 3),
        (["-l", "app notin (web), app"], 1),
        (["deploy/web"], 3),
        (["deployment", "web"], 3),
        (["rs/web-1"], 3),
    ],
)
def test_which_pods_are_asked_about(poller: Run, cluster_file: str, words: list[str], pods: int) -> None:
    found = poller("why", *words, "--from", cluster_file, "-o", "json").json
    assert sum(len(each["pods"]) for each in found["causes"]) == pods


@pytest.mark.parametrize("name", ["pod/web-1", "po/web-1", "default/web-1", "web-1"])
def test_one_pod_by_its_type_too(poller: Run, cluster_file: str, name: str) -> None:
    assert poller("why", name, "--from", cluster_file, "-o", "json").json["pod"] == "default/web-1"


def test_label_selectors_are_read_as_kubectl_reads_them() -> None:
    found = parse_selector("a=b,c!=d, e in (f, g),!h,i")
    assert [(each.key, each.operator, each.values) for each in found.match_expressions] == [
        ("a", "In", ("b",)),
        ("c", "NotIn", ("d",)),
        ("e", "In", ("f", "g")),
        ("h", "DoesNotExist", ()),
        ("i", "Exists", ()),
    ]


def test_each_cause_has_its_own_best_change(poller: Run, tmp_path: Path) -> None:
    """Before, pods that no node is large enough for were explained together with those that wait for room."""
    objects = [
        a_node("n1", "4"),
        a_pod("db", "3", "n1"),
        *(a_pod(f"web-{i}", "2", metadata=made_by("web")) for i in range(2)),
        *(a_pod(f"huge-{i}", "30", metadata=made_by("huge")) for i in range(3)),
        a_pod("picky", "100m", nodeSelector={"disk": "ssd"}),
    ]
    file = write(tmp_path / "c.json", *objects)
    found = poller("why", "--from", file, "-o", "json").json
    assert [len(each["pods"]) for each in found["causes"]] == [3, 2, 1]
    said = poller("why", "--from", file).out
    best = said.partition("What would help most:")[2].partition("\n\n")[0]
    assert [line.split(":")[0].strip(" -") for line in best.strip().splitlines()] == [
        "with one more node like n1",
        "with one more node like n1, but with cpu 30",
        "without nodeSelector disk=ssd",
    ]


def test_a_scheduler_that_says_nothing(poller: Run, tmp_path: Path) -> None:
    heard = {"conditions": [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}]}
    objects = [
        a_node("n1"),
        {**a_pod("a", "1"), "status": heard},
        a_pod("b", "1", schedulerName="nosuch"),
    ]
    said = poller("why", "--from", write(tmp_path / "c.json", *objects)).out
    assert "2 pods would get a node now: default/a, default/b.\nnosuch has said nothing of 1 of these" in said
    assert "default-scheduler has" not in said


def test_pods_that_wait_for_a_provisioner(poller: Run, tmp_path: Path) -> None:
    def claim(name: str, of_class: str, **annotations: str) -> dict[str, object]:
        metadata = {"namespace": "default", "name": name, "uid": name, "annotations": annotations}
        spec = {"storageClassName": of_class, "resources": {"requests": {"storage": "1Gi"}}}
        return {"kind": "PersistentVolumeClaim", "metadata": metadata, "spec": spec}

    def with_claim(name: str) -> dict[str, object]:
        return a_pod(name, "1", volumes=[{"name": "v", "persistentVolumeClaim": {"claimName": name}}])

    now = {"kind": "StorageClass", "metadata": {"name": "now"}, "provisioner": "x.io/p"}
    later = {**now, "metadata": {"name": "later"}, "volumeBindingMode": "WaitForFirstConsumer"}
    selected = {"volume.kubernetes.io/selected-node": "n1"}
    claims = [claim("a", "now"), claim("b", "later", **selected), claim("c", "lost")]
    objects = [a_node("n1"), a_node("n2"), now, later, *claims, *map(with_claim, "abc")]
    file = write(tmp_path / "c.json", *objects)
    said = poller("why", "--from", file).out
    assert "x.io/p is to provision claim default/a (class now)." in said
    assert "x.io/p is to provision claim default/b (class later) for n1." in said
    assert "would get a node now" not in said
    assert "claim default/c has no volume: there is no StorageClass lost to make one" in said
    assert "create StorageClass lost, whose volumes can be made: 1 of 3 pods would have a node" in said
    alone = poller("why", "b", "--from", file).out
    assert "n2: claim default/b (class later, 1Gi) is to get its volume on n1" in alone
    assert "No single change" not in poller("why", "a", "--from", file).out


def test_a_priority_class_that_would_help(poller: Run, tmp_path: Path) -> None:
    high = {"kind": "PriorityClass", "metadata": {"name": "high"}, "value": 10}
    objects = [a_node("n1", "2"), a_pod("db", "2", "n1"), a_pod("web", "2"), high]
    found = poller("why", "web", "--from", write(tmp_path / "c.json", *objects), "-o", "json").json
    instead = {"changes": ["with priorityClassName high, in the place of default/db"], "nodes": ["n1"]}
    assert instead in found["suggestions"]


DONE = [{"type": "Complete", "status": "True"}]


@pytest.mark.parametrize(
    ("spec", "status", "missing"),
    [
        ({"replicas": 3}, {"replicas": 1}, 2),
        ({"replicas": 3}, {}, 3),
        ({"replicas": 1}, {"replicas": 3}, 0),
        ({"replicas": 0}, {}, 0),
        ({}, {"desiredNumberScheduled": 3, "currentNumberScheduled": 2}, 1),  # a DaemonSet
        ({"parallelism": 3}, {"active": 1}, 2),  # from here on, Jobs
        ({"parallelism": 3, "completions": 9}, {"active": 1}, 2),
        ({"parallelism": 3, "completions": 9}, {"active": 1, "succeeded": 8}, 0),
        ({"parallelism": 3, "completions": 9}, {"active": 0, "succeeded": 7}, 2),
        ({"parallelism": 1, "completions": 1}, {"succeeded": 1, "conditions": DONE}, 0),
        ({"parallelism": 1}, {"conditions": DONE}, 0),
        ({"parallelism": 3, "completions": 9, "suspend": True}, {}, 0),
    ],
)
def test_how_many_pods_a_controller_still_has_to_create(spec: Json, status: Json, missing: int) -> None:
    creator: Creator = read(Creator, {"metadata": {"name": "web"}, "spec": spec, "status": status})
    assert creator.missing == missing


def test_controllers_with_the_same_cause_share_a_line() -> None:
    words = 'Error creating: pods "{}-x" is forbidden: exceeded quota: q, requested: pods=1, used: pods={}'
    alike = [Uncreated(f"ReplicaSet a/{n}", 2, Said("", "", words.format(n, n), None)) for n in "123"]
    other = Uncreated("ReplicaSet b/1", 2, alike[0].said)
    assert len({each.cause for each in alike}) == 1
    assert other.cause != alike[0].cause
    assert alike[0].reason == "exceeded quota: q, requested: pods=1, used: pods=1"
    assert missing_text(alike) == "ReplicaSet a/1, ReplicaSet a/2, ReplicaSet a/3 can't create 6 pods"


def test_the_same_for_many_nodes_is_said_once(poller: Run, tmp_path: Path) -> None:
    nodes = [a_node(f"n{i}") for i in range(5)]
    pod = a_pod("web", "1", nodeSelector={"disk": "ssd"})
    found = poller("why", "web", "--from", write(tmp_path / "c.json", *nodes, pod), "-o", "json").json
    labelled = [each for each in found["suggestions"] if "label" in each["changes"][0]]
    assert labelled == [{"changes": ["with the label disk=ssd on n0 (one of 5 such nodes)"], "nodes": ["n0"]}]


@pytest.mark.parametrize("servers", [ONE_SERVER], indirect=True)
def test_a_controller_that_cannot_create_its_pods(cluster: Cluster) -> None:
    """No pod waits, and nothing runs: only the controller's events tell of a quota."""
    template = {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"name": "m", "image": "x"}]}}
    spec = {"replicas": 0, "selector": {"matchLabels": {"app": "web"}}, "template": template}
    sets = "/apis/apps/v1/namespaces/default/replicasets"
    made = cluster.post(sets, {"metadata": {"name": "web-1"}, "spec": spec})
    about = {"kind": "ReplicaSet", "apiVersion": "apps/v1", "namespace": "default", "name": "web-1"}
    event = {
        "metadata": {"name": "refused"},
        "involvedObject": {**about, "uid": made["metadata"]["uid"]},
        "reason": "FailedCreate",
        "message": 'pods "web-1-x" is forbidden: exceeded quota: q',
        "lastTimestamp": "2026-01-01T00:00:00Z",
    }
    quota = {"metadata": {"name": "q"}, "spec": {"hard": {"pods": "0"}}}
    try:
        cluster.post("/api/v1/namespaces/default/resourcequotas", quota)
        cluster.post("/api/v1/namespaces/default/events", event)
        assert answer(cluster, "why")["answer"] == "yes"  # it has all that it wants
        cluster.patch(f"{sets}/web-1", {"spec": {"replicas": 3}})
        for words in ([], ["-A"], ["deploy/web"]):
            found = answer(cluster, "why", *words)
            (uncreated,) = found["not_created"]
            assert (found["answer"], uncreated["controller"]) == ("no", "ReplicaSet default/web-1")
        said = ask(cluster, "why", "deploy/web").stdout
        assert "1 controller of deployment default/web can't create pods" in said
        assert "ReplicaSet default/web-1 can't create 3 pods." in said
        assert "ago: exceeded quota: q." in said  # without the name of a pod that doesn't exist
        assert ask(cluster, "why", "deploy/other").returncode == 1
    finally:
        cluster.api.delete(f"{sets}/web-1")
        cluster.api.delete("/api/v1/namespaces/default/events/refused")
        cluster.api.delete("/api/v1/namespaces/default/resourcequotas/q")


def test_a_pod_that_waits_for_one_that_is_being_deleted_has_no_node_yet(poller: Run, tmp_path: Path) -> None:
    low = a_pod("low", "3", "n1")
    low["metadata"] |= {"deletionTimestamp": "2026-01-01T10:00:30Z", "deletionGracePeriodSeconds": 30}
    high = a_pod("high", "3", priority=1000)
    file = write(tmp_path / "cluster.json", a_node("n1"), low, high)
    found = poller("why", "--from", file, "-o", "json").json
    assert (found["would_be_placed"], found["causes"][0]["pods"]) == ([], ["default/high"])
    assert "default/low" in found["causes"][0]["first"]["leaving"]["n1"]


def test_pods_of_one_controller_that_have_other_conditions(
    poller: Run, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """A remedy for one pod changes nothing of a pod that never had the condition."""
    of_web = made_by("web-1", app="web")
    term = {"labelSelector": {"matchLabels": {"app": "web"}}, "topologyKey": "kubernetes.io/hostname"}
    far = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    other = {"topologyKey": "kubernetes.io/hostname", "maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule"}
    labels = {"kubernetes.io/hostname": "n1"}
    file = write(
        tmp_path / "cluster.json",
        {**a_node("n1", "4"), "metadata": {"name": "n1", "labels": labels}},
        {**a_node("n2", "1"), "metadata": {"name": "n2", "labels": {"kubernetes.io/hostname": "n2"}}},
        a_pod("first", "1", "n1", metadata=of_web),
        a_pod("far", "2", metadata=of_web, affinity=far),
        a_pod("spread", "2", metadata=of_web, topologySpreadConstraints=[{**other, **term}]),
        a_pod("plain", "8", metadata=of_web),
    )
    helps = poller("why", "--from", file, "-o", "json").json["what_helps_most"]
    assert any(found["changes"][0].startswith("without the required anti-affinity") for found in helps)
    assert not caplog.records


def test_a_pod_that_preempts_others_would_have_a_node(poller: Run, tmp_path: Path) -> None:
    low, high = a_pod("low", "3", "n1"), a_pod("high", "3", priority=10)
    file = write(tmp_path / "cluster.json", a_node("n1"), low, high)
    found = poller("why", "--from", file, "-o", "json").json
    assert (found["answer"], found["would_be_placed"], found["causes"]) == ("yes", ["default/high"], [])


def test_pods_that_cannot_be_created_are_a_no() -> None:
    said = Said("replicaset-controller", "FailedCreate", "exceeded quota: q", None)
    assert Pending().verdict.word == "yes"
    assert Pending(uncreated=[Uncreated("ReplicaSet default/web", 1, said)]).verdict.word == "no"
