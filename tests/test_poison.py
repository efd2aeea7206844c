"""One odd object of any kind holds up no other pod: 50 are placed beside it, and it is named once.

Driven through the loop itself, in this process, against a server that takes any object for a good one.
"""

import dataclasses
import logging
import threading
from collections import Counter
from contextlib import suppress
from itertools import islice
from typing import Any

import pytest
from canned import CannedServer, canned
from poisons import LARGE, POISONS, poisoned, whole

from lib.kube import objects
from lib.kube.api import Api
from lib.kube.errors import ApiError
from lib.kube.lease import Candidate, LeaderElection
from lib.scheduling.resources import pod_requests
from lib.service.app import assembled
from lib.service.command_line import CommandLine
from lib.service.options import _options
from lib.service.shutdown import Shutdown
from lib.service.telemetry.report import Report
from poller import tick

Json = dict[str, Any]

NODES, HEALTHY = 6, 50

WAYS = pytest.mark.parametrize("by_watch", [False, True], ids=["polling", "watching"])


def node(name: str, **more: Any) -> Json:
    has = {"cpu": "64", "memory": "256Gi", "pods": "1000", "ephemeral-storage": "1Ti", "k": "1000"}
    labels = {"kubernetes.io/hostname": name, "k": "x", "x": "x"}
    metadata = {"name": name, "uid": f"uid-of-{name}", "resourceVersion": "1", "labels": labels}
    return {"metadata": metadata, "spec": {}, "status": {"allocatable": has}, **more}


def pod(name: str, namespace: str = "default", **spec: Any) -> Json:
    container = {"name": "main", "image": "nginx", "resources": {"requests": {"cpu": "10m"}}}
    labels = {"app": "web"}
    metadata = {"name": name, "namespace": namespace, "uid": f"uid-of-{name}", "resourceVersion": "1"}
    whole_spec = {"schedulerName": "my-scheduler", "containers": [container], **spec}
    return {"metadata": {**metadata, "labels": labels}, "spec": whole_spec, "status": {"phase": "Pending"}}


def healthy() -> list[Json]:
    """50 pods; what some of them need is looked up."""
    web = {"matchLabels": {"app": "web"}}
    near = {"topologyKey": "kubernetes.io/hostname", "labelSelector": web, "namespaceSelector": {}}
    likes = {
        "podAffinity": {
            "preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 1, "podAffinityTerm": near}]
        }
    }
    pods = [pod(f"web-{i}", priority=10) for i in range(HEALTHY)]
    for i, each in enumerate(pods):
        if i % 5 == 0:
            each["spec"]["affinity"] = likes
        elif i % 5 == 1:
            owner = {
                "apiVersion": "apps/v1",
                "kind": "ReplicaSet",
                "name": "web",
                "uid": "u",
                "controller": True,
            }
            each["metadata"]["ownerReferences"] = [owner]
        elif i % 5 == 2:
            each["metadata"]["labels"]["scheduling.x-k8s.io/pod-group"] = "web"
    return pods


def around() -> dict[str, list[Any]]:
    """A cluster with 50 pods that wait, and all that these need."""
    named = {"metadata": {"name": "web", "namespace": "default", "uid": "u", "resourceVersion": "1"}}
    return {
        "nodes": [node(f"n{i}") for i in range(NODES)],
        "pods": [pod("running", nodeName="n0", priority=1), *healthy()],
        "namespaces": [{"metadata": {"name": "default", "labels": {"k": "x"}}}],
        "services": [{**named, "spec": {"selector": {"app": "web"}}}],
        "replicasets": [{**named, "spec": {"selector": {"matchLabels": {"app": "web"}}}}],
        "podgroups": [{**named, "spec": {"minMember": 2}}],
        "poddisruptionbudgets": [{**named, "spec": {"selector": {}}}],
        "events": [],
    }


def place(
    objects: dict[str, list[Any]],
    caplog: pytest.LogCaptureFixture,
    *,
    by_watch: bool = False,
    dry_run: bool = False,
) -> CannedServer:
    """Two ticks of poller. All 50 must be placed; nothing may be said twice, and no traceback at all."""
    with canned(objects, by_watch=by_watch) as server, Shutdown() as shutdown:
        options, _ = _options(CommandLine(proxy=server.url, once=True, dry_run=dry_run))
        options = dataclasses.replace(options, watch=by_watch)
        report = Report(dry_run=dry_run, explain=None)
        with caplog.at_level(logging.INFO), assembled(options, report, shutdown) as poller:
            poller.run_tick(tick)
            for _ in range(1000 if by_watch else 1):
                poller.source.wait(0.05)
                poller.run_tick(tick)
                if len(_placed(caplog)) == HEALTHY:
                    break
            poller.recorder.close()
    assert _placed(caplog) == {f"default/web-{i}" for i in range(HEALTHY)}
    said = Counter(record.getMessage() for record in caplog.records)
    assert [line[:200] for line, times in said.items() if times > 1] == []
    assert [record.getMessage() for record in caplog.records if record.exc_info] == []
    return server


