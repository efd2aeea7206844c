"""The API servers that end-to-end tests run against, the embedded one and, where it is, the real one.

Tests of reads and writes are for both, and run on the real one if it is there; with POLLER_ALL_CASES=1, or
`ON_BOTH_SERVERS = True` in their module, on both. A module with `ON_ONE_SERVER = True` tests something else,
such as the connection to the server. It runs on the embedded one, which takes half as much time; with
POLLER_ALL_CASES=1 on the real one, if possible.
"""

import gc
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from all_cases import ALL_CASES
from cluster import ONE_SERVER, Cluster, http_client
from hypothesis import HealthCheck, settings
from questions.questions_harness import Done, Run

from lib.questions.verbs import add_verbs
from lib.service.options import run_with_options
from scripts.learning import trial
from scripts.servers.embedded import minicluster
from scripts.servers.kubectl import kubectl_proxy
from scripts.servers.real import apiserver, assets

if TYPE_CHECKING:
    from playwright.sync_api import Browser

# Each run tries the same examples, without a time limit: when a test fails, a change is the reason.
settings.register_profile(
    "steady", derandomize=True, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("steady")

NO_REAL_ONE = "no etcd and kube-apiserver in $KUBEBUILDER_ASSETS or /usr/local/kubebuilder/bin"

EMBEDDED_KUBECONFIG = """\
apiVersion: v1
kind: Config
clusters: [{{name: embedded, cluster: {{server: "{url}"}}}}]
contexts: [{{name: embedded, context: {{cluster: embedded, user: ""}}}}]
current-context: embedded
"""


SLOW_TESTS = Path(__file__).with_name("slow_tests.txt")
"""The tests that took a fifth of a second or more when all were run last with --note-slow."""

SLOW, SLOW_FIXTURE = 0.2, 3.0
"""Seconds. With such a fixture, all tests of its file are slow: any of them may be the first."""


def pytest_addoption(parser: pytest.Parser) -> None:
    without = "without slow tests, and without those that need an API server"
    parser.addoption("--quick", action="store_true", help=without)
    parser.addoption("--note-slow", action="store_true", help=f"note the slow tests in {SLOW_TESTS.name}")


def pytest_configure(config: pytest.Config) -> None:
    gc.disable()  # until pytest_collection_finish: what is imported and collected stays until the end
    if config.getoption("--note-slow") and not hasattr(config, "workerinput"):
        config.pluginmanager.register(Durations())


def pytest_collection_finish() -> None:
    """Spare the garbage collector all that stays: it would look through it again and again."""
    gc.freeze()
    gc.enable()


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave slow tests out, or give each worker some first: at the end nobody waits for a long one."""
    named = set(SLOW_TESTS.read_text().splitlines())
    slow = {test for test in items if _server(test) or {test.nodeid, test.nodeid.split("::")[0]} & named}
    if config.getoption("--quick"):
        config.hook.pytest_deselected(items=[*slow])
        items[:] = [test for test in items if test not in slow]
        return
    items[:] = _once(items)
    if workers := getattr(config, "workerinput", {}).get("workercount"):
        early, late = ([test for test in items if (test in slow) == chosen] for chosen in (True, False))
        early.sort(key=_server, reverse=True)  # so one worker starts the real server, which costs most
        shares = zip(_shares(early, workers), _shares(late, workers), strict=True)
        items[:] = [test for share in shares for part in share for test in part]


def _once(items: list[pytest.Item]) -> list[pytest.Item]:
    """What is for both servers runs on the real one; if it polls, and another watches, on the embedded."""
    if ALL_CASES or not assets():
        return items
    on_real = {test.nodeid for test in items if _server(test) == "real"}
    left_out = set[str]()
    for test in items:
        twin = test.nodeid.replace("[embedded", "[real")
        on_both = getattr(getattr(test, "module", None), "ON_BOTH_SERVERS", False)
        if twin in on_real and twin != test.nodeid and not on_both:
            left_out.add(twin if "polling" in twin else test.nodeid)
    return [test for test in items if test.nodeid not in left_out]


def _shares(tests: list[pytest.Item], workers: int) -> Iterator[list[pytest.Item]]:
    """A run of the tests for each worker, as pytest-xdist deals them out."""
    for i in range(workers):
        yield tests[len(tests) * i // workers : len(tests) * (i + 1) // workers]


def _server(test: pytest.Item) -> str:
    """The API server that the fixture `servers` gives to a test, if it has that."""
    call = getattr(test, "callspec", None)
    return str(call.params.get("servers", "")) if call else ""


class Durations:
    """Notes the tests, and the files, that are slow."""

    def __init__(self) -> None:
        self.seconds = Counter[str]()
        self.files = set[str]()

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self.seconds[report.nodeid] += report.duration
        if report.when == "setup" and report.duration >= SLOW_FIXTURE and "real" not in report.nodeid:
            self.files.add(report.nodeid.split("::")[0])

    def pytest_sessionfinish(self) -> None:
        slow = {name for name, seconds in self.seconds.items() if seconds >= SLOW}
        alone = {name for name in slow if name.split("::")[0] not in self.files}
        SLOW_TESTS.write_text("\n".join(sorted(alone | self.files)) + "\n")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    chosen = [mark.args[0] for mark in metafunc.definition.iter_markers("parametrize")]
    if "servers" in metafunc.fixturenames and "servers" not in chosen:
        names = ["embedded", "real"]
        if getattr(metafunc.module, "ON_ONE_SERVER", False):
            names = [ONE_SERVER if ALL_CASES else "embedded"]
        metafunc.parametrize("servers", names, indirect=True, scope="session")


@pytest.fixture(scope="session")
def started(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[str], Cluster]]:
    """Starts each server when it is needed first; it runs until the last test has ended."""
    running: dict[str, Cluster] = {}
    with ExitStack() as stack:

        def start(name: str) -> Cluster:
            if name not in running:
                begin = {"embedded": embedded, "real": real}[name]
                running[name] = stack.enter_context(begin(tmp_path_factory.mktemp(name)))
            return running[name]

        yield start


@pytest.fixture(scope="session")
def servers(request: pytest.FixtureRequest, started: Callable[[str], Cluster]) -> Cluster:
    return started(request.param)


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


@pytest.fixture(scope="session")
def trials_server() -> Iterator[str]:
    """The cluster on which students' schedulers are tried; each trial would start one of its own."""
    with minicluster("--nodes", "0", "--kubelet-delay", "0.2") as url:
        yield url


@pytest.fixture(scope="module")
def browser() -> "Iterator[Browser]":
    """A Chromium for all tests of a file. While it runs, asyncio.run can't be called in this thread."""
    from page import running_browser

    with running_browser() as running:
        yield running


@pytest.fixture
def one_arena(trials_server: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Trials share a cluster, which is emptied before each."""

    @contextmanager
    def emptied() -> Iterator[str]:
        with http_client(trials_server) as api:
            for pod in api.get("/api/v1/pods").json()["items"]:
                path = "/api/v1/namespaces/{namespace}/pods/{name}".format(**pod["metadata"])
                if pod["metadata"].get("finalizers"):
                    api.patch(
                        path,
                        json={"metadata": {"finalizers": None}},
                        headers={"Content-Type": "application/merge-patch+json"},
                    )
                api.delete(path, params={"gracePeriodSeconds": 0})
            for path in ("/api/v1/nodes", "/apis/scheduling.k8s.io/v1/priorityclasses"):
                for each in api.get(path).json()["items"]:
                    if not each["metadata"]["name"].startswith("system-"):
                        api.delete(f"{path}/{each['metadata']['name']}")
        yield trials_server

    monkeypatch.setattr(trial, "arena", emptied)


@contextmanager
def embedded(folder: Path, nodes: int = 0) -> Iterator[Cluster]:
    with minicluster("--nodes", str(nodes)) as url:
        kubeconfig = folder / "kubeconfig"
        kubeconfig.write_text(EMBEDDED_KUBECONFIG.format(url=url))
        with kubectl_proxy(url, kubeconfig) as proxy, http_client(url) as api:
            yield Cluster(url, proxy, kubeconfig, folder, api)


@contextmanager
def real(folder: Path) -> Iterator[Cluster]:
    if assets() is None:
        pytest.skip(NO_REAL_ONE)
    with apiserver(folder) as server, kubectl_proxy(server.url, server.kubeconfig) as proxy:
        yield Cluster(server.url, proxy, server.kubeconfig, folder, server.http, server.kubeconfig_for)


@pytest.fixture
def poller(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """Runs poller.py with a verb, in this process."""

    def run(*arguments: str) -> Done:
        monkeypatch.setattr(sys, "argv", ["poller.py", *arguments])
        with pytest.raises(SystemExit) as end:
            run_with_options(lambda _: pytest.fail("the loop ran"), add_verbs)
        printed = capsys.readouterr()
        status = end.value.code
        return Done(status if isinstance(status, int) else 0, printed.out, printed.err)

    return run
