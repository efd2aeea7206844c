"""What poller does when something is wrong between it and the API server, or in what the server holds."""

import re
import subprocess
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from threading import Event
from typing import Any

import pytest
from cluster import ONE_SERVER, PATIENCE, Cluster, RunningPoller, eventually
from faults import (
    ALWAYS,
    Answer,
    Effect,
    Exchange,
    Fault,
    answer,
    change_json,
    cut_answer,
    delay,
    faulty,
    hold,
    lose_answer,
    refuse,
)

from scripts.servers.kubectl import kubectl_proxy

ON_ONE_SERVER = True

PODS, NODES, BINDING, EVENTS = r"/pods\?", r"/nodes", r"/binding$", r"/events$"
FEW_AT_A_TIME = "--bind-workers=16"
"""So that a burst of some dozen pods doesn't fit on the way all at once."""

FOREVER = 3600.0
"""Seconds: longer than any test takes."""

HTML = "<html><body>Sign in</body></html>"


def first(effect: Callable[[], Any]) -> Effect:
    """Do something else with the cluster, then let the request through."""

    def after(exchange: Exchange) -> Answer:
        effect()
        return exchange.forward()

    return after


@pytest.fixture
def one_pod(cluster: Cluster) -> Cluster:
    """A cluster with a node n1 and a pod web that waits."""
    cluster.add_node("n1")
    cluster.add_pod("web")
    return cluster


# --- requests that fail and are tried again -------------------------------------------------------------


@pytest.mark.parametrize(
    "fault",
    [
        Fault("GET", PODS, refuse(), times=2),
        Fault("GET", NODES, answer(503, "busy"), times=2),
        Fault("GET", PODS, cut_answer(20)),
        Fault("POST", BINDING, answer(503, "busy"), times=2),
        Fault("POST", BINDING, refuse(), times=2),
        Fault("POST", BINDING, lose_answer()),
        Fault("POST", BINDING, answer(500, HTML)),
        Fault("POST", BINDING, answer(201, HTML)),
        Fault("POST", EVENTS, answer(503, "busy"), times=2),
        Fault("POST", EVENTS, lose_answer()),
        Fault("POST", EVENTS, cut_answer(20)),
    ],
    ids=lambda fault: f"{fault.method} {fault.path} {fault.effect.__qualname__}".replace(
        ".<locals>.effect", ""
    ),
)
def test_a_passing_fault_leaves_no_trace_but_a_line(one_pod: Cluster, fault: Fault) -> None:
    with faulty(one_pod.proxy, fault) as between:
        done = one_pod.poller(proxy=between.url)
    assert done.returncode == 0, done.stderr
    assert one_pod.placement() == {"web": "n1"}
    assert len(one_pod.events("Scheduled")) == 1
    assert "1 bound" in done.stderr
    assert done.stderr.count("a request failed and is tried again in ") == 1


def test_a_binding_whose_answer_was_lost_is_looked_up_not_posted_again(one_pod: Cluster) -> None:
    with faulty(one_pod.proxy, Fault("POST", BINDING, lose_answer())) as between:
        one_pod.poller(proxy=between.url)
    assert [method for method, path in between.requests if "/pods/web" in path] == ["POST", "GET"]


def test_a_binding_that_was_not_made_is_posted_again_after_the_look(one_pod: Cluster) -> None:
    with faulty(one_pod.proxy, Fault("POST", BINDING, refuse())) as between:
        one_pod.poller(proxy=between.url)
    assert [method for method, path in between.requests if "/pods/web" in path] == ["POST", "GET", "POST"]


def test_a_binding_that_may_have_been_made_is_looked_up_before_the_pod_is_decided_on_again(
    one_pod: Cluster,
) -> None:
    fault = Fault("POST", BINDING, answer(500, "a webhook broke"), times=5)
    with (
        faulty(one_pod.proxy, fault) as between,
        one_pod.running_poller(proxy=between.url) as poller,
    ):
        poller.says("default/web is bound to n1")
    asked = [method for method, path in between.requests if re.search("/pods/web(/binding)?$", path)]
    assert asked == ["POST", "GET", "POST", "GET", "POST", "GET", "POST", "GET", "POST", "GET", "POST"]


