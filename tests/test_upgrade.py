"""From 0.1.0 to this version and back, while pods are placed and one waits for its victim to leave.

0.1.0 is a commit of this repository. A clone without its history doesn't have it.
"""

import signal
import subprocess
import tarfile
from pathlib import Path

import pytest
from cluster import ONE_SERVER, Cluster, RunningPoller, eventually
from test_leader_election import LEASES, candidate, lease  # noqa: F401  # a fixture

from scripts.servers.process import ROOT

pytestmark = pytest.mark.parametrize("servers", [ONE_SERVER], indirect=True)

OLD = "72b6cbd"
"""The last commit whose lines in the CHANGELOG are those of 0.1.0."""

BURST = 40


@pytest.fixture(scope="module")
def old(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The script of 0.1.0."""
    folder = tmp_path_factory.mktemp("old")
    archive = folder / "old.tar"
    command = ["git", "-C", str(ROOT), "archive", f"--output={archive}", OLD, "poller.py", "lib"]
    if subprocess.run(command, capture_output=True).returncode:
        pytest.skip(f"this clone doesn't have the commit {OLD}")
    with tarfile.open(archive) as packed:
        packed.extractall(folder, filter="data")
    return folder / "poller.py"


def end_amid(poller: RunningPoller, cluster: Cluster, names: list[str]) -> None:
    """Let the leader end while it places these pods."""
    eventually(lambda: any(cluster.placement().get(name) for name in names))
    poller.process.send_signal(signal.SIGTERM)
    assert poller.process.wait(30) == 0, poller.said


def burst(cluster: Cluster, prefix: str) -> list[str]:
    names = [f"{prefix}-{number}" for number in range(BURST)]
    for name in names:
        cluster.add_pod(name)
    return names


def test_pods_in_flight_are_placed_across_an_upgrade_and_back(
    priorities: Cluster,
    lease: str,  # noqa: F811
    old: Path,
) -> None:
    cluster = priorities
    cluster.add_node("n2", cpu="2", labels={"for": "preemption"})
    cluster.add_node("n3", cpu="16")
    there = {"nodeSelector": {"for": "preemption"}}
    for name in ("victim", "second-victim"):
        cluster.add_pod(name, requests={"cpu": "1"}, nodeName="n2", priorityClassName="low", **there)
    with candidate(cluster, lease, script=old, afresh=True) as first:
        first.says("became leader")
        cluster.add_pod("urgent", requests={"cpu": "1"}, priorityClassName="high", **there)
        eventually(lambda: cluster.pods()["urgent"]["status"].get("nominatedNodeName") == "n2")
        with candidate(cluster, lease) as second:
            second.says(" leads (lease")
            end_amid(first, cluster, burst(cluster, "up"))
            eventually(lambda: all(cluster.placement()[f"up-{number}"] for number in range(BURST)))
            pods = cluster.pods()
            leaving = [name for name, pod in pods.items() if "deletionTimestamp" in pod["metadata"]]
            assert len(leaving) == 1, "the new leader evicted another pod for the same preemptor"
            path = f"/api/v1/namespaces/default/pods/{leaving[0]}"
            cluster.api.request("DELETE", path, params={"gracePeriodSeconds": "0"})
            eventually(lambda: cluster.placement()["urgent"] == "n2")
            with candidate(cluster, lease, script=old, afresh=True) as third:
                third.says(" leads (lease")
                end_amid(second, cluster, burst(cluster, "down"))
                eventually(lambda: all(cluster.placement()[f"down-{number}"] for number in range(BURST)))
    told = sorted(each["involvedObject"]["name"] for each in cluster.events("Scheduled"))
    assert told == sorted(
        ["urgent", *(f"{way}-{number}" for way in ("up", "down") for number in range(BURST))]
    )
    annotations = cluster.api.get(f"{LEASES}/{lease}").json()["metadata"].get("annotations", {})
    assert annotations.get("poller/version", "").startswith("0.2"), "the page on upgrades says that it stays"
