"""poller's HTTP endpoints: metrics that kube-scheduler's dashboards can read, and health."""

import asyncio
import logging
import re
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from random import Random
from threading import Event
from typing import Any

import httpx
import pytest
import typer
from cluster import Cluster, RunningPoller, eventually
from faults import ALWAYS, Answer, Exchange, Fault, answer, faulty
from later import Later
from msgspec.structs import replace
from objects import node, pod
from prometheus_client import Metric, generate_latest
from prometheus_client.parser import text_string_to_metric_families

from lib.kube.changes import Change, Kind
from lib.kube.errors import UnreachableError
from lib.kube.objects import Pod
from lib.scheduling.cache import Cache as Picture
from lib.scheduling.decision import Decision, Outcome
from lib.scheduling.framework.interface import Profile
from lib.scheduling.node_info import NodeInfo
from lib.scheduling.plugins.registry import default_profile
from lib.scheduling.pod_life import BackoffSettings
from lib.scheduling.queue import SchedulingQueue
from lib.scheduling.scheduling_cycle import Scheduler
from lib.scheduling.status import Status, unschedulable, wait
from lib.service.option_types import listen_address
from lib.service.telemetry import bounded_server, listen
from lib.service.telemetry.health import LONGEST_SILENCE, Health
from lib.service.telemetry.metrics import Metrics
from lib.service.telemetry.observer import Address
from lib.service.telemetry.report import Report
from scripts.servers.process import ROOT

ON_ONE_SERVER = True

KUBE_SCHEDULER = Path(__file__).parents[2] / "data" / "kube-scheduler-metrics-1.36.txt"

BLOCKS_IN_FILTER = """
import threading
import time

def filter(pod, node):
    while pod.metadata.name == "stuck":
        time.sleep(1)
    return True
"""


@contextmanager
def listening(
    cluster: Cluster, *arguments: str, proxy: str = ""
) -> Iterator[tuple[RunningPoller, httpx.Client]]:
    """A poller, and a client of the address that its log says it listens at."""
    with cluster.running_poller("--listen", "0", *arguments, proxy=proxy) as poller:
        poller.says("/metrics at http://127.0.0.1:")
        (url,) = re.findall(r"/metrics at (http://127\.0\.0\.1:\d+)$", poller.said, re.MULTILINE)
        with httpx.Client(base_url=url, timeout=60, trust_env=False, verify=False) as client:
            yield poller, client


class Scraped:
    """What /metrics says, by name and labels."""

    def __init__(self, text: str) -> None:
        self.families = {each.name: each for each in text_string_to_metric_families(text)}
        self._values = {
            (sample.name, frozenset(sample.labels.items())): sample.value
            for family in self.families.values()
            for sample in family.samples
        }

    def __call__(self, name: str, /, **labels: str) -> float | None:
        return self._values.get((name, frozenset(labels.items())))


def scrape(client: httpx.Client) -> Scraped:
    return Scraped(client.get("/metrics").text)


def label_names(family: Metric) -> set[str]:
    return {name for sample in family.samples for name in sample.labels}


def bounds(family: Metric) -> set[float]:
    return {float(sample.labels["le"]) for sample in family.samples if "le" in sample.labels}


# --- metrics --------------------------------------------------------------------------------------------


