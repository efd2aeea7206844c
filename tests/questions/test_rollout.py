"""`try` of a workload that is there already: the steps of its rollout, and where it gets stuck."""

import json
from pathlib import Path
from typing import Any

import pytest
from cluster import Cluster, Json
from questions_harness import Run
from test_drain import made_by
from test_verbs import a_node, a_pod, write
from test_verbs_end_to_end import a_file, answer


def deployment(replicas: int, cpu: str, kind: str = "Deployment", **more: Any) -> Json:
    container = {"name": "main", "image": "nginx", "resources": {"requests": {"cpu": cpu}}}
    template = {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [container]}}
    selector = {"matchLabels": {"app": "web"}}
    spec = {"replicas": replicas, "selector": selector, "template": template, **more}
    metadata = {"name": "web", "namespace": "default"}
    return {"apiVersion": "apps/v1", "kind": kind, "metadata": metadata, "spec": spec}


def tried(poller: Run, folder: Path, manifest: Json, *objects: Json) -> Json:
    file = write(folder / "cluster.json", *objects)
    new = a_file(folder, manifest)
    done = poller("try", "-f", new, "--from", file, "-o", "json")
    found: Json = json.loads(done.out)
    assert done.status == (0 if found["answer"] == "yes" else 3)
    return {**found, "in words": poller("try", "-f", new, "--rollout", "--from", file).out}


def old(number: int, cpu: str = "1", kind: str = "ReplicaSet") -> list[Json]:
    owner = made_by("web-old" if kind == "ReplicaSet" else "web", kind, app="web")
    return [a_pod(f"web-{i}", cpu, "n1", owner) for i in range(number)]


def steps(found: Json) -> list[tuple[int, int, int]]:
    """How many pods each step adds, removes, and leaves waiting."""
    (rollout,) = found["rollouts"]
    return [(len(each["added"]), len(each["removed"]), len(each["waiting"])) for each in rollout["steps"]]


@pytest.mark.parametrize("limits", [{}, {"maxSurge": None, "maxUnavailable": None}], ids=["none", "null"])
def test_a_rolling_update_surges_and_ends(poller: Run, tmp_path: Path, limits: Json) -> None:
    """4 pods, 25% of each: one more at a time, and at most one fewer, as the Deployment controller does."""
    manifest = deployment(4, "1", strategy={"rollingUpdate": limits})
    found = tried(poller, tmp_path, manifest, a_node("n1", "5"), *old(4))
    assert (found["answer"], found["rollouts"][0]["stuck"]) == ("yes", False)
    assert steps(found) == [(1, 2, 0), (2, 2, 0), (1, 0, 0)]
    assert "its rollout replaces them in 3 steps" in found["in words"]
    assert "step 1: + default/web-1 on n1" in found["in words"]


def test_a_rolling_update_without_surge_frees_room_first(poller: Run, tmp_path: Path) -> None:
    no_surge = {"rollingUpdate": {"maxSurge": 0, "maxUnavailable": 1}}
    found = tried(poller, tmp_path, deployment(3, "1", strategy=no_surge), a_node("n1", "3"), *old(3))
    assert (found["answer"], steps(found)[0]) == ("yes", (0, 1, 0))


def test_old_pods_without_a_node_leave_first(poller: Run, tmp_path: Path) -> None:
    """The Deployment controller deletes them first, so nobody makes room for the first new pod."""
    no_surge = {"rollingUpdate": {"maxSurge": 0, "maxUnavailable": 1}}
    waits, *running = old(3)
    waits["spec"]["nodeName"] = ""
    manifest = deployment(3, "1", strategy=no_surge)
    found = tried(poller, tmp_path, manifest, a_node("n1", "2"), waits, *running)
    (rollout,) = found["rollouts"]
    assert rollout["steps"][0]["removed"] == ["default/web-0"]
    assert (rollout["stuck"], len(rollout["old_pods_left"])) == (True, 2)


