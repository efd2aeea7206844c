"""--watch: how soon poller handles a change, and that none is lost or doubled when the watch fails."""

import json
import re
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest
from cluster import NEVER, Cluster, RunningPoller, eventually
from faults import (
    ALWAYS,
    Answer,
    Effect,
    Exchange,
    Fault,
    FaultyProxy,
    answer,
    change_events,
    change_json,
    faulty,
)
from hypothesis import HealthCheck, Phase, given, settings, strategies as st

from lib.kube.api import Api
from lib.kube.changes import AnyChange, Kind
from lib.kube.informer import Informer
from lib.kube.objects import Pod
from lib.kube.source import PollingSource
from scripts.servers.kubectl import KUBECTL, kubectl_proxy

ON_ONE_SERVER = True

BINDING = "/binding$"
PODS_LISTED, PODS_WATCHED = r"/v1/pods\?(?!.*watch=1|.*schedulerName)", r"/v1/pods\?.*watch=1"


def expired() -> dict[str, Any]:
    message = "too old resource version: 1 (2)"
    return {"kind": "Status", "status": "Failure", "reason": "Expired", "code": 410, "message": message}


GONE = {
    "as the answer": answer(410, json.dumps(expired())),
    "as an event": answer(200, json.dumps({"type": "ERROR", "object": expired()}) + "\n"),
}


def force_delete(cluster: Cluster, name: str) -> None:
    path = f"/api/v1/namespaces/default/pods/{name}"
    cluster.api.delete(path, params={"gracePeriodSeconds": "0"})


def is_bound(cluster: Cluster, name: str) -> None:
    eventually(lambda: cluster.pod(name)["spec"].get("nodeName"))


@pytest.fixture
def ready(cluster: Cluster) -> Cluster:
    """A cluster with a node n1, and a pod web that waits."""
    cluster.add_node("n1")
    cluster.add_pod("web")
    return cluster


@contextmanager
def watching(cluster: Cluster, *faults: Fault) -> Iterator[tuple[RunningPoller, FaultyProxy]]:
    """A poller that has bound web, and now watches through a proxy with these faults."""
    with (
        faulty(cluster.proxy, *faults) as between,
        cluster.running_poller("--watch", NEVER, "-v", proxy=between.url) as poller,
    ):
        poller.says("default/web is bound to n1")
        yield poller, between


def asked(between: FaultyProxy, what: str) -> int:
    """How many requests of this sort were made."""
    return sum(re.search(what, path) is not None for _, path in between.requests)


# --- how soon -------------------------------------------------------------------------------------------


def test_a_pod_is_bound_as_soon_as_it_is_there(ready: Cluster) -> None:
    with ready.running_poller("--watch", NEVER, afresh=True) as poller:
        poller.says("default/web is bound to n1")
        for i in range(5):
            ready.add_pod(f"web-{i}")
            is_bound(ready, f"web-{i}")
        poller.stop(signal.SIGTERM)  # in the middle of its wait
        assert poller.process.returncode == 0
    assert len(ready.events("Scheduled")) == 6


def test_services_are_watched_too(ready: Cluster) -> None:
    labels = {"labels": {"app": "shop"}}
    with watching(ready) as (_, between):
        ready.add_node("n2")
        path = "/api/v1/namespaces/default/services"
        spec = {"selector": {"app": "shop"}, "ports": [{"port": 80}]}
        ready.post(path, {"metadata": {"name": "shop"}, "spec": spec})
        try:
            for i in range(4):
                ready.add_pod(f"shop-{i}", metadata=labels)
                is_bound(ready, f"shop-{i}")
        finally:
            ready.api.delete(f"{path}/shop")
        assert asked(between, r"/services\?(?!.*watch=1)") == 1
    nodes = [node for name, node in ready.placement().items() if name.startswith("shop")]
    assert sorted(nodes) == ["n1", "n1", "n2", "n2"]


def test_services_that_may_not_be_watched_are_listed(ready: Cluster) -> None:
    forbidden = {"kind": "Status", "status": "Failure", "code": 403, "message": "services is forbidden"}
    no = Fault("GET", r"/services\?.*watch=1", answer(403, json.dumps(forbidden)), ALWAYS)
    with watching(ready, no) as (poller, between):
        ready.add_pod("next")
        is_bound(ready, "next")
        assert '{apiGroups: [""], resources: ["services"], verbs: ["watch"]}' in poller.said
        assert asked(between, r"/services\?.*watch=1") == 1
        assert asked(between, r"/namespaces/default/services\?") == 2


