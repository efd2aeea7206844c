"""Extenders: a small real one beside poller, asked as kube-scheduler would ask it."""

import json
import socket
import ssl
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
import trustme
from cluster import Cluster, eventually
from configs import load_config
from extenders import configuration, extender

from lib.kube.api import Api
from lib.kube.objects import ObjectMeta, Pod
from lib.scheduling.status import ExtenderError
from lib.service.http_extender import connected

ON_ONE_SERVER = True

GPU = {"example.com/gpu": "1"}
TRAINING = [{"name": "main", "image": "nginx", "resources": {"requests": GPU, "limits": GPU}}]


# What kube-scheduler 1.36 was seen to send to an extender, without the objects and uids in it.
FILTER = {"Pod": "…", "Nodes": {"metadata": {}, "items": ["…", "…"]}, "NodeNames": None}
FILTER_BY_NAME = {"Pod": "…", "Nodes": None, "NodeNames": ["n1", "n2"]}
BIND = {"PodName", "PodNamespace", "PodUID", "Node"}
ONE = {"Pods": ["…"], "NumPDBViolations": 0}
PREEMPT = {"Pod": "…", "NodeNameToVictims": {"n1": ONE, "n2": ONE}, "NodeNameToMetaVictims": None}
ONE_BY_UID = {"Pods": [{"UID": "…"}], "NumPDBViolations": 0}
PREEMPT_BY_UID = {
    "Pod": "…",
    "NodeNameToVictims": None,
    "NodeNameToMetaVictims": {"n1": ONE_BY_UID, "n2": ONE_BY_UID},
}


def outline(body: Any) -> Any:
    """What was sent, without the objects and uids in it."""
    if isinstance(body, list):
        return [outline(each) for each in body]
    if not isinstance(body, dict):
        return body
    if body.get("metadata"):
        return "…"
    return {name: "…" if name == "UID" else outline(value) for name, value in body.items()}


def names(body: Any) -> list[str]:
    return [each["metadata"]["name"] for each in body["Nodes"]["items"]]


def without_n1(body: Any) -> Any:
    nodes = [each for each in body["Nodes"]["items"] if each["metadata"]["name"] != "n1"]
    return {"Nodes": {"items": nodes}, "FailedNodes": {"n1": "node(s) had no music"}}


def test_an_extender_filters_and_scores(cluster: Cluster) -> None:
    for name in ("n1", "n2", "n3"):
        cluster.add_node(name)
    cluster.add_pod("web")
    scores = [{"Host": "n2", "Score": 1}, {"Host": "n3", "Score": 10}]
    with extender({"filter": without_n1, "prioritize": lambda body: scores}) as running:
        options = configuration(
            cluster.folder,
            {"urlPrefix": running.url, "filterVerb": "filter", "prioritizeVerb": "prioritize", "weight": 5},
        )
        done = cluster.poller(options, "--explain=json", afresh=True)
    assert done.returncode == 0, done.stderr
    assert cluster.placement() == {"web": "n3"}
    explained = json.loads(done.stdout)["nodes"]
    assert explained["n1"] == {"rejected_by": running.url, "reasons": ["node(s) had no music"]}
    assert [explained[name]["scores"][running.url] for name in ("n2", "n3")] == [50, 500]
    (filtered,), (scored,) = running.bodies("filter"), running.bodies("prioritize")
    assert sorted(names(filtered)) == ["n1", "n2", "n3"]
    assert sorted(names(scored)) == ["n2", "n3"]
    assert outline(scored) == FILTER
    # The objects are whole: with what poller itself never looks at.
    assert filtered["Pod"]["spec"]["terminationGracePeriodSeconds"] == 30
    assert filtered["Nodes"]["items"][0]["status"]["conditions"]


def test_one_that_knows_the_nodes_is_sent_their_names(cluster: Cluster) -> None:
    cluster.add_node("n1")
    cluster.add_node("n2")
    cluster.add_pod("web")

    def only_n2(body: Any) -> Any:  # in lower case, as extenders written for older versions answer
        return {"nodenames": ["n2"], "failednodes": {"n1": "node(s) had no music"}}

    with extender({"filter": only_n2}) as running:
        options = {"urlPrefix": running.url, "filterVerb": "filter", "nodeCacheCapable": True}
        cluster.poller(configuration(cluster.folder, options))
    assert cluster.placement() == {"web": "n2"}
    (body,) = running.bodies("filter")
    assert outline(body) == FILTER_BY_NAME