def test_a_rolling_update_that_needs_room_gets_stuck(poller: Run, tmp_path: Path) -> None:
    """A full node, and no pod may be missing: the first new pod waits for ever."""
    strict = {"rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}}
    found = tried(poller, tmp_path, deployment(3, "1", strategy=strict), a_node("n1", "3"), *old(3))
    assert (found["answer"], found["rollouts"][0]["stuck"]) == ("no", True)
    assert steps(found) == [(0, 0, 1)]
    assert len(found["rollouts"][0]["old_pods_left"]) == 3
    assert "gets stuck after 1 step: 0 new pods, and 3 old pods stay" in found["in words"]
    assert "It would end with maxUnavailable: 1." in found["in words"]
    assert found["rollouts"][0]["ends_with_max_unavailable"] == 1
    large = tried(poller, tmp_path, deployment(3, "4", strategy=strict), a_node("n1", "3"), *old(3))
    assert large["rollouts"][0]["ends_with_max_unavailable"] is None
    assert found["why"][0]["nodes"]["n1"]["reasons"] == ["Insufficient cpu"]


def test_recreate_removes_all_first(poller: Run, tmp_path: Path) -> None:
    manifest = deployment(2, "2", strategy={"type": "Recreate"})
    found = tried(poller, tmp_path, manifest, a_node("n1", "4"), *old(3))
    assert (found["answer"], steps(found)) == ("yes", [(0, 3, 0), (2, 0, 0)])


def test_a_stateful_set_replaces_the_last_first(poller: Run, tmp_path: Path) -> None:
    manifest = deployment(3, "2", "StatefulSet")
    found = tried(poller, tmp_path, manifest, a_node("n1", "5"), *old(3, kind="StatefulSet"))
    (rollout,) = found["rollouts"]
    assert [each["removed"] for each in rollout["steps"]] == [[f"default/web-{i}"] for i in (2, 1, 0)]
    assert (found["answer"], rollout["stuck"]) == ("no", True)
    assert rollout["ends_with_max_unavailable"] is None  # that is a Deployment's
    assert rollout["steps"][-1]["waiting"] == ["default/web-0"]  # there is room for two of the new size


@pytest.mark.parametrize(
    ("more", "wanted", "kept"),
    [
        ({"updateStrategy": {"rollingUpdate": {"partition": 3}}}, ["+web-3 -web-3"], 3),
        ({"updateStrategy": {"type": "OnDelete"}}, [], 4),
        ({"updateStrategy": {"type": "OnDelete"}, "replicas": 5}, ["+web-4"], 4),
        ({"ordinals": {"start": 3}, "replicas": 2}, ["+web-4", "-web-0 -web-1 -web-2", "+web-3 -web-3"], 0),
    ],
)
def test_a_stateful_set_keeps_what_it_is_told_to(
    poller: Run, tmp_path: Path, more: Json, wanted: list[str], kept: int
) -> None:
    manifest = deployment(4, "500m", "StatefulSet")
    manifest["spec"] |= more
    found = tried(poller, tmp_path, manifest, a_node("n1", "64"), *old(4, kind="StatefulSet"))
    (rollout,) = found["rollouts"]
    signs = [
        " ".join([*("+" + each for each in step["added"]), *("-" + each for each in step["removed"])])
        for step in rollout["steps"]
    ]
    assert [each.replace("default/", "") for each in signs] == wanted
    assert (found["answer"], len(rollout["old_pods_kept"])) == ("yes", kept)
    assert ("stay as they are" in found["in words"]) == (kept == 4)


def test_a_paused_deployment_keeps_its_pods(poller: Run, tmp_path: Path) -> None:
    found = tried(poller, tmp_path, deployment(4, "2", paused=True), a_node("n1", "4"), *old(4))
    assert (found["answer"], steps(found)) == ("yes", [])
    more = tried(poller, tmp_path, deployment(5, "2", paused=True), a_node("n1", "4"), *old(4))
    assert (more["answer"], more["rollouts"][0]["stuck"], steps(more)) == ("no", True, [(0, 0, 1)])


def test_the_number_of_pods_stays_if_the_manifest_says_none(poller: Run, tmp_path: Path) -> None:
    """An autoscaler has set it."""
    manifest = deployment(4, "500m")
    del manifest["spec"]["replicas"]
    found = tried(poller, tmp_path, manifest, a_node("n1", "64"), *old(5))
    assert found["workloads"][0]["placed"] == 5


@pytest.mark.parametrize(
    ("kind", "of", "more"),
    [
        ("Deployment", "ReplicaSet", {}),
        ("Deployment", "ReplicaSet", {"strategy": {"type": "Recreate"}}),
        ("Deployment", "ReplicaSet", {"paused": True}),
        ("StatefulSet", "StatefulSet", {}),
    ],
)
def test_a_workload_that_is_scaled_to_none_leaves_its_room_to_others(
    poller: Run, tmp_path: Path, kind: str, of: str, more: Json
) -> None:
    file = write(tmp_path / "cluster.json", a_node("n1", "4"), *old(4, kind=of))
    new = a_file(tmp_path, deployment(0, "1", kind, **more), a_pod("other", "3"))
    done = poller("try", "-f", new, "--from", file, "-o", "json")
    found = json.loads(done.out)
    assert {each["pod"]: each["node"] for each in found["pods"]} == {"default/other": "n1"}
    (rollout,) = found["rollouts"]
    assert sum(len(step["removed"]) for step in rollout["steps"]) == 4
    assert (done.status, rollout["stuck"]) == (0, False)
    said = f"{kind} default/web is there already with 4 pods: it is scaled to none, and they leave."
    assert said in poller("try", "-f", new, "--from", file).out


@pytest.mark.parametrize(("kind", "number"), [("Deployment", 2), ("StatefulSet", 3)])
def test_only_a_stateful_set_counts_pods_that_are_being_deleted(
    poller: Run, tmp_path: Path, kind: str, number: int
) -> None:
    """A Deployment has replaced them already; a StatefulSet waits until they have gone."""
    manifest = deployment(0, "500m", kind)
    del manifest["spec"]["replicas"]
    pods = old(3, kind="ReplicaSet" if kind == "Deployment" else kind)
    pods[0]["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    found = tried(poller, tmp_path, manifest, a_node("n1", "64"), *pods)
    assert found["workloads"][0]["pods"] == found["rollouts"][0]["old_pods"] == number


def test_a_new_pod_can_lose_its_node_to_a_more_important_one(poller: Run, tmp_path: Path) -> None:
    """Before, both had the node, which has no room for two."""
    manifest = deployment(1, "3", strategy={"type": "Recreate"})
    boss = a_pod("boss", "3", priorityClassName="high")
    del boss["spec"]["nodeName"]
    high = {"kind": "PriorityClass", "metadata": {"name": "high"}, "value": 10}
    file = write(tmp_path / "cluster.json", a_node("n1", "4"), high, *old(1))
    done = poller("try", "-f", a_file(tmp_path, manifest, boss), "--from", file, "-o", "json")
    found = json.loads(done.out)
    assert (done.status, found["answer"]) == (3, "no")
    nodes = {each["name"]: each["nodes"] for each in found["workloads"]}
    assert nodes == {"web": {}, "boss": {"n1": 1}}
    assert {each["pod"]: len(each["victims"]) for each in found["pods"]} == {
        "default/boss": 1,
        "default/web-1": 0,
    }


def test_a_surge_that_is_no_number_is_an_error(poller: Run, tmp_path: Path) -> None:
    manifest = deployment(4, "1", strategy={"rollingUpdate": {"maxSurge": "abc"}})
    file = write(tmp_path / "cluster.json", a_node("n1"), *old(4))
    done = poller("try", "-f", a_file(tmp_path, manifest), "--from", file)
    assert (done.status, "maxSurge 'abc' is neither a number nor a percentage" in done.err) == (1, True)


@pytest.mark.parametrize("servers", ["real"], indirect=True)
def test_what_is_tried_is_what_would_be_stored(cluster: Cluster, tmp_path: Path) -> None:
    """As `kubectl apply` would: what others have set stays, and what the manifest has no more goes."""
    cluster.add_node("n1")
    cluster.add_node("n2", labels={"disk": "ssd"})
    manifest = deployment(1, "1")
    del manifest["spec"]["replicas"]
    manifest["spec"]["template"]["spec"]["nodeSelector"] = {"disk": "hdd"}
    cluster.kubectl("apply", "-f", a_file(tmp_path, manifest))
    path = "/apis/apps/v1/namespaces/default/deployments/web"
    cluster.patch(path, {"spec": {"replicas": 3}})
    ref = {"kind": "ReplicaSet", "apiVersion": "apps/v1", "name": "web-1", "uid": "web-1"}
    owner = {"ownerReferences": [{**ref, "controller": True}], "labels": {"app": "web"}}
    for i in range(3):
        cluster.add_pod(f"web-1-{i}", nodeName="n1", metadata=owner, requests={"cpu": "100m"})
    try:
        same = answer(cluster, "try", "-f", a_file(tmp_path, manifest))["rollouts"][0]
        assert (same["template_changes"], same["steps"]) == (False, [])
        del manifest["spec"]["template"]["spec"]["nodeSelector"]
        manifest["spec"]["strategy"] = {"type": "Recreate"}
        found = answer(cluster, "try", "-f", a_file(tmp_path, manifest))
        assert [(len(each["added"]), len(each["removed"])) for each in found["rollouts"][0]["steps"]] == [
            (0, 3),
            (3, 0),
        ]
    finally:
        cluster.api.delete(path)


def test_what_comes_first_in_a_manifest_is_there(cluster: Cluster, tmp_path: Path) -> None:
    cluster.add_node("n1", cpu="8")
    classes = (
        {
            "apiVersion": "scheduling.k8s.io/v1",
            "kind": "PriorityClass",
            "metadata": {"name": "mine"},
            "value": 9,
        },
        {
            "apiVersion": "node.k8s.io/v1",
            "kind": "RuntimeClass",
            "metadata": {"name": "kata"},
            "handler": "kata",
            "overhead": {"podFixed": {"cpu": "3"}},
        },
        {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "own", "namespace": "default"}},
    )
    of_class = {"priorityClassName": "mine", "runtimeClassName": "kata", "serviceAccountName": "own"}
    pod = a_pod("bare", "1", **of_class)
    found = answer(cluster, "try", "-f", a_file(tmp_path, *classes, pod))
    assert (found["answer"], found["nodes"]["n1"]["after"]["cpu"]["requested"]) == ("yes", 4000)
    too_late = answer(cluster, "try", "-f", a_file(tmp_path, pod, *classes))
    assert (too_late["answer"], [*too_late["refused"]]) == ("no", ["Pod default/bare"])


@pytest.mark.parametrize("servers", ["real"], indirect=True)
def test_what_does_not_change_is_not_rolled_out(cluster: Cluster, tmp_path: Path) -> None:
    cluster.add_node("n1")
    made = cluster.post("/apis/apps/v1/namespaces/default/deployments", deployment(2, "1"))
    ref = {"kind": "ReplicaSet", "apiVersion": "apps/v1", "name": "web-1", "uid": made["metadata"]["uid"]}
    owner = {"ownerReferences": [{**ref, "controller": True}], "labels": {"app": "web"}}
    for i in range(2):
        cluster.add_pod(f"web-1-{i}", nodeName="n1", metadata=owner, requests={"cpu": "1"})
    try:
        same = answer(cluster, "try", "-f", a_file(tmp_path, deployment(2, "1")))
        assert (same["rollouts"][0]["template_changes"], same["rollouts"][0]["steps"]) == (False, [])
        more = answer(cluster, "try", "-f", a_file(tmp_path, deployment(3, "1")))
        assert [len(each["added"]) for each in more["rollouts"][0]["steps"]] == [1]
        larger = answer(cluster, "try", "-f", a_file(tmp_path, deployment(2, "1500m")))
        assert (larger["answer"], larger["rollouts"][0]["template_changes"]) == ("yes", True)
        assert larger["nodes"]["n1"]["after"]["cpu"]["requested"] == 3000
    finally:
        cluster.api.delete("/apis/apps/v1/namespaces/default/deployments/web")
