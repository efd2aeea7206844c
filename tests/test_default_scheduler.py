"""poller in the place of the default scheduler: it shares kube-scheduler's lease, and hands it back."""

import re
import shutil
import signal
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import chain
from pathlib import Path

import pytest
from cluster import Cluster, eventually
from test_chart import CHART, managed  # noqa: F401  # a fixture
from test_deploy import DEPLOY, arguments_of, kubectl_container, missing, on_the_real_one

from lib.service.telemetry.features import ON_WITH_CEL, features
from scripts.servers.process import ending_with_us
from scripts.servers.real import assets

LEASE = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/kube-scheduler"
SHARED = ["--leader-elect-resource-name=kube-scheduler", "--leader-elect-resource-namespace=kube-system"]
PAGE = DEPLOY / "default-scheduler.md"
GRANT = (
    "create rolebinding poller-kube-scheduler --namespace=kube-system "
    "--role=system::leader-locking-kube-scheduler --serviceaccount=poller-c:poller"
)
"""The command on the page, for another namespace."""


@contextmanager
def kube_scheduler(cluster: Cluster, folder: Path) -> Iterator["subprocess.Popen[bytes]"]:
    binary = shutil.which("kube-scheduler", path=assets())
    if not binary:
        pytest.skip("no kube-scheduler")
    command = [binary, f"--kubeconfig={cluster.kubeconfig}", "--leader-elect", "--secure-port=0"]
    with (folder / "kube-scheduler.log").open("ab") as log:
        process = subprocess.Popen(ending_with_us(command), stdin=subprocess.PIPE, stdout=log, stderr=log)
        try:
            yield process
        finally:
            process.kill()
            process.wait()


@on_the_real_one
def test_poller_and_kube_scheduler_share_a_lease_and_never_place_at_once(
    cluster: Cluster,
    managed: Callable[..., str],  # noqa: F811
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    values = {"schedulerNames": ["default-scheduler"], "arguments": SHARED}
    managed("install", "poller", str(CHART), "--create-namespace", values=values)
    cluster.kubectl(*GRANT.split())
    cluster.add_node("n1")
    path = "/apis/apps/v1/namespaces/poller-c/deployments/poller"
    spec = cluster.api.get(path).json()["spec"]["template"]["spec"]

    def placed(name: str) -> None:
        cluster.add_pod(name, "default-scheduler")
        eventually(lambda: cluster.placement()[name] == "n1")

    with (
        kube_scheduler(cluster, tmp_path) as first,
        kubectl_container(cluster, "poller-c", spec, monkeypatch) as folder,
    ):
        placed("a")
        with cluster.running_poller(*arguments_of(spec, "poller-c", folder)) as poller:
            poller.says(" leads (lease kube-system/kube-scheduler)")
            placed("b")
            first.terminate()  # on a control plane of kubeadm, its manifest is moved away
            poller.says("became leader")
            placed("c")
            poller.says("default/c is bound to n1")
            with kube_scheduler(cluster, tmp_path) as second:
                log = tmp_path / "kube-scheduler.log"
                eventually(lambda: log.read_text().count("Attempting to acquire leader lease") == 2)
                placed("d")
                poller.says("default/d is bound to n1")
                poller.stop(signal.SIGTERM)
                placed("e")
                assert second.poll() is None
            assert [*missing(poller)] == []
            assert poller.said.count("is bound to") == 2
            assert "Stop it, or give poller another" not in poller.said
    cluster.kubectl("delete", "rolebinding", "poller-kube-scheduler", "--namespace=kube-system")
    cluster.api.delete(LEASE)


def test_the_table_of_gates_is_that_of_the_metric() -> None:
    rows = re.findall(r"^\| `(\w+)` \| (\w+) \| \w+ \| (\w+) \|", PAGE.read_text(), re.M)
    said = {name: (stage, here) for name, stage, here in rows}
    for feature in features():
        stage = feature.stage.lower() or "stable"
        needs_package = feature.name in {*chain(*ON_WITH_CEL.values())}
        assert said[feature.name] == (stage, "yes" if feature.enabled or needs_package else "no")


def test_the_page_has_the_commands_that_are_tested() -> None:
    text = PAGE.read_text()
    for option in (
        *SHARED,
        "rolebinding poller-kube-scheduler",
        "--role=system::leader-locking-kube-scheduler",
    ):
        assert option in text
