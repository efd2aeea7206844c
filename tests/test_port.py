"""What poller answers at its port, compared with what kube-scheduler answered, and the page about it."""

import asyncio
import json
import re
from fnmatch import fnmatch
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx
import msgspec
import pytest
from cluster import Cluster, eventually
from prometheus_client import generate_latest
from service.telemetry.test_listen import Scraped, listening
from service.test_options import poller

from lib import __version__
from lib.kube.changes import Change, Kind
from lib.kube.objects import Pod, decode_hook
from lib.scheduling.cache import Cache
from lib.scheduling.plugins.registry import default_profile
from lib.scheduling.pod_life import BackoffSettings
from lib.scheduling.queue import SchedulingQueue
from lib.service.telemetry.bounded_server import HttpRequest
from lib.service.telemetry.collectors import PodResources
from lib.service.telemetry.features import KUBERNETES, features
from lib.service.telemetry.health import Health
from lib.service.telemetry.listen import Pages
from lib.service.telemetry.metrics import Metrics
from lib.service.telemetry.zpages import TEXT
from lib.version import commit, full_version
from scripts.servers.process import ROOT

ON_ONE_SERVER = True

RECORDED = json.loads((Path(__file__).parent / "data/kube-scheduler-port-1.36.json").read_text())

ROWS = re.findall(
    r"^\| (`.*`) \| (yes|no) \| (.*?) ?\|$", (ROOT / "lib/service/port.md").read_text(), re.MULTILINE
)
"""Of the page's tables: names, whether poller has them, and what there is to say."""

HERE = {name: has == "yes" for names, has, _ in ROWS for name in re.findall("`([^`]+)`", names)}

EXTRA_CHECKS = ["loop", "api-server"]

LOCAL = [("Host", "localhost:10251")]


def row_of(name: str) -> str:
    """The entry of a name, which may be a pattern."""
    (found,) = [entry for entry in HERE if fnmatch(name, entry)]
    return found


def test_the_page_tells_of_all_metrics_of_kube_scheduler() -> None:
    names = [name for page in RECORDED["metrics"].values() for name in page] + RECORDED["withoutSeries"]
    assert len(names) > 80
    assert {row_of(name) for name in names} == {each for each in HERE if not each.startswith("/")}
    assert all(why for _, has, why in ROWS if has == "no")


def test_the_page_tells_of_all_pages_of_kube_scheduler() -> None:
    served = {urlsplit(each["path"]).path for each in RECORDED["pages"] if each["status"] != 404}
    roots = {path for path in served if not re.fullmatch("/(healthz|livez|readyz)/.*", path)}
    assert roots == {each for each in HERE if each.startswith("/") and "?" not in each} - {"/readyz/CHECK"}


def test_what_the_page_says_is_here_is_here_and_nothing_else(cluster: Cluster) -> None:
    cluster.add_node("n1")
    with listening(cluster, "--leader-elect") as (poller, client):
        cluster.add_pod("web")
        cluster.add_pod("huge", requests={"cpu": "64"})
        poller.says("default/web is bound")
        poller.says("default/huge fits nowhere")  # so the next node may help it
        eventually(lambda: client.get("/readyz").text == "ok")
        cluster.add_node("n2")
        eventually(lambda: "hint=" in client.get("/metrics").text)
        pages = {path: client.get(path) for path in [each for each in HERE if each.startswith("/")]}
        scraped = {page: Scraped(client.get(page).text) for page in RECORDED["metrics"]}
    del pages["/readyz?verbose"], pages["/readyz?exclude=CHECK"], pages["/readyz/CHECK"]
    assert {path: answered.status_code == 200 for path, answered in pages.items()} == {
        path: HERE[path] for path in pages
    }
    for page, families in RECORDED["metrics"].items():
        for name, theirs in families.items():
            has, ours = HERE[row_of(name)], scraped[page].families.get(name.removesuffix("_total"))
            if name.startswith("process_"):
                continue
            assert has == (ours is not None), name
            if ours:
                assert ours.type == theirs["type"], name
                labels = {label for each in ours.samples for label in each.labels} - {"le"}
                assert labels in (set(theirs["labels"]), set()), name
    metrics = scraped["/metrics"]
    labels = {"profile": "my-scheduler", "extension_point": "Filter", "plugin": "NodeResourcesFit"}
    assert metrics("scheduler_plugin_evaluation_total", **labels) == 2  # of each pod for n1
    handled = "scheduler_event_handling_duration_seconds_count"
    assert metrics(handled, event="NodeAdd") == 2
    assert metrics(handled, event="UnschedulablePodAdd") == 2
    hint = {"plugin": "NodeResourcesFit", "event": "NodeAdd", "hint": "QueueSkip"}
    assert metrics("scheduler_queueing_hint_execution_duration_seconds_count", **hint) == 1
    checked = {"name": "api-server", "type": "readyz"}
    assert scraped["/metrics/slis"]("kubernetes_healthcheck", **checked) == 1
    web = {"namespace": "default", "pod": "huge", "node": "", "scheduler": "my-scheduler"}
    cpu = {"priority": "0", "resource": "cpu", "unit": "cores"}
    assert scraped["/metrics/resources"]("kube_pod_resource_request", **web, **cpu) == 64


