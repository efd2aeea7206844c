"""--namespace: poller schedules the pods of some namespaces, with rights only in these."""

import json
import re
from collections.abc import Iterator
from uuid import uuid4

import pytest
from cluster import Cluster, Json, eventually, refusals
from faults import ALWAYS, Fault, answer, faulty

from lib.kube.resources import PODS
from scripts.servers.kubectl import kubectl_proxy

ON_ONE_SERVER = True

OURS, THEIRS = "team-a", "team-b"

LIST_WATCH = ["list", "watch"]
RULES = [
    {"apiGroups": [""], "resources": ["pods"], "verbs": ["list", "watch", "get", "delete"]},
    {"apiGroups": [""], "resources": ["pods/binding"], "verbs": ["create"]},
    {"apiGroups": [""], "resources": ["pods/status"], "verbs": ["patch"]},
    {"apiGroups": [""], "resources": ["events"], "verbs": ["create", "patch"]},
    {"apiGroups": [""], "resources": ["services"], "verbs": LIST_WATCH},
    {"apiGroups": [""], "resources": ["namespaces"], "verbs": ["get"]},
    {"apiGroups": ["policy"], "resources": ["poddisruptionbudgets"], "verbs": ["list"]},
]


@pytest.fixture
def teams(priorities: Cluster) -> Cluster:
    """A cluster with a node n1, which pods of team-b fill, and the namespaces team-a and team-b."""
    for name in (OURS, THEIRS):  # a real server keeps them, as nobody there finishes off what is deleted
        priorities.api.post("/api/v1/namespaces", json={"metadata": {"name": name, "labels": {"team": name}}})
    priorities.add_node("n1")
    return priorities


@pytest.fixture
def limited(teams: Cluster) -> Iterator[str]:
    """The URL of a proxy that speaks for someone with a Role in team-a, and with nodes to look at."""
    user = f"user-{uuid4().hex[:8]}"
    nodes = [{"apiGroups": [""], "resources": ["nodes"], "verbs": LIST_WATCH}]
    rights = [
        *granted("ClusterRole", user, nodes, {}),
        *granted("Role", user, RULES, {"namespace": OURS}),
    ]
    file = teams.folder / f"{user}.json"
    file.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": rights}))
    teams.kubectl("apply", "-f", str(file))
    assert teams.kubeconfig_for
    with kubectl_proxy(teams.server, teams.kubeconfig_for(user)) as proxy:
        yield proxy
    teams.kubectl("delete", "-f", str(file))


def granted(kind: str, user: str, rules: list[Json], where: Json) -> list[Json]:
    """A role, and its binding to a user."""
    group = "rbac.authorization.k8s.io"
    head = {"apiVersion": f"{group}/v1", "metadata": {"name": user, **where}}
    subject = {"apiGroup": group, "kind": "User", "name": user}
    ref = {"apiGroup": group, "kind": kind, "name": user}
    role = {**head, "kind": kind, "rules": rules}
    return [role, {**head, "kind": f"{kind}Binding", "subjects": [subject], "roleRef": ref}]


@pytest.mark.parametrize("servers", ["real"], indirect=True)
@pytest.mark.parametrize("how", [[], ["--watch"]], ids=["polling", "watching"])
def test_rights_in_one_namespace_are_enough(teams: Cluster, limited: str, how: list[str]) -> None:
    namespaces = {"matchLabels": {"team": OURS}}
    near = {"topologyKey": "kubernetes.io/hostname", "labelSelector": {}, "namespaceSelector": namespaces}
    affinity = {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [near]}}
    teams.add_pod("full", namespace=THEIRS, requests={"cpu": "4"}, nodeName="n1")
    teams.add_pod("theirs", namespace=THEIRS)
    teams.add_pod("low", namespace=OURS, priorityClassName="low", requests={"cpu": "3"}, nodeName="n1")
    teams.add_pod("web", namespace=OURS)
    with teams.running_poller("--namespace", OURS, *how, proxy=limited) as poller:
        poller.says(f"in {OURS}")
        poller.says("team-a/web is bound to n1")
        teams.add_pod("near", namespace=OURS, affinity=affinity)
        poller.says("team-a/near is bound to n1")
        teams.add_pod("huge", namespace=OURS, requests={"cpu": "8"})
        teams.add_pod("important", namespace=OURS, priorityClassName="high", requests={"cpu": "2"})
        poller.says("team-a/important preempts team-a/low on n1")
        eventually(lambda: len(teams.events("FailedScheduling")) == 2)
        eventually(
            lambda: {each["involvedObject"]["name"] for each in teams.events("Scheduled")} == {"web", "near"}
        )
        assert teams.pod("huge", OURS)["status"]["conditions"][0]["reason"] == "Unschedulable"
        eventually(lambda: "deletionTimestamp" in teams.pod("low", OURS)["metadata"])
        refused = refusals(poller.said)
        assert len(refused) == 2, poller.said
        assert PODS.elsewhere in refused[0]
        assert "the labels of other namespaces are not known" in refused[1]
    assert "nodeName" not in teams.pod("theirs", THEIRS)["spec"]


