"""The bench, run with few nodes and pods: it measures, and names the contestants that can't take part."""

import json
import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any

import httpx
import pytest
from all_cases import ALL_CASES
from faults import Effect, Exchange, Fault, Stream, answer, faulty

from scripts.benchmark import decisions
from scripts.benchmark.arena import Arena
from scripts.benchmark.contestants import CONTESTANTS
from scripts.benchmark.failover import failover, late_writes
from scripts.benchmark.measures import burst
from scripts.benchmark.options import PARTS
from scripts.benchmark.processes import FailedError
from scripts.benchmark.workloads import NAMES, chosen
from scripts.servers.embedded import minicluster
from scripts.servers.process import ROOT
from scripts.servers.real import assets

EXPIRED = b'{"type":"ERROR","object":{"kind":"Status","reason":"Expired","code":410}}\n'


def bench(*arguments: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [ROOT / "scripts" / "bench", "--server", "embedded", *arguments],
        env={**os.environ, "COLUMNS": "160"},
        capture_output=True,
        text=True,
        timeout=300,
    )


def test_ticks_are_measured_beside_pods_that_wait(tmp_path: Path) -> None:
    file = tmp_path / "figures.json"
    done = bench("--nodes", "5", "--only", "tick", "--waiting", "20", "--json", str(file))
    assert done.returncode == 0, done.stderr
    figures = json.loads(file.read_bytes())["figures"]
    assert {each["measure"].split("; ")[1] for each in figures} == {
        f"{number} pods {phase}" for number in (0, 20) for phase in ("gated", "unschedulable", "held")
    }
    assert len(figures) == 6 * 2 * 3
    for each in figures:
        assert 0 < each["value"] < 1_000, each
    assert re.search(r"tick beside 20 pods gated: [0-9.]+x at most \(", done.stdout)


def test_pods_are_timed_beside_pods_that_wait(tmp_path: Path) -> None:
    file = tmp_path / "figures.json"
    sizes = "--nodes", "3", "--waiting", "5", "--singles", "4"
    done = bench(*sizes, "--only", "beside", "--schedulers", "watch", "--json", str(file))
    assert done.returncode == 0, done.stderr
    figures = json.loads(file.read_bytes())["figures"]
    assert [each["measure"] for each in figures] == [
        f"20 pods a second beside {beside}, {what}"
        for beside in ("0 gated", "5 gated", "5 unschedulable")
        for what in ("p50", "CPU of a pod")
    ]
    for each in figures:
        assert each["pods"] == 4
        assert 0 <= each["value"] < 10_000, each  # so few pods may take no tick of the processor's clock
    assert all(each["value"] for each in figures if "p50" in each["measure"])


def test_a_burst_is_measured_and_who_cannot_take_part_is_named(tmp_path: Path) -> None:
    file = tmp_path / "figures.json"
    sizes = "--nodes", "5", "--pods", "10", "--repeat", "2", "--sizes", "3:6", "--idle", "0.5"
    done = bench(*sizes, "--only", "burst,size", "--schedulers", "poller,bare,kube", "--json", str(file))

    assert done.returncode == 0, done.stderr
    assert "embedded API server" in done.stdout
    assert "left out: kube-scheduler: kube-scheduler needs a real API server." in done.stdout
    assert "the medians of 2 rounds" in done.stdout
    *figures, start, of_a_pod, at_rest, memory, of_proxy = json.loads(file.read_bytes())["figures"]
    assert [start["measure"], memory["nodes"]] == ["with 6 pods, CPU until the first binding", 3]
    assert 0 < of_a_pod["value"] < 1000 * start["value"]
    assert 0 <= at_rest["value"] < 60
    assert min(memory["value"], of_proxy["value"]) > 10
    assert [(each["contestant"], each["measure"]) for each in figures] == [
        *[("poller", "burst, pods alike"), ("bare", "burst, pods alike")] * 2,
        *[("poller", "burst, pods all different"), ("bare", "burst, pods all different")] * 2,
    ]
    for each in figures:
        assert each["pods"] == 10
        assert 0 < each["value"] < 10_000, each


def test_decisions_alone_are_measured(tmp_path: Path) -> None:
    file = tmp_path / "figures.json"
    done = bench("--nodes", "5,10", "--pods", "20", "--only", "decide", "--json", str(file))

    assert done.returncode == 0, done.stderr
    figures = json.loads(file.read_bytes())["figures"]
    assert [(each["nodes"], each["unit"]) for each in figures] == [
        (nodes, unit) for nodes in (5, 5, 10, 10) for unit in ("pods/s", "MiB")
    ]
    assert all(each["value"] > 0 for each in figures)
    assert "no API server" in done.stdout
    assert "left out" not in done.stdout


MORE_THAN_NODES_AND_PODS = [
    "SchedulingWithMixedChurn",
    "SchedulingRequiredPodAntiAffinityWithNSSelector",
    "DefaultTopologySpreading",
    "SchedulingCSIPVs",
]