@pytest.mark.parametrize(
    "help_it",
    [
        lambda cluster: cluster.add_node("n2"),
        lambda cluster: cluster.patch("/api/v1/nodes/n1", {"spec": {"unschedulable": None}}),
        lambda cluster: force_delete(cluster, "old"),
    ],
    ids=["added", "uncordoned", "freed"],
)
def test_what_helps_a_pod_wakes_it(cluster: Cluster, help_it: Callable[[Cluster], Any]) -> None:
    cluster.add_node("n0", pods="1")
    cluster.add_pod("old", nodeName="n0")
    cluster.add_node("n1")
    cluster.patch("/api/v1/nodes/n1", {"spec": {"unschedulable": True}})
    cluster.add_pod("web")
    with cluster.running_poller("--watch", NEVER, "--pod-initial-backoff=0.1") as poller:
        poller.says("default/web fits nowhere")
        time.sleep(0.3)  # so that it has backed off
        help_it(cluster)
        is_bound(cluster, "web")


def test_a_pod_that_someone_else_binds_waits_no_longer(cluster: Cluster) -> None:
    cluster.add_node("n1", pods="0")
    cluster.add_pod("web")
    with cluster.running_poller("--watch", NEVER) as poller:
        poller.says("default/web fits nowhere")
        target = {"apiVersion": "v1", "kind": "Node", "name": "n1"}
        body = {"metadata": {"name": "web"}, "target": target}
        cluster.post("/api/v1/namespaces/default/pods/web/binding", body)

        def is_empty() -> bool:
            poller.process.send_signal(signal.SIGUSR1)
            return "queue: 0 active, 0 backoff, 0 unschedulable, 0 waiting" in poller.said

        eventually(is_empty)


# --- what becomes of a watch ----------------------------------------------------------------------------


def test_a_watch_that_is_cut_off_goes_on_where_it_was(ready: Cluster) -> None:
    away = threading.Event()

    def unless_away(exchange: Exchange) -> Any:
        return None if away.is_set() else exchange.stream()

    with watching(ready, Fault("GET", PODS_WATCHED, unless_away, ALWAYS)) as (poller, between):
        away.set()
        between.cut()
        eventually(lambda: asked(between, PODS_WATCHED) > 1)  # it has tried once more
        for name in ("a", "b", "gone"):
            ready.add_pod(name)
        force_delete(ready, "gone")
        away.clear()
        for name in ("a", "b"):
            poller.says(f"default/{name} is bound to n1")
        ready.add_pod("c")
        poller.says("default/c is bound to n1")
        assert asked(between, PODS_LISTED) == 1
        assert asked(between, BINDING) == 4
        assert "default/gone is bound" not in poller.said
    assert len(ready.events("Scheduled")) == 4


@pytest.mark.parametrize("gone", GONE.values(), ids=GONE.keys())
def test_after_a_version_that_is_too_old_there_is_a_new_list(ready: Cluster, gone: Effect) -> None:
    with watching(ready, Fault("GET", PODS_WATCHED, gone, after=1)) as (poller, between):
        ready.add_pod("big", requests={"cpu": "64"})
        poller.says("default/big fits nowhere")
        between.cut()
        ready.add_pod("meanwhile")
        poller.says("default/meanwhile is bound to n1")
        ready.add_pod("later")
        poller.says("default/later is bound to n1")
        assert asked(between, PODS_LISTED) == 2
        assert asked(between, BINDING) == 3
        assert poller.said.count("default/big fits nowhere") == 1


def test_what_was_bound_and_has_gone_while_nobody_watched_leaves_its_place_free(cluster: Cluster) -> None:
    cluster.add_node("n1", pods="1")

    def delete_it_unseen(exchange: Exchange) -> Answer:
        proxy[0].cut()
        bound = exchange.forward()
        force_delete(cluster, "web")
        cluster.add_pod("next")
        return bound

    proxy: list[FaultyProxy] = []
    faults = (
        Fault("POST", BINDING, delete_it_unseen),
        Fault("GET", PODS_WATCHED, GONE["as the answer"], after=1),
    )
    with (
        faulty(cluster.proxy, *faults) as between,
        cluster.running_poller("--watch", "--pod-initial-backoff=0.1", proxy=between.url) as poller,
    ):
        proxy.append(between)
        cluster.add_pod("web")
        poller.says("default/web is bound to n1")
        poller.says("default/next is bound to n1")
        assert asked(between, PODS_LISTED) == 2


