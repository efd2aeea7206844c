"""The verbs on files, without a cluster: answers, exit statuses, what-if options, and errors."""

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from questions_harness import Run

from lib.questions.commands import ALL
from lib.questions.verbs import VERBS

Json = dict[str, Any]


def a_node(name: str, cpu: str = "4", **spec: Any) -> Json:
    return {
        "kind": "Node",
        "metadata": {"name": name, "uid": name, "labels": {"kubernetes.io/hostname": name}},
        "spec": spec,
        "status": {"allocatable": {"cpu": cpu, "memory": "8Gi", "pods": "110"}},
    }


def a_pod(name: str, cpu: str, on: str = "", metadata: Json | None = None, **spec: Any) -> Json:
    main = {
        "name": "main",
        "image": "nginx",
        "command": ["run", "--token=secret"],
        "env": [{"name": "PASSWORD", "value": "secret"}],
        "resources": {"requests": {"cpu": cpu}},
    }
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"namespace": "default", "name": name, "uid": f"uid-{name}", **(metadata or {})},
        "spec": {"schedulerName": "default-scheduler", "nodeName": on, "containers": [main], **spec},
    }


def write(file: Path, *objects: Json) -> str:
    file.write_text(json.dumps({"kind": "List", "apiVersion": "v1", "items": objects}))
    return str(file)


NOTE = {
    "annotations": {"kubectl.kubernetes.io/last-applied-configuration": "secret", "poller/group-size": "1"}
}


OWNED = {
    "ownerReferences": [
        {"kind": "ReplicaSet", "apiVersion": "apps/v1", "name": "of", "uid": "of", "controller": True}
    ]
}


@pytest.fixture
def cluster(tmp_path: Path) -> str:
    """n1 with 1 of its 4 cpu free, n2 with 2, n3 cordoned; a pod `web` that wants 3."""
    return write(
        tmp_path / "cluster.json",
        a_node("n1"),
        a_node("n2"),
        a_node("n3", unschedulable=True),
        a_pod("db", "3", "n1", NOTE),
        a_pod("cache", "2", "n2", OWNED),
        a_pod("web", "3"),
        a_pod("small", "100m"),
        {"kind": "ConfigMap", "metadata": {"name": "x"}, "data": {"password": "secret"}},
    )


@pytest.fixture
def manifest(tmp_path: Path) -> str:
    """A Deployment of three pods that want 1 cpu each."""
    template = {
        "metadata": {"labels": {"app": "shop"}},
        "spec": {"containers": [{"name": "main", "image": "x", "resources": {"limits": {"cpu": "1"}}}]},
    }
    spec = {"replicas": 3, "selector": {"matchLabels": {"app": "shop"}}, "template": template}
    file = tmp_path / "deploy.yaml"
    file.write_text(
        json.dumps(
            {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "shop"}, "spec": spec}
        )
    )
    return str(file)


def test_each_verb_has_its_words() -> None:
    assert list(VERBS) == list(ALL)


def test_why_in_json(poller: Run, cluster: str) -> None:
    found = poller("why", "web", "--from", cluster, "-o", "json").json
    assert found["answer"] == "no"
    assert found["nodes"]["n1"] == {
        "rejected_by": "NodeResourcesFit",
        "reasons": ["Insufficient cpu"],
        "details": ["needs cpu 3, 1 of 4 free: default/db has 3"],
        "lacks": [
            {
                "resource": "cpu",
                "needs": 3000,
                "has": 4000,
                "free": 1000,
                "largest": {"pod": "default/db", "requests": 3000},
            }
        ],
    }
    assert found["suggestions"][0] == {"changes": ["at cpu 2 in place of 3"], "nodes": ["n2"]}
    bound = poller("why", "default/db", "--from", cluster, "-o", "json").json
    assert (bound["answer"], bound["bound_to"], bound["node"]) == ("yes", "n1", "n1")
    assert bound["nodes"]["n1"].keys() == {"scores", "total"} or bound["nodes"]["n1"]["total"] == 0


