"""If an object that a pod needs can't be looked up, only this pod is concerned."""

from collections.abc import Hashable
from datetime import UTC, datetime
from math import inf
from threading import Event
from typing import Any

import pytest
from canned import CannedServer, canned
from cluster import Cluster
from faults import ALWAYS, Effect, Fault, answer, faulty
from later import Later
from objects import pod as new_pod, read

from lib.kube import resources
from lib.kube.api import Api
from lib.kube.lookup import PENDING, Lookup
from lib.kube.objects import COSCHEDULING, ControllerRef, LabelSelector, Pod, PodGroupRef
from lib.kube.resources import ALL, Need
from lib.kube.source import PollingSource
from lib.scheduling.cache import Cache
from lib.scheduling.looked_up import REFRESH, LookedUp
from lib.scheduling.plugins.registry import default_profile
from lib.scheduling.workloads import Workloads, controller_of
from lib.service.lookups import look_up, needs_of
from lib.service.telemetry.report import Report

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


WEB = new_pod("web")
LABELS = {"labels": {"team": "a"}}
OBJECTS: dict[str, list[Any]] = {
    "namespaces": [{"metadata": {"name": "default", **LABELS}}],
    "services": [{"metadata": {"name": "s", "namespace": "default"}, "spec": {"selector": {"app": "web"}}}],
    "replicasets": [
        {
            "apiVersion": "apps/v1",
            "metadata": {"name": "r", "namespace": "default"},
            "spec": {"selector": {"matchLabels": {"tier": "front"}}},
        }
    ],
    "poddisruptionbudgets": [
        {"metadata": {"name": "good", "namespace": "default"}},
        {"metadata": {"name": "bad", "namespace": "theirs"}, "spec": 5},
    ],
    "nodemetrics": [{"metadata": {"name": "n1"}, "timestamp": "2026-01-01T00:00:00Z", "usage": {"cpu": "2"}}],
}
CONTROLLER = ControllerRef("default", "apps/v1", "ReplicaSet", "r", "u")
PATHS = {
    "namespaces": "/api/v1/namespaces",
    "services": "/api/v1/namespaces/default/services",
    "replicasets": "/apis/apps/v1/namespaces/default/replicasets/r",
    "poddisruptionbudgets": "/apis/policy/v1/poddisruptionbudgets",
    "nodemetrics": "/apis/metrics.k8s.io/v1beta1/nodes",
}


class Asks:
    """Looks up what a pod needs, beside a server."""

    def __init__(self, server: CannedServer) -> None:
        self.server, self.machine = server, Later()
        self.found = LookedUp()

    def ask(self, *needs: tuple[Need, Hashable], until: float = inf) -> LookedUp:
        stopping = Event()
        stopping.set()  # so nothing is asked for twice
        with Api(self.server.url, stopping, system=self.machine) as api:
            source = PollingSource(api, ["my-scheduler"])
            wanted = {need: {key: [WEB]} for need, key in needs}
            report = Report(dry_run=False, explain=None)
            self.found = look_up(wanted, source, self.found, report, until)
        return self.found


def test_what_a_pod_needs_is_found(caplog: pytest.LogCaptureFixture) -> None:
    with canned(OBJECTS) as server:
        found = Asks(server).ask(
            (resources.NAMESPACE_LABELS, ALL),
            (resources.OWN_SERVICES, "default"),
            (resources.CONTROLLERS, CONTROLLER),
            (resources.PREEMPTION, ALL),
            (resources.LOAD, ALL),
        )
    assert (found.errors, found.pending, found.budgets_error) == ({}, {}, "")
    assert found.namespaces == {"default": {"team": "a"}}
    assert [each.spec.selector for each in found.workloads.services] == [{"app": "web"}]
    assert found.workloads.selectors == {CONTROLLER: LabelSelector({"tier": "front"})}
    assert [str(each) for each in found.budgets or ()] == ["default/good"]
    assert found.budgets_unread == {"theirs"}
    assert "theirs/bad" in caplog.text
    assert len(found.load.since("n1", datetime(2026, 1, 1, tzinfo=UTC))) == 1


SPREADING, USE = "spreading pods that belong together", "what nodes use (ActualLoad)"