def test_a_pod_that_was_bound_is_not_queued_again_by_what_happened_before(ready: Cluster) -> None:
    def change_it_before(exchange: Exchange) -> Answer:
        ready.patch("/api/v1/namespaces/default/pods/web", {"metadata": {"labels": {"a": "b"}}})
        return exchange.forward()

    def late(event: Any) -> Any:
        if event["object"].get("spec", {}).get("nodeName") == "n1":
            time.sleep(0.5)
        return event

    faults = (
        Fault("POST", BINDING, change_it_before),
        Fault("GET", PODS_WATCHED, change_events(late), ALWAYS),
    )
    with watching(ready, *faults) as (poller, between):
        time.sleep(0.8)
        ready.add_pod("next")
        poller.says("default/next is bound to n1")
        assert asked(between, BINDING) == 2
        assert "by someone else" not in poller.said


def test_an_object_that_cannot_be_read_is_named_and_the_stream_goes_on(ready: Cluster) -> None:
    def make_odd(event: Any) -> Any:
        if event["object"]["metadata"].get("name") == "odd":
            event["object"]["spec"] = {"priority": "very high"}
        return event

    with watching(ready, Fault("GET", PODS_WATCHED, change_events(make_odd), ALWAYS)) as (poller, between):
        ready.add_pod("odd")
        for name in ("a", "b"):
            ready.add_pod(name)
            poller.says(f"default/{name} is bound to n1")
        assert poller.said.count("Pod default/odd can't be read and is left out: Expected `int`") == 1
        assert asked(between, PODS_LISTED) == 1
    assert ready.placement()["odd"] is None


def test_one_that_could_be_read_until_now_is_looked_for_in_a_list(cluster: Cluster) -> None:
    cluster.add_node("n1", pods="1")
    cluster.add_pod("web")

    def make_odd(event: Any) -> Any:
        if event["object"].get("spec", {}).get("nodeName"):
            event["object"]["spec"]["priority"] = "very high"
        return event

    with watching(cluster, Fault("GET", PODS_WATCHED, change_events(make_odd))) as (poller, between):
        eventually(lambda: asked(between, PODS_LISTED) == 2)
        cluster.add_pod("next")
        poller.says("default/next fits nowhere")  # web was read in the list


@pytest.mark.parametrize("watch", [True, False], ids=["watching", "polling"])
def test_a_pod_that_runs_and_cannot_be_read_any_more_keeps_its_room(cluster: Cluster, watch: bool) -> None:
    cluster.add_node("n1", pods="1")
    cluster.add_pod("old", nodeName="n1")
    broken = threading.Event()

    def make_odd(item: Any) -> None:
        if broken.is_set() and item.get("spec", {}).get("nodeName"):
            item["spec"]["priority"] = "very high"

    def odd_event(event: Any) -> Any:
        make_odd(event["object"])
        return event

    def odd_list(listing: Any) -> Any:
        for item in listing["items"]:
            make_odd(item)
        return listing

    faults = [
        Fault("GET", PODS_WATCHED, change_events(odd_event), ALWAYS),
        Fault("GET", PODS_LISTED, change_json(odd_list), ALWAYS),
    ]
    with (
        faulty(cluster.proxy, *faults) as between,
        cluster.running_poller(*(["--watch"] if watch else []), proxy=between.url) as poller,
    ):
        cluster.add_pod("first")
        poller.says("default/first fits nowhere")
        broken.set()
        cluster.patch("/api/v1/namespaces/default/pods/old", {"metadata": {"labels": {"now": "odd"}}})
        poller.says("Pod default/old can't be read")
        cluster.add_pod("second")
        poller.says("default/second fits nowhere")
        assert set(cluster.placement().values()) == {"n1", None}


def test_a_watch_that_may_not_be_names_the_rule(ready: Cluster) -> None:
    forbidden = {"kind": "Status", "status": "Failure", "code": 403, "message": "pods is forbidden"}
    with (
        faulty(ready.proxy, Fault("GET", PODS_WATCHED, answer(403, json.dumps(forbidden)))) as between,
        ready.running_poller("--watch", "--interval=0.1", proxy=between.url) as poller,
    ):
        poller.says("WATCH /api/v1/pods: 403 pods is forbidden; the rule that is missing: ")
        assert '{apiGroups: [""], resources: ["pods"], verbs: ["watch"]}' in poller.said
        poller.says("polls succeed again")
        poller.says("default/web is bound to n1")
        assert asked(between, PODS_LISTED) == 1