def test_why_in_words(poller: Run, cluster: str) -> None:
    done = poller("why", "web", "--from", cluster)
    assert (done.status, done.err) == (3, "")
    lines = [line.strip() for line in done.out.splitlines()]
    assert lines[0] == "default/web waits: it fits on none of 3 nodes"
    assert (
        lines[1] == "default-scheduler is to place it."
    )  # whether it has written events the file doesn't say
    assert "n1: needs cpu 3, 1 of 4 free: default/db has 3" in lines
    assert "-  with n3 uncordoned: n3 fits" in lines
    assert poller("why", "small", "--from", cluster).out.startswith(
        "default/small waits, and n2 would be its node now"
    )
    assert poller("why", "db", "--from", cluster).out.startswith("default/db is on n1")


def test_try_room_and_drain_in_json(poller: Run, cluster: str, manifest: str) -> None:
    tried = poller("try", "-f", manifest, "--from", cluster, "-o", "json").json
    assert tried["answer"] == "yes"
    assert tried["workloads"] == [
        {
            "kind": "Deployment",
            "namespace": "default",
            "name": "shop",
            "pods": 3,
            "placed": 3,
            "nodes": {"n1": 1, "n2": 2},
        }
    ]
    assert tried["nodes"]["n2"]["before"]["cpu"] == {"requested": 2000, "allocatable": 4000}
    assert tried["nodes"]["n2"]["after"]["cpu"] == {"requested": 4000, "allocatable": 4000}
    more = poller("try", "-f", manifest, "--replicas", "5", "--from", cluster, "-o", "json").json
    assert (more["answer"], more["workloads"][0]["placed"]) == ("no", 3)
    assert more["why"][0]["nodes"]["n1"]["reasons"] == ["Insufficient cpu"]
    room = poller("room", "-f", manifest, "--from", cluster, "-o", "json").json
    assert (room["answer"], room["workloads"][0]["fit"], room["at_least"]) == ("yes", 3, False)
    assert poller("room", "-f", manifest, "--most", "2", "--from", cluster, "-o", "json").json["at_least"]
    drained = poller("drain", "n2", "n3", "--from", cluster, "-o", "json").json
    assert drained["answer"] == "no"
    assert [(each["pod"], each["to"]) for each in drained["pods"]] == [("default/cache", None)]


@pytest.mark.parametrize(
    ("options", "node"),
    [
        (["--add", "1", "--like", "n1"], "n1-copy-1"),
        (["--add", "1", "--like", "n3"], "n3-copy-1"),
        (["--remove", "n1"], None),
        (["--taint", "n*:gpu=:NoSchedule"], None),
        (["--taint", "n3:node.kubernetes.io/unschedulable-"], None),
    ],
)
def test_what_if(poller: Run, cluster: str, options: list[str], node: str | None) -> None:
    done = poller("why", "web", "--from", cluster, "-o", "json", *options)
    assert json.loads(done.out)["node"] == node


def test_what_if_labels_were_otherwise(poller: Run, tmp_path: Path) -> None:
    pod = a_pod("web", "1", nodeSelector={"disktype": "ssd"})
    file = write(tmp_path / "cluster.json", a_node("n1"), a_node("n2"), pod)
    assert poller("why", "web", "--from", file).status == 3
    assert poller("why", "web", "--from", file, "--label", "n2:disktype=ssd").status == 0
    both = ("--label", "*:disktype=ssd", "--label", "n1:disktype-", "-o", "json")
    assert poller("why", "web", "--from", file, *both).json["node"] == "n2"


def stateful_set(file: Path, replicas: int) -> str:
    """A StatefulSet whose pods have a claim each, of a class that makes volumes when a pod has a node."""
    claim = {"metadata": {"name": "data"}, "spec": {"storageClassName": "ebs"}}
    template = {
        "metadata": {"labels": {"app": "db"}},
        "spec": {"containers": [{"name": "main", "image": "db"}]},
    }
    spec = {"replicas": replicas, "template": template, "volumeClaimTemplates": [claim]}
    file.write_text(
        json.dumps({"apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": {"name": "db"}, "spec": spec})
    )
    return str(file)