def test_retry_after_is_honoured(one_pod: Cluster) -> None:
    fault = Fault("POST", BINDING, answer(429, "later", {"Retry-After": "1"}))
    with faulty(one_pod.proxy, fault) as between:
        began = time.monotonic()
        assert one_pod.poller(proxy=between.url).returncode == 0
    assert time.monotonic() - began > 1


def test_a_refusal_is_not_tried_again(one_pod: Cluster) -> None:
    fault = Fault("POST", BINDING, answer(422, '{"kind":"Status","status":"Failure","message":"no"}'), ALWAYS)
    with faulty(one_pod.proxy, fault) as between:
        done = one_pod.poller(proxy=between.url)
    assert done.returncode == 3
    assert (
        "default/web: binding failed: POST /api/v1/namespaces/default/pods/web/binding: 422 no" in done.stderr
    )
    assert len([1 for _, path in between.requests if path.endswith("/binding")]) == 1


def test_one_pods_failing_write_does_not_stop_the_others(one_pod: Cluster) -> None:
    one_pod.add_pod("zweb")
    fault = Fault("POST", r"pods/web/binding", answer(500, "a webhook broke"), ALWAYS)
    with faulty(one_pod.proxy, fault) as between:
        done = one_pod.poller(proxy=between.url)
    assert done.returncode == 3
    assert one_pod.placement() == {"web": None, "zweb": "n1"}


# --- answers that are none ------------------------------------------------------------------------------


NO_ANSWERS = [
    (answer(200, HTML), "GET /api/v1/pods: the response is not a Kubernetes object"),
    (
        answer(404, HTML, {"Content-Type": "text/html"}),
        "GET /api/v1/pods: 404 Not Found (text/html: '<html>",
    ),
    (answer(200, '{"hello": "world"}'), "GET /api/v1/pods: the response is not a Kubernetes object"),
    (answer(200, "[1, 2]"), "GET /api/v1/pods: the response is not a Kubernetes object"),
    (
        answer(200, '{"kind":"NodeList","metadata":{},"items":[]}'),
        "GET /api/v1/pods: expected a PodList, got",
    ),
    (answer(200, '{"kind":"PodList","metadata":{},"items":7}'), "the response is not a Kub"),
    (cut_answer(30, honest_length=True), "GET /api/v1/pods: the response is not a Kubernetes object"),
    (answer(302, "", {"Location": "/login"}), "GET /api/v1/pods: 302 Found"),
]


@pytest.mark.parametrize(("effect", "said"), NO_ANSWERS)
def test_what_is_no_answer_is_named(one_pod: Cluster, effect: Effect, said: str) -> None:
    with faulty(one_pod.proxy, Fault("GET", PODS, effect, ALWAYS)) as between:
        done = one_pod.poller(proxy=between.url)
    assert done.returncode == 1
    lines = done.stderr.splitlines()
    assert len(lines) == 3, done.stderr
    assert said in lines[1]


@pytest.mark.parametrize("part", range(3))  # after each, poller waits longer
def test_what_is_no_answer_skips_the_tick_and_loses_nothing(one_pod: Cluster, part: int) -> None:
    faults = [Fault("GET", PODS, effect) for effect, _ in NO_ANSWERS[part::3]]
    with (
        faulty(one_pod.proxy, *faults) as between,
        one_pod.running_poller(proxy=between.url) as poller,
    ):
        poller.says("the API server is back")
        poller.says("default/web is bound to n1")
    asked = [path for _, path in between.requests if re.search(PODS, path)]
    assert len(asked) > len(faults)


def test_a_list_that_never_ends_is_no_list(one_pod: Cluster) -> None:
    page = '{"kind":"PodList","metadata":{"continue":"more"},"items":[]}'
    with faulty(one_pod.proxy, Fault("GET", PODS, answer(200, page), ALWAYS)) as between:
        done = one_pod.poller(proxy=between.url)
    assert done.returncode == 1
    assert "GET /api/v1/pods: the list never ends" in done.stderr


def test_pods_that_were_not_asked_for_are_left_alone(one_pod: Cluster) -> None:
    def make_theirs(body: Any) -> Any:
        for item in body["items"]:
            item["spec"]["schedulerName"] = "another"
        return body

    with faulty(one_pod.proxy, Fault("GET", PODS, change_json(make_theirs), ALWAYS)) as between:
        done = one_pod.poller(proxy=between.url)
    assert (done.returncode, one_pod.placement()) == (0, {"web": None}), done.stderr