def test_what_happens_to_pods_is_counted(priorities: Cluster) -> None:
    priorities.add_node("n1", cpu="2")
    for name in ("a", "b"):
        # No kubelet is there to end a pod with a grace period.
        priorities.add_pod(
            name, requests={"cpu": "1"}, priorityClassName="low", terminationGracePeriodSeconds=0
        )
    with listening(priorities, "--pod-initial-backoff=0.1") as (poller, client):
        poller.says("default/a is bound")
        poller.says("default/b is bound")
        priorities.add_pod("gated", schedulingGates=[{"name": "example.com/wait"}])
        priorities.add_pod("huge", requests={"cpu": "64"})
        poller.says("default/huge fits nowhere")
        priorities.add_pod("vip", requests={"cpu": "1"}, priorityClassName="high")
        poller.says("default/vip is bound to n1")
        ticks = scrape(client)("poller_ticks_total", result="success")
        assert ticks
        eventually(lambda: (scrape(client)("poller_ticks_total", result="success") or 0) > ticks + 1)
        found = scrape(client)
        points = "scheduler_framework_extension_point_duration_seconds_count"
        alone = client.get("/metrics", params={"name[]": points})
    profile = {"profile": "my-scheduler"}
    assert Scraped(alone.text).families.keys() == {points.removesuffix("_count")}
    assert found("scheduler_schedule_attempts_total", result="scheduled", **profile) == 3
    assert (found("scheduler_schedule_attempts_total", result="unschedulable", **profile) or 0) >= 2
    assert found("scheduler_schedule_attempts_total", result="error", **profile) is None
    assert found("scheduler_scheduling_attempt_duration_seconds_count", result="scheduled", **profile) == 3
    pending = {queue: found("scheduler_pending_pods", queue=queue) for queue in ("active", "gated")}
    assert pending == {"active": 0, "gated": 1}
    waiting = [found("scheduler_pending_pods", queue=each) or 0 for each in ("backoff", "unschedulable")]
    assert sum(waiting) == 1
    assert found("scheduler_unschedulable_pods", plugin="SchedulingGates", **profile) == 1
    assert found("scheduler_unschedulable_pods", plugin="NodeResourcesFit", **profile) == 1
    assert found("scheduler_pod_scheduling_attempts_count") == 3
    assert found("scheduler_pod_scheduling_attempts_sum") == 4
    assert found("scheduler_pod_scheduling_sli_duration_seconds_count", attempts="1") == 2
    assert found("scheduler_pod_scheduling_sli_duration_seconds_count", attempts="2") == 1
    assert found("scheduler_preemption_victims_count") == found("scheduler_preemption_victims_sum") == 1
    assert (found("scheduler_preemption_attempts_total") or 0) >= 2
    arrived = {"event": "UnschedulablePodAdd"}
    assert found("scheduler_queue_incoming_pods_total", queue="active", **arrived) == 4
    assert found("scheduler_queue_incoming_pods_total", queue="unschedulable", **arrived) == 1
    assert {kind: found("scheduler_cache_size", type=kind) for kind in ("nodes", "pods")} == {
        "nodes": 1,
        "pods": 2,
    }
    cycles = found("scheduler_scheduling_algorithm_duration_seconds_count")
    for point, times in {
        "PreFilter": cycles,
        "Filter": cycles,
        "Permit": 3,
        "Bind": 3,
        "PostBind": 3,
    }.items():
        assert found(points, extension_point=point, status="Success", **profile) == times
    assert found(points, extension_point="PostFilter", status="Success", **profile) == 1
    host = priorities.proxy.removeprefix("http://")
    assert (found("rest_client_requests_total", code="201", method="POST", host=host) or 0) >= 3
    assert found("rest_client_request_duration_seconds_count", verb="DELETE", host=host) == 1
    assert found("process_resident_memory_bytes")
    assert_as_kube_scheduler(found)


def assert_as_kube_scheduler(found: Scraped) -> None:
    recorded = Scraped(KUBE_SCHEDULER.read_text())
    assert len(recorded.families) == 18
    for name, theirs in recorded.families.items():
        ours = found.families[name]
        assert ours.type == theirs.type, name
        assert label_names(ours) == label_names(theirs), name
        assert bounds(ours) == bounds(theirs), name
    queues = {
        sample.labels["queue"]
        for each in (found, recorded)
        for sample in each.families["scheduler_pending_pods"].samples
    }
    assert queues == {"active", "backoff", "unschedulable", "gated"}


class Told:
    """Metrics that are told what would else take a test long to bring about."""

    def __init__(self) -> None:
        self.metrics = Metrics(Health())
        profile = default_profile("my-scheduler")
        self.queue = SchedulingQueue({"my-scheduler": profile}, BackoffSettings(), self.metrics.queued)

    def end_tick(self) -> Scraped:
        self.metrics.tick_ended(self.queue, Picture())
        return Scraped(generate_latest(self.metrics.registry).decode())


def decision(outcome: Outcome, **rest: Any) -> Decision:
    return Decision(pod(schedulerName="my-scheduler"), outcome, node_name="n1", **rest)


