"""Leader election: one poller writes at a time, whatever happens, and another takes over in time."""

import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from uuid import uuid4

import pytest
from cluster import PATIENCE, Cluster, RunningPoller, eventually
from faults import ALWAYS, Effect, Fault, FaultyProxy, answer, delay, faulty, refuse
from poller_process import POLLER, with_constant

ON_ONE_SERVER = True

LEASES = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases"
LEASE, RENEW, RETRY = 10.0, 6.0, 0.5
"""Seconds: the lease duration, the renew deadline, the retry period."""

BINDING = "/binding$"
WE_LEAD = "became leader"
WRITES = ("POST", "PUT", "PATCH", "DELETE")


@pytest.fixture
def lease(cluster: Cluster) -> Iterator[str]:
    """The name of a lease that nobody has held, in a cluster with a node n1."""
    cluster.add_node("n1")
    name = f"poller-{uuid4().hex[:8]}"
    yield name
    cluster.api.delete(f"{LEASES}/{name}")


@contextmanager
def candidate(
    cluster: Cluster, lease: str, *more: str, proxy: str = "", script: Path = POLLER, afresh: bool = False
) -> Iterator[RunningPoller]:
    options = (
        "--leader-elect",
        f"--leader-elect-lease-duration={LEASE}",
        f"--leader-elect-renew-deadline={RENEW}",
        f"--leader-elect-retry-period={RETRY}",
        f"--leader-elect-resource-name={lease}",
        "--bind-workers=8",  # so that a burst takes a while
    )
    with cluster.running_poller(*options, *more, proxy=proxy, script=script, afresh=afresh) as poller:
        yield poller


@contextmanager
def leader(cluster: Cluster, lease: str, *faults: Fault) -> Iterator[tuple[RunningPoller, FaultyProxy]]:
    """A poller that leads, through a proxy of its own."""
    with (
        faulty(cluster.proxy, *faults) as between,
        candidate(cluster, lease, proxy=between.url) as poller,
    ):
        poller.says(WE_LEAD)
        yield poller, between


def holder(cluster: Cluster, lease: str) -> str:
    return str(cluster.api.get(f"{LEASES}/{lease}").json()["spec"]["holderIdentity"])


def writes(between: FaultyProxy) -> list[tuple[str, str]]:
    return [(method, path) for method, path in between.requests if method != "GET"]


def bindings(between: FaultyProxy) -> int:
    return sum(path.endswith("/binding") for _, path in between.requests)


def lost(poller: RunningPoller) -> None:
    """Wait for the end of one that has lost its lease."""
    assert poller.process.wait(PATIENCE) == 1, poller.said
    assert "lost the lease kube-system/poller-" in poller.said


def test_one_leads_and_the_other_takes_over_when_it_ends(cluster: Cluster, lease: str) -> None:
    with (
        leader(cluster, lease) as (first, _),
        faulty(cluster.proxy) as between,
        candidate(cluster, lease, proxy=between.url, afresh=True) as second,
    ):
        identity = holder(cluster, lease)
        second.says(f"{identity} leads (lease kube-system/{lease})")
        cluster.add_pod("web")
        first.says("default/web is bound to n1")
        assert writes(between) == []
        polls = len(between.requests)

        first.stop(signal.SIGTERM)
        assert first.process.returncode == 0
        assert f"released the lease kube-system/{lease}" in first.said
        cluster.add_pod("next")
        second.says("default/next is bound to n1")
        assert len(between.requests) > polls > 0
        spec = cluster.api.get(f"{LEASES}/{lease}").json()["spec"]
        assert identity != spec["holderIdentity"]
        assert (spec["leaseDurationSeconds"], spec["leaseTransitions"]) == (LEASE, 1)

        second.stop(signal.SIGINT)
        spec = cluster.api.get(f"{LEASES}/{lease}").json()["spec"]
        assert (spec["holderIdentity"], spec["leaseDurationSeconds"]) == ("", 1)


def stopped_for_a_while(cluster: Cluster, lease: str, first: RunningPoller, between: FaultyProxy) -> None:
    """Stop a leader until another leads and has bound all pods; it goes on, and is ended before it writes."""
    first.process.send_signal(signal.SIGSTOP)
    with candidate(cluster, lease) as second:
        second.says(WE_LEAD)
        cluster.add_pod("late", requests={"cpu": "1m"})
        second.says("default/late is bound to n1")
        eventually(lambda: all(cluster.placement().values()))
        written = writes(between)
        first.process.send_signal(signal.SIGCONT)
        assert first.process.wait(PATIENCE) == -signal.SIGALRM
        assert writes(between) == written
        assert holder(cluster, lease) in second.said