def test_what_is_no_watch_is_said_and_tried_again(ready: Cluster) -> None:
    with (
        faulty(ready.proxy, Fault("GET", PODS_WATCHED, answer(200, "<html>\n"))) as between,
        ready.running_poller("--watch", NEVER, proxy=between.url) as poller,
    ):
        poller.says("WATCH /api/v1/pods: the response is not a Kubernetes object")
        poller.says("the API server is back")
        ready.add_pod("next")
        poller.says("default/next is bound to n1")


# --- nobody there ---------------------------------------------------------------------------------------


def test_it_waits_for_the_proxy_and_watches_again_when_it_is_back(ready: Cluster) -> None:
    socket = ready.folder / "away.sock"
    with ExitStack() as stack:
        with kubectl_proxy(ready.server, ready.kubeconfig, socket):
            poller = stack.enter_context(ready.running_poller("--watch", NEVER, proxy=f"unix://{socket}"))
            poller.says("default/web is bound to n1")
        poller.says("nothing answers at unix://")
        ready.add_pod("next")
        with kubectl_proxy(ready.server, ready.kubeconfig, socket):
            poller.says("default/next is bound to n1")
            poller.says("the API server is back")
            poller.stop(signal.SIGINT)
        assert poller.said.count("nothing answers") == 1


def test_a_proxy_of_its_own_comes_back_with_the_watches(ready: Cluster) -> None:
    path = {"KUBECONFIG": str(ready.kubeconfig), "PATH": str(Path(KUBECTL).parent)}
    with ready.running_poller("--watch", NEVER, "--start-proxy", "-v", **path) as poller:
        poller.says("default/web is bound to n1")
        socket = re.findall(r"kubectl proxy serves on (?:unix://)?(\S+)", poller.said)[0]
        found = subprocess.run(
            ["pgrep", "-f", f"proxy --unix-socket={socket}"], capture_output=True, text=True, check=True
        )
        subprocess.run(["kill", "-9", *found.stdout.split()], check=True)
        ready.add_pod("next")
        poller.says("default/next is bound to n1")


# --- polling and watching tell the same -----------------------------------------------------------------


class Picture:
    """What is known from changes, each of which must follow from what was known before."""

    def __init__(self) -> None:
        self.objects: dict[tuple[str, str, bool], Any] = {}

    def apply(self, change: AnyChange) -> None:
        each = change.object
        waits = isinstance(each, Pod) and not each.spec.node_name
        key = type(each).__name__, each.metadata.uid, waits
        assert (change.kind == Kind.ADDED) == (key not in self.objects) == (change.before is None), change
        if change.before is not None:
            assert self.objects.pop(key) == change.before
        if change.kind != Kind.DELETED:
            assert change.kind == Kind.ADDED or change.before != each
            self.objects[key] = each

    @property
    def seen(self) -> dict[tuple[str, str, bool], bytes]:
        return {key: msgspec.json.encode(each) for key, each in self.objects.items()}


NAMES = st.sampled_from(["a", "b", "c"])
DEEDS = ["pod", "pod", "other", "bind", "bind", "label", "finish", "delete", "node", "cordon", "away"]
ACTIONS = st.lists(
    st.tuples(st.sampled_from([*DEEDS, "poll", "poll", "cut", "expire"]), NAMES), min_size=4, max_size=14
)


def act(cluster: Cluster, action: str, name: str) -> None:
    """Do something to the cluster, if it can be done now."""
    pod, node = f"/api/v1/namespaces/default/pods/{name}", f"/api/v1/nodes/node-{name}"
    merge = {"Content-Type": "application/merge-patch+json"}

    def patch(path: str, body: Any) -> None:
        cluster.api.patch(path, json=body, headers=merge)

    if action in ("pod", "other"):
        scheduler = {"pod": "my-scheduler", "other": "another"}[action]
        body = {
            "metadata": {"name": name},
            "spec": {"schedulerName": scheduler, "containers": [{"name": "c", "image": "i"}]},
        }
        cluster.api.post("/api/v1/namespaces/default/pods", json=body)
    elif action == "bind":
        target = {"apiVersion": "v1", "kind": "Node", "name": f"node-{name}"}
        cluster.api.post(f"{pod}/binding", json={"metadata": {"name": name}, "target": target})
    elif action == "label":
        patch(pod, {"metadata": {"labels": {"at": str(time.monotonic_ns())}}})
    elif action == "finish":
        patch(f"{pod}/status", {"status": {"phase": "Succeeded"}})
    elif action == "delete":
        cluster.api.delete(pod, params={"gracePeriodSeconds": "0"})
    elif action == "node":
        cluster.api.post("/api/v1/nodes", json={"metadata": {"name": f"node-{name}"}})
    elif action == "cordon":
        patch(node, {"spec": {"unschedulable": True}})
    elif action == "away":
        cluster.api.delete(node)