class Fails:
    """A plugin that rejects, holds up or fails pods of the name that says so."""

    name = "Fails"

    def pre_filter(self, state: Any, web: Pod, cluster: Picture) -> Status | None:
        return unschedulable("no") if web.metadata.name == "pre-filter" else None

    def filter(self, state: Any, web: Pod, node: NodeInfo) -> Status | None:
        if web.metadata.name == "filter":
            raise ValueError("no such rack")
        return None

    def reserve(self, state: Any, web: Pod, node_name: str) -> Status | None:
        return unschedulable("no") if web.metadata.name == "reserve" else None

    def permit(self, state: Any, web: Pod, node_name: str, waited: float) -> Status | None:
        return wait("not yet") if web.metadata.name == "permit" else None


@pytest.mark.parametrize(
    ("name", "points"),
    [
        ("pre-filter", {"PreFilter": "Unschedulable"}),
        ("filter", {"PreFilter": "Success", "Filter": "Error"}),
        (
            "reserve",
            {"PreFilter": "Success", "Filter": "Success", "Reserve": "Unschedulable", "Unreserve": "Success"},
        ),
        ("permit", {"PreFilter": "Success", "Filter": "Success", "Reserve": "Success", "Permit": "Wait"}),
    ],
)
def test_how_extension_points_end(name: str, points: dict[str, str]) -> None:
    told = Told()
    record = told.metrics.record_for("my-scheduler")
    profile = Profile("my-scheduler", (Fails(),), {})
    scheduler = Scheduler(profile, Random(1), clock=time.monotonic, record=record)
    decision = scheduler.schedule_one(pod(name), Picture([node()]))
    assert decision.seconds >= 0
    family = told.end_tick().families["scheduler_framework_extension_point_duration_seconds"]
    ended = {
        sample.labels["extension_point"]: sample.labels["status"]
        for sample in family.samples
        if sample.name.endswith("_count")
    }
    assert ended == points


def test_a_binding_that_fails_is_an_error() -> None:
    told = Told()
    told.metrics.finished(decision(Outcome.SCHEDULED, began=1, ended=4, binding=2), bound=False)
    found = told.end_tick()
    labels = {"result": "error", "profile": "my-scheduler"}
    assert found("scheduler_schedule_attempts_total", **labels) == 1
    assert found("scheduler_scheduling_attempt_duration_seconds_sum", **labels) == 3
    labels = {"extension_point": "Bind", "status": "Error", "profile": "my-scheduler"}
    assert found("scheduler_framework_extension_point_duration_seconds_sum", **labels) == 2


def test_the_sli_goes_from_the_queue_to_the_binding_over_all_attempts() -> None:
    told = Told()
    for attempt in (14, 15, 99):
        told.metrics.finished(decision(Outcome.SCHEDULED, queued=1, ended=6, attempt=attempt), bound=True)
    found = told.end_tick()
    assert found("scheduler_pod_scheduling_sli_duration_seconds_sum", attempts="14") == 5
    assert found("scheduler_pod_scheduling_sli_duration_seconds_sum", attempts="15+") == 10


@pytest.mark.parametrize(
    ("outcome", "result"), [(Outcome.SCHEDULED, "Success"), (Outcome.UNSCHEDULABLE, "Unschedulable")]
)
def test_a_wait_for_permit_is_timed(outcome: Outcome, result: str) -> None:
    told = Told()
    told.queue.apply(Change(Kind.ADDED, pod(schedulerName="my-scheduler")), now=0)
    told.metrics.decided(decision(Outcome.WAITING, ended=1))
    told.metrics.decided(decision(Outcome.WAITING, ended=3))  # asked again, it waits on
    assert told.end_tick()("scheduler_permit_wait_duration_seconds_count", result=result) is None
    told.metrics.decided(decision(outcome, ended=6))
    assert told.end_tick()("scheduler_permit_wait_duration_seconds_sum", result=result) == 5


def test_what_stands_in_no_ones_way_any_more_is_zero() -> None:
    told = Told()
    web = pod(schedulerName="my-scheduler")
    told.queue.apply(Change(Kind.ADDED, web), now=0)
    told.queue.requeue(web.metadata.uid, ["NodeAffinity"], "", now=0)
    labels = {"plugin": "NodeAffinity", "profile": "my-scheduler"}
    assert told.end_tick()("scheduler_unschedulable_pods", **labels) == 1
    told.queue.drop(web.metadata.uid)
    assert told.end_tick()("scheduler_unschedulable_pods", **labels) == 0


NO_NODE = Decision(pod(schedulerName="my-scheduler"), Outcome.UNSCHEDULABLE, nominated="n1")