def malformed(name: str) -> Effect:
    """Make an object of a list one that can't be read."""

    def change(body: Any) -> Any:
        for item in body["items"]:
            if item["metadata"]["name"] == name:
                item["spec"] = {"priority": "very high", "unschedulable": "perhaps"}
        return body

    return change_json(change)


def test_one_malformed_pod_stops_no_other(one_pod: Cluster) -> None:
    one_pod.add_pod("odd")
    with (
        faulty(one_pod.proxy, Fault("GET", PODS, malformed("odd"), ALWAYS)) as between,
        one_pod.running_poller(proxy=between.url) as poller,
    ):
        poller.says("default/web is bound to n1")
        one_pod.add_pod("another")
        poller.says("default/another is bound to n1")
        assert (
            poller.said.count("Pod default/odd can't be read and is left out: Expected `int`, got `str`") == 1
        )
    with faulty(one_pod.proxy, Fault("GET", PODS, malformed("odd"), ALWAYS)) as between:
        assert one_pod.poller(proxy=between.url).returncode == 3


def test_one_malformed_node_stops_no_other(one_pod: Cluster) -> None:
    one_pod.add_node("odd")
    with faulty(one_pod.proxy, Fault("GET", NODES, malformed("odd"), ALWAYS)) as between:
        done = one_pod.poller(proxy=between.url)
    assert done.returncode == 0
    assert one_pod.placement() == {"web": "n1"}
    assert "Node odd can't be read and is left out: Expected `bool`, got `str`" in done.stderr


def test_a_quantity_that_is_none_makes_a_pod_malformed(one_pod: Cluster) -> None:
    def change(body: Any) -> Any:
        body["items"][0]["spec"]["containers"][0]["resources"]["requests"]["cpu"] = "much"
        return body

    with faulty(one_pod.proxy, Fault("GET", PODS, change_json(change))) as between:
        done = one_pod.poller(proxy=between.url)
    assert done.returncode == 3
    assert (
        "Pod default/web can't be read and is left out: not a quantity: 'much' - at `$.spec.containers"
        in done.stderr
    )


# --- nobody there, or nobody allowed in -----------------------------------------------------------------


def test_without_a_proxy_it_says_where_and_advises_none_on_a_port(servers: Cluster) -> None:
    done = servers.poller(proxy="http://127.0.0.1:9")
    assert done.returncode == 1
    assert "nothing answers at http://127.0.0.1:9" in done.stderr
    assert "pods: not known, as they could not be read" in done.stderr
    assert "use --start-proxy: then poller starts a kubectl proxy of its own" in done.stderr
    assert "--port" not in done.stderr

    done = servers.poller(proxy="unix:///nowhere/proxy.sock")
    assert done.returncode == 1
    assert "use kubectl proxy --unix-socket=/nowhere/proxy.sock, or --start-proxy" in done.stderr


def test_the_loop_waits_for_the_proxy_and_says_when_it_is_back(one_pod: Cluster) -> None:
    socket = one_pod.folder / "late.sock"
    with one_pod.running_poller(proxy=f"unix://{socket}") as poller:
        poller.says("nothing answers at unix://")
        with kubectl_proxy(one_pod.server, one_pod.kubeconfig, socket):
            poller.says("the API server is back")
            poller.says("default/web is bound to n1")
            assert poller.said.count("nothing answers") == 1
            assert poller.said.count("trying again, at least every 30 s") == 1


def test_a_proxy_without_its_api_server(servers: Cluster) -> None:
    with kubectl_proxy("http://127.0.0.1:9") as proxy:
        done = servers.poller(proxy=proxy)
    assert done.returncode == 1
    said = "the connection to the API server at 127.0.0.1:9 was refused: is it running?"
    assert done.stderr.count(said) == done.stderr.count("127.0.0.1:9") == 1