def test_features_are_as_in_kube_scheduler() -> None:
    """Of each gate that there is here, the stage and the value."""
    ours = {each.name: [each.stage, each.enabled] for each in features()}
    assert len(ours) > 30
    theirs = {name: RECORDED["features"][name] for name in ours}
    assert ours == theirs | {name: ["ALPHA", 1] for name in ("GangScheduling", "GenericWorkload")}


def test_without_the_package_for_selectors_there_are_no_devices(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lib.service.telemetry.features.CEL", "no_such_package")
    off = {each.name for each in features() if not each.enabled and RECORDED["features"][each.name][1]}
    assert "DynamicResourceAllocation" in off
    assert all(name.startswith(("DRA", "Dynamic")) for name in off)


def test_the_build_names_the_version_of_kubernetes_and_of_poller() -> None:
    (build,) = samples_of(generate_latest(Metrics(Health()).registry).decode(), "kubernetes_build_info")
    assert build.value == 1
    assert set(build.labels) == set(RECORDED["metrics"]["/metrics"]["kubernetes_build_info"]["labels"])
    assert build.labels["git_commit"] == commit()
    assert build.labels["git_version"] == f"v{KUBERNETES}+poller-{__version__}"
    assert (build.labels["major"], build.labels["minor"]) == ("1", "36")


def test_health_is_asked_as_of_kube_scheduler(cluster: Cluster) -> None:
    """The same forms, with poller's checks in place of kube-scheduler's."""
    with listening(cluster) as (_, client):
        eventually(lambda: client.get("/readyz").text == "ok")
        for page in RECORDED["pages"]:
            path = urlsplit(page["path"]).path
            if path != "/readyz":
                continue
            theirs = re.sub(r"(?m)^\[\+\].* ok\n", "", page["body"])
            answered = client.get(page["path"])
            assert answered.status_code == page["status"], page["path"]
            assert answered.headers["Content-Type"] == page["type"]
            if answered.text != "ok":
                assert answered.text.startswith("[+]loop ok\n[+]api-server ok\n")
            assert re.sub(r"(?m)^\[\+\].* ok\n", "", answered.text) == theirs, page["path"]
        assert client.get("/readyz/loop").text == client.get("/livez/loop?verbose").text == "ok"
        assert client.get("/livez/api-server").status_code == 404
        assert client.get("/readyz?verbose&exclude=api-server").text == (
            "[+]loop ok\n[+]api-server excluded: ok\nreadyz check passed\n"
        )
        failed = client.get("/livez/loop?within=-9")
        assert failed.status_code == 500
        assert re.fullmatch(r"loop failed: no progress for -?\d+ s\n", failed.text)
        assert client.get("/livez?within=-9&exclude=loop").text == "ok"


def test_configz_flagz_and_statusz_tell_how_poller_runs(cluster: Cluster) -> None:
    with listening(cluster, "--pod-max-backoff=20", "--namespace=team") as (_, client):
        answered = client.get("/configz")
        flags, status = client.get("/flagz").text, client.get("/statusz").text
    config = answered.json()["componentconfig"]
    assert answered.headers["Content-Type"] == "application/json"
    assert config["podMaxBackoffSeconds"] == 20
    assert [each["schedulerName"] for each in config["profiles"]] == ["my-scheduler", "random-scheduler"]
    said = dict(line.split("=", 1) for line in flags.split("purposes only.")[1].split())
    assert (said["pod-max-backoff"], said["namespace"], said["watch"]) == ("20", "[team]", "false")
    assert said["listen"] == "127.0.0.1:0"
    options = re.findall("^ +(?:-., )?--([a-z-]+)", poller("--help").stdout, re.MULTILINE)
    assert said.keys() == {*options} - {"help"}
    theirs = next(each["body"] for each in RECORDED["pages"] if each["path"] == "/statusz")
    assert [line.split()[:1] for line in status.replace(":", "").replace("Python", "Go").splitlines()] == [
        line.split()[:1] for line in theirs.replace(":", "").replace("kube-scheduler", "poller").splitlines()
    ]
    assert f"Binary version: {full_version()}\nEmulation version: 1.36\n" in status


def test_pods_request_what_kube_scheduler_says_they_do() -> None:
    pods = msgspec.convert(RECORDED["pods"], list[Pod], dec_hook=decode_hook)
    profile = default_profile("default-scheduler")
    cache = Cache()
    queue = SchedulingQueue({"default-scheduler": profile}, BackoffSettings(), lives=cache.lives)
    for pod in pods:
        change = Change(Kind.ADDED, pod)
        cache.apply(change)
        queue.apply(change, now=0)
    ours, theirs = (
        {(each.name, *sorted(each.labels.items())): each.value for each in samples}
        for samples in (
            samples_of(generate_latest(PodResources(cache.pods)).decode()),
            samples_of("\n".join(RECORDED["resources"]) + "\n"),
        )
    )
    assert len(theirs) > 30
    assert ours == pytest.approx(theirs)


def samples_of(text: str, name: str = "") -> list[Any]:
    samples = [sample for family in Scraped(text).families.values() for sample in family.samples]
    return [each for each in samples if name in ("", each.name)]


@pytest.mark.parametrize(
    ("path", "open_resources", "status"),
    [
        ("/configz", False, 403),
        ("/flagz", True, 403),
        ("/statusz", False, 403),
        ("/metrics/resources", False, 403),
        ("/metrics/resources", True, 200),
        ("/metrics", False, 200),
        ("/livez", False, 200),
    ],
)
def test_other_machines_see_neither_configuration_nor_pods(
    path: str, open_resources: bool, status: int
) -> None:
    health = Health()
    more = {"/configz": (TEXT, "a secret"), "/flagz": (TEXT, "a secret")}
    pages = Pages(health, Metrics(health), more, "0.0.0.0", open_resources=open_resources)
    answered = asyncio.run(pages(HttpRequest("GET", path, "", [("Host", "10.0.0.7:10251")], "192.0.2.7")))
    assert httpx.Response(int(answered.split()[1])).status_code == status
    assert b"secret" not in answered
    assert b"200 OK" in asyncio.run(pages(HttpRequest("GET", path, "", LOCAL, "127.0.0.1")))


FOREIGN_HOSTS = [
    ["evil.example"],
    ["evil.example:10251"],
    ["127.0.0.1.evil.example"],
    ["localhost.evil.example:10251"],
    ["user@127.0.0.1"],
    ["0.0.0.0:10251"],
    [""],
    [],
    ["127.0.0.1", "evil.example"],
]


@pytest.mark.parametrize("hosts", FOREIGN_HOSTS, ids=str)
def test_a_web_page_with_a_name_of_its_own_reads_neither_configuration_nor_pods(hosts: list[str]) -> None:
    """Its name may lead to 127.0.0.1: the request comes from this machine, and isn't meant for it."""
    health, more = Health(), {"/configz": (TEXT, "a secret")}
    for host, path, status in (
        ("127.0.0.1", "/configz", 403),
        ("127.0.0.1", "/statusz", 403),
        ("127.0.0.1", "/metrics/resources", 403),
        ("127.0.0.1", "/metrics", 403),
        ("localhost", "/metrics", 403),
        ("::1", "/metrics/slis", 403),
        ("127.0.0.1", "/livez", 200),
        ("127.0.0.1", "/readyz/loop", 200),
        ("0.0.0.0", "/configz", 403),
        ("0.0.0.0", "/metrics/resources", 403),
        ("0.0.0.0", "/metrics", 200),  # Prometheus may ask by any name
        ("0.0.0.0", "/livez", 200),
    ):
        pages = Pages(health, Metrics(health), more, host)
        fields = [("Host", each) for each in hosts]
        answered = asyncio.run(pages(HttpRequest("GET", path, "", fields, "127.0.0.1")))
        assert int(answered.split()[1]) == status, (host, path)
        if status == 403:
            assert b"ask for it at 127.0.0.1 or localhost" in answered


@pytest.mark.parametrize(
    "host", ["127.0.0.1:10251", "127.0.0.1", "localhost:8080", "LOCALHOST", "[::1]:10251", "127.0.0.2:80"]
)
def test_the_machine_itself_may_be_asked_at_any_port(host: str) -> None:
    """That of `kubectl port-forward` is another one."""
    pages = Pages(Health(), Metrics(Health()), {"/configz": (TEXT, "{}")})
    for path in ("/configz", "/metrics", "/metrics/resources"):
        assert b"200 OK" in asyncio.run(pages(HttpRequest("GET", path, "", [("host", host)], "127.0.0.1")))