@pytest.mark.parametrize(
    ("happens", "name", "labels", "value"),
    [
        (
            lambda of: of.decided(replace(NO_NODE, victims=(pod("a"),), preempted_held=(pod("b"),))),
            "scheduler_preemption_victims_sum",  # kube-scheduler counts those that wait for Permit, too
            {},
            2,
        ),
        (lambda of: of.decided(NO_NODE), "scheduler_preemption_victims_count", {}, 0),
        (
            lambda of: of.record_for("x")("PostFilter", "Success", 0.1),
            "scheduler_preemption_attempts_total",
            {},
            1,
        ),
        (
            lambda of: of.record_for("x")("Filter", "Success", 0.1),
            "scheduler_preemption_attempts_total",
            {},
            0,
        ),
        (
            lambda of: of.finished(decision(Outcome.SCHEDULED, flushed=True), bound=True),
            "scheduler_pod_scheduled_after_flush_total",
            {},
            1,
        ),
        (
            lambda of: of.finished(decision(Outcome.SCHEDULED, flushed=True), bound=False),
            "scheduler_pod_scheduled_after_flush_total",
            {},
            0,
        ),
        (lambda of: of.tick_failed(UnreachableError("away")), "poller_ticks_total", {"result": "error"}, 1),
        (lambda of: of.write_failed("event"), "poller_failed_writes_total", {"write": "event"}, 1),
        (lambda of: of.event_dropped(), "poller_dropped_events_total", {}, 1),
        (lambda of: of.retried(), "poller_retries_total", {}, 1),
        (
            lambda of: of.answered("GET", "proxy", None, 0.5),
            "rest_client_requests_total",
            {"code": "<error>", "method": "GET", "host": "proxy"},
            1,
        ),
        (
            lambda of: of.answered("POST", "proxy", 201, 0.5),
            "rest_client_request_duration_seconds_sum",
            {"verb": "POST", "host": "proxy"},
            0.5,
        ),
        (lambda of: of.elects("lease", lambda: True), "leader_election_master_status", {"name": "lease"}, 1),
        (lambda of: of.elects("lease", lambda: False), "leader_election_master_status", {"name": "lease"}, 0),
    ],
)
def test_what_happens_is_counted(happens: Any, name: str, labels: dict[str, str], value: float) -> None:
    told = Told()
    happens(told.metrics)
    assert told.end_tick()(name, **labels) == value


def test_a_tick_is_timed() -> None:
    told, machine = Told(), Later()
    told.metrics.system = machine
    told.metrics.tick_began()
    machine.seconds += 100
    assert told.end_tick()("poller_tick_duration_seconds_sum") == pytest.approx(100, abs=9)


# --- health ---------------------------------------------------------------------------------------------


def test_health_follows_the_api_server_and_the_loop(cluster: Cluster) -> None:
    cluster.add_node("n1")
    policy = cluster.folder / "blocks.py"
    policy.write_text(BLOCKS_IN_FILTER)
    admitted = Event()

    def maybe(exchange: Exchange) -> Answer:
        return exchange.forward() if admitted.is_set() else answer(401, "who are you?")(exchange)  # type: ignore[return-value]

    with (
        faulty(cluster.proxy, Fault("GET", "/pods", maybe, ALWAYS)) as between,
        listening(cluster, f"--plugin={policy}", proxy=between.url) as (poller, client),
    ):
        poller.says("who are you?")
        early = client.get("/readyz")
        assert early.status_code == 500
        assert "[-]api-server failed: never reached: GET /api/v1/pods: 401" in early.text
        assert early.text.endswith("readyz check failed\n")
        assert client.get("/livez").text == "ok"

        admitted.set()
        eventually(lambda: client.get("/readyz").text == "ok")
        assert client.get("/readyz?verbose").text == "[+]loop ok\n[+]api-server ok\nreadyz check passed\n"

        admitted.clear()
        eventually(lambda: client.get("/readyz").status_code == 500)
        assert re.search(r"api-server failed: failing for \d+ s: GET .* 401", client.get("/readyz").text)
        assert client.get("/healthz").text == "ok"

        admitted.set()
        cluster.add_pod("stuck")
        stuck = eventually(lambda: _unless_ok(client.get("/livez?within=0.5")))
        assert stuck.status_code == 500
        assert re.match(r"\[-\]loop failed: no progress for \d+ s\nlivez check failed\n", stuck.text)
        assert client.get("/livez").text == "ok"  # a slow tick isn't taken for a dead one so soon

        lost = client.get("/")
        assert lost.status_code == 404
        assert lost.text.split("\n")[1:5] == ["/healthz", "/livez", "/readyz", "/metrics"]