@pytest.mark.parametrize("servers", [ONE_SERVER], indirect=True)
def test_forbidden_names_the_rule_that_is_missing(one_pod: Cluster) -> None:
    if not one_pod.kubeconfig_for:
        pytest.skip("the embedded API server has no users")
    with kubectl_proxy(one_pod.server, one_pod.kubeconfig_for("jane")) as proxy:
        done = one_pod.poller(proxy=proxy)
        assert done.returncode == 1
        assert 'pods is forbidden: User "jane" cannot list resource "pods" in API group ""' in done.stderr
        assert '{apiGroups: [""], resources: ["pods"], verbs: ["list"]}' in done.stderr

        for role, verbs, resources in (
            ("read", "list,get", "pods,nodes"),
            ("bind", "create", "pods/binding"),
        ):
            one_pod.kubectl("create", "clusterrole", role, f"--verb={verbs}", f"--resource={resources}")
            one_pod.kubectl("create", "clusterrolebinding", role, f"--clusterrole={role}", "--user=jane")
        done = one_pod.poller(proxy=proxy)
    assert done.returncode == 0, done.stderr  # all is placed; only the event may not be written
    assert (
        'event failed: POST /api/v1/namespaces/default/events: 403 events is forbidden: User "jane"'
        in done.stderr
    )
    assert '{apiGroups: [""], resources: ["events"], verbs: ["create"]}' in done.stderr


def test_a_signal_ends_it_while_the_server_does_not_answer(one_pod: Cluster) -> None:
    with (
        faulty(one_pod.proxy, Fault("GET", PODS, delay(FOREVER), ALWAYS)) as between,
        one_pod.running_poller(proxy=between.url) as poller,
    ):
        eventually(lambda: between.requests)
        poller.stop(2)
        assert "ended by SIGINT" in poller.said


def test_a_signal_lets_the_write_in_flight_end(one_pod: Cluster) -> None:
    let_go = Event()
    with (
        faulty(one_pod.proxy, Fault("POST", BINDING, hold(let_go))) as between,
        one_pod.running_poller(proxy=between.url) as poller,
    ):
        eventually(lambda: any(method == "POST" for method, _ in between.requests))
        poller.process.send_signal(15)
        with pytest.raises(subprocess.TimeoutExpired):
            poller.process.wait(0.5)
        let_go.set()
        poller.process.wait(PATIENCE)
        assert poller.process.returncode == 0
        assert re.search(r"ended by SIGTERM after [\d.]+ s; pods: 1 bound", poller.said)
    assert one_pod.placement() == {"web": "n1"}
    assert len(one_pod.events("Scheduled")) == 1


@contextmanager
def in_a_burst(one_pod: Cluster) -> Iterator[tuple[RunningPoller, Event]]:
    """A poller whose first 16 of 31 bindings are under way, and what lets them go on."""
    for i in range(30):
        one_pod.add_pod(f"web-{i}")
    let_go = Event()
    with (
        faulty(one_pod.proxy, Fault("POST", BINDING, hold(let_go), ALWAYS)) as between,
        one_pod.running_poller(FEW_AT_A_TIME, proxy=between.url) as poller,
    ):
        eventually(lambda: sum(method == "POST" for method, _ in between.requests) == 16)
        yield poller, let_go


def test_a_signal_in_a_burst_leaves_no_pod_bound_without_its_event(one_pod: Cluster) -> None:
    with in_a_burst(one_pod) as (poller, let_go):
        poller.process.send_signal(15)
        with pytest.raises(subprocess.TimeoutExpired):
            poller.process.wait(2)
        let_go.set()
        poller.process.wait(PATIENCE)
    bound = {name for name, node in one_pod.placement().items() if node}
    assert 16 <= len(bound) < 31
    assert {each["involvedObject"]["name"] for each in one_pod.events("Scheduled")} == bound


def test_a_signal_waits_once_for_a_server_that_takes_no_event(one_pod: Cluster) -> None:
    """31 events are due, 16 at a time: an answer is given 10 s, and the second half is not tried any more."""
    for i in range(30):
        one_pod.add_pod(f"web-{i}")
    with (
        faulty(one_pod.proxy, Fault("POST", EVENTS, delay(FOREVER), ALWAYS)) as between,
        one_pod.running_poller(FEW_AT_A_TIME, proxy=between.url) as poller,
    ):
        eventually(lambda: any(path.endswith("/events") for _, path in between.requests))
        eventually(lambda: None not in one_pod.placement().values())
        poller.stop(15)
        assert "event failed: POST" in poller.said
        assert sum(path.endswith("/events") for _, path in between.requests) <= 16
    assert set(one_pod.placement().values()) == {"n1"}