def test_watching_ends_with_the_picture_that_polling_has(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("lib.kube.reflector.SHORTEST_WATCH", 0.0)
    expiring = threading.Event()

    def maybe_expired(exchange: Exchange) -> Any:
        if expiring.is_set():
            expiring.clear()
            return GONE["as the answer"](exchange)
        return exchange.stream()

    @settings(
        max_examples=15,
        deadline=None,
        phases=[Phase.generate],  # to make a failure smaller takes minutes, with real servers
        suppress_health_check=[HealthCheck.function_scoped_fixture],
    )
    @given(ACTIONS)
    def check(actions: list[tuple[str, str]]) -> None:
        with (
            faulty(cluster.proxy, Fault("GET", "watch=1", maybe_expired, ALWAYS)) as between,
            Api(between.url, threading.Event()) as api,
        ):
            watch, picture = Informer(api, ["my-scheduler"]), Picture()

            def hear() -> None:
                for change in watch.poll().changes:
                    picture.apply(change)

            hear()
            for action, name in actions:
                if action == "poll":
                    hear()
                elif action in ("cut", "expire"):
                    if action == "expire":
                        expiring.set()
                    between.cut()
                else:
                    act(cluster, action, name)
            act(cluster, "delete", "last")
            act(cluster, "pod", "last")  # with a pod that waits, a poll looks at everything

            def polled() -> dict[tuple[str, str, bool], bytes]:
                """What a poll sees now: kubelets may have written since the last one."""
                poll = Picture()
                for change in PollingSource(api, ["my-scheduler"]).poll().changes:
                    # Pods that ended before they had a node are passed over; a watch leaves them out itself.
                    if not (isinstance(change.object, Pod) and change.object.status.phase == "Succeeded"):
                        poll.apply(change)
                return poll.seen

            def same() -> bool:
                watch.wait(0.05)
                hear()
                return picture.seen == polled()

            eventually(same)
            expiring.clear()

    check()


# --- bookmarks ------------------------------------------------------------------------------------------


def test_a_bookmark_moves_the_version_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lib.kube.reflector.SHORTEST_WATCH", 0.0)
    meta = {"creationTimestamp": None, "resourceVersion": "7"}
    # As a real server has it: a pod whose lists are null.
    bookmark = {"kind": "Pod", "metadata": meta, "spec": {"containers": None}, "status": {}}

    def page(kind: str) -> Effect:
        return answer(200, json.dumps({"kind": kind, "metadata": {"resourceVersion": "5"}, "items": []}))

    faults = [
        Fault("GET", r"nodes\?limit", page("NodeList")),
        Fault("GET", PODS_LISTED, page("PodList")),
        Fault("GET", PODS_WATCHED, answer(200, json.dumps({"type": "BOOKMARK", "object": bookmark}) + "\n")),
        Fault("GET", "watch=1", answer(200), ALWAYS),
    ]
    with (
        faulty("http://127.0.0.1:9", *faults) as between,
        Api(between.url, threading.Event()) as api,
    ):
        feed = Informer(api, ["my-scheduler"])
        assert feed.poll().complete

        def versions() -> list[str]:
            news = feed.poll()
            assert not news.complete
            assert not news.changes
            watched = [path for _, path in between.requests if re.search(PODS_WATCHED, path)]
            return [re.findall(r"resourceVersion=(\d+)", path)[0] for path in watched]

        eventually(lambda: versions()[:2] == ["5", "7"])
        assert asked(between, PODS_LISTED) == 1


def test_a_watch_that_is_open_has_not_failed_though_nobody_heard_that_it_opened(cluster: Cluster) -> None:
    """Polls may fail for so long that the answer is out of date."""
    cluster.add_node("n1")
    cluster.add_pod("web", volumes=[{"name": "v", "persistentVolumeClaim": {"claimName": "c"}}])
    broken = Fault("GET", "/csinodes", answer(400))
    with faulty(cluster.proxy, broken) as between, Api(between.url, threading.Event()) as api:
        feed = Informer(api, ["my-scheduler"])
        while not feed.storage.unseen:
            feed.poll()
        opening = feed.storage._opening
        opening._max_age = 0.0

        def opens() -> bool:
            opening.begin(each for each in feed.storage.reflectors if each.pause == 0)
            return not any(each.pause == 0 for each in feed.storage.reflectors) and feed.storage.is_known

        eventually(opens)
        feed.poll()
        assert feed.storage.unseen == ""