WAITING_CLASS = {
    "kind": "StorageClass",
    "metadata": {"name": "ebs"},
    "provisioner": "ebs.csi.aws.com",
    "volumeBindingMode": "WaitForFirstConsumer",
}


def test_a_new_node_attaches_as_many_volumes_as_the_one_it_is_like(poller: Run, tmp_path: Path) -> None:
    driver = {"name": "ebs.csi.aws.com", "nodeID": "n1", "allocatable": {"count": 2}}
    drivers = {"kind": "CSINode", "metadata": {"name": "n1"}, "spec": {"drivers": [driver]}}
    claim = {"kind": "PersistentVolumeClaim", "metadata": {"name": "x", "namespace": "y"}, "spec": {}}
    file = write(tmp_path / "cluster.json", a_node("n1"), drivers, WAITING_CLASS, claim)
    manifest = stateful_set(tmp_path / "db.yaml", 3)
    for options, fits in (((), 2), (("--add", "1", "--like", "n1"), 4)):
        room = poller("room", "-f", manifest, "--from", file, "-o", "json", *options).json
        assert room["workloads"][0]["fit"] == fits
    waits = poller("try", "-f", manifest, "--from", file, "-o", "json").json
    assert [bool(each["node"]) for each in waits["pods"]] == [True, True, False]
    (more,) = [each for each in waits["why"][0]["suggestions"] if "more node" in each["changes"][0]]
    assert more["nodes"] == ["n1-copy-1"]


def test_each_pod_of_a_stateful_set_has_claims_of_its_own(poller: Run, tmp_path: Path) -> None:
    def claim(i: int) -> Json:
        bound = {"pv.kubernetes.io/bind-completed": "yes"}
        metadata = {"namespace": "default", "name": f"data-db-{i}", "uid": f"{i}", "annotations": bound}
        return {"kind": "PersistentVolumeClaim", "metadata": metadata, "spec": {"volumeName": f"pv{i}"}}

    def volume(i: int, node: str) -> Json:
        here = {"key": "kubernetes.io/hostname", "operator": "In", "values": [node]}
        affinity = {"required": {"nodeSelectorTerms": [{"matchExpressions": [here]}]}}
        return {
            "kind": "PersistentVolume",
            "metadata": {"name": f"pv{i}"},
            "spec": {"nodeAffinity": affinity},
        }

    volumes = [volume(0, "gone"), volume(1, "n1"), claim(0), claim(1)]
    lost = {"kind": "PersistentVolumeClaim", "metadata": {"namespace": "default", "name": "data-db-2"}}
    lost["status"] = {"phase": "Lost"}  # type: ignore[assignment]
    file = write(tmp_path / "cluster.json", a_node("n1"), WAITING_CLASS, lost, *volumes)
    manifest = stateful_set(tmp_path / "db.yaml", 4)
    found = poller("try", "-f", manifest, "--from", file, "-o", "json").json
    assert [each["node"] for each in found["pods"]] == [None, "n1", None, "n1"]
    assert "didn't match PersistentVolume's node affinity" in found["pods"][0]["message"]
    assert 'persistentvolumeclaim "data-db-2" bound to non-existent' in found["pods"][2]["message"]
    said = poller("try", "-f", manifest, "--from", file).out
    assert 'default/db-2: 0/1 nodes are available: persistentvolumeclaim "data-db-2" bound to' in said