def test_what_goes_wrong_with_some_bindings_is_seen_to_beside_the_others(one_pod: Cluster) -> None:
    """Each refused binding waits for 5 s; one after the other they would for longer than PATIENCE."""
    for i in range(30):
        one_pod.add_pod(f"web-{i}")
    busy = answer(429, "later", {"Retry-After": "5"})
    troubles = (
        Fault("POST", BINDING, busy, times=16, after=10),
        Fault("POST", BINDING, lose_answer(), times=9),
    )
    with faulty(one_pod.proxy, *troubles) as between:
        assert one_pod.poller(FEW_AT_A_TIME, proxy=between.url).returncode == 0
    assert set(one_pod.placement().values()) == {"n1"}
    assert len(one_pod.events("Scheduled")) == 31
    sent = Counter(path for method, path in between.requests if method == "POST" and "/binding" in path)
    assert len(sent) == 31
    assert sum(sent.values()) == 31 + 16  # those that were refused once more, those that were lost not


def test_a_binding_that_has_to_wait_holds_up_no_other(one_pod: Cluster) -> None:
    for i in range(35):
        one_pod.add_pod(f"web-{i}")
    busy = answer(429, "later", {"Retry-After": "60"})
    with (
        faulty(one_pod.proxy, Fault("POST", "/web/binding", busy)) as between,
        one_pod.running_poller(FEW_AT_A_TIME, proxy=between.url) as poller,
    ):
        poller.says("default/web-0 is bound")
        eventually(lambda: sum(map(bool, one_pod.placement().values())) == 35)
        assert not one_pod.placement()["web"]


def test_a_pod_keeps_its_place_as_long_as_it_may_be_there(one_pod: Cluster) -> None:
    """There is room for 40 of 61; one of them is bound, which can't be found out."""
    for i in range(60):
        one_pod.add_pod(f"web-{i}")
    troubles = (
        Fault("POST", "/web/binding", lose_answer()),
        Fault("GET", "/pods/web$", answer(500, "no"), ALWAYS),
    )
    with faulty(one_pod.proxy, *troubles) as between:
        assert "default/web: binding failed" in one_pod.poller(FEW_AT_A_TIME, proxy=between.url).stderr
    assert len([node for node in one_pod.placement().values() if node]) == 40


def test_a_second_signal_ends_it_whatever_is_in_flight(one_pod: Cluster) -> None:
    with in_a_burst(one_pod) as (poller, _):
        poller.process.send_signal(15)
        with pytest.raises(subprocess.TimeoutExpired):
            poller.process.wait(0.5)
        poller.stop(15)


@pytest.mark.parametrize(
    ("refused", "written"),
    [(0, False), (0, True), (1, True)],
    ids=["not written", "written, and unheard", "at the second try"],
)
def test_what_was_bound_has_its_event_even_if_the_proxy_was_away(
    one_pod: Cluster, refused: int, written: bool
) -> None:
    socket = one_pod.folder / "flaky.sock"
    busy = Fault("POST", EVENTS, answer(429, "later"), times=refused)
    with ExitStack() as stack:

        def hang_up(exchange: Exchange) -> None:
            if written:
                exchange.forward()
            stack.close()  # after the binding, before its event

        with (
            faulty(one_pod.proxy, busy, Fault("POST", EVENTS, hang_up)) as between,
            one_pod.running_poller(
                proxy=stack.enter_context(kubectl_proxy(between.url, unix_socket=socket))
            ) as poller,
        ):
            poller.says("default/web is bound to n1")
            poller.says("nothing answers at unix://")
            assert len(one_pod.events("Scheduled")) == written
            with kubectl_proxy(one_pod.server, one_pod.kubeconfig, socket):
                poller.says("the API server is back")
                eventually(lambda: one_pod.events("Scheduled"))
                one_pod.add_pod("next")
                poller.says("default/next is bound to n1")
                eventually(lambda: len(one_pod.events("Scheduled")) >= 2)
    assert len(one_pod.events("Scheduled")) == 2


def test_without_the_right_to_write_events_a_pod_still_says_that_it_fits_nowhere(one_pod: Cluster) -> None:
    one_pod.add_pod("big", requests={"cpu": "64"})
    body = '{"kind":"Status","status":"Failure","message":"events is forbidden","reason":"Forbidden"}'
    with faulty(one_pod.proxy, Fault("POST", EVENTS, answer(403, body), ALWAYS)) as between:
        done = one_pod.poller(proxy=between.url)
    assert "default/big: event failed" in done.stderr
    (condition,) = one_pod.pod("big")["status"]["conditions"]
    assert condition["reason"] == "Unschedulable"