def test_only_pods_that_request_what_it_manages_are_its_business(cluster: Cluster) -> None:
    cluster.add_node("n1")
    cluster.add_pod("web")
    cluster.add_pod("train", containers=TRAINING)  # which no node has: that is the extender's affair
    with extender({"filter": lambda body: {"Nodes": body["Nodes"]}}) as running:
        managed = [{"name": "example.com/gpu", "ignoredByScheduler": True}]
        options = {"urlPrefix": running.url, "filterVerb": "filter", "managedResources": managed}
        cluster.poller(configuration(cluster.folder, options))
    assert cluster.placement() == {"web": "n1", "train": "n1"}
    assert [body["Pod"]["metadata"]["name"] for body in running.bodies("filter")] == ["train"]


def test_a_pod_that_an_extender_wants_nowhere_is_told_why(cluster: Cluster) -> None:
    for name in ("n1", "n2", "n3"):
        cluster.add_node(name)
    cluster.add_pod("web")
    answer = {
        "Nodes": {"items": []},
        "FailedNodes": {"n1": "no music", "n2": "no music"},
        "FailedAndUnresolvableNodes": {"n2": "no stage"},
    }
    with extender({"filter": lambda body: answer}) as running:
        config = configuration(cluster.folder, {"urlPrefix": running.url, "filterVerb": "filter"})
        assert cluster.poller(config).returncode == 3
    (event,) = cluster.events("FailedScheduling")
    left_out = f"1 node(s) were left out by extender {running.url}"
    assert event["message"].startswith(f"0/3 nodes are available: 1 no music, 1 no stage, {left_out}. ")


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (lambda body: 500, "500 Internal Server Error (out of order)"),
        (lambda body: {"Error": "no mood"}, "says: no mood"),
        (lambda body: ["what?"], "answered something else: "),
        (lambda body: {"Nodes": {"items": [{"metadata": {"name": "n9"}}]}}, "wasn't sent: n9"),
        (lambda body: time.sleep(60), "no answer within 0.2 s"),
    ],
    ids=["status", "error", "nonsense", "strange node", "too late"],
)
def test_one_that_fails_fails_the_pods_cycle_unless_it_is_ignorable(
    cluster: Cluster, answer: Any, words: str
) -> None:
    cluster.add_node("n1")
    cluster.add_pod("web")
    with extender({"filter": answer}) as running:
        seconds = "200ms" if "no answer" in words else "30s"
        options = {"urlPrefix": running.url, "filterVerb": "filter", "httpTimeout": seconds}
        done = cluster.poller(configuration(cluster.folder, options))
        assert done.returncode == 3
        assert f"default/web: extender {running.url}/filter" in done.stderr
        assert words in done.stderr
        (condition,) = [
            each for each in cluster.pod("web")["status"]["conditions"] if each["type"] == "PodScheduled"
        ]
        assert condition["reason"] == "SchedulerError"
        done = cluster.poller(configuration(cluster.folder, options | {"ignorable": True}))
    assert done.returncode == 0
    assert words in done.stderr
    assert "going on without it" in done.stderr
    assert cluster.placement() == {"web": "n1"}


def test_scores_that_can_not_be_had_hold_up_no_pod(cluster: Cluster) -> None:
    cluster.add_node("n1")
    cluster.add_node("n2")
    cluster.add_pod("web")
    nowhere = {"urlPrefix": "http://127.0.0.1:1", "prioritizeVerb": "prioritize", "weight": 1}
    done = cluster.poller(configuration(cluster.folder, nowhere))
    assert done.returncode == 0
    assert "extender http://127.0.0.1:1/prioritize: " in done.stderr
    assert "going on without its scores" in done.stderr


def test_an_extender_may_bind(cluster: Cluster) -> None:
    cluster.add_node("n1")
    cluster.add_pod("web")

    def bind(body: Any) -> Any:
        pod = f"/api/v1/namespaces/{body['PodNamespace']}/pods/{body['PodName']}"
        metadata = {"name": body["PodName"], "uid": body["PodUID"], "annotations": {"bound-by": "extender"}}
        cluster.post(f"{pod}/binding", {"metadata": metadata, "target": {"name": body["Node"]}})
        return {}

    with extender({"bind": bind}) as running:
        done = cluster.poller(configuration(cluster.folder, {"urlPrefix": running.url, "bindVerb": "bind"}))
    assert done.returncode == 0, done.stderr
    (body,) = running.bodies("bind")
    assert body.keys() == BIND
    assert cluster.placement() == {"web": "n1"}
    assert cluster.pod("web")["metadata"]["annotations"]["bound-by"] == "extender"
    assert [event["message"] for event in cluster.events("Scheduled")] == [
        "Successfully assigned default/web to n1"
    ]


