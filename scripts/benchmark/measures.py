"""The measurements: each starts a contestant, creates pods, and watches when they are bound."""

import math
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from random import Random

from scripts.benchmark import objects
from scripts.benchmark.arena import Arena, pods_path
from scripts.benchmark.churning import churning
from scripts.benchmark.client import Json, Request
from scripts.benchmark.contestants import Contestant, Running, running
from scripts.benchmark.processes import FailedError, Process
from scripts.benchmark.relay import relay
from scripts.benchmark.watching import Bindings
from scripts.benchmark.workloads import Churn, Workload

SETTLE = 0.7
"""Seconds from its first binding until a contestant is at rest: if it polls each second, it then sleeps."""

QUIET = 3.0
"""Further seconds until it counts as idle."""

STOPPED = 1.2
"""The least time, in seconds, that it is stopped before a burst. A sleep of one second ends meanwhile."""

MEBI = 1 << 20

P50, P99 = "one pod at a time, p50", "one pod at a time, p99"
START, MEMORY = "start to first binding", "peak memory"
CPU, PROXY_CPU, NETWORK = "idle, CPU", "idle, CPU of kubectl proxy", "idle, network"


AT_START, IN_BURST, AT_REST = (
    "CPU until the first binding",
    "CPU of a pod in a burst",
    "CPU of a minute at rest",
)
PEAKS = "peak memory", "peak memory of kubectl proxy"
OF_SIZE = (AT_START, IN_BURST, AT_REST, *PEAKS)


def size_of(what: str, bound: int) -> str:
    return f"with {bound:,} pods, {what}"


def in_words(alike: bool) -> str:
    return "pods alike" if alike else "pods all different"


def burst_of(alike: bool) -> str:
    return f"burst, {in_words(alike)}"


@dataclass(frozen=True)
class Result:
    """One figure: the name of the measure, the value, and its unit."""

    measure: str
    value: float | None = None
    unit: str = ""
    pods: int = 0
    samples: Sequence[float] = ()


@contextmanager
def settled(
    contestant: Contestant, arena: Arena, limit: float, url: str = ""
) -> Iterator[tuple[Running, Bindings]]:
    """A running contestant that has bound a first pod, and then had time to come to rest."""
    with (
        Bindings(arena, contestant.scheduler_name) as bindings,
        running(contestant, arena, url or arena.url) as runs,
    ):
        arena.create([objects.pod("first", contestant.scheduler_name)])
        _wait(bindings, 1, limit, runs.process)
        time.sleep(SETTLE)
        yield runs, bindings


def burst(arena: Arena, contestant: Contestant, pods: int, limit: float, *, alike: bool) -> list[Result]:
    """A contestant is stopped, pods are created, and then it is resumed: how many does it bind per second?"""
    number = min(pods, contestant.most_pods or pods)
    waiting = objects.pods(number, contestant.scheduler_name, alike=alike)
    with settled(contestant, arena, limit) as (runs, bindings):
        seconds = _bind_all(arena, contestant, waiting, runs.process, bindings, limit)
    return [Result(burst_of(alike), number / seconds, "pods/s", number)]


def throughput(arena: Arena, contestant: Contestant, workload: Workload, limit: float) -> list[Result]:
    """The same for a workload's pods; and the contestant's peak memory."""
    waiting = workload.measured_pods(contestant.scheduler_name)
    with settled(contestant, arena, limit) as (runs, bindings):
        seconds = _bind_all(arena, contestant, waiting, runs.process, bindings, limit, workload.churn)
        memory = runs.process.peak_memory / MEBI
    return [
        Result(workload.title, len(waiting) / seconds, "pods/s", len(waiting)),
        Result(memory_of(workload), memory, "MiB", len(waiting)),
    ]


def memory_of(workload: Workload) -> str:
    return f"{workload.name}, {MEMORY}"


def _bind_all(
    arena: Arena,
    contestant: Contestant,
    waiting: Sequence[Json],
    process: Process,
    bindings: Bindings,
    limit: float,
    churn: Churn | None = None,
) -> float:
    """Create pods while the contestant is stopped, and resume it; returns the seconds until all are bound."""
    stopped = process.pause()
    arena.create(waiting)
    arena.collect_garbage()
    time.sleep(max(0, stopped + STOPPED - time.monotonic()))
    with churning(arena, churn, contestant.scheduler_name):
        began = process.resume()
        _wait(bindings, 1 + len(waiting), limit, process)
    return bindings.last - began


