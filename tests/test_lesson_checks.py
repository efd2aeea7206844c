"""The checks' answers to tasks that were done wrong, or by half; and scripts/learn, as a student runs it."""

import os
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from cluster import Cluster, http_client

from scripts.learning.checks import CHECKS
from scripts.learning.lab import Lab, NotYetError
from scripts.servers.embedded import minicluster
from scripts.servers.process import ROOT

OURS = {"annotations": {"poller/decision": '{"feasible":"3/3"}'}}
LOW = {"value": 1000, "preemptionPolicy": "PreemptLowerPriority"}
NEVER = {"value": 1000, "preemptionPolicy": "Never"}
PORT = {"name": "main", "image": "nginx", "ports": [{"containerPort": 8099, "hostPort": 8099}]}
TAINT = {"spec": {"taints": [{"key": "lab-only", "value": "tests", "effect": "NoSchedule"}]}}
CORDON = {"spec": {"unschedulable": True}}
SSD = {"metadata": {"labels": {"lab-disk": "ssd"}}}
ROLE = {"rules": [{"apiGroups": [""], "resources": ["pods"], "verbs": ["list"]}]}


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    with minicluster("--kubelet-delay", "0.1") as url:
        yield url


@pytest.fixture
def cluster(server: str, tmp_path: Path) -> Iterator[Cluster]:
    Lab(server, own=True).reset()
    with http_client(server) as api:
        yield Cluster(server, server, tmp_path, tmp_path, api)


Doing = Callable[[Cluster], None]


def pod(name: str, node: str = "", labels: dict[str, str] | None = None, **rest: Any) -> Doing:
    """A pod, bound to a node if one is named."""
    metadata = {"labels": labels or {}, **rest.pop("metadata", {})}
    spec = {**rest, **({"nodeName": node} if node else {})}
    return lambda cluster: cluster.add_pod(name, metadata=metadata, **spec) and None


def node(name: str, patch: dict[str, Any]) -> Doing:
    return lambda cluster: cluster.patch(f"/api/v1/nodes/{name}", patch)


def priority_class(name: str, **content: Any) -> Doing:
    content["metadata"] = {"name": name, "labels": {"lab": "poller"}}
    return lambda cluster: cluster.post("/apis/scheduling.k8s.io/v1/priorityclasses", content) and None


def rbac(kind: str, **content: Any) -> Doing:
    content["metadata"] = {"name": "poller"}
    return lambda cluster: cluster.post(f"/apis/rbac.authorization.k8s.io/v1/{kind}", content) and None


def event(reason: str, about: str, message: str = "") -> Doing:
    target = {"kind": "Pod", "name": about, "namespace": "default"}
    body = {"metadata": {"name": f"{about}.{reason.lower()}"}, "reason": reason, "message": message}
    path = "/api/v1/namespaces/default/events"
    return lambda cluster: cluster.post(path, {**body, "involvedObject": target}) and None


def several(count: int, name: str, **rest: Any) -> list[Doing]:
    return [pod(f"{name}-{number}", **rest) for number in range(count)]