def test_a_policy_that_swallows_everything_does_not_make_it_deaf(one_pod: Cluster, tmp_path: Path) -> None:
    source = "import time\ndef score(pod, node):\n    try: time.sleep(0.3)\n    except: pass\n    return 1\n"
    (tmp_path / "deaf.py").write_text(source)
    one_pod.add_node("n2")
    arguments = ("--plugin", str(tmp_path / "deaf.py"), "--dry-run")
    with one_pod.running_poller(*arguments) as poller:
        poller.says("scheduling the pods of")
        time.sleep(0.2)
        poller.stop(15)


def test_once_that_is_ended_by_a_signal_has_not_placed_all(one_pod: Cluster) -> None:
    with (
        faulty(one_pod.proxy, Fault("GET", PODS, delay(FOREVER), ALWAYS)) as between,
        one_pod.running_poller("--once", proxy=between.url) as poller,
    ):
        eventually(lambda: between.requests)
        poller.stop(15)
        assert poller.process.returncode == 128 + 15


# --- pods that others touch between the poll and the binding --------------------------------------------


def bind(cluster: Cluster, node_name: str) -> None:
    target = {"apiVersion": "v1", "kind": "Node", "name": node_name}
    body = {"metadata": {"name": "web"}, "target": target}
    cluster.post("/api/v1/namespaces/default/pods/web/binding", body)


def test_bound_by_someone_else_meanwhile(one_pod: Cluster) -> None:
    one_pod.add_node("n2", cpu="1m")  # no place for poller, but another may think so

    with faulty(one_pod.proxy, Fault("POST", BINDING, first(lambda: bind(one_pod, "n2")))) as between:
        done = one_pod.poller(proxy=between.url)
    assert done.returncode == 0
    assert "default/web was bound by someone else before it could be bound" in done.stderr
    assert "something else binds pods of my-scheduler, too. If it is another poller" in done.stderr
    assert one_pod.placement() == {"web": "n2"}
    assert one_pod.events("Scheduled") == []


@pytest.mark.parametrize("failures", [0, 5], ids=["looked up", "not to be looked up at first"])
def test_bound_to_the_same_node_by_someone_else_is_not_claimed(one_pod: Cluster, failures: int) -> None:
    troubles = (
        Fault("POST", BINDING, first(lambda: bind(one_pod, "n1"))),
        Fault("GET", "/pods/web$", answer(500, "no"), times=failures),
    )
    with faulty(one_pod.proxy, *troubles) as between:
        done = one_pod.poller(proxy=between.url)
    assert "default/web was bound by someone else" in done.stderr
    assert one_pod.events("Scheduled") == []


def delete(cluster: Cluster) -> None:
    cluster.api.delete("/api/v1/namespaces/default/pods/web", params={"gracePeriodSeconds": "0"})


def test_deleted_meanwhile(one_pod: Cluster) -> None:
    with faulty(one_pod.proxy, Fault("POST", BINDING, first(lambda: delete(one_pod)))) as between:
        done = one_pod.poller(proxy=between.url)
    assert done.returncode == 0
    assert "default/web was deleted, or deleted and recreated before it could be bound" in done.stderr
    assert "something else binds pods" not in done.stderr
    assert one_pod.events("Scheduled") == []


def test_made_again_meanwhile_it_waits_for_a_decision_of_its_own(one_pod: Cluster) -> None:
    def make_again() -> None:
        delete(one_pod)
        one_pod.add_pod("web", requests={"cpu": "64"})

    with faulty(one_pod.proxy, Fault("POST", BINDING, first(make_again))) as between:
        done = one_pod.poller(proxy=between.url)
    assert "default/web was deleted, or deleted and recreated before it could be bound" in done.stderr
    assert one_pod.placement() == {"web": None}


def test_made_again_before_its_condition_is_written(one_pod: Cluster) -> None:
    delete(one_pod)
    one_pod.add_pod("web", requests={"cpu": "64"})

    def make_again() -> None:
        delete(one_pod)
        one_pod.add_pod("web")

    with faulty(one_pod.proxy, Fault("PATCH", "/pods/web/status", first(make_again))) as between:
        one_pod.poller(proxy=between.url)
    assert "conditions" not in one_pod.pod("web")["status"]
