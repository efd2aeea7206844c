"""The real API server of the tests starts, serves, and ends as other tests need it."""

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import httpx
import pytest
from cluster import eventually

from scripts.servers.real import RealCluster, apiserver, assets

pytestmark = pytest.mark.skipif(
    assets() is None, reason="no etcd and kube-apiserver in $KUBEBUILDER_ASSETS or /usr/local/kubebuilder/bin"
)

KUBECTL = shutil.which(
    "kubectl", path=os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
)


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealCluster]:
    with apiserver(tmp_path_factory.mktemp("apiserver")) as running:
        yield running


def kubectl(kubeconfig: Path, *arguments: str) -> "subprocess.CompletedProcess[str]":
    assert KUBECTL, "kubectl is neither beside python nor on the PATH"
    return subprocess.run([KUBECTL, f"--kubeconfig={kubeconfig}", *arguments], capture_output=True, text=True)


def test_a_pod_is_accepted_with_its_priority_resolved(cluster: RealCluster) -> None:
    pod = {
        "metadata": {"name": "web"},
        "spec": {
            "priorityClassName": "system-node-critical",
            "containers": [{"name": "web", "image": "web"}],
        },
    }
    answer = cluster.http.post("/api/v1/namespaces/default/pods", json=pod)

    assert answer.status_code == 201, answer.text
    assert answer.json()["spec"]["priority"] == 2_000_001_000


def test_a_user_without_rules_is_forbidden(cluster: RealCluster) -> None:
    answer = kubectl(cluster.kubeconfig_for("jane"), "get", "nodes")

    assert answer.returncode == 1
    assert 'nodes is forbidden: User "jane" cannot list resource "nodes"' in answer.stderr


def test_a_user_may_do_what_rbac_grants_to_one_of_the_groups(cluster: RealCluster) -> None:
    rules = ("clusterrole", "reader", "--verb=list", "--resource=nodes")
    binding = ("clusterrolebinding", "readers", "--clusterrole=reader", "--group=readers")
    for grant in (rules, binding):
        assert kubectl(cluster.kubeconfig, "create", *grant).returncode == 0
    john = cluster.kubeconfig_for("john", ["writers", "readers"])

    assert kubectl(john, "auth", "can-i", "list", "nodes").stdout == "yes\n"
    assert kubectl(john, "auth", "can-i", "list", "pods").stdout == "no\n"


def test_nothing_is_left_afterwards(tmp_path: Path) -> None:
    with apiserver(tmp_path) as running:
        names = {Path(line.split()[0]).name for line in processes_about(tmp_path)}
        assert names - {"sh"} == {"etcd", "kube-apiserver"}  # each has a shell beside it that ends it with us

    eventually(lambda: processes_about(tmp_path) == [])
    assert not (tmp_path / "etcd").exists()
    with pytest.raises(httpx.ConnectError):
        httpx.get(running.url, verify=False)


def processes_about(folder: Path) -> list[str]:
    """The command lines of running processes that name the folder."""
    found = []
    for process in Path("/proc").glob("[0-9]*/cmdline"):
        with suppress(OSError):  # ended meanwhile
            found.append(process.read_bytes().replace(b"\0", b" ").decode(errors="replace"))
    return [line for line in found if str(folder) in line]