WRONG: list[tuple[str, list[Doing], str]] = [
    ("web_waits", [], "there is no pod web"),
    ("web_waits", [pod("web", schedulerName="default-scheduler")], "names the scheduler default-scheduler"),
    ("web_waits", [pod("web", "node1")], "pod web is on node1 already"),
    ("web_is_on_the_second_node", [pod("web")], "pod web has no node yet"),
    ("web_is_on_the_second_node", [pod("web", "node1")], "pod web is on node1, not on node2"),
    ("web_is_on_the_second_node", [pod("web", "node2", metadata=OURS)], "was bound by poller"),
    ("a_pod_is_on_a_cordoned_node", [pod("a", "node1")], "no node is cordoned"),
    ("a_pod_is_on_a_cordoned_node", [node("node1", CORDON), pod("a", "node2")], "no new pod is on node1"),
    ("all_six_are_on_the_third_node", [node("node1", CORDON)], "node2 isn't cordoned"),
    (
        "all_six_are_on_the_third_node",
        [
            node("node1", CORDON),
            node("node2", CORDON),
            *several(5, "six", labels={"app": "six"}, node="node3"),
            pod("odd", "node1", {"app": "six"}),
        ],
        "some of the six are on node1",
    ),
    ("more_is_placed_by_poller", [pod("picky"), pod("large")], "has 0 pods, not 3"),
    (
        "more_is_placed_by_poller",
        [pod("picky"), pod("large", "node1"), *several(3, "sleep", labels={"app": "sleep"}, node="node1")],
        "without a node: picky",
    ),
    ("ssd_is_placed", [pod("ssd")], "no node has the label lab-disk=ssd"),
    ("ssd_is_placed", [pod("ssd"), node("node1", SSD)], "has no node yet. node1 has the label"),
    ("ssd_is_placed", [pod("ssd", "node1"), node("node1", SSD)], "asks for no label"),
    ("tester_is_on_the_tainted_node", [pod("tester", "node2")], "node2 has its taint no more"),
    ("tester_is_on_the_tainted_node", [node("node2", TAINT), pod("tester", "node3")], "nothing draws it"),
    (
        "tester_is_on_the_tainted_node",
        [node("node2", TAINT), pod("tester", "node2")],
        "wasn't placed by poller",
    ),
    ("medium_went_where_you_said", [pod("medium")], "has no annotation lab/prediction"),
    (
        "medium_went_where_you_said",
        [pod("medium", metadata={"annotations": {"lab/prediction": "node9"}})],
        "there is no node node9",
    ),
    (
        "medium_went_where_you_said",
        [
            pod(
                "medium",
                "node3",
                metadata={"annotations": {**OURS["annotations"], "lab/prediction": "node1"}},
            )
        ],
        "you said node1, and it went to node3",
    ),
    ("picky_went_where_it_prefers", [pod("picky")], "pod picky prefers nothing"),
    ("modest_is_placed_and_miser_waits", [pod("modest", "node1")], "costs more than it wants to pay"),
    (
        "modest_is_placed_and_miser_waits",
        [pod("modest", "node2", metadata=OURS), pod("miser", "node2")],
        "pod miser is on node2",
    ),
    (
        "modest_is_placed_and_miser_waits",
        [pod("modest", "node2", metadata=OURS), pod("miser"), event("FailedScheduling", "miser", "no cpu")],
        "the event of pod miser says: no cpu",
    ),
    ("the_follower_is_beside_the_leader", [pod("follower", "node1")], "hasn't tried pod follower in vain"),
    (
        "the_follower_is_beside_the_leader",
        [
            pod("follower", "node1"),
            event("FailedScheduling", "follower"),
            pod("leader", "node2", {"app": "leader"}),
        ],
        "pod follower is on node1, without a leader",
    ),
    ("the_gate_is_open", [pod("gated", schedulingGates=[{"name": "a/b"}])], "still has the gate a/b"),
    ("the_gate_is_open", [pod("gated")], "has no node yet"),
    ("the_gang_is_placed", several(2, "worker", labels={"poller/group": "training"}), "it needs 3"),
    (
        "the_gang_is_placed",
        several(3, "worker", labels={"poller/group": "training"}),
        "without a node: worker-0, worker-1, worker-2",
    ),
    ("polite_waits", [], "there is no priority class lab-polite"),
    ("polite_waits", [priority_class("lab-polite", **LOW)], "take others' place"),
    ("polite_waits", [priority_class("lab-polite", **NEVER), pod("polite")], "is of the class None"),
    (
        "polite_waits",
        [priority_class("lab-polite", **NEVER), pod("polite", priorityClassName="lab-polite")],
        "doesn't want port 8099",
    ),
    (
        "polite_waits",
        [
            priority_class("lab-polite", **NEVER),
            pod("polite", "node1", priorityClassName="lab-polite", containers=[PORT]),
        ],
        "there was room",
    ),
    ("sleep_runs_and_poller_has_its_rights", [], "there is no ClusterRole poller"),
    ("sleep_runs_and_poller_has_its_rights", [rbac("clusterroles", **ROLE)], "who has the rules"),
    ("nginx_is_placed_with_the_rights_back", [rbac("clusterroles", **ROLE)], "create pods/binding"),
]


@pytest.mark.parametrize(("task", "doings", "words"), WRONG)
def test_a_check_says_what_is_wrong(cluster: Cluster, task: str, doings: list[Doing], words: str) -> None:
    for do in doings:
        do(cluster)
    with pytest.raises(NotYetError) as told:
        CHECKS[task](Lab(cluster.server, own=True))
    assert words in str(told.value)


def test_every_task_can_be_done_wrong() -> None:
    assert {task for task, _, _ in WRONG} == set(CHECKS)


def learn(folder: Path, *commands: str) -> str:
    """What scripts/learn shows when these are typed into its shell."""
    done = subprocess.run(
        [ROOT / "scripts" / "learn"],
        input="".join(f"{each}\n" for each in (*commands, "exit")),
        env={**os.environ, "LAB_FOLDER": str(folder), "COLUMNS": "80", "LINES": "24"},
        capture_output=True,
        text=True,
        timeout=180,
    )
    assert done.returncode == 0, done.stderr
    return " ".join(done.stdout.split())


def test_a_student_goes_through_a_task(tmp_path: Path) -> None:
    shown = learn(
        tmp_path,
        "learn at 1 5",  # the steps before it are done again
        "kubectl get pods --no-headers",
        "learn next",
        "learn hint",
        """kubectl run web --image=nginx --overrides='{"spec": {"schedulerName": "my-scheduler"}}'""",
        "learn next",
        "learn run",
    )
    parts = [
        "1. A pod is Pending",  # the page of the first step
        "Task: a second pod",
        "nginx 0/1 Pending",
        "Not yet: there is no pod web.",
        "Hint 1 of 2",
        "pod/web created",
        "Seen: pod web names my-scheduler, and has no node.",
        "2. Bind it by hand",  # the next lesson, on a cluster without the pods
        '"code": 201',
    ]
    for part in parts:
        _, found, shown = shown.partition(part)
        assert found, f"{part!r} isn't shown, or not in its place"


def test_the_labs_proxy_is_private_and_its_page_can_be_opened(tmp_path: Path) -> None:
    log = tmp_path / "ui.log"
    shown = learn(
        tmp_path,
        'stat --format="mode %a" "${PROXY_SOCKET%/*}"',
        f"python poller.py --ui 2>{log} &",
        f"until grep -q 'page is at' {log}; do sleep 0.1; done",
        f"curl --silent $(sed -n 's/.*the page is at \\(.*\\): .*/\\1/p' {log})api/v1/nodes?limit=1",
        "kill %1; wait",
    )
    assert "mode 700" in shown
    assert '"kind":"NodeList"' in shown.replace(" ", "")


def test_outside_of_its_shell_learn_says_where_to_go() -> None:
    done = subprocess.run([ROOT / "scripts" / "learn", "next"], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout) == (1, "")
    assert "start it with scripts/learn" in done.stderr