@pytest.mark.parametrize(
    ("names", "schedulers"),
    [(MORE_THAN_NODES_AND_PODS, "poller"), (["PreemptionBasic"], "poller,kube-unlimited")],
    ids=["poller", "beside kube-scheduler"],
)
def test_workloads_are_measured(tmp_path: Path, names: list[str], schedulers: str) -> None:
    file = tmp_path / "figures.json"
    few = "--scale", "0.002", "--schedulers", schedulers
    done = bench(*few, "--only", "throughput", "--workload", ",".join(names), "--json", str(file))

    assert done.returncode == 0, done.stderr
    figures = [each for each in json.loads(file.read_bytes())["figures"] if each["contestant"] == "poller"]
    assert [each["measure"].split(",")[0] for each in figures] == [name for name in names for _ in range(2)]
    assert [each["unit"] for each in figures] == ["pods/s", "MiB"] * len(names)
    assert all(each["value"] > 0 for each in figures), figures


@pytest.mark.parametrize("workload", NAMES)
def test_each_workload_fits_its_nodes(workload: str, capsys: pytest.CaptureFixture[str]) -> None:
    decisions.main([workload, "0.002"])  # it ends with an error if a pod has no node
    seconds, memory = map(float, capsys.readouterr().out.split())
    assert min(seconds, memory) > 0


def test_a_workload_is_decided_on_in_a_process_of_its_own() -> None:
    (workload,) = chosen(["PreemptionBasic"], 0.002)
    rate, memory = decisions.decide_workload(workload, 0.002)
    assert rate.pods == workload.measured
    assert rate.value
    assert memory.unit == "MiB"


def end_after(events: int, *last: bytes, broken_off: bool = False) -> Effect:
    """End a watch after so many of its events, and after these lines."""

    def effect(exchange: Exchange) -> Stream:
        original = exchange.stream()

        def lines() -> Iterator[bytes]:
            yield from islice(original.lines, events)
            yield from last
            if broken_off:
                raise httpx.ReadError("broken off")

        return replace(original, lines=lines())

    return effect


@pytest.fixture(scope="module")
def bare_server() -> Iterator[str]:
    with minicluster("--bare", "--nodes", "0") as url:
        yield url


@pytest.mark.parametrize(
    "end",
    [
        end_after(4),
        end_after(4, b'{"type":"ADDED","obj', broken_off=True),
        end_after(4, EXPIRED),
        answer(410, "{}"),
    ],
    ids=["at its time limit", "in the middle of an event", "as its events expired", "as its version expired"],
)
def test_a_burst_is_measured_to_its_end_when_the_watch_of_the_bench_is_ended(
    end: Effect, bare_server: str, tmp_path: Path
) -> None:
    with faulty(bare_server, Fault("GET", "[?&]watch=1", end)) as between:
        arena = Arena("embedded", between.url, None, None, tmp_path)
        arena.prepare(nodes=5, bound=0)
        [result] = burst(arena, CONTESTANTS[0], 10, 60, alike=True)  # poller, which polls: it doesn't watch
        arena.prepare(nodes=0, bound=0)

        watches = [path for _, path in between.requests if "watch=1" in path]
    assert len(watches) == 2
    assert result.value


@pytest.mark.skipif(not shutil.which("curl"), reason="the lab's script needs curl")
def test_a_contestant_that_fails_is_noted_and_the_others_go_on() -> None:
    full = "--nodes", "1", "--bound", "110", "--limit", "8"  # the lab's script binds to a full node, too
    done = bench(*full, "--only", "start", "--schedulers", "poller,lab")

    assert done.returncode == 0, done.stderr
    assert "[1] poller, start to first binding, 1 nodes: bound 0 of 1 pods in 8 s" in done.stdout
    assert done.stdout.count("failed") == 2
    assert re.search(r"start to first binding .* failed \[1\] │ +\d", done.stdout)


@pytest.mark.skipif(
    not ALL_CASES or not assets(), reason="POLLER_ALL_CASES=1 and a kube-apiserver, which has the audit log"
)
def test_a_deleted_leader_is_followed_at_once_by_the_other(tmp_path: Path) -> None:
    (watch,) = [each for each in CONTESTANTS if each.key == "watch"]
    took, late = failover(watch, tmp_path, 60, ["delete"])
    assert took.value
    assert 0 < took.value < 15  # the lease was released: it didn't have to expire
    assert late.value == 0


def audited(time: str, user: str, resource: str, holder: str = "", code: int = 200) -> dict[str, Any]:
    """A line of the audit log."""
    return {
        "user": {"username": user},
        "objectRef": {"resource": resource},
        "requestObject": {"spec": {"holderIdentity": holder}},
        "requestReceivedTimestamp": time,
        "stageTimestamp": time,
        "responseStatus": {"code": code},
    }


def test_a_write_of_one_that_led_before_is_found() -> None:
    led = [audited("01", "first", "leases", "host_1"), audited("02", "first", "pods")]
    follows = [audited("05", "second", "leases", "host_2"), audited("06", "second", "pods")]
    in_between = audited("03", "first", "leases", "")  # it was released
    refused = audited("07", "first", "pods", code=409)
    assert late_writes([*led, in_between, *follows, refused]) == 0
    assert late_writes([*led, *follows, audited("07", "first", "pods")]) == 1
    with pytest.raises(FailedError):
        late_writes([])


def test_an_unknown_part_is_named() -> None:
    done = bench("--only", "bursts")
    assert done.returncode == 2
    assert f"'bursts' is none of {', '.join(PARTS)}" in done.stderr