@pytest.mark.parametrize(
    ("need", "key", "forbidden", "waits_for", "goes_on_without"),
    [
        (resources.NAMESPACE_LABELS, ALL, True, "namespaces", ""),
        (resources.NAMESPACE_LABELS, ALL, False, "namespaces", ""),
        (resources.OWN_SERVICES, "default", True, "", SPREADING),
        (resources.OWN_SERVICES, "default", False, "services of namespace default", ""),
        (resources.CONTROLLERS, CONTROLLER, True, "", SPREADING),
        (resources.PREEMPTION, ALL, True, "", "preemption"),
        (resources.PREEMPTION, ALL, False, "", ""),
        (resources.LOAD, ALL, True, "", USE),
        (resources.LOAD, ALL, False, "", USE),
    ],
)
def test_a_pod_waits_for_what_it_needs_unless_poller_can_go_on_without_it(
    need: Need,
    key: Hashable,
    forbidden: bool,
    waits_for: str,
    goes_on_without: str,
    caplog: pytest.LogCaptureFixture,
) -> None:
    with canned(OBJECTS) as server:
        server.forbidden, server.failing = ({*PATHS.values()}, ()) if forbidden else (set(), {*OBJECTS})
        asks = Asks(server)
        found = asks.ask((need, key), until=asks.machine.monotonic() + 60)
    if waits_for:
        assert found.errors[WEB.metadata.uid].startswith(f"{waits_for} can't be looked up: GET ")
    assert (len(found.errors), found.pending) == (bool(waits_for), {})
    assert caplog.text.count("going on without ") == bool(goes_on_without)
    assert goes_on_without in caplog.text


def test_a_pod_that_cannot_preempt_does_not_fail_because_budgets_could_not_be_read_before() -> None:
    with canned(OBJECTS) as server:
        asks, budgets = Asks(server), (resources.PREEMPTION, ALL)
        known = asks.ask(budgets).budgets
        server.failing = ["poddisruptionbudgets"]
        found = asks.ask(budgets)
        assert found.budgets_error.startswith("disruption budgets can't be looked up: ")
        assert (found.budgets, found.errors) == (known, {})
        assert asks.ask().budgets_error == ""
        server.forbidden = {PATHS["poddisruptionbudgets"]}
        found = asks.ask(budgets)
        assert (found.budgets, found.budgets_error) == (None, "")


@pytest.mark.parametrize(
    ("controller", "is_asked_for"),
    [
        (CONTROLLER._replace(name="nosuch"), True),
        (CONTROLLER._replace(name="a//b"), False),  # no object can have this name
        (CONTROLLER._replace(api_version="example.com/v1", kind="Widget"), False),
    ],
    ids=["not there", "a name that can't be", "another kind"],
)
def test_a_pod_whose_controller_has_no_selector_waits_for_none(
    controller: ControllerRef, is_asked_for: bool
) -> None:
    with canned(OBJECTS) as server:
        found = Asks(server).ask((resources.CONTROLLERS, controller))
    assert (found.workloads.selectors, found.errors, found.pending) == ({}, {}, {})
    assert bool(server.reads) == is_asked_for


@pytest.mark.parametrize("forbidden", [False, True])
def test_the_metrics_of_nodes_are_read_again_after_a_while_though_they_could_not_be(
    forbidden: bool,
) -> None:
    with canned(OBJECTS) as server:
        asks, load = Asks(server), (resources.LOAD, ALL)
        if forbidden:
            server.forbidden = {PATHS["nodemetrics"]}
        first = asks.ask(load).load
        server.forbidden = set()
        assert asks.ask(load).load is first
        asks.machine.seconds += REFRESH
        late = asks.ask(load, until=0.0).load
        assert late is first or late.read > first.read  # on a machine that is slow enough, it isn't late
        asks.machine.seconds += REFRESH
        again = asks.ask(load).load
        assert again is not first
        assert len(again.since("n1", datetime(2026, 1, 1, tzinfo=UTC))) == 1


@pytest.mark.parametrize("need", [resources.VOLUMES, resources.DEVICES], ids=["volumes", "devices"])
def test_an_answer_that_has_not_come_is_an_error_only_if_it_was_waited_for_until_the_end(
    need: Need,
) -> None:
    why = {WEB.metadata.uid: f"{need.called}: the API server has not answered yet"}
    with canned(OBJECTS) as server:
        asks = Asks(server)
        found = asks.ask((need, ALL), until=0.0)
        assert (found.pending, found.errors) == (why, {})
        found = asks.ask((need, ALL), until=inf)
        assert (found.pending, found.errors) == ({}, why)
        assert asks.ask().errors == {}


@pytest.mark.parametrize(
    ("label", "has_an_object"),
    [("scheduling.x-k8s.io/pod-group", True), ("poller/group", False), ("x", False)],
)
def test_the_size_of_a_group_is_looked_up_if_an_object_has_it(label: str, has_an_object: bool) -> None:
    member = new_pod("a", schedulerName="my-scheduler")
    member.metadata.labels = {label: "g"}
    needs = needs_of([member], Cache(), [default_profile("my-scheduler")])
    group = PodGroupRef("default", "g", COSCHEDULING)
    assert needs.get(resources.GROUP_SIZES, {}) == ({group: [member]} if has_an_object else {})


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