def test_why_knows_that_a_group_is_placed_all_or_none(poller: Run, tmp_path: Path) -> None:
    group = {"labels": {"poller/group": "g"}, "annotations": {"poller/group-size": "2"}}
    pods = [a_pod("a", "3", metadata=group), a_pod("b", "3", metadata=group)]
    file = write(tmp_path / "cluster.json", a_node("n1"), *pods)
    done = poller("why", "a", "--from", file)
    lines = [line.strip() for line in done.out.splitlines()]
    assert done.status == 3
    assert lines[0] == "default/a waits for its group g, which is placed all or none"
    assert "default/b of its group has no node:" in lines
    assert "n1: needs cpu 3, 1 of 4 free: default/a has 3" in lines
    assert "-  with one more node like n1: n1-copy-1 fits" in lines
    assert poller("why", "a", "--from", file, "-o", "json").json["waits_for"]["pod"] == "default/b"
    assert poller("why", "a", "--from", file, "--add", "1", "--like", "n1").status == 0


def test_what_is_saved_is_what_decides_and_nothing_secret(poller: Run, cluster: str, tmp_path: Path) -> None:
    for name in ("saved.json", "saved.json.gz"):
        saved = tmp_path / name
        done = poller("save", str(saved), "--from", cluster)
        assert (done.status, done.out) == (0, f"{saved}: 3 Node, 4 Pod\n")
        for pod in ("web", "small", "db"):
            answers = [poller("why", pod, "--from", file, "-o", "wide").out for file in (cluster, str(saved))]
            assert answers[0] == answers[1]
    text = (tmp_path / "saved.json").read_text()
    assert "secret" not in text
    again = poller("save", str(tmp_path / "saved.json"), "--from", cluster)
    assert (again.status, again.out) == (1, "")
    assert "saved.json is there already: name another file, or replace it with --force" in again.err
    assert poller("save", str(tmp_path / "saved.json"), "--from", cluster, "--force").status == 0
    assert "poller/group-size" in text


CONFIG = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- schedulerName: default-scheduler
  pluginConfig:
  - name: NodeResourcesFit
    args: {scoringStrategy: {type: %s, resources: [{name: cpu, weight: 1}]}}