@pytest.mark.parametrize("how", [[], ["--watch"]], ids=["polling", "watching"])
def test_pods_of_other_namespaces_are_counted_and_left_alone(teams: Cluster, how: list[str]) -> None:
    teams.add_pod("low", namespace=THEIRS, priorityClassName="low", requests={"cpu": "2"}, nodeName="n1")
    teams.add_pod("middle", namespace=OURS, priorityClassName="middle", requests={"cpu": "2"}, nodeName="n1")
    teams.add_pod("theirs", namespace=THEIRS, priorityClassName="high")
    teams.add_pod("ours", namespace=OURS, priorityClassName="high", requests={"cpu": "2"})
    teams.add_pod("more", namespace=OURS, priorityClassName="high", requests={"cpu": "3"})
    options = ("--namespace", OURS, "--namespace", "nowhere")
    with teams.running_poller(*options, *how, afresh=True) as poller:
        poller.says("--namespace: namespace nowhere not found")
        poller.says("team-a/ours preempts team-a/middle on n1")
        poller.says("team-a/more fits nowhere")
        eventually(lambda: "deletionTimestamp" in teams.pod("middle", OURS)["metadata"])
        assert not refusals(poller.said)
    assert "deletionTimestamp" not in teams.pod("low", THEIRS)["metadata"]
    assert THEIRS not in poller.said


@pytest.mark.parametrize("servers", ["embedded"], indirect=True)
def test_namespaces_are_watched_one_by_one_and_listed_together(teams: Cluster) -> None:
    """When one of them must be listed again, all are: only then it is known what has gone meanwhile."""
    not_all = Fault("GET", r"^/api/v1/pods\?.*watch=1", answer(403, refusal(403)), ALWAYS)
    gone = Fault("GET", r"/team-a/pods\?.*watch=1", answer(410, refusal(410)), after=1)
    options = ("--watch", "--interval=30", "--namespace", OURS, "--namespace", THEIRS)
    with (
        faulty(teams.proxy, not_all, gone) as between,
        teams.running_poller(*options, proxy=between.url) as poller,
    ):
        poller.says(PODS.elsewhere)
        for namespace in (OURS, THEIRS):
            teams.add_pod("web", namespace=namespace)
            poller.says(f"{namespace}/web is bound to n1")
        between.cut()
        for namespace in (OURS, THEIRS):
            teams.add_pod("next", namespace=namespace)
            poller.says(f"{namespace}/next is bound to n1")
        for namespace in (OURS, THEIRS):
            listed = rf"^/api/v1/namespaces/{namespace}/pods\?(?!.*watch=1|.*nodeName%3D%2C)"
            assert sum(re.search(listed, path) is not None for _, path in between.requests) == 2


def refusal(code: int) -> str:
    return json.dumps({"kind": "Status", "status": "Failure", "code": code, "message": "no"})


@pytest.mark.parametrize("servers", ["real"], indirect=True)
def test_a_missing_right_to_the_lease_is_named(teams: Cluster, limited: str) -> None:
    with teams.running_poller("--namespace", OURS, "--leader-elect", proxy=limited) as poller:
        poller.says("the lease kube-system/poller can't be acquired")
        poller.says(
            '{apiGroups: ["coordination.k8s.io"], resources: ["leases"], verbs: ["get"], '
            'resourceNames: ["poller"]}'
        )
