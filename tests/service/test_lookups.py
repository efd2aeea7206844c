"""If an object that a pod needs can't be looked up, only this pod is concerned."""

from threading import Event
from typing import Any

import pytest
from cluster import Cluster
from faults import ALWAYS, Effect, Fault, answer, faulty
from objects import read

from lib.kube.lookup import PENDING, Lookup
from lib.kube.objects import LabelSelector, Pod
from lib.scheduling.workloads import Workloads, controller_of

ON_ONE_SERVER = True

OWNED = "/apis/apps/v1/namespaces/default/replicasets/bad"
OTHERS_SERVICES = "/namespaces/kube-system/services"
GROUP = "/podgroups/g"
NAMESPACES = r"/api/v1/namespaces\?"
BUDGETS = "/poddisruptionbudgets"


def owned_by(name: str) -> dict[str, Any]:
    owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": name, "uid": "u", "controller": True}
    return {"ownerReferences": [owner]}


def beside_pods_of_some_namespaces() -> dict[str, Any]:
    term = {
        "topologyKey": "kubernetes.io/hostname",
        "namespaceSelector": {"matchLabels": {"no-such": "label"}},
        "labelSelector": {},
    }
    return {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}


def test_no_request_is_made_for_a_name_that_no_object_can_have(cluster: Cluster) -> None:
    names = [".", "..", "a//b", "../../secrets/x", "x/status", "%2e%2e", "a\x1b[31mb", "x" * 300]
    cluster.add_node("n1")
    for number, name in enumerate(names):
        cluster.add_pod(f"strange-{number}", metadata=owned_by(name))
    cluster.add_pod("web")
    with faulty(cluster.proxy) as between:
        done = cluster.poller(proxy=between.url)
    assert done.returncode == 0, done.stderr
    assert set(cluster.placement().values()) == {"n1"}
    assert not [path for _, path in between.requests if "replicasets" in path or "secrets" in path]
    assert "going on without" not in done.stderr


@pytest.mark.parametrize(
    ("answered", "said"),
    [
        (answer(503, "busy"), "503"),
        (answer(429, "later", {"Retry-After": "60"}), "429"),
        (answer(200, "<html>Sign in</html>"), "is not a Kubernetes object"),
        (answer(200, '{"kind": 5}'), "can't be looked up"),
        (answer(307, "", {"Location": "/elsewhere"}), "307"),
    ],
    ids=["503", "429", "html", "malformed", "redirect"],
)
def test_only_the_pods_that_need_it_wait(priorities: Cluster, answered: Effect, said: str) -> None:
    cluster = priorities
    cluster.add_node("n1", cpu="2")
    cluster.add_pod("low", requests={"cpu": "1"}, priorityClassName="low", nodeName="n1")
    cluster.add_pod("of-a-controller", metadata=owned_by("bad"))
    cluster.add_pod("of-a-namespace", namespace="kube-system")
    cluster.add_pod("of-a-group", metadata={"labels": {"scheduling.x-k8s.io/pod-group": "g"}})
    cluster.add_pod("looks-at-namespaces", affinity=beside_pods_of_some_namespaces())
    cluster.add_pod("vip", requests={"cpu": "2"}, priorityClassName="high")
    cluster.add_pod("web", metadata=owned_by("good"))
    paths = (OWNED, OTHERS_SERVICES, GROUP, NAMESPACES, BUDGETS)
    faults = [Fault("GET", path, answered, ALWAYS) for path in paths]
    with faulty(cluster.proxy, *faults) as between:
        done = cluster.poller(proxy=between.url)
    bound = {name for name, node in cluster.placement().items() if node}
    assert bound == {"low", "web"}, done.stderr
    for pod, what in {
        "default/of-a-controller": "ReplicaSet default/bad",
        "kube-system/of-a-namespace": "services of namespace kube-system",
        "default/of-a-group": "PodGroup default/g",
        "default/looks-at-namespaces": "namespaces",
        "default/vip": "disruption budgets",
    }.items():
        (line,) = [line for line in done.stderr.splitlines() if f" {pod}: " in line]
        assert f"{what} can't be looked up: " in line
        assert said in line
    assert "Traceback" not in done.stderr
    messages = {
        event["involvedObject"]["name"]: event["message"] for event in cluster.events("FailedScheduling")
    }
    assert "ReplicaSet default/bad can't be looked up" in messages["of-a-controller"]


def test_one_namespace_changes_nothing_of_anothers_controller() -> None:
    """A pod's author writes who its owner is, and may write the uid of another namespace's."""
    owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "uid": "u", "controller": True}
    theirs, ours = (
        read(Pod, {"metadata": {"name": "web-1", "namespace": namespace, "ownerReferences": [owner]}})
        for namespace in ("theirs", "ours")
    )
    selector = LabelSelector({"app": "web"})
    known = Workloads(selectors={ref: selector for each in [theirs] if (ref := controller_of(each))})
    assert known.selector_for(theirs) == selector
    assert known.selector_for(ours) is None


def test_a_lookup_that_hangs_holds_up_no_other_one() -> None:
    """Neither those that were begun with it, nor those that come later. It is made once."""
    goes_on, asked = Event(), list[str]()

    def look_up(namespace: str) -> str:
        asked.append(namespace)
        if namespace == "hangs":
            goes_on.wait(60)
        return f"of {namespace}"

    services = Lookup("services", look_up, threads=2)

    def tick(*namespaces: str) -> list[object]:
        services.begin(namespaces)
        services.wait(services._system.monotonic() + 0.4)
        return [services.of(each) for each in namespaces]

    try:
        assert tick("hangs", "with it") == [PENDING, PENDING]
        assert tick("hangs", "with it", "later") == [PENDING, "of with it", "of later"]
    finally:
        goes_on.set()
    while services.is_under_way:
        services.wait(0.0)
    assert services.of("hangs") == "of hangs"
    assert sorted(asked) == ["hangs", "later", "with it"]