def _placed(caplog: pytest.LogCaptureFixture) -> set[str]:
    lines = [record.getMessage() for record in caplog.records]
    found = {line.split()[0] for line in lines if " is bound to " in line or " would be assigned to " in line}
    return {each for each in found if each.startswith("default/web-")}


IDENTITY = ("metadata", "metadata.name", "metadata.namespace", "metadata.uid", "metadata.resourceVersion")
"""Without them nobody knows what an object is. The API server sees to it that they are there."""


def odd_ones(body: Json, part: tuple[str, ...] = (), namespace: str = "odd") -> list[Json]:
    """The body with each poison in each place of a part of it, under names of their own."""
    found: list[Json] = []
    for poison, value in POISONS.items():
        # So much in each place would be a list of 100 MB: it is tried where a part begins.
        for where, odd in islice(poisoned(body, value, part), 1 if poison == LARGE and part else None):
            if where not in IDENTITY or (where != "metadata" and isinstance(value, str) and value):
                found.append(named(odd, f"odd-{''.join(part[-1:]).lower()}-{len(found)}", namespace))
    return found


def named(body: Json, name: str, namespace: str) -> Json:
    """The body with names of its own in place of each "x", which is what isn't odd of it."""
    metadata = body.get("metadata")
    if not isinstance(metadata, dict):
        return body
    own = {"name": name, "uid": f"uid-of-{name}", "namespace": namespace}
    names = {field: value for field, value in own.items() if metadata.get(field) == "x"}
    return {**body, "metadata": {**metadata, **names}}


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
            cluster["pods"] += odd_pods((top, field), **spec)
    place(cluster, caplog, by_watch=by_watch, dry_run=True)


@WAYS
def test_nodes(caplog: pytest.LogCaptureFixture, by_watch: bool) -> None:
    full, plain = whole(objects.Node), node("x")
    status = {**full["status"], **plain["status"]}
    metadata = {**full["metadata"], "deletionTimestamp": None, "labels": plain["metadata"]["labels"]}
    cluster = around()
    cluster["nodes"] += odd_ones({"metadata": metadata, "spec": full["spec"], "status": status})
    place(cluster, caplog, by_watch=by_watch, dry_run=True)


@WAYS
@pytest.mark.parametrize("kind", [objects.Service, objects.PodDisruptionBudget, objects.Namespace])
def test_what_is_listed(caplog: pytest.LogCaptureFixture, kind: type, by_watch: bool) -> None:
    resource = f"{kind.__name__.lower()}s"
    cluster = around()
    cluster[resource] += odd_ones(whole(kind), namespace="default")
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
        return pod_requests(each)

    monkeypatch.setattr("lib.scheduling.node_info.pod_requests", requests_of)
    cluster = around()
    cluster["pods"].insert(0, pod("odd", nodeName="n0"))
    place(cluster, caplog, by_watch=by_watch, dry_run=True)
    lines = [record.getMessage() for record in caplog.records]
    said = "Pod default/odd could not be taken in: ZeroDivisionError: who would have thought"
    assert lines.count(said) == 1


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


@WAYS
def test_volumes_that_cannot_be_listed_hold_up_pods_with_volumes_only(
    caplog: pytest.LogCaptureFixture, by_watch: bool
) -> None:
    cluster = around()  # its server knows no volumes: the answer is no list of them
    claim = {"name": "data", "persistentVolumeClaim": {"claimName": "data"}}
    cluster["pods"].append(pod("needs-volumes", volumes=[claim]))
    place(cluster, caplog, by_watch=by_watch, dry_run=True)
    assert any("needs-volumes" in each.getMessage() for each in caplog.records)


def test_an_odd_lease_raises_nothing_unforeseen_and_is_not_taken_from_who_holds_it() -> None:
    election = LeaderElection(resource_name="poller", resource_namespace="default")
    body: Json = {
        "metadata": {"name": "poller", "namespace": "default", "uid": "x", "resourceVersion": "1"},
        "spec": {**whole(objects.LeaseSpec), "holderIdentity": "other", "leaseDurationSeconds": 15},
    }
    leading = set()
    for value in POISONS.values():
        for where, odd in poisoned(body, value):
            with canned({"leases": [odd]}) as server, Api(server.url, threading.Event()) as api:
                candidate = Candidate(
                    api, election, lambda: None, clock=lambda: 0.0, last_resort=lambda _: None
                )
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