def test_a_leader_that_was_stopped_in_a_burst_writes_no_more(cluster: Cluster, lease: str) -> None:
    for i in range(60):
        cluster.add_pod(f"web-{i}", requests={"cpu": "1m"})
    slow = Fault("POST", BINDING, delay(0.1), ALWAYS)
    with leader(cluster, lease, slow) as (first, between):
        eventually(lambda: bindings(between) >= 10)
        stopped_for_a_while(cluster, lease, first, between)
        assert bindings(between) < 60  # there was more that it was about to write


@pytest.mark.parametrize("servers", ["embedded"], indirect=True)
def test_a_leader_that_was_stopped_when_idle_writes_no_more(cluster: Cluster, lease: str) -> None:
    with leader(cluster, lease) as (first, between):
        stopped_for_a_while(cluster, lease, first, between)


@pytest.mark.parametrize("effect", [refuse(), delay(3600)], ids=["refused", "unanswered"])
def test_a_leader_that_cannot_renew_ends_before_another_leads(
    cluster: Cluster, lease: str, effect: Effect
) -> None:
    with leader(cluster, lease) as (first, between), candidate(cluster, lease) as second:
        second.says("leads (lease")
        between.add(*(Fault(method, "", effect, ALWAYS) for method in ("GET", *WRITES)))
        cluster.add_pod("web")
        second.says(WE_LEAD)
        assert first.process.poll() == 1, first.said
        lost(first)
        second.says("default/web is bound to n1")
    others = [path for method, path in writes(between) if "lease" not in path]
    assert others == ["/api/v1/namespaces/kube-system/events"]  # that the first became the leader


@pytest.mark.parametrize("servers", ["embedded"], indirect=True)
def test_the_lease_is_kept_by_one_that_is_hurried_out_of_a_write(cluster: Cluster, lease: str) -> None:
    """Nobody knows whether that write is still going to happen: the others wait for the lease's end."""
    for name in ("web", "next"):
        cluster.add_pod(name)
    with leader(cluster, lease, Fault("POST", BINDING, delay(3600), ALWAYS)) as (first, between):
        eventually(lambda: bindings(between) == 2)
        first.process.send_signal(signal.SIGTERM)
        with pytest.raises(subprocess.TimeoutExpired):
            first.process.wait(0.3)
        first.stop(signal.SIGTERM)
        assert "released" not in first.said
        assert holder(cluster, lease)


@pytest.mark.parametrize("servers", ["embedded"], indirect=True)
def test_the_lease_is_renewed_while_a_tick_takes_long(cluster: Cluster, lease: str) -> None:
    with leader(cluster, lease, Fault("GET", "/nodes", delay(RENEW + 0.5))) as (first, between):
        cluster.add_pod("web")
        first.says("default/web is bound to n1")
        asked = [path for _, path in between.requests]
        nodes = next(i for i, path in enumerate(asked) if "/nodes" in path)
        assert sum(lease in path for path in asked[nodes:]) >= 3
        assert "lost" not in first.said


@pytest.mark.parametrize("servers", ["embedded"], indirect=True)
def test_becoming_the_leader_ends_the_pause_after_a_failed_poll(
    cluster: Cluster, lease: str, tmp_path: Path
) -> None:
    pause = 2 * LEASE
    patient = with_constant(tmp_path, "lib.service.steps", "FIRST_PAUSE", pause)
    how = "--watch", f"--interval={pause}"
    with (
        leader(cluster, lease) as (first, _),
        faulty(cluster.proxy, Fault("GET", "/nodes", answer(404, "{}"))) as between,
        candidate(cluster, lease, *how, proxy=between.url, script=patient) as second,
    ):
        second.says("trying again")
        first.process.kill()
        cluster.add_pod("web")
        second.says(WE_LEAD)
        second.says("default/web is bound to n1", within=pause - LEASE - RENEW + 1)


@pytest.mark.parametrize("servers", ["embedded"], indirect=True)
def test_a_standby_does_not_count_the_pods_that_the_leader_cares_for(cluster: Cluster, lease: str) -> None:
    cluster.add_pod("gated", schedulingGates=[{"name": "example.com/wait"}])
    cluster.add_pod("deleted", schedulingGates=[{"name": "example.com/wait"}])
    with leader(cluster, lease) as (first, _), candidate(cluster, lease) as second:
        for name in ("gated", "deleted"):
            second.says(f"not scheduled: default/{name} waiting for scheduling gates")
        cluster.patch("/api/v1/namespaces/default/pods/gated", {"spec": {"schedulingGates": None}})
        cluster.api.delete("/api/v1/namespaces/default/pods/deleted")
        first.says("default/gated is bound to n1")
        eventually(lambda: cluster.placement() == {"gated": "n1"})
        cluster.add_pod("last", schedulingGates=[{"name": "example.com/wait"}])
        second.says("not scheduled: default/last waiting for scheduling gates")
        second.stop(signal.SIGTERM)
        assert "pods: 1 not scheduled" in second.last_lines()
