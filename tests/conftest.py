"""The API servers that end-to-end tests run against: each test against both, the real one where it is."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import httpx
import pytest
from cluster import Cluster

from scripts.servers.embedded import minicluster
from scripts.servers.kubectl import kubectl_proxy
from scripts.servers.real import apiserver, assets

NO_REAL_ONE = "no etcd and kube-apiserver in $KUBEBUILDER_ASSETS or /usr/local/kubebuilder/bin"

EMBEDDED_KUBECONFIG = """\
apiVersion: v1
kind: Config
clusters: [{{name: embedded, cluster: {{server: "{url}"}}}}]
contexts: [{{name: embedded, context: {{cluster: embedded, user: ""}}}}]
current-context: embedded
"""


@pytest.fixture(scope="session", params=["embedded", "real"])
def servers(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    folder = tmp_path_factory.mktemp(request.param)
    start = {"embedded": embedded, "real": real}[request.param]
    with start(folder) as running:
        yield running


@pytest.fixture
def cluster(servers: Cluster) -> Iterator[Cluster]:
    """A cluster without nodes and pods, embedded or real."""
    yield servers
    servers.clear()


@pytest.fixture
def priorities(cluster: Cluster) -> Iterator[Cluster]:
    """A cluster with the priority classes low (10), middle (50) and high (100)."""
    for name, value in (("low", 10), ("middle", 50), ("high", 100)):
        cluster.post(
            "/apis/scheduling.k8s.io/v1/priorityclasses", {"metadata": {"name": name}, "value": value}
        )
    yield cluster
    for name in ("low", "middle", "high"):
        cluster.api.delete(f"/apis/scheduling.k8s.io/v1/priorityclasses/{name}")


@contextmanager
def embedded(folder: Path) -> Iterator[Cluster]:
    with minicluster("--nodes", "0") as url:
        kubeconfig = folder / "kubeconfig"
        kubeconfig.write_text(EMBEDDED_KUBECONFIG.format(url=url))
        with behind_proxy(url, kubeconfig, folder) as cluster:
            yield cluster


@contextmanager
def real(folder: Path) -> Iterator[Cluster]:
    if assets() is None:
        pytest.skip(NO_REAL_ONE)
    with (
        apiserver(folder) as server,
        behind_proxy(server.url, server.kubeconfig, folder) as cluster,
    ):
        yield replace(cluster, kubeconfig_for=server.kubeconfig_for)


@contextmanager
def behind_proxy(server: str, kubeconfig: Path, folder: Path) -> Iterator[Cluster]:
    with (
        kubectl_proxy(server, kubeconfig) as proxy,
        httpx.Client(base_url=proxy, timeout=30, trust_env=False) as api,
    ):
        yield Cluster(server, proxy, kubeconfig, folder, api)
