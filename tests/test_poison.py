"""One odd object of any kind holds up no other pod: 50 are placed beside it, and it is named once.

Driven through the loop itself, in this process, against a server that takes any object for a good one.
"""

import threading
from contextlib import suppress
from typing import Any

import pytest
from canned import canned
from kube.test_lease import Machine
from poisoned_cluster import WAYS, Json, around, node, one_way, place, pod
from poisons import POISONS, odd_ones, poisoned, whole

from lib.kube import objects
from lib.kube.api import Api
from lib.kube.election import LeaderElection
from lib.kube.errors import ApiError
from lib.kube.lease import Candidate
from lib.scheduling.cache import Cache
from lib.scheduling.decision import Decision
from lib.scheduling.resources import counted_requests
from lib.scheduling.scheduling_cycle import Scheduler


def odd_pods(part: tuple[str, str], **spec: Any) -> list[Json]:
    """Pods of which one thing is odd: a plain pod with this part of a whole one, in which it is."""
    full = whole(objects.Pod)
    full["metadata"]["deletionTimestamp"] = None
    body = pod("x", "x", **spec)
    body["metadata"]["uid"] = "x"
    top, field = part
    body[top] = {**body[top], field: full[top][field]}
    return odd_ones(body, part)


@WAYS
@pytest.mark.parametrize("node_name", ["", "n1"], ids=["waiting", "running"])
def test_pods(caplog: pytest.LogCaptureFixture, node_name: str, by_watch: bool) -> None:
    full = whole(objects.Pod)
    cluster = around()
    spec = {"nodeName": node_name} if node_name else {}
    for top in ("metadata", "spec", "status"):
        for field in full[top]:
            cluster["pods"] += odd_pods((top, field), **spec)[one_way(by_watch)]
    place(cluster, caplog, by_watch=by_watch, dry_run=True)


@WAYS
def test_nodes(caplog: pytest.LogCaptureFixture, by_watch: bool) -> None:
    full, plain = whole(objects.Node), node("x")
    status = {**full["status"], **plain["status"]}
    metadata = {**full["metadata"], "deletionTimestamp": None, "labels": plain["metadata"]["labels"]}
    cluster = around()
    odd = odd_ones({"metadata": metadata, "spec": full["spec"], "status": status})
    cluster["nodes"] += odd[one_way(by_watch)]
    place(cluster, caplog, by_watch=by_watch, dry_run=True)


@WAYS
@pytest.mark.parametrize("kind", [objects.Service, objects.PodDisruptionBudget, objects.Namespace])
def test_what_is_listed(caplog: pytest.LogCaptureFixture, kind: type, by_watch: bool) -> None:
    resource = f"{kind.__name__.lower()}s"
    cluster = around()
    cluster[resource] += odd_ones(whole(kind), namespace="default")[one_way(by_watch)]
    place(cluster, caplog, by_watch=by_watch, dry_run=True)


@pytest.mark.parametrize(
    "kind", [objects.ReplicaSet, objects.StatefulSet, objects.ReplicationController, objects.PodGroup]
)
def test_what_a_pod_names(caplog: pytest.LogCaptureFixture, kind: type) -> None:
    resource = f"{kind.__name__.lower()}s"
    version = "v1" if kind is objects.ReplicationController else "apps/v1"
    cluster = around()
    cluster.setdefault(resource, [])
    for i, odd in enumerate(odd_ones(whole(kind), namespace="default")):
        name = odd["metadata"]["name"] if isinstance(odd.get("metadata"), dict) else "none"
        its_pod = pod(f"of-{i}")
        if kind is objects.PodGroup:
            its_pod["metadata"]["labels"]["scheduling.x-k8s.io/pod-group"] = str(name)
        owner = {"apiVersion": version, "kind": kind.__name__, "name": name, "uid": "u", "controller": True}
        its_pod["metadata"]["ownerReferences"] = [owner]
        cluster[resource].append(odd)
        cluster["pods"].append(its_pod)
    place(cluster, caplog, dry_run=True)


