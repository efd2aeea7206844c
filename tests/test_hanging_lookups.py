"""If the API server never answers one kind of request, only the pods that need the answer wait."""

import re
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import pytest
from all_cases import ALL_CASES
from cluster import Cluster, Json, RunningPoller, eventually
from faults import ALWAYS, Fault, FaultyProxy, faulty, hold
from service.test_lookups import beside_pods_of_some_namespaces, owned_by
from storage import Volumes, uses

ON_ONE_SERVER = True

SOON = 4.0
"""Seconds in which a pod that needs no answer is bound, also on a busy machine. A lookup that hangs fails
after six seconds: two tries."""

REVIEWED = 2.5
"""An access review that hangs fails after three seconds: it is tried once."""

HOWS = pytest.mark.parametrize("how", [[], ["--watch"]], ids=["polling", "watching"])

OWN_CONSTRAINT: Json = {
    "maxSkew": 100,
    "topologyKey": "kubernetes.io/hostname",
    "whenUnsatisfiable": "ScheduleAnyway",
    "labelSelector": {},
}
"""A pod with a constraint of its own needs no services, nor its controller's selector."""

GROUP_LABEL = {"labels": {"scheduling.x-k8s.io/pod-group": "g"}}


def add_simple_pod(
    cluster: Cluster, name: str, priority: str = "low", scheduler: str = "my-scheduler"
) -> None:
    """A pod for which nothing is looked up."""
    constraints = [OWN_CONSTRAINT]
    cluster.add_pod(name, scheduler, priorityClassName=priority, topologySpreadConstraints=constraints)


def add_preemptor(cluster: Cluster, name: str = "needy") -> None:
    cluster.add_node("n2", cpu="1")
    cluster.add_pod("victim", requests={"cpu": "1"}, nodeName="n2", terminationGracePeriodSeconds=0)
    cluster.add_pod(name, requests={"cpu": "1"}, nodeSelector={"kubernetes.io/hostname": "n2"}, **VIP)


VIP: Json = {"priorityClassName": "high", "topologySpreadConstraints": [OWN_CONSTRAINT]}


def add_pod_with_claim(cluster: Cluster, name: str = "needy") -> None:
    Volumes(cluster).add_bound(f"of-{name}", "n1")
    cluster.add_pod(name, volumes=uses(f"of-{name}"), priorityClassName="low")


def add_pod_with_services(cluster: Cluster, name: str = "needy") -> None:
    cluster.add_pod(name, priorityClassName="low")


def add_pod_with_controller(cluster: Cluster, name: str) -> None:
    cluster.add_pod(name, metadata=owned_by(f"of-{name}"), priorityClassName="low")


def add_pod_beside_others(cluster: Cluster, name: str) -> None:
    cluster.add_pod(name, affinity=beside_pods_of_some_namespaces(), priorityClassName="low")


def add_pod_in_group(cluster: Cluster, name: str) -> None:
    cluster.add_pod(name, metadata=GROUP_LABEL, priorityClassName="low")


@dataclass(frozen=True)
class Lookup:
    """path: the regex of the requests that hang. add: adds a pod with a name, which needs the answer."""

    path: str
    add: Callable[..., None]


LOOKUPS = {
    "services": Lookup(r"/services\?(?!.*watch=1)", add_pod_with_services),
    "controller": Lookup("/replicasets/", add_pod_with_controller),
    "namespaces": Lookup(r"/namespaces\?", add_pod_beside_others),
    "group": Lookup("/podgroups/", add_pod_in_group),
    "budgets": Lookup("/poddisruptionbudgets", add_preemptor),
    "claims": Lookup(r"/persistentvolumeclaims\?(?!.*watch=1)", add_pod_with_claim),
    "disks": Lookup(r"/csinodes\?(?!.*watch=1)", add_pod_with_claim),
}

TOGETHER = [["services", "namespaces", "budgets", "claims"], ["controller", "group", "disks"]]
"""Sets in which no lookup follows another: controllers are asked for after services, disks after claims."""


@contextmanager
def hanging(
    cluster: Cluster, path: str, *options: str, method: str = "GET"
) -> Iterator[tuple[RunningPoller, FaultyProxy, threading.Event]]:
    """A poller, and what lets the requests go on that hang until then."""
    go_on = threading.Event()
    with (
        faulty(cluster.proxy, Fault(method, path, hold(go_on), ALWAYS)) as between,
        cluster.running_poller(*options, proxy=between.url) as poller,
    ):
        yield poller, between, go_on


def has_asked(between: FaultyProxy, what: str) -> None:
    eventually(lambda: any(re.search(what, path) for _, path in between.requests))


@pytest.fixture
def one_node(priorities: Cluster) -> Iterator[Cluster]:
    priorities.add_node("n1")
    yield priorities
    priorities.clear()  # pods first, then what they use
    Volumes(priorities).clear()