def _unless_ok(answered: httpx.Response) -> httpx.Response | None:
    return None if answered.is_success else answered


def test_a_loop_that_rests_is_alive() -> None:
    health = Health()
    health.idle_for(1000)
    assert health.why_stuck(within=0) == ""
    health.idle_for(-LONGEST_SILENCE - 1)
    assert health.why_stuck() == "no progress for 241 s"
    health.moves()
    assert health.why_stuck() == ""


def asked(pages: listen.Pages, path: str, method: str = "GET", **headers: str) -> tuple[int, str]:
    """The status and the body of the answer to a client on this machine."""
    path, _, query = path.partition("?")
    fields = {"Host": "127.0.0.1:1", **headers}
    request = bounded_server.HttpRequest(method, path, query, [*fields.items()], "127.0.0.1")
    head, _, body = asyncio.run(pages(request)).partition(b"\r\n\r\n")
    return int(head.split()[1]), body.decode()


AWAY = "api-server failed: never reached: nothing answers"


@pytest.mark.parametrize(
    ("path", "status", "text"),
    [
        ("/livez", 200, "ok"),
        ("/livez?verbose", 200, "[+]loop ok\nlivez check passed\n"),
        ("/livez/loop", 200, "ok"),
        ("/readyz", 500, f"[+]loop ok\n[-]{AWAY}\nreadyz check failed\n"),
        ("/readyz?exclude=api-server", 200, "ok"),
        (
            "/readyz?verbose&exclude=api-server",
            200,
            "[+]loop ok\n[+]api-server excluded: ok\nreadyz check passed\n",
        ),
        (
            "/livez?verbose&exclude=etcd&exclude=dns",
            200,
            '[+]loop ok\nwarn: some health checks cannot be excluded: no matches for "dns","etcd"\n'
            "livez check passed\n",
        ),
        ("/readyz/api-server", 500, f"{AWAY}\n"),
        ("/readyz/loop", 200, "ok"),
        ("/livez?within=soon", 400, "within must be a number of seconds\n"),
        ("/livez?within=-1", 500, "[-]loop failed: no progress for 0 s\nlivez check failed\n"),
    ],
)
def test_checks_are_answered_as_the_api_server_answers_its_own(path: str, status: int, text: str) -> None:
    """Source: k8s.io/apiserver/pkg/server/healthz/healthz.go."""
    health = Health()
    health.failed(UnreachableError("nothing answers"))
    assert asked(listen.Pages(health, Metrics(health), {}), path) == (status, text)


@pytest.mark.parametrize("path", ["/livez/etcd", "/livez/", "/", "/metrics/more"])
def test_a_page_that_is_not_there_names_those_that_are(path: str) -> None:
    health = Health()
    pages = listen.Pages(health, Metrics(health), {"/configz": ("text/plain", "")})
    status, text = asked(pages, path)
    first, *paths = text.splitlines()
    assert (status, first) == (404, f"there is no {path}; there are")
    assert paths == [
        *("/healthz", "/livez", "/readyz", "/metrics", "/metrics/slis", "/metrics/resources"),
        *("/configz", "/statusz"),
    ]


def test_each_check_is_counted() -> None:
    health = Health()
    pages = listen.Pages(health, Metrics(health), {})
    asked(pages, "/readyz")
    asked(pages, "/readyz?exclude=api-server")
    counted = Scraped(asked(pages, "/metrics/slis")[1])
    assert counted("kubernetes_healthcheck", name="loop", type="readyz") == 1
    assert counted("kubernetes_healthcheck", name="api-server", type="readyz") == 0
    total = "kubernetes_healthchecks_total"
    assert counted(total, name="loop", type="readyz", status="success") == 2
    assert counted(total, name="api-server", type="readyz", status="error") == 1


@pytest.mark.parametrize("method", ["POST", "DELETE"])
def test_pages_are_only_read(method: str) -> None:
    health = Health()
    pages = listen.Pages(health, Metrics(health), {})
    assert asked(pages, "/livez", method) == (405, "")
    assert asked(pages, "/livez", "HEAD") == (200, "")