def single(arena: Arena, contestant: Contestant, pods: int, limit: float) -> list[Result]:
    """One pod at a time. The pauses between them are random, so that they aren't in step with polls."""
    chance = Random(1)
    took: list[float] = []
    client = arena.new_client()
    with settled(contestant, arena, limit) as (runs, bindings):
        for number in range(pods):
            time.sleep(chance.random())
            body = objects.pod(f"single-{number}", contestant.scheduler_name)
            began = time.monotonic()
            client.send(Request("POST", pods_path(body), body))
            _wait(bindings, 2 + number, limit, runs.process)
            took.append(1000 * (bindings.last - began))
    client.close()
    return [
        Result(P50, percentile(took, 50), "ms", pods, took),
        Result(P99, percentile(took, 99), "ms", pods),
    ]


def start(arena: Arena, contestant: Contestant, limit: float) -> list[Result]:
    """The time from the start of the process to the binding of a pod that waits; and the peak memory."""
    arena.create([objects.pod("early", contestant.scheduler_name)])
    with (
        Bindings(arena, contestant.scheduler_name) as bindings,
        running(contestant, arena, arena.url) as runs,
    ):
        _wait(bindings, 1, limit, runs.process)
        time.sleep(SETTLE)
        return [
            Result(START, bindings.last - runs.process.began, "s", 1),
            Result(MEMORY, runs.process.peak_memory / MEBI, "MiB"),
        ]


def idle(arena: Arena, contestant: Contestant, seconds: float, limit: float) -> list[Result]:
    """CPU time and network traffic while there is nothing to do; the traffic is counted at the API server."""
    with relay(arena.url) as counted, settled(contestant, arena, limit, counted.url) as (runs, _):
        time.sleep(QUIET)
        processes = {CPU: runs.process, PROXY_CPU: runs.proxy}
        before = {name: each.cpu_seconds for name, each in processes.items() if each}
        bytes_before = counted.bytes
        time.sleep(seconds)
        passed = counted.bytes - bytes_before
        used = {name: each.cpu_seconds - before[name] for name, each in processes.items() if each}
    return [
        *(Result(name, each, "s") for name, each in used.items()),
        Result(NETWORK, passed / 1000, "kB"),
    ]


def size(
    arena: Arena, contestant: Contestant, bound: int, pods: int, seconds: float, limit: float
) -> list[Result]:
    """What it takes beside so many pods that run: at its start, for a burst of others, and at rest."""
    number = min(pods, contestant.most_pods or pods)
    waiting = objects.pods(number, contestant.scheduler_name, alike=False)
    with settled(contestant, arena, limit) as (runs, bindings):
        started = runs.process.cpu_seconds
        _bind_all(arena, contestant, waiting, runs.process, bindings, limit)
        time.sleep(QUIET)  # for the events
        done = runs.process.cpu_seconds
        time.sleep(seconds)
        rested = runs.process.cpu_seconds
        memory = dict(zip(PEAKS, (runs.process, runs.proxy), strict=True))
        found = [
            Result(AT_START, started, "s"),
            Result(IN_BURST, 1000 * (done - started) / number, "ms", number),
            Result(AT_REST, 60 * (rested - done) / seconds, "s"),
            *(Result(name, each.peak_memory / MEBI, "MiB") for name, each in memory.items() if each),
        ]
    return [replace(each, measure=size_of(each.measure, bound)) for each in found]


def paced(number: int, a_second: float) -> Iterator[int]:
    """The numbers below one, so many in a second; 0 is without a pause."""
    began = time.monotonic()
    for i in range(number):
        if a_second:
            time.sleep(max(0.0, began + (i + 1) / a_second - time.monotonic()))
        yield i


def percentile(samples: Sequence[float], percent: int) -> float:
    """The smallest sample that is greater than or equal to this many percent of the samples."""
    return sorted(samples)[math.ceil(len(samples) * percent / 100) - 1]


def _wait(bindings: Bindings, number: int, limit: float, process: Process) -> None:
    """Wait until this many pods are bound; FailedError if that takes longer than `limit`."""
    if not bindings.wait_for(number, limit):
        process.check()
        seen = len(bindings.seen)
        raise FailedError(f"bound {seen} of {number} pods in {limit:g} s; it said: {process.last_words()}")