@HOWS
@pytest.mark.parametrize("kinds", [*TOGETHER, *([kind] for kind in LOOKUPS if ALL_CASES)], ids=" ".join)
def test_only_the_pods_that_need_an_answer_wait(one_node: Cluster, kinds: list[str], how: list[str]) -> None:
    paths = [LOOKUPS[kind].path for kind in kinds]
    for kind in kinds:
        LOOKUPS[kind].add(one_node, f"needy-{kind}")
    with hanging(one_node, "|".join(paths), *how) as (poller, between, go_on):
        for path in paths:
            has_asked(between, path)
        for i in range(3):  # also while the first lookups hang, and when they are made again
            add_simple_pod(one_node, f"web-{i}")
            poller.says(f"default/web-{i} is bound to n1", SOON)
            time.sleep(1)
        assert not re.search("default/needy-.* is bound", poller.said)
        go_on.set()
        for kind in kinds:
            poller.says(f"default/needy-{kind} is bound")


@HOWS
def test_a_pod_that_preempts_none_does_not_wait_for_disruption_budgets(
    one_node: Cluster, how: list[str]
) -> None:
    add_preemptor(one_node)
    with hanging(one_node, "/poddisruptionbudgets", *how) as (poller, between, _):
        has_asked(between, "/poddisruptionbudgets")
        add_simple_pod(one_node, "web-0", priority="high")
        poller.says("default/web-0 is bound to n1", SOON)
        assert one_node.pod("victim")["spec"]["nodeName"] == "n2"


@pytest.mark.parametrize(
    ("resource", "add", "said"),
    [
        ("services", add_pod_with_services, "services can't be watched, so they are listed"),
        ("csinodes", add_pod_with_claim, "default/needy: volumes can't be read: WATCH "),
    ],
    ids=["services", "disks"],
)
def test_a_watch_that_never_opens(
    one_node: Cluster, resource: str, add: Callable[[Cluster], object], said: str
) -> None:
    add(one_node)
    path = rf"/{resource}\?.*watch=1"
    with hanging(one_node, path, "--watch") as (poller, between, _):
        has_asked(between, path)
        add_simple_pod(one_node, "web-0")
        poller.says("default/web-0 is bound to n1", SOON)
        poller.says(said)


@HOWS
def test_what_is_waited_for_is_said(one_node: Cluster, how: list[str]) -> None:
    lookup = LOOKUPS["services"]
    lookup.add(one_node, "needy")
    with hanging(one_node, lookup.path, *how) as (poller, between, _):
        has_asked(between, lookup.path)

        def is_said() -> bool:
            poller.process.send_signal(signal.SIGUSR1)
            return "default/needy (active): services of namespace default" in poller.said

        eventually(is_said, SOON)
        assert "the API server has not answered yet" in poller.said
        poller.says("services of namespace default can't be looked up: ")


@HOWS
@pytest.mark.parametrize("kind", ["services", "claims"])
def test_a_signal_ends_poller_while_a_lookup_hangs(one_node: Cluster, kind: str, how: list[str]) -> None:
    lookup = LOOKUPS[kind]
    lookup.add(one_node, "needy")
    with hanging(one_node, lookup.path, *how) as (poller, between, _):
        has_asked(between, lookup.path)
        began = time.monotonic()
        poller.stop(signal.SIGTERM)
        assert time.monotonic() - began < SOON
        assert poller.process.returncode == 0
        assert "Traceback" not in poller.said


@pytest.mark.parametrize("kind", ["services", "claims"])
def test_once_waits_for_lookups_until_they_fail(one_node: Cluster, kind: str) -> None:
    lookup = LOOKUPS[kind]
    lookup.add(one_node, "needy")
    add_simple_pod(one_node, "web-0")
    with faulty(one_node.proxy, Fault("GET", lookup.path, hold(threading.Event()), ALWAYS)) as between:
        done = one_node.poller(proxy=between.url)
    assert one_node.placement() == {"needy": None, "web-0": "n1"}, done.stderr
    assert "no answer within 3 s" in done.stderr


@HOWS
@pytest.mark.parametrize(
    ("method", "path", "options"),
    [
        ("POST", "/selfsubjectaccessreviews", []),
        ("GET", "/namespaces/default$", ["--namespace=default"]),
        ("GET", "/leases/kube-scheduler$", ["--scheduler-name=default-scheduler"]),
        ("GET", r"/pods\?.*schedulerName%21%3D.*resourceVersion=0", []),
    ],
    ids=["rights", "namespace", "lease", "misspelled"],
)
def test_no_pod_waits_for_the_checks_at_the_start(
    one_node: Cluster, method: str, path: str, options: list[str], how: list[str]
) -> None:
    add_simple_pod(one_node, "web-0", scheduler="default-scheduler" if "lease" in path else "my-scheduler")
    with hanging(one_node, path, *how, *options, method=method) as (poller, between, _):
        has_asked(between, "/pods")
        poller.says("default/web-0 is bound to n1", REVIEWED if method == "POST" else SOON)
        if method == "GET":
            has_asked(between, path)
