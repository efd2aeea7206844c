"""The checks' answers to tasks that were done wrong, or by half."""

import json
import os
import re
import time
from collections.abc import Callable, Iterator
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from cluster import Cluster, eventually, http_client
from poller_process import run_poller

from scripts.learning import checks, own_scheduler, probe, reading
from scripts.learning.checks import CHECKS, is_ready, victims_of
from scripts.learning.lab import Lab, NotYetError
from scripts.servers.embedded import minicluster
from scripts.servers.process import ROOT

PREFERS = {
    "nodeAffinity": {
        "preferredDuringSchedulingIgnoredDuringExecution": [
            {"weight": 1, "preference": {"matchExpressions": [{"key": "lab-disk", "operator": "Exists"}]}}
        ]
    }
}
BESIDE_A_LEADER = {
    "podAffinity": {
        "requiredDuringSchedulingIgnoredDuringExecution": [
            {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"app": "leader"}}}
        ]
    }
}
ALL = {"rules": [{"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}]}
BINDS = {"apiGroups": [""], "resources": ["pods/binding"], "verbs": ["create"]}
POLLER = {"kind": "ServiceAccount", "name": "poller", "namespace": "poller"}
OURS = {"annotations": {"poller/decision": '{"feasible":"3/3"}'}}
SAYS_NODE1 = {"annotations": {**OURS["annotations"], "lab/prediction": "node1"}}
LOW = {"value": 1000, "preemptionPolicy": "PreemptLowerPriority"}
NEVER = {"value": 1000, "preemptionPolicy": "Never"}
PORT = {"name": "main", "image": "nginx", "ports": [{"containerPort": 8099, "hostPort": 8099}]}
TAINT = {"spec": {"taints": [{"key": "lab-only", "value": "tests", "effect": "NoSchedule"}]}}
CORDON = {"spec": {"unschedulable": True}}
SSD = {"metadata": {"labels": {"lab-disk": "ssd"}}}
ASKS = {"nodeSelector": {"lab-disk": "ssd"}}
HALF = {"name": "main", "image": "nginx", "resources": {"requests": {"cpu": "0.5", "memory": "524288Ki"}}}
"""Half a cpu and half a GiB, as somebody else may write it."""

ROLE = {"rules": [{"apiGroups": [""], "resources": ["pods"], "verbs": ["list"]}]}


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    with minicluster("--kubelet-delay", "0.1") as url:
        yield url


@pytest.fixture(autouse=True)
def quick_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    """poller.py is forked for each question. Tests of whole lessons start it as a student's check does."""

    def answered(*question: str) -> Any:
        return json.loads(run_poller(*question, "--output=json").stdout)

    monkeypatch.setattr(probe, "answered", answered)


NAMESPACED = ("/api/v1/namespaces/default/pods", "/api/v1/namespaces/default/events")


@pytest.fixture
def cluster(server: str, tmp_path: Path) -> Iterator[Cluster]:
    """Three nodes. After most tests, only pods and events are to be deleted: a reset has 30 requests."""
    written = set[str]()
    with http_client(server) as api:
        api.event_hooks = {"request": [lambda it: it.method != "GET" and written.add(it.url.path)]}
        yield Cluster(server, server, tmp_path, tmp_path, api)
        if all(path.startswith(NAMESPACED) for path in written):
            for path in NAMESPACED:
                api.delete(path, params={"gracePeriodSeconds": 0}).raise_for_status()
        else:
            Lab(server, own=True, folder=tmp_path).reset()


Doing = Callable[[Cluster], None]


def pod(name: str, node: str = "", labels: dict[str, str] | None = None, **rest: Any) -> Doing:
    """A pod, bound to a node if one is named; with nodeName, it is created with it."""
    metadata = {"labels": labels or {}, **rest.pop("metadata", {})}

    def do(cluster: Cluster) -> None:
        cluster.add_pod(name, metadata=metadata, **rest)
        if node:
            bind(cluster, name, node)

    return do


def bind(cluster: Cluster, pod: str, node: str) -> None:
    binding = {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": pod}}
    path = f"/api/v1/namespaces/default/pods/{pod}/binding"
    cluster.post(path, {**binding, "target": {"kind": "Node", "name": node}})


def bound(pod: str, node: str) -> Doing:
    return lambda cluster: bind(cluster, pod, node)


def a_node(name: str) -> Doing:
    return lambda cluster: cluster.add_node(name, labels={"lab": "poller"})


def node(name: str, patch: dict[str, Any]) -> Doing:
    return lambda cluster: cluster.patch(f"/api/v1/nodes/{name}", patch)


def priority_class(name: str, **content: Any) -> Doing:
    content["metadata"] = {"name": name, "labels": {"lab": "poller"}}
    return lambda cluster: cluster.post("/apis/scheduling.k8s.io/v1/priorityclasses", content) and None


def rbac(kind: str, **content: Any) -> Doing:
    content["metadata"] = {"name": "poller"}
    return lambda cluster: cluster.post(f"/apis/rbac.authorization.k8s.io/v1/{kind}", content) and None


def granted(name: str, role: str) -> Doing:
    """A ClusterRoleBinding for the ServiceAccount poller."""
    ref = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role}
    body = {"metadata": {"name": name}, "roleRef": ref, "subjects": [POLLER]}
    return lambda cluster: (
        cluster.post("/apis/rbac.authorization.k8s.io/v1/clusterrolebindings", body) and None
    )


def event(reason: str, about: str, message: str = "") -> Doing:
    target = {"kind": "Pod", "name": about, "namespace": "default"}
    body = {"metadata": {"name": f"{about}.{reason.lower()}"}, "reason": reason, "message": message}
    path = "/api/v1/namespaces/default/events"
    return lambda cluster: cluster.post(path, {**body, "involvedObject": target}) and None


def several(count: int, name: str, **rest: Any) -> list[Doing]:
    return [pod(f"{name}-{number}", **rest) for number in range(count)]


def api(request: str, limit: str) -> list[Doing]:
    """Four pods `api` with these requests and limits."""
    parts = (("requests", request), ("limits", limit))
    resources = {part: {"cpu": amount} for part, amount in parts if amount}
    container = {"name": "main", "image": "nginx", "resources": resources}
    return several(4, "api", labels={"app": "api"}, containers=[container])


def db(how: str, skew: int = 1, counts: dict[str, str] | None = None, **rest: Any) -> list[Doing]:
    """Five pods `db` with a spread constraint."""
    constraint = {"maxSkew": skew, "topologyKey": "kubernetes.io/hostname", "whenUnsatisfiable": how}
    constraints = [
        {**constraint, "labelSelector": {"matchLabels": {"app": "db"} if counts is None else counts}}
    ]
    return several(5, "db", labels={"app": "db"}, topologySpreadConstraints=constraints, **rest)


def gang(node: str = "", size: str = "3", **rest: Any) -> list[Doing]:
    """Three pods of the group `training`."""
    metadata = {"annotations": {"poller/group-size": size}}
    return several(3, "worker", node=node, labels={"poller/group": "training"}, metadata=metadata, **rest)


def budget(available: int) -> Doing:
    """The disruption budget of the shop."""
    spec = {"minAvailable": available, "selector": {"matchLabels": {"app": "shop"}}}
    path = "/apis/policy/v1/namespaces/default/poddisruptionbudgets"
    return lambda cluster: cluster.post(path, {"metadata": {"name": "shop"}, "spec": spec}) and None


def zone(name: str, value: str) -> Doing:
    return node(name, {"metadata": {"labels": {"topology.kubernetes.io/zone": value}}})


TOLERATES = {"key": "lab-only", "operator": "Exists"}
THEIRS = {
    "schedulerName": "other-scheduler",
    "nodeSelector": {"kubernetes.io/hostname": "node3"},
    "tolerations": [TOLERATES],
}

ZONES = [zone("node1", "a"), zone("node2", "b"), zone("node3", "b")]

WITH_DATA = {
    "containers": [{"name": "main", "image": "nginx", "resources": {"requests": {"cpu": "2"}}}],
    "volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}],
}


def disk(cluster: Cluster) -> None:
    """The disk in zone a."""
    term = {"key": "topology.kubernetes.io/zone", "operator": "In", "values": ["a"]}
    spec = {
        "capacity": {"storage": "10Gi"},
        "accessModes": ["ReadWriteOnce"],
        "hostPath": {"path": "/tmp/disk"},
        "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [term]}]}},
    }
    cluster.post("/api/v1/persistentvolumes", {"metadata": {"name": "lab-disk"}, "spec": spec})


THREE_REASONS = "0/3 nodes are available: 1 Insufficient cpu, 1 untolerated taint, 1 were unschedulable"


def foretold(said: str, told: str) -> list[Doing]:
    """The pod `foretold` with a prediction, and an event if there is a text."""

    def tell(cluster: Cluster) -> None:
        uid = cluster.api.get("/api/v1/namespaces/default/pods/foretold").json()["metadata"]["uid"]
        target = {"kind": "Pod", "name": "foretold", "namespace": "default", "uid": uid}
        body = {"metadata": {"name": "foretold.1"}, "reason": "FailedScheduling", "message": told}
        cluster.post("/api/v1/namespaces/default/events", {**body, "involvedObject": target})

    made = pod("foretold", metadata={"annotations": {"lab/prediction": said}})
    return [made, tell] if told else [made]


WRONG: list[tuple[str, list[Doing], str]] = [
    ("web_waits", [], "there is no pod web"),
    ("web_waits", [pod("web", schedulerName="default-scheduler")], "names the scheduler default-scheduler"),
    ("web_waits", [pod("web", "node1")], "pod web is on node1 already"),
    ("web_is_on_the_second_node", [pod("web")], "pod web has no node yet"),
    ("web_is_on_the_second_node", [pod("web", "node1")], "pod web is on node1, not on node2"),
    ("web_is_on_the_second_node", [pod("web", "node2", metadata=OURS)], "was bound by poller"),
    ("web_is_on_the_second_node", [pod("web", nodeName="node2")], "was created with a nodeName"),
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
    (
        "all_six_are_on_the_third_node",
        [
            node("node1", CORDON),
            node("node2", CORDON),
            *several(6, "six", labels={"app": "six"}, nodeName="node3"),
        ],
        "created with a nodeName",
    ),
    ("three_of_api_have_a_node_each", api("3", "3"), "0 of them have a node, and there is room for 3"),
    (
        "three_of_api_have_a_node_each",
        [*api("3", "3"), bound("api-0", "node1"), bound("api-1", "node1")],
        "2 of them are on node1, which has room for one",
    ),
    (
        "three_of_api_have_a_node_each",
        [*api("3", "3"), *(bound(f"api-{n}", f"node{n}") for n in (1, 2, 3))],
        "no event says why pod api-0 has no node",
    ),
    ("more_is_placed", [pod("picky"), pod("large")], "has 0 pods, not 3"),
    (
        "more_is_placed",
        [pod("picky"), pod("large", "node1"), *several(3, "sleep", labels={"app": "sleep"}, node="node1")],
        "without a node: picky",
    ),
    ("ssd_is_placed", [pod("ssd")], "no node has the label lab-disk=ssd"),
    (
        "ssd_is_placed",
        [pod("ssd"), node("node1", SSD)],
        "has no node yet. The label is on node1 now; what does poller say?",
    ),
    ("ssd_is_placed", [pod("ssd", "node1"), node("node1", SSD)], "asks for no label"),
    ("ssd_is_placed", [pod("ssd", "node2", **ASKS), node("node3", SSD)], "node2, which hasn't the label"),
    ("ssd_is_placed", [pod("ssd", nodeName="node3", **ASKS), node("node3", SSD)], "created with a nodeName"),
    (
        "ssd_is_placed",
        [pod("ssd", "node1", **ASKS, metadata=OURS), node("node1", SSD)],
        "node1 isn't cordoned any more",
    ),
    (
        "ssd_is_placed",
        [pod("ssd", "node2", **ASKS, metadata=OURS), node("node2", SSD), node("node1", CORDON)],
        "node2 has its taint no more",
    ),
    ("tester_is_on_the_tainted_node", [pod("tester", "node2")], "node2 has its taint no more"),
    (
        "tester_is_on_the_tainted_node",
        [node("node2", TAINT), pod("tester", "node2")],
        "there is no pod heavy",
    ),
    (
        "tester_is_on_the_tainted_node",
        [node("node2", TAINT), pod("heavy", "node2"), pod("tester", "node3")],
        "nothing draws it",
    ),
    (
        "tester_is_on_the_tainted_node",
        [node("node2", TAINT), pod("heavy", "node2"), pod("tester", nodeName="node2")],
        "created with a nodeName",
    ),
    ("medium_went_where_you_said", [pod("medium")], "has no annotation lab/prediction"),
    (
        "medium_went_where_you_said",
        [pod("medium", metadata={"annotations": {"lab/prediction": "node9"}})],
        "there is no node node9",
    ),
    (
        "medium_went_where_you_said",
        [node("node1", CORDON), pod("medium", "node3", metadata=SAYS_NODE1)],
        "you said node1, and it went to node3. NodeUnschedulable rejects node1: node(s) were unschedulable.",
    ),
    (
        "medium_went_where_you_said",
        [pod("busy", "node1", containers=[HALF]), pod("medium", "node3", metadata=SAYS_NODE1)],
        "NodeResourcesFit gives node1 88 points, and node3 97.",
    ),
    (
        "tester_is_on_the_tainted_node",
        [node("node2", TAINT), pod("heavy", "node2"), pod("tester", "node2", metadata=OURS)],
        "doesn't tolerate the taint",
    ),
    ("picky_went_where_it_prefers", [pod("picky")], "pod picky prefers nothing"),
    (
        "picky_went_where_it_prefers",
        [pod("picky", affinity=PREFERS, containers=[HALF])],
        "node1 hasn't the label",
    ),
    ("picky_went_where_it_prefers", [pod("picky", affinity=PREFERS)], "doesn't request 500m of cpu"),
    ("modest_is_placed_and_miser_waits", [pod("modest", "node1")], "costs more than it wants to pay"),
    (
        "modest_is_placed_and_miser_waits",
        [pod("modest", "node2", metadata=OURS), pod("miser", "node2")],
        "pod miser is on node2",
    ),
    (
        "modest_is_placed_and_miser_waits",
        [pod("modest", "node2", metadata=OURS), pod("miser"), event("FailedScheduling", "miser", "no cpu")],
        'doesn\'t say "too dear", but: no cpu',
    ),
    (
        "the_follower_is_beside_the_leader",
        [pod("follower", "node1")],
        "no scheduler has tried this pod follower in vain",
    ),
    (
        "the_follower_is_beside_the_leader",
        [
            pod("follower", "node1"),
            event("FailedScheduling", "follower"),
            pod("leader", "node1", {"app": "leader"}),
        ],
        "doesn't ask for a leader any more",
    ),
    (
        "the_follower_is_beside_the_leader",
        [
            pod("follower", "node1", {"app": "leader"}, affinity=BESIDE_A_LEADER),
            event("FailedScheduling", "follower"),
        ],
        "nobody can be one's own leader",
    ),
    (
        "the_follower_is_beside_the_leader",
        [
            pod("follower", "node1", affinity=BESIDE_A_LEADER),
            event("FailedScheduling", "follower"),
            pod("leader", "node2", {"app": "leader"}),
        ],
        "pod follower is on node1, without a leader",
    ),
    ("the_gate_is_open", [pod("gated", schedulingGates=[{"name": "a/b"}])], "still has the gate a/b"),
    (
        "the_follower_is_beside_the_leader",
        [
            pod("follower", nodeName="node1", affinity=BESIDE_A_LEADER),
            event("FailedScheduling", "follower"),
            pod("leader", "node1", {"app": "leader"}),
        ],
        "created with a nodeName",
    ),
    ("the_gate_is_open", [pod("gated")], "has no node yet"),
    ("the_gate_is_open", [pod("gated", nodeName="node1")], "created with a nodeName"),
    ("the_gate_is_open", [pod("gated", "node1")], "this pod gated never had a gate"),
    ("the_gang_is_placed", several(2, "worker", labels={"poller/group": "training"}), "it needs 3"),
    ("the_gang_is_placed", gang(size="2"), "that the group has 3 pods"),
    ("the_gang_is_placed", gang(), "without a node: worker-0, worker-1, worker-2"),
    (
        "the_gang_is_placed",
        gang(nodeName="node1"),
        "created with a nodeName, and not bound by a scheduler: worker-0",
    ),
    (
        "the_gang_is_placed",
        [
            *gang("node1")[:2],
            lambda _: time.sleep(1.1),  # the API's times are whole seconds
            *gang("node1")[2:],
        ],
        "worker-0 got its node before worker-2 existed",
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
    (
        "sleep_runs_and_poller_has_its_rights",
        [granted("poller", "poller"), rbac("clusterroles", rules=[BINDS, *ALL["rules"]])],
        "has rights that poller doesn't need: * *",
    ),
    (
        "sleep_runs_and_poller_has_its_rights",
        [rbac("clusterroles", rules=[BINDS]), granted("poller", "poller"), granted("more", "cluster-admin")],
        "ClusterRole cluster-admin is granted to poller, too, by the clusterrolebinding more",
    ),
    (
        "nginx_is_placed_with_the_rights_back",
        [
            rbac("clusterroles", rules=[BINDS]),
            pod("nginx", "node1", metadata=OURS),
            lambda _: time.sleep(0.3),
        ],
        "placed with your own rights: pod nginx",
    ),
    ("nginx_is_placed_with_the_rights_back", [rbac("clusterroles", **ROLE)], "create pods/binding"),
    ("all_four_of_api_run", api("500m", ""), "there is no limit for cpu any more"),
    ("all_four_of_api_run", api("500m", "500m"), "the limit is 500m now"),
    ("all_four_of_api_run", api("", "3"), "a pod still reserves 3 of cpu"),  # the limit is the request
    ("all_four_of_api_run", api("0", "3"), "a pod reserves 0 of cpu, but usually it uses half"),
    ("all_four_of_api_run", api("500m", "3"), "without a node: api-0"),
    ("five_of_db_are_spread", several(5, "db", labels={"app": "db"}), "has no spread constraint for nodes"),
    ("five_of_db_are_spread", db("ScheduleAnyway"), "the constraint is only a wish"),
    ("five_of_db_are_spread", db("DoNotSchedule", skew=2), "maxSkew is 2"),
    ("five_of_db_are_spread", db("DoNotSchedule", counts={"app": "x"}), "doesn't count the pods with app=db"),
    ("five_of_db_are_spread", db("DoNotSchedule", counts={}), "counts other pods, too"),
    ("five_of_db_are_spread", db("DoNotSchedule", node="node1"), "the nodes have [5, 0, 0] of them"),
    ("store_is_beside_its_disk", [], "the zone of node1, node2, node3 was changed"),
    ("store_is_beside_its_disk", [*ZONES, pod("store", "node1")], "the disk isn't in zone a any more"),
    ("store_is_beside_its_disk", [*ZONES, disk, pod("store", "node2")], "pod store has lost its claim"),
    (
        "store_is_beside_its_disk",
        [*ZONES, disk, pod("store", "node1", **WITH_DATA, metadata=OURS), pod("heavy", "node1")],
        "pod heavy is on node1, too",
    ),
    ("a_node_is_drained_within_the_budget", [], "the budget shop is gone"),
    ("a_node_is_drained_within_the_budget", [budget(1)], "the budget shop was changed"),
    ("a_node_is_drained_within_the_budget", [budget(2)], "no node is cordoned"),
    (
        "a_node_is_drained_within_the_budget",
        [budget(2), node("node1", CORDON), pod("shop-1", "node1", {"app": "shop"})],
        "node1 still has a pod of the shop",
    ),
    ("the_schedulers_share_no_node", [], "node3 has no taint"),
    (
        "the_schedulers_share_no_node",
        [
            node("node3", TAINT),
            *several(2, "theirs", labels={"app": "theirs"}, node="node3", schedulerName="other-scheduler"),
        ],
        "no rule keeps it away from node1 and node2",
    ),
    (
        "the_schedulers_share_no_node",
        [
            node("node3", TAINT),
            *several(
                2,
                "theirs",
                labels={"app": "theirs"},
                node="node3",
                schedulerName="other-scheduler",
                nodeSelector={"kubernetes.io/os": "linux"},
            ),
        ],
        "no rule keeps it away from node1 and node2",
    ),
    (
        "the_schedulers_share_no_node",
        [
            node("node3", TAINT),
            *several(2, "theirs", labels={"app": "theirs"}, node="node3", metadata=OURS, **THEIRS),
            *several(2, "ours", labels={"app": "ours"}, node="node1", metadata=OURS, tolerations=[TOLERATES]),
        ],
        "pod ours-0 tolerates the taint of node3",
    ),
    ("best_fit_is_beaten", [], "there is no file"),
    *((each.__name__, [], "there is no .lab/sched.py") for each in own_scheduler.CHECKS),
    ("ten_places_were_found", [], "there is no .lab/answers.txt"),
    ("the_message_was_foretold", [], "there is no pod foretold"),
    ("the_message_was_foretold", [pod("foretold")], "has no annotation lab/prediction"),
    ("the_message_was_foretold", foretold("0/3", ""), "has no event FailedScheduling yet"),
    (
        "the_message_was_foretold",
        foretold("0/3", "0/3 nodes are available: 3 Insufficient cpu."),
        "no node is cordoned",
    ),
    (
        "the_message_was_foretold",
        foretold("0/3 nodes are available", f"{THREE_REASONS}. preemption: none."),
        f"you said: 0/3 nodes are available. It is: {THREE_REASONS}. Why?",
    ),
    ("both_pods_have_a_gpu", [], "there is no pod train"),
    ("both_pods_have_a_gpu", [pod("train", nodeName="node1")], "created with a nodeName"),
    ("both_pods_have_a_gpu", [pod("train", "node1")], "pod train doesn't use the claim train"),
    (
        "fast_is_on_the_best_of_all",
        [pod("fast", "node1", nodeSelector={"lab-disk": "ssd"})],
        "pod fast requires a node now",
    ),
    (
        "fast_is_on_the_best_of_all",
        [
            a_node("lab-200"),
            pod("fast", "lab-200", metadata={"annotations": {"poller/decision": '{"feasible":"3/4"}'}}),
        ],
        "poller looked until it had 3 of the 4 nodes that fit: that lab-200 is one of them was luck",
    ),
]


@pytest.mark.parametrize(("task", "doings", "words"), WRONG)
def test_a_check_says_what_is_wrong(
    cluster: Cluster, tmp_path: Path, task: str, doings: list[Doing], words: str
) -> None:
    for do in doings:
        do(cluster)
    with pytest.raises(NotYetError) as told:
        CHECKS[task](Lab(cluster.server, own=True, folder=tmp_path))
    assert words in str(told.value)


def gated_no_more(cluster: Cluster) -> None:
    pod("gated", schedulingGates=[{"name": "a/b"}])(cluster)
    cluster.patch("/api/v1/namespaces/default/pods/gated", {"spec": {"schedulingGates": None}})
    bind(cluster, "gated", "node1")


PREDICTED = {"annotations": {"lab/prediction": "node1"}}
BY_OTHERS: list[tuple[str, list[Doing], str]] = [
    ("medium_went_where_you_said", [pod("medium", "node1", metadata=PREDICTED)], "there it went"),
    (
        "medium_went_where_you_said",
        [pod("busy", "node1", containers=[HALF]), pod("medium", "node1", metadata=PREDICTED)],
        "medium is on node1; by kube-scheduler's scores, node2, node3 is best",
    ),
    ("the_gate_is_open", [gated_no_more], "the gate is open"),
    ("the_gang_is_placed", gang("node1"), "all 3 pods of the group have a node"),
    ("fast_is_on_the_best_of_all", [a_node("lab-200"), pod("fast", "lab-200")], "the best of all nodes"),
]


@pytest.mark.parametrize(("task", "doings", "words"), BY_OTHERS)
def test_the_work_of_a_scheduler_in_another_language_is_seen(
    cluster: Cluster, tmp_path: Path, task: str, doings: list[Doing], words: str
) -> None:
    for do in doings:
        do(cluster)
    lab = Lab(cluster.server, own=True, folder=tmp_path)
    try:
        said = CHECKS[task](lab)
    except NotYetError as error:
        said = str(error)
    assert words in said


POLICY = """
def filter(pod, node):
    most = pod.metadata.annotations.get("example.com/max-price")
    price = float(node.annotations.get("example.com/price", 1))
    return {} or "too dear"
"""


@pytest.mark.parametrize(
    ("rule", "words"),
    [
        ("most is None or price <= float(most)", ""),
        (
            "most is None or node.name == 'node2' and most == '0.20'",
            "puts a pod that pays at most 0.20 on node2",
        ),
        ("pod.metadata.name == 'modest'", "puts a pod that pays at most 0.20 on no node"),
        ("most is None or price < float(most)", "keeps a pod that pays at most 0.50 away from a node for .5"),
        ("most is None or node.annotations['example.com/price'] <= most", "compare numbers, not texts"),
        ("price <= float(most or 0)", "pays any price"),
        (
            "most is None or node.cost <= 0.2",
            "puts a pod that pays at most 0.20 on no node: plugin mine failed",
        ),
        ("(", "can't be loaded"),
    ],
    ids=[
        "by-price",
        "by-names",
        "by-pods-names",
        "less-than",
        "by-text",
        "all-are-poor",
        "fails",
        "no-python",
    ],
)
def test_a_policy_is_tried_with_other_prices(cluster: Cluster, tmp_path: Path, rule: str, words: str) -> None:
    for do in (
        pod("modest", "node2", metadata=OURS),
        pod("miser"),
        event("FailedScheduling", "miser", "3 too dear"),
    ):
        do(cluster)
    (tmp_path / "mine.py").write_text(POLICY.format(rule))
    lab = Lab(cluster.server, own=True, folder=tmp_path)
    if not words:
        assert "with other prices, they go elsewhere" in CHECKS["modest_is_placed_and_miser_waits"](lab)
        return
    with pytest.raises(NotYetError, match=words):
        CHECKS["modest_is_placed_and_miser_waits"](lab)


@pytest.mark.parametrize("kept", [True, False], ids=["third-pod-first", "deleted-first"])
def test_a_shop_that_had_one_pod_for_a_while_has_broken_its_budget(
    cluster: Cluster, tmp_path: Path, kept: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(checks, "AT_ONCE", timedelta(seconds=1))
    path, labels = "/apis/apps/v1/namespaces/default/deployments", {"app": "shop"}
    pods = {"schedulerName": "my-scheduler", "containers": [{"name": "main", "image": "nginx"}]}
    template = {"metadata": {"labels": labels}, "spec": pods}
    spec = {"replicas": 2, "selector": {"matchLabels": labels}, "template": template}
    lab = Lab(cluster.server, own=True, folder=tmp_path)
    shop = partial(lab.pods, "app=shop")
    for do in (budget(2), node("node1", CORDON)):
        do(cluster)
    cluster.post(path, {"metadata": {"name": "shop"}, "spec": spec})
    eventually(lambda: len(shop()) == 2)
    first = shop()[0]["metadata"]["name"]
    steps: list[Callable[[], Any]] = [
        lambda: cluster.patch(f"{path}/shop", {"spec": {"replicas": 3}}),
        lambda: lab.delete(f"/api/v1/namespaces/default/pods/{first}"),
    ]
    for step in steps if kept else reversed(steps):
        time.sleep(2.1)  # the API's times are whole seconds
        step()
    eventually(lambda: len(shop()) == 3)
    for each in shop():
        bind(cluster, each["metadata"]["name"], "node2")
    eventually(lambda: all(map(is_ready, shop())))
    if kept:
        assert "node1 can be repaired" in CHECKS["a_node_is_drained_within_the_budget"](lab)
    else:
        with pytest.raises(NotYetError, match="replaced before there was a third"):
            CHECKS["a_node_is_drained_within_the_budget"](lab)


def test_every_task_can_be_done_wrong() -> None:
    assert {task for task, _, _ in WRONG} == set(CHECKS)


def test_a_prediction_that_is_changed_afterwards_does_not_count(cluster: Cluster, tmp_path: Path) -> None:
    lab = Lab(cluster.server, own=True, folder=tmp_path)
    said = {**OURS["annotations"], "lab/prediction": "node1"}
    cluster.add_pod("medium", metadata={"annotations": said})
    bind(cluster, "medium", "node1")
    assert "there it went" in CHECKS["medium_went_where_you_said"](lab)
    time.sleep(1.1)  # the API's times are whole seconds
    wrong = {"metadata": {"annotations": {"lab/prediction": "node2"}}}
    right = {"metadata": {"annotations": {"lab/prediction": "node1"}}}
    for patch in (wrong, right):
        cluster.patch("/api/v1/namespaces/default/pods/medium", patch)
    with pytest.raises(NotYetError, match="was changed after it was placed"):
        CHECKS["medium_went_where_you_said"](lab)


def test_an_earlier_pods_victims_are_not_those_of_the_corrected_one(cluster: Cluster, tmp_path: Path) -> None:
    lab = Lab(cluster.server, own=True, folder=tmp_path)
    for do in (
        priority_class("lab-polite", **NEVER),
        pod("polite", priorityClassName="lab-polite", containers=[PORT]),
        event("FailedScheduling", "polite"),
    ):
        do(cluster)
    for uid, victims in (("that-of-an-earlier-pod", []), (lab.pod("polite")["metadata"]["uid"], ["batch"])):
        related = {"kind": "Pod", "name": "polite", "namespace": "default", "uid": uid}
        about = {"kind": "Pod", "name": "batch", "namespace": "default"}
        body = {"metadata": {"name": f"batch.{uid}"}, "reason": "Preempted", "related": related}
        cluster.post("/api/v1/namespaces/default/events", {**body, "involvedObject": about})
        assert victims_of(lab, lab.pod("polite")) == victims


def test_a_reset_removes_all_that_a_student_made(cluster: Cluster, tmp_path: Path) -> None:
    lab = Lab(cluster.server, own=True, folder=tmp_path)
    before = {name: (node["metadata"]["labels"], node["spec"]) for name, node in lab.nodes().items()}
    cluster.post("/api/v1/namespaces", {"metadata": {"name": "team"}})
    for do in (
        lambda cluster: cluster.post(
            "/apis/scheduling.k8s.io/v1/priorityclasses",
            {"metadata": {"name": "without-the-labs-label"}, "value": 5},
        ),
        granted("more", "cluster-admin"),
        pod("web", "node1"),
        lambda cluster: cluster.add_pod("web", namespace="team"),
        node("node1", {"metadata": {"labels": {"disk": "ssd", "topology.kubernetes.io/zone": "a"}}}),
        node("node2", {"spec": {"taints": [{"key": "mine", "effect": "NoSchedule"}], "unschedulable": True}}),
    ):
        do(cluster)
    lab.reset()
    for path in (
        "/apis/scheduling.k8s.io/v1/priorityclasses",
        "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings",
        "/api/v1/pods",
    ):
        names = {each["metadata"]["name"] for each in lab.items(path)}
        assert not names & {"without-the-labs-label", "more", "web"}
    assert {name: (node["metadata"]["labels"], node["spec"]) for name, node in lab.nodes().items()} == before
    assert lab.get("/api/v1/namespaces/team") is None


FUNCTIONS = ROOT / "tests/data/kube-scheduler-functions-1.36.json"


def test_the_ten_places_and_those_beside_poller_are_in_kube_scheduler() -> None:
    functions = json.loads(FUNCTIONS.read_text())
    assert [place for place in reading.PLACES.values() if place.function not in functions[place.file]] == []
    page = (ROOT / "scripts/lab/24-read-kube-scheduler.md").read_text()
    beside = re.findall(r"\| `(\w+)` \| `\w+` in `\w+\.py` \|", page)
    assert len(beside) > 10
    assert {*beside} <= {*functions["schedule_one.go"]}
    assert RIGHT in page  # it is the solution


@pytest.mark.skipif("KUBE_SCHEDULER_SOURCE" not in os.environ, reason="KUBE_SCHEDULER_SOURCE names no folder")
def test_the_recorded_functions_are_those_of_the_source() -> None:
    source = Path(os.environ["KUBE_SCHEDULER_SOURCE"])
    for file, functions in json.loads(FUNCTIONS.read_text()).items():
        text = (source / file).read_text()
        assert functions == sorted({*re.findall(r"^func (?:\([^)]*\) )?(\w+)", text, re.MULTILINE)}), file


RIGHT = "\n".join(f"{number} {file} {name}" for number, (file, name) in reading.PLACES.items())


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (("1 schedule_one.go", "1. pkg/scheduler/schedule_one.go:"), ""),
        (("numFeasibleNodesToFind", "func (sched *Scheduler) numFeasibleNodesToFind()"), ""),
        (("framework/types.go Error", "types.go FitError.Error"), ""),
        (("1 schedule_one.go", "1 scheduler.go"), "in another file: 1"),
        (("numFeasibleNodesToFind", "schedulePod"), "the file is right, but it is another function: 1"),
        (("numFeasibleNodesToFind", "assume bind"), "answer 1 names no function, or several"),
        (("1 schedule_one.go numFeasibleNodesToFind\n", ""), "without an answer: 1"),
        (("2 framework/runtime", "1 framework/runtime"), "there are two answers to question 1"),
        (("1 schedule_one.go", "schedule_one.go"), "this line isn't a number, a file and a function"),
        (("1 schedule_one.go", "11 schedule_one.go"), "there is no question 11"),
    ],
)
def test_answers_may_be_written_in_several_ways(tmp_path: Path, change: tuple[str, str], words: str) -> None:
    (tmp_path / "answers.txt").write_text(RIGHT.replace(*change, 1) + "\n\n# that's all\n")
    lab = Lab("http://127.0.0.1:9", own=True, folder=tmp_path)
    if not words:
        assert CHECKS["ten_places_were_found"](lab)
        return
    with pytest.raises(NotYetError, match=words):
        CHECKS["ten_places_were_found"](lab)