def test_requests_that_only_write_are_no_progress_of_the_loop() -> None:
    health = Health()
    metrics = Metrics(health)
    health.last_activity = stuck = time.monotonic() - 1000
    metrics.answered("POST", "proxy", None, seconds=10)
    metrics.retried()
    reading = threading.Thread(target=metrics.answered, args=("GET", "proxy", 200, 0.1))
    reading.start()
    reading.join()
    assert health.last_activity == stuck
    metrics.answered("GET", "proxy", 200, seconds=0.1)
    assert health.last_activity > stuck


# --- where ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("10251", Address("127.0.0.1", 10251)),
        (":10251", Address("127.0.0.1", 10251)),
        ("0.0.0.0:0", Address("0.0.0.0", 0)),
        ("[::1]:10251", Address("::1", 10251)),
        ("localhost:1", Address("localhost", 1)),
    ],
)
def test_only_loopback_is_listened_at_unless_told_otherwise(text: str, address: Address) -> None:
    assert listen_address(text) == address


@pytest.mark.parametrize(
    "text", ["x", "127.0.0.1", ":70000", "me@host:1", "host:1/x", "a..b:1", "http://host:1"]
)
def test_what_is_no_address_is_refused(text: str) -> None:
    with pytest.raises(typer.BadParameter, match="is neither HOST:PORT nor PORT"):
        listen_address(text)


def test_a_port_that_is_taken_is_named() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        where = f"127.0.0.1:{taken.getsockname()[1]}"
        command = [sys.executable, ROOT / "poller.py", "--listen", where]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert done.returncode == 1
    assert f"can't listen at {where}: Address already in use; give --listen another address" in done.stderr


def test_slow_clients_keep_no_probe_from_getting_through(cluster: Cluster) -> None:
    with listening(cluster) as (poller, client), ExitStack() as stack:
        poller.says("scheduling the pods of")
        address = client.base_url.host, client.base_url.port or 0
        for _ in range(200):
            slow = stack.enter_context(socket.create_connection(address, 60))
            slow.sendall(b"GET /live")
        answered = client.get("/livez")
        assert answered.text == "ok"
        assert answered.headers["X-Content-Type-Options"] == "nosniff"
        threads = len(list(Path(f"/proc/{poller.process.pid}/task").iterdir()))
        assert threads < 20
        files = Path(f"/proc/{poller.process.pid}/fd")  # of 200 connections, most are closed again
        eventually(lambda: len(list(files.iterdir())) < 100)


def test_the_slowest_client_is_hung_up_on_when_there_are_too_many(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(bounded_server, "PATIENCE", 600)  # so that it isn't this that ends them
    caplog.set_level(logging.INFO)
    listen.answering(Address("127.0.0.1", 0))
    port = int(caplog.messages[-1].rpartition(":")[2])
    with ExitStack() as stack:
        slow = [
            stack.enter_context(socket.create_connection(("127.0.0.1", port), 60))
            for _ in range(bounded_server.MAX_CONNECTIONS + 1)
        ]
        for each in slow:
            each.sendall(b"GET /live")
        with suppress(ConnectionResetError):
            assert slow[0].recv(1) == b""
        slow[-1].sendall(b"z HTTP/1.1\r\n\r\n")
        assert slow[-1].recv(12) == b"HTTP/1.1 200"


def test_what_is_no_get_is_refused(cluster: Cluster) -> None:
    with listening(cluster) as (_, client):
        assert client.post("/livez", content=b"x").status_code == 405
        assert client.head("/livez").content == b""
        assert client.get("/livez", headers={"X-Large": "x" * 20_000}).status_code == 431


@pytest.mark.parametrize("accept", ["application/openmetrics-text; version=x", "text/plain;version=..", ";"])
def test_a_client_that_accepts_what_there_is_not_gets_the_usual_format(accept: str, cluster: Cluster) -> None:
    with listening(cluster) as (_, client):
        answered = client.get("/metrics", headers={"Accept": accept})
        assert answered.status_code == 200
        assert "scheduler_pending_pods" in answered.text


def test_a_pod_that_was_gated_at_first_and_is_bound_is_not_among_those_not_scheduled() -> None:
    report, web = Report(dry_run=False, explain=None), pod("web")
    report.skipped(web, "waits for a gate")
    report.bound(Decision(web, Outcome.SCHEDULED, node_name="n1"))
    report.summarize(None)
    assert report.done == {"bound": 1}
