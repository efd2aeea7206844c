"""What events and conditions say: the fields and words that kube-scheduler was seen to write."""

import signal
from uuid import uuid4

import pytest
from cluster import Cluster, Json, eventually
from faults import ALWAYS, Fault, answer, delay, faulty, lose_answer, refuse

ON_ONE_SERVER = True

INVALID = '{"kind":"Status","status":"Failure","message":"no","code":422}'


def events_of(cluster: Cluster, name: str, reason: str) -> list[Json]:
    found = cluster.events(reason)
    return [each for each in found if each["involvedObject"]["name"] == name]


def condition(cluster: Cluster, name: str) -> Json:
    (found,) = cluster.pod(name)["status"]["conditions"]
    return dict(found)


@pytest.mark.parametrize("servers", ["embedded", "real"], indirect=True)
def test_an_event_says_who_did_what_and_for_whom(priorities: Cluster) -> None:
    priorities.add_node("n1", cpu="1")
    priorities.add_pod("old", requests={"cpu": "900m"}, nodeName="n1", priorityClassName="low")
    vip = priorities.add_pod("vip", requests={"cpu": "900m"}, priorityClassName="high")
    with priorities.running_poller():
        eventually(lambda: priorities.events("Preempted"))
        now = {"gracePeriodSeconds": "0"}
        priorities.api.delete("/api/v1/namespaces/default/pods/old", params=now)
        eventually(lambda: priorities.events("Scheduled"))
    did = {"Scheduled": "Binding", "FailedScheduling": "Scheduling", "Preempted": "Preempting"}
    for reason, action in did.items():
        (event,) = priorities.events(reason)
        assert (event["action"], event["reportingComponent"]) == (action, "my-scheduler")
        assert event["reportingInstance"].startswith("my-scheduler-")
        assert event["involvedObject"]["resourceVersion"]
    (preempted,) = priorities.events("Preempted")
    related = {key: preempted["related"][key] for key in ("kind", "namespace", "name", "uid", "apiVersion")}
    uid = vip["metadata"]["uid"]
    assert related == {
        "kind": "Pod", "namespace": "default", "name": "vip", "uid": uid, "apiVersion": "v1"
    }  # fmt: skip
    found = priorities.kubectl("get", "events", "--field-selector", "reportingComponent=my-scheduler")
    assert all(reason in found for reason in did)


@pytest.mark.parametrize("servers", ["embedded", "real"], indirect=True)
def test_a_condition_says_which_generation_of_the_pod_it_is_about(cluster: Cluster) -> None:
    cluster.add_node("n1")
    cluster.add_pod("big", requests={"cpu": "64"})
    assert cluster.poller().returncode == 3
    assert condition(cluster, "big")["observedGeneration"] == 1


@pytest.mark.parametrize("servers", ["embedded", "real"], indirect=True)
def test_a_binding_that_failed_is_told_of_on_the_pod(cluster: Cluster) -> None:
    cluster.add_node("n1")
    cluster.add_pod("web")
    with faulty(cluster.proxy, Fault("POST", "/binding$", answer(422, INVALID), ALWAYS)) as between:
        cluster.poller(proxy=between.url)
    (event,) = events_of(cluster, "web", "FailedScheduling")
    assert event["message"].startswith('running Bind plugin "DefaultBinder": POST ')
    assert event["message"].endswith("422 no")
    said = condition(cluster, "web")
    assert (said["status"], said["reason"]) == ("False", "SchedulerError")
    assert said["message"] == event["message"]
    assert "SchedulerError" in cluster.kubectl("get", "pod", "web", "-o", "yaml")
    assert "FailedScheduling" in cluster.kubectl("describe", "pod", "web")


def test_a_pod_that_may_be_bound_is_not_said_to_be_unscheduled(cluster: Cluster) -> None:
    """The API server bound it, but poller can't find that out."""
    cluster.add_node("n1")
    cluster.add_pod("web")
    faults = (
        Fault("POST", "/binding$", lose_answer()),
        Fault("GET", "/pods/web$", answer(500, "no"), ALWAYS),
    )
    with faulty(cluster.proxy, *faults) as between:
        assert "default/web: binding failed" in cluster.poller(proxy=between.url).stderr
    assert [each for each in cluster.pod("web")["status"]["conditions"] if each["status"] == "False"] == []
    assert cluster.events("FailedScheduling") == []


def test_events_that_can_not_be_read_hold_up_no_binding(cluster: Cluster) -> None:
    """Events often have an etcd of their own. No binding depends on it."""
    cluster.add_node("n1")
    for i in range(3):
        cluster.add_pod(f"big-{i}", requests={"cpu": "64"})
    cluster.add_pod("web")
    with (
        faulty(cluster.proxy, Fault("GET", "/events", delay(600), ALWAYS)) as between,
        cluster.running_poller(proxy=between.url) as poller,
    ):
        poller.says("default/web is bound to n1", within=20)
        eventually(lambda: len(cluster.events("FailedScheduling")) == 3, within=20)
        cluster.add_pod("next")
        poller.says("default/next is bound to n1", within=20)
        assert [path for method, path in between.requests if method == "GET" and "/events" in path] == []


def test_the_lease_has_events_of_who_leads(cluster: Cluster) -> None:
    path = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases"
    lease = f"poller-{uuid4().hex[:8]}"
    with (
        faulty(
            cluster.proxy,
            Fault("POST", "/namespaces/kube-system/events", delay(1)),  # until poller is told to end
            Fault("POST", "/namespaces/kube-system/events", refuse()),
        ) as between,
        cluster.running_poller(
            "--verbose", "--leader-elect", f"--leader-elect-resource-name={lease}", proxy=between.url
        ) as poller,
    ):
        poller.says("became leader")
        identity = cluster.api.get(f"{path}/{lease}").json()["spec"]["holderIdentity"]
        poller.stop(signal.SIGTERM)
    query = {"fieldSelector": f"involvedObject.name={lease},reason=LeaderElection"}
    found = cluster.api.get("/api/v1/namespaces/kube-system/events", params=query).json()["items"]
    messages = {each["message"] for each in found}
    assert messages == {f"{identity} became leader", f"{identity} stopped leading"}, poller.said
    assert {each["involvedObject"]["kind"] for each in found} == {"Lease"}
    assert "became leader" in cluster.kubectl("describe", "lease", lease, "-n", "kube-system")
    cluster.api.delete(f"{path}/{lease}")