@pytest.mark.parametrize("cache_capable", [False, True])
def test_an_extender_chooses_who_is_preempted(priorities: Cluster, cache_capable: bool) -> None:
    cluster = priorities
    for i in (1, 2):
        cluster.add_node(f"n{i}")
        victim = cluster.add_pod(f"old{i}", requests={"cpu": "4"}, nodeName=f"n{i}")["metadata"]["uid"]
    cluster.add_pod("urgent", requests={"cpu": "4"}, priorityClassName="high")

    def only_n2(body: Any) -> Any:
        return {"NodeNameToMetaVictims": {"n2": {"Pods": [{"UID": victim}], "NumPDBViolations": 0}}}

    with extender({"preempt": only_n2}) as running:
        options = {"urlPrefix": running.url, "preemptVerb": "preempt", "nodeCacheCapable": cache_capable}
        with cluster.running_poller(configuration(cluster.folder, options)):
            eventually(lambda: cluster.pod("urgent")["status"].get("nominatedNodeName") == "n2")
            eventually(lambda: "deletionTimestamp" in cluster.pod("old2")["metadata"])
    assert "deletionTimestamp" not in cluster.pod("old1")["metadata"]
    body = running.bodies("preempt")[0]
    assert outline(body) == (PREEMPT_BY_UID if cache_capable else PREEMPT)


def test_an_extender_may_want_to_know_who_asks(cluster: Cluster) -> None:
    ca, stranger = trustme.CA(), trustme.CA()
    ca.cert_pem.write_to_path(str(cluster.folder / "ca.pem"))
    tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    ca.issue_cert("music.example").configure_cert(tls)
    ca.configure_trust(tls)
    tls.verify_mode = ssl.CERT_REQUIRED
    cluster.add_node("n1")
    cluster.add_pod("web")

    def as_client_of(issuer: trustme.CA) -> dict[str, str]:
        file = cluster.folder / "client.pem"
        issuer.issue_cert("poller").private_key_and_cert_chain_pem.write_to_path(str(file))
        own = {"certFile": str(file), "keyFile": str(file)}
        return {"caFile": f"{cluster.folder}/ca.pem", "serverName": "music.example", **own}

    with extender({"filter": lambda body: {"Nodes": body["Nodes"]}}, tls) as running:
        options = {"urlPrefix": running.url, "filterVerb": "filter"}
        for who, status in ((stranger, 3), (ca, 0)):
            config = configuration(cluster.folder, options | {"tlsConfig": as_client_of(who)})
            assert cluster.poller(config).returncode == status


def test_none_is_asked_to_bind_by_one_that_does_not_lead(tmp_path: Path) -> None:
    with extender({"bind": lambda body: {}}) as running:
        configuration(tmp_path, {"urlPrefix": running.url, "bindVerb": "bind"})
        config = load_config(tmp_path / "scheduler.yaml")
        with (
            Api(running.url, threading.Event(), may_write=lambda: False) as api,
            connected(config.extenders, api, print) as extenders,
            pytest.raises(ExtenderError, match="is not sent: another may be leading by now"),
        ):
            extenders.bind(Pod(ObjectMeta(name="web")), "n1")
        assert running.sent == []


def test_one_whose_answer_trickles_is_given_up_in_time(tmp_path: Path) -> None:
    """Each byte comes in time, and all of them never do."""
    ended = threading.Event()

    def trickle(listener: socket.socket) -> None:
        with suppress(OSError), listener.accept()[0] as client:
            client.recv(1 << 16)
            client.sendall(b"HTTP/1.1 200 OK\r\nX-Slow: ")
            while not ended.wait(0.05):
                client.sendall(b"x")

    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=trickle, args=(listener,), daemon=True)
        thread.start()
        url = f"http://127.0.0.1:{listener.getsockname()[1]}"
        configuration(tmp_path, {"urlPrefix": url, "bindVerb": "bind", "httpTimeout": "500ms"})
        config = load_config(tmp_path / "scheduler.yaml")
        with (
            Api(url, threading.Event()) as api,
            connected(config.extenders, api, print) as extenders,
            pytest.raises(ExtenderError, match=r"no answer within 0.5 s"),
        ):
            extenders.bind(Pod(ObjectMeta(name="web", namespace="default")), "n1")
        ended.set()
        thread.join(30)