"""


def test_configurations_compared(poller: Run, tmp_path: Path) -> None:
    objects = [a_node("n1"), a_node("n2"), *(a_pod(f"p{i}", "1") for i in range(4))]
    file = write(tmp_path / "cluster.json", *objects)
    options = []
    for strategy in ("LeastAllocated", "MostAllocated"):
        config = tmp_path / f"{strategy}.yaml"
        config.write_text(CONFIG % strategy)
        options += ["--config", str(config)]
    found = poller("compare", *options, "--from", file, "-o", "json").json
    assert found["answer"] == "no"
    assert [each["nodes_used"] for each in found["configs"]] == [2, 1]
    assert [each["imbalance"]["cpu"] for each in found["configs"]] == [0, 0.5]
    assert [each["placed"] for each in found["configs"]] == [4, 4]
    for _ in range(3):  # with other seeds
        assert poller("compare", *options[:2], *options[:2], "--from", file).status == 0
    assert "needs two configurations" in poller("compare", *options[:2], "--from", file).err


def test_a_file_without_claims_knows_nothing_of_volumes(poller: Run, tmp_path: Path) -> None:
    volumes = [{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}]
    file = write(tmp_path / "cluster.json", a_node("n1"), a_pod("web", "1", volumes=volumes))
    assert "claims can't be seen" in poller("why", "web", "--from", file, "-o", "json").json["message"]


def test_what_comes_from_a_cluster_steers_no_terminal(poller: Run, tmp_path: Path) -> None:
    pod = a_pod("web", "1", nodeSelector={"a": "\x1b[31m[red]x\u202e"})
    done = poller("why", "web", "--from", write(tmp_path / "c.json", a_node("n1"), pod))
    assert "nodeSelector a=\\x1b[31m[red]x\\u202e: the node has no such label" in done.out
    assert "\x1b" not in done.out


@pytest.mark.parametrize(
    ("arguments", "status", "said"),
    [
        (["why", "nope"], 1, "poller.py why: there is no pod nope in namespace default"),
        (
            ["why", "web", "-n", "other"],
            1,
            "in namespace other that hasn't finished; there is one in default",
        ),
        (["drain", "n9"], 1, "poller.py drain: there is no node n9"),
        (["why", "web", "--remove", "n9"], 1, "there is no node n9; there are 3 nodes"),
        (["why", "db", "--remove", "n1"], 1, "why: there is no pod db in namespace default"),
        (["why", "web", "--add", "2"], 2, "--add NUMBER and --like NODE belong together"),
        (["why", "web", "--label", "n1=x"], 2, "--label n1=x: write NODE:KEY=VALUE"),
        (["why", "web", "--taint", "n1:x:Sometimes"], 2, "an effect is one of NoSchedule"),
        (["why", "web", "--taint", "x*:x:NoSchedule"], 1, "there is no node x*"),
        (["why", "web", "--from", "/nowhere.json"], 1, "--from /nowhere.json: No such file or directory"),
        (["why", "web", "--scheduler-name", "x", "--config", "/nowhere.yaml"], 2, "/nowhere.yaml"),
        (["try", "-f", "/nowhere.yaml"], 1, "/nowhere.yaml: No such file or directory"),
        (["why", "web", "--proxy", "http://127.0.0.1:1"], 2, "combined with --proxy"),
        (["why", "web", "--start-proxy"], 2, "combined with --start-proxy"),
        (["why", "web", "--context", "x"], 2, "combined with --context"),
        (["--proxy", "http://127.0.0.1:1", "why", "web"], 2, "put it after the verb"),
        (["--config", "x.yaml", "why", "web"], 2, "put it after the verb: poller.py why --config …"),
        (["drain"], 2, "Missing argument 'NODE...'"),
        (["why", "a", "b"], 2, "why takes one POD or TYPE/NAME"),
        (["why", "deploy/web"], 1, "there are no pods of deployment default/web"),
        (["why", "-l", "a=(b"], 2, "-l a=(b: write labels as app=web"),
        (["why", "web", "-A"], 2, "leave out the name"),
        (["why", "web", "-o", "yaml"], 2, "'yaml' is not one of"),
    ],
)
def test_what_is_wrong_is_said(
    poller: Run, cluster: str, arguments: list[str], status: int, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("POLLER_START_PROXY", "1")  # is for other times
    monkeypatch.setenv("POLLER_CONTEXT", "other")
    monkeypatch.setenv("COLUMNS", "200")
    done = poller(*arguments, "--from", cluster)
    assert done.status == status
    assert said in done.err
    assert "Traceback" not in done.err


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("{}", "holds no nodes and no pods"),
        ("[", "is not JSON or YAML of Kubernetes objects"),
        ("{} {", "is not JSON or YAML of Kubernetes objects"),
        ("{}, {}", "is not JSON or YAML of Kubernetes objects"),
        ("some text", "is not JSON or YAML of Kubernetes objects"),
        ("kind: List", "holds no nodes and no pods"),
        (
            '{"kind": "List", "items": [{"kind": "Pod", "spec": {}}]}',
            "Pod  can't be read and is left out: Object missing required field `metadata`",
        ),
    ],
)
def test_a_file_that_is_none(poller: Run, tmp_path: Path, text: str, said: str) -> None:
    file = tmp_path / "cluster.json"
    file.write_text(text)
    done = poller("why", "web", "--from", str(file))
    assert done.status == 1
    assert said in done.err


def test_what_kubectl_prints_is_a_cluster(poller: Run, tmp_path: Path) -> None:
    node, nodes = (
        json.dumps(a_node("n1")),
        json.dumps({"kind": "NodeList", "items": [a_node("n1")]}, indent=2),
    )
    logs = '==== START logs for container c of pod a/b ====\n{ "\n==== END logs for container c ====\n'
    pod, folder = write(tmp_path / "web.json", a_pod("web", "1")), tmp_path / "dump" / "default" / "b"
    folder.mkdir(parents=True)
    (folder / "logs.txt").write_text("{")
    (tmp_path / "dump" / "nodes.json").write_text(nodes)
    forms = {
        "an array": f"[{node}]",
        "a line each": f"{node}\n{json.dumps(a_node('n2'))}\n",
        "one after another": f'{nodes}\n{{"kind": "PodList", "items": []}}\n',
        "a dump": f'{nodes}\n{logs}{{"kind": "EventList", "items": []}}\n',
        "a dump in YAML": f"{yaml.safe_dump(a_node('n1'))}---\n{logs}kind: EventList\nitems: []\n",
        "a dump of one list": f"{nodes}\n{logs}",
        "with a mark": f"\ufeff{node}",
        "YAML": yaml.safe_dump_all([a_node("n1"), a_node("n2")]),
        "a folder": None,
    }
    for form, text in forms.items():
        file = tmp_path / form
        if text:
            file.write_text(text)
        done = poller("room", "-f", pod, "--from", str(file if text else tmp_path / "dump"))
        assert done.status == 0, (form, done.err)


@pytest.mark.parametrize(
    ("words", "offered", "then"),
    [
        ([""], [*VERBS], ":4"),
        (["dr"], ["drain"], ":4"),
        (["why", "--from", "{}", "w"], ["web"], ":36"),
        (
            ["why", "--from={}", "default/"],
            ["default/cache", "default/db", "default/small", "default/web"],
            ":36",
        ),
        (["why", "--from", "{}", "-n", "other", ""], [], ":36"),
        (["drain", "--from", "{}", "n1", ""], ["n1", "n2", "n3"], ":4"),
        (["try", "--from", "{}", "--add", "1", "--like", "n3"], ["n3"], ":4"),
        (["why", "--from", "{}", "--label", ""], ["n1:", "n2:", "n3:"], ":6"),
        (["why", "--from", "{}", "--label", "n*:kube"], ["n*:kubernetes.io/hostname="], ":6"),
        (
            ["why", "--from", "{}", "--label", "n1:kubernetes.io/hostname="],
            [f"n1:kubernetes.io/hostname={name}" for name in ("n1", "n2", "n3")],
            ":4",
        ),
        (["why", "-o", ""], ["table", "wide", "json"], ":4"),
        (["try", "--re"], ["--recursive", "--replicas", "--remove"], ":4"),
        (["try", "-f", ""], [], ":0"),
        (["save", ""], [], ":0"),
        (["why", "--proxy", "http://127.0.0.1:1", ""], [], ":1"),
    ],
)
def test_how_a_command_line_may_go_on(
    poller: Run, cluster: str, words: list[str], offered: list[str], then: str
) -> None:
    done = poller("__complete", *(word.format(cluster) for word in words))
    *found, last = done.out.splitlines()
    assert (sorted(found), last) == (sorted(offered), then)


def test_no_one_answers(poller: Run) -> None:
    done = poller("why", "web", "--proxy", "http://127.0.0.1:1")
    assert done.status == 1
    assert "nothing answers at http://127.0.0.1:1" in done.err


def test_room_names_no_pod_that_does_not_exist(poller: Run, tmp_path: Path) -> None:
    """Before, it advised to evict `web-more-7`, and to add a node like each of five nodes."""
    high = {"kind": "PriorityClass", "metadata": {"name": "high"}, "value": 10}
    nodes = [a_node(f"n{i}", metadata={"labels": {"zone": f"z{i}"}}) for i in range(3)]
    file = write(tmp_path / "cluster.json", *nodes, high)
    manifest = tmp_path / "web.json"
    manifest.write_text(json.dumps(a_pod("web", "1")))
    done = poller("room", "-f", str(manifest), "--from", file)
    assert done.out.startswith("Pod default/web: 12 more pods would fit")
    assert "n0, n1, n2: needs cpu 1, 0 of 4 free: one of these has 1" in done.out
    assert "-more-" not in done.out
    assert done.out.count("with one more node like") == 1