def test_events(caplog: pytest.LogCaptureFixture) -> None:
    cluster = around()
    for i, odd in enumerate(odd_ones(whole(objects.Event), namespace="default")):
        about = odd.get("involvedObject")
        if isinstance(about, dict) and about.get("uid") == "x":
            odd["involvedObject"] = {**about, "uid": f"uid-of-huge-{i}"}
        if odd.get("source") == {"component": "x"}:
            odd["source"] = {"component": "my-scheduler"}
        cluster["events"].append(odd)
        if i % 10 == 0:
            cluster["pods"].append(pod(f"huge-{i}", nodeSelector={"no": "node"}))
    place(cluster, caplog)


@WAYS
def test_what_goes_wrong_in_an_unforeseen_way_costs_one_object(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch, by_watch: bool
) -> None:
    def requests_of(each: objects.Pod) -> Any:
        if each.metadata.name == "odd":
            raise ZeroDivisionError("who would have thought")
        return counted_requests(each)

    monkeypatch.setattr("lib.scheduling.node_info.counted_requests", requests_of)
    cluster = around()
    cluster["pods"].insert(0, pod("odd", nodeName="n0"))
    place(cluster, caplog, by_watch=by_watch, dry_run=True)
    lines = [record.getMessage() for record in caplog.records]
    said = "Pod default/odd could not be processed: ZeroDivisionError: who would have thought"
    assert lines.count(said) == 1


@WAYS
def test_a_decision_that_fails_in_an_unforeseen_way_costs_its_own_pods_only(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch, by_watch: bool
) -> None:
    real = Scheduler.schedule_one

    def decide(scheduler: Scheduler, pod: objects.Pod, cache: Cache) -> Decision:
        if pod.metadata.name == "odd":
            raise ZeroDivisionError("who would have thought")
        return real(scheduler, pod, cache)

    monkeypatch.setattr(Scheduler, "schedule_one", decide)
    cluster = around()
    cluster["pods"].insert(0, pod("odd", priority=1000))
    place(cluster, caplog, by_watch=by_watch, dry_run=True)
    why = "deciding failed: ZeroDivisionError: who would have thought"
    assert len([each for each in caplog.records if why in each.getMessage()]) == 1


@pytest.mark.parametrize("readable", [True, False])
def test_a_pod_is_not_evicted_that_an_unreadable_budget_may_protect(
    caplog: pytest.LogCaptureFixture, readable: bool
) -> None:
    cluster = around()
    running = pod("low", nodeName="full", priority=1)
    running["spec"]["containers"][0]["resources"]["requests"]["cpu"] = "8"
    vip = pod("vip", priority=100, nodeSelector={"only": "full"})
    vip["spec"]["containers"][0]["resources"]["requests"]["cpu"] = "8"
    full = node("full")
    full["status"]["allocatable"]["cpu"] = "8"
    full["metadata"]["labels"]["only"] = "full"
    cluster["nodes"].append(full)
    cluster["pods"] += [running, vip]
    status = {"disruptionsAllowed": 0 if readable else "none"}
    budget = {"metadata": {"name": "odd", "namespace": "default"}, "spec": {"selector": {}}, "status": status}
    cluster["poddisruptionbudgets"] = [budget]
    assert place(cluster, caplog).deleted == (["low"] if readable else [])


def test_an_odd_lease_raises_nothing_unforeseen_and_is_not_taken_from_who_holds_it() -> None:
    election = LeaderElection(resource_name="poller", resource_namespace="default")
    body: Json = {
        "metadata": {"name": "poller", "namespace": "default", "uid": "x", "resourceVersion": "1"},
        "spec": {**whole(objects.LeaseSpec), "holderIdentity": "other", "leaseDurationSeconds": 15},
    }
    leading = set()
    for value in POISONS.values():
        for where, odd in poisoned(body, value):
            with (
                canned({"leases": [odd]}) as server,
                Api(server.url, threading.Event(), system=Machine(0.0)) as api,
            ):
                candidate = Candidate(api, election, lambda: None)
                with suppress(ApiError):
                    candidate.try_once()
                if candidate.leads():
                    leading.add(where)
    # A lease that isn't there, or that says that nobody holds it or for no time, is free.
    assert leading <= {
        "metadata",
        "metadata.name",
        "metadata.namespace",
        "spec",
        "spec.holderIdentity",
        "spec.leaseDurationSeconds",
    }
