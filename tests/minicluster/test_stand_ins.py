"""The server's simulated kubelets and controllers, as a scheduler and kubectl see them."""

import time
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from cluster import eventually, http_client

from scripts.servers.embedded import minicluster

DEFAULT = "/api/v1/namespaces/default"
DEPLOYMENTS = "/apis/apps/v1/namespaces/default/deployments"
REPLICA_SETS = "/apis/apps/v1/namespaces/default/replicasets"
BUDGETS = "/apis/policy/v1/namespaces/default/poddisruptionbudgets"
MERGE = {"Content-Type": "application/merge-patch+json"}


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    with minicluster("--nodes", "2", "--kubelet-delay", "0.1") as url:
        yield url


@pytest.fixture
def client(server: str) -> Iterator[httpx.Client]:
    """Each test leaves the cluster empty."""
    with http_client(server) as client:
        yield client
        for path in (DEPLOYMENTS, BUDGETS):
            client.delete(path)
        eventually(lambda: not client.get(REPLICA_SETS).json()["items"])
        client.delete(f"{DEFAULT}/pods", params={"gracePeriodSeconds": 0})
        assert pods(client) == []


def pods(client: httpx.Client, **query: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = client.get(f"{DEFAULT}/pods", params=query).json()["items"]
    return found


def template(image: str = "nginx:1", **spec: Any) -> dict[str, Any]:
    return {
        "metadata": {"labels": {"app": "web"}},
        "spec": {"containers": [{"name": "c", "image": image}], **spec},
    }


def create_pod(client: httpx.Client, name: str, **spec: Any) -> None:
    pod = template(**spec)
    pod["metadata"]["name"] = name
    client.post(f"{DEFAULT}/pods", json=pod).raise_for_status()


def create_deployment(client: httpx.Client, replicas: int, **spec: Any) -> None:
    selector = {"matchLabels": {"app": "web"}}
    content = {"replicas": replicas, "selector": selector, "template": template(), **spec}
    client.post(DEPLOYMENTS, json={"metadata": {"name": "web"}, "spec": content}).raise_for_status()


def schedule(client: httpx.Client, node: str = "node1") -> None:
    for pod in pods(client, fieldSelector="spec.nodeName="):
        name = pod["metadata"]["name"]
        binding = {"metadata": {"name": name}, "target": {"kind": "Node", "name": node}}
        client.post(f"{DEFAULT}/pods/{name}/binding", json=binding).raise_for_status()


def running(client: httpx.Client, count: int) -> bool:
    schedule(client)
    return len(pods(client, fieldSelector="status.phase=Running")) == count


def deployment(client: httpx.Client) -> dict[str, Any]:
    found: dict[str, Any] = client.get(f"{DEPLOYMENTS}/web").json()
    return found


def is_rolled_out(client: httpx.Client) -> bool:
    """What `kubectl rollout status` waits for."""
    schedule(client)
    found = deployment(client)
    status, wanted = found["status"], found["spec"]["replicas"]
    counts = [status.get(field, 0) for field in ("replicas", "updatedReplicas", "availableReplicas")]
    return status.get("observedGeneration") == found["metadata"]["generation"] and counts == [wanted] * 3


def test_a_bound_pod_runs(client: httpx.Client) -> None:
    create_pod(client, "web")
    schedule(client)
    eventually(lambda: running(client, 1))
    status = pods(client)[0]["status"]
    conditions = {condition["type"]: condition["status"] for condition in status["conditions"]}
    for kind in ("Initialized", "Ready", "ContainersReady", "PodScheduled"):
        assert conditions[kind] == "True"
    assert status["hostIP"] == "10.0.0.1"
    assert status["podIP"]
    assert status["startTime"]
    assert status["containerStatuses"][0]["ready"]


def test_a_pod_bound_to_a_node_that_is_not_there_waits_for_it(client: httpx.Client) -> None:
    create_pod(client, "early")
    schedule(client, "node9")
    time.sleep(0.3)
    assert not running(client, 1)
    client.post("/api/v1/nodes", json={"metadata": {"name": "node9"}}).raise_for_status()
    eventually(lambda: running(client, 1))
    client.delete("/api/v1/nodes/node9").raise_for_status()
    eventually(lambda: not pods(client))  # and is gone with it


def test_a_running_pod_takes_its_leave(client: httpx.Client) -> None:
    create_pod(client, "web")
    eventually(lambda: running(client, 1))
    leaving = client.delete(f"{DEFAULT}/pods/web").json()
    assert leaving["metadata"]["deletionGracePeriodSeconds"] == 30
    assert leaving["status"]["phase"] == "Running"
    eventually(lambda: not pods(client))


def test_a_pod_that_has_no_node_or_no_time_goes_at_once(client: httpx.Client) -> None:
    create_pod(client, "pending")
    client.delete(f"{DEFAULT}/pods/pending").raise_for_status()
    assert not pods(client)
    create_pod(client, "bound")
    schedule(client)
    client.delete(f"{DEFAULT}/pods/bound", params={"gracePeriodSeconds": 0}).raise_for_status()
    assert not pods(client)


def test_a_finalizer_holds_a_pod_back(client: httpx.Client) -> None:
    create_pod(client, "held")
    for finalizers, left in ((["example.com/hold"], 1), (None, 0)):
        patch = {"metadata": {"finalizers": finalizers}}
        client.patch(f"{DEFAULT}/pods/held", json=patch, headers=MERGE).raise_for_status()
        if finalizers:
            client.delete(f"{DEFAULT}/pods/held").raise_for_status()
        assert len(pods(client)) == left


def test_a_deployment_makes_pods_through_a_replica_set(client: httpx.Client) -> None:
    create_deployment(client, 3)
    eventually(lambda: is_rolled_out(client))
    [replica_set] = client.get(REPLICA_SETS).json()["items"]
    found = deployment(client)
    assert replica_set["metadata"]["ownerReferences"][0]["uid"] == found["metadata"]["uid"]
    for pod in pods(client):
        assert pod["metadata"]["ownerReferences"][0]["uid"] == replica_set["metadata"]["uid"]
        assert pod["metadata"]["labels"]["pod-template-hash"] in replica_set["metadata"]["name"]
    assert {c["type"]: c["status"] for c in found["status"]["conditions"]} == {
        "Available": "True",
        "Progressing": "True",
    }


@pytest.mark.parametrize("replicas", [5, 1, 0])
def test_a_deployment_is_scaled(client: httpx.Client, replicas: int) -> None:
    create_deployment(client, 3)
    eventually(lambda: is_rolled_out(client))
    scale = {"spec": {"replicas": replicas}}
    client.patch(f"{DEPLOYMENTS}/web/scale", json=scale, headers=MERGE).raise_for_status()
    eventually(lambda: is_rolled_out(client) and len(pods(client)) == replicas)


@pytest.mark.parametrize("strategy", ["RollingUpdate", "Recreate"])
def test_a_new_template_rolls_over(client: httpx.Client, strategy: str) -> None:
    create_deployment(client, 3, strategy={"type": strategy})
    eventually(lambda: is_rolled_out(client))
    client.patch(f"{DEPLOYMENTS}/web", json={"spec": {"template": template("nginx:2")}}, headers=MERGE)
    eventually(lambda: is_rolled_out(client) and len(pods(client)) == 3)
    assert {pod["spec"]["containers"][0]["image"] for pod in pods(client)} == {"nginx:2"}
    assert sorted(one["spec"]["replicas"] for one in client.get(REPLICA_SETS).json()["items"]) == [0, 3]


def test_an_older_template_gets_a_new_revision(client: httpx.Client) -> None:
    create_deployment(client, 1)
    for image in ("nginx:2", "nginx:1"):
        eventually(lambda: is_rolled_out(client))
        client.patch(f"{DEPLOYMENTS}/web", json={"spec": {"template": template(image)}}, headers=MERGE)
    eventually(lambda: is_rolled_out(client))
    assert deployment(client)["metadata"]["annotations"]["deployment.kubernetes.io/revision"] == "3"
    assert len(client.get(REPLICA_SETS).json()["items"]) == 2


def test_a_roll_over_keeps_to_its_limits(client: httpx.Client) -> None:
    """With nobody to schedule new pods, there are as many as may be, and as many old ones as must."""
    create_deployment(client, 4)
    eventually(lambda: is_rolled_out(client))
    client.patch(f"{DEPLOYMENTS}/web", json={"spec": {"template": template("nginx:2")}}, headers=MERGE)

    def old_and_new() -> tuple[int, int]:
        images = [pod["spec"]["containers"][0]["image"] for pod in pods(client)]
        return images.count("nginx:1"), images.count("nginx:2")

    eventually(lambda: old_and_new() == (3, 2))
    time.sleep(0.3)
    assert old_and_new() == (3, 2)


def test_a_replica_set_replaces_a_lost_pod(client: httpx.Client) -> None:
    create_deployment(client, 2)
    eventually(lambda: is_rolled_out(client))
    lost = pods(client)[0]["metadata"]["name"]
    client.delete(f"{DEFAULT}/pods/{lost}").raise_for_status()
    eventually(lambda: lost not in str(pods(client)) and is_rolled_out(client))


def test_a_deployment_goes_with_all_that_is_its(client: httpx.Client) -> None:
    create_deployment(client, 2)
    eventually(lambda: is_rolled_out(client))
    client.request(
        "DELETE", f"{DEPLOYMENTS}/web", json={"propagationPolicy": "Background"}
    ).raise_for_status()
    eventually(lambda: not client.get(REPLICA_SETS).json()["items"] and not pods(client))


def test_orphans_stay(client: httpx.Client) -> None:
    create_deployment(client, 1)
    eventually(lambda: is_rolled_out(client))
    client.request("DELETE", f"{DEPLOYMENTS}/web", json={"propagationPolicy": "Orphan"}).raise_for_status()
    time.sleep(0.2)
    [replica_set] = client.get(REPLICA_SETS).json()["items"]
    assert len(pods(client)) == 1
    client.delete(f"{REPLICA_SETS}/{replica_set['metadata']['name']}").raise_for_status()


def test_a_template_that_cannot_become_a_pod_says_so(client: httpx.Client) -> None:
    create_deployment(client, 1, template=template(priorityClassName="nope"))
    [condition] = eventually(
        lambda: [
            condition
            for replica_set in client.get(REPLICA_SETS).json()["items"]
            for condition in replica_set["status"].get("conditions", [])
            if condition["type"] == "ReplicaFailure"
        ]
    )
    assert condition["message"].endswith("no PriorityClass with name nope was found")


@pytest.mark.parametrize(
    ("budget", "desired", "allowed"),
    [
        ({"minAvailable": 2}, 2, 1),
        ({"minAvailable": "50%"}, 2, 1),
        ({"maxUnavailable": 1}, 2, 1),
        ({"maxUnavailable": "100%"}, 0, 3),
        ({"minAvailable": 5}, 5, 0),
    ],
)
def test_a_disruption_budget_is_counted(
    client: httpx.Client, budget: dict[str, Any], desired: int, allowed: int
) -> None:
    create_deployment(client, 3)
    eventually(lambda: is_rolled_out(client))
    spec = {"selector": {"matchLabels": {"app": "web"}}, **budget}
    client.post(BUDGETS, json={"metadata": {"name": "web"}, "spec": spec}).raise_for_status()
    counted = {
        "expectedPods": 3,
        "currentHealthy": 3,
        "desiredHealthy": desired,
        "disruptionsAllowed": allowed,
    }
    eventually(lambda: counted.items() <= client.get(f"{BUDGETS}/web").json()["status"].items())


def test_an_eviction_spends_the_budget(client: httpx.Client) -> None:
    create_deployment(client, 2)
    eventually(lambda: is_rolled_out(client))
    spec = {"selector": {"matchLabels": {"app": "web"}}, "minAvailable": 1}
    client.post(BUDGETS, json={"metadata": {"name": "web"}, "spec": spec}).raise_for_status()
    eventually(lambda: client.get(f"{BUDGETS}/web").json()["status"]["disruptionsAllowed"] == 1)
    names = [pod["metadata"]["name"] for pod in pods(client)]
    answers = [
        client.post(f"{DEFAULT}/pods/{name}/eviction", json={"metadata": {"name": name}}) for name in names
    ]
    assert [answer.status_code for answer in answers] == [201, 429]
    [cause] = answers[1].json()["details"]["causes"]
    assert cause["reason"] == "DisruptionBudget"


def test_a_namespace_goes_with_all_that_is_in_it(client: httpx.Client) -> None:
    client.post("/api/v1/namespaces", json={"metadata": {"name": "team"}}).raise_for_status()
    pod = {**template(), "metadata": {"name": "web"}}
    client.post("/api/v1/namespaces/team/pods", json=pod).raise_for_status()
    client.delete("/api/v1/namespaces/team").raise_for_status()
    eventually(lambda: client.get("/api/v1/namespaces/team").status_code == 404)
    assert not client.get("/api/v1/namespaces/team/pods").json()["items"]


def test_stale_writes_conflict(client: httpx.Client) -> None:
    create_pod(client, "web")
    pod = client.get(f"{DEFAULT}/pods/web").json()
    pod["metadata"]["labels"]["more"] = "1"
    assert client.put(f"{DEFAULT}/pods/web", json=pod).status_code == 200
    assert client.put(f"{DEFAULT}/pods/web", json=pod).status_code == 409


def test_a_spec_and_a_status_are_written_apart(client: httpx.Client) -> None:
    create_pod(client, "web")
    both = {"spec": {"activeDeadlineSeconds": 60}, "status": {"nominatedNodeName": "node1"}}
    changed = client.patch(f"{DEFAULT}/pods/web", json=both, headers=MERGE).json()
    assert changed["spec"]["activeDeadlineSeconds"] == 60
    assert "nominatedNodeName" not in changed["status"]
    both["spec"]["activeDeadlineSeconds"] = 30
    changed = client.patch(f"{DEFAULT}/pods/web/status", json=both, headers=MERGE).json()
    assert changed["spec"]["activeDeadlineSeconds"] == 60
    assert changed["status"]["nominatedNodeName"] == "node1"


@pytest.mark.parametrize("method", ["POST", "DELETE"])
def test_a_dry_run_leaves_everything_as_it_is(client: httpx.Client, method: str) -> None:
    create_pod(client, "web")
    before = pods(client)
    path, body = f"{DEFAULT}/pods/web", None
    if method == "POST":
        path, body = f"{DEFAULT}/pods", {**template(), "metadata": {"name": "more"}}
    answer = client.request(method, path, json=body, params={"dryRun": "All"})
    assert answer.is_success
    assert pods(client) == before


@pytest.mark.parametrize(
    ("path", "method", "content", "code"),
    [
        ("/api/v1/unknown", "GET", None, 404),
        ("/apis/nothing.example.com/v1/things", "GET", None, 404),
        (f"{DEFAULT}/pods/web/unknown", "GET", None, 404),
        ("/api/v1/pods", "POST", template(), 405),
        (f"{DEFAULT}/pods/web", "POST", template(), 405),
        (f"{DEFAULT}/pods", "PUT", template(), 405),
        (f"{DEFAULT}/pods", "POST", {"metadata": {"namespace": "other", "name": "x"}}, 400),
        (f"{DEFAULT}/pods", "POST", {"metadata": {"name": "x"}, "spec": []}, 400),
        (f"{DEFAULT}/pods", "POST", {"metadata": {"name": "x"}, "spec": {"containers": {}}}, 400),
        (f"{DEFAULT}/pods", "POST", {"metadata": "x"}, 400),
        ("/api/v1/namespaces/default/configmaps", "POST", {"metadata": []}, 400),
        (f"{DEFAULT}/pods", "POST", [], 400),
    ],
)
def test_what_makes_no_sense_is_refused(
    client: httpx.Client, path: str, method: str, content: Any, code: int
) -> None:
    assert client.request(method, path, json=content).status_code == code


def test_server_side_apply_is_refused(client: httpx.Client) -> None:
    apply = {"Content-Type": "application/apply-patch+yaml"}
    assert client.patch(f"{DEFAULT}/pods/web", content=b"{}", headers=apply).status_code == 415
