"""Pods that come one after the other, beside pods that wait: does it take longer to bind them?"""

import time
from collections.abc import Sequence

from scripts.benchmark import objects
from scripts.benchmark.arena import Arena, pods_path
from scripts.benchmark.client import Json, Request
from scripts.benchmark.contestants import Contestant
from scripts.benchmark.measures import QUIET, Result, paced, percentile, settled
from scripts.benchmark.perf_pods import SeenPods
from scripts.benchmark.processes import Process

A_SECOND = 20
"""So many pods come each second."""

AT_REST = 0.02
"""The share of the processor's time that a scheduler takes at most when it has nothing to do."""

NAMESPACE = ["default"]
WAITING, PACED = {"pace": "waits"}, {"pace": "even"}
"""The labels of pods that wait, and of those that come beside them."""

NUMBER = "number"
"""The label with the number of a pod that comes: the first has 0."""

WAITING_BY = {
    "gated": {"schedulingGates": [{"name": "example.com/bench"}]},
    "unschedulable": {"nodeSelector": {"bench": "nowhere"}},
}
"""By how pods wait, what makes them wait."""

Step = tuple[str, int]
"""How pods wait, and how many."""


def title(step: Step) -> str:
    """What is measured beside so many pods: a pod's time, at the median."""
    how, waiting = step
    return f"{A_SECOND} pods a second beside {waiting:,} {how}, p50"


def cpu_title(step: Step) -> str:
    """The same, in the scheduler's own time."""
    return f"{title(step).removesuffix('p50')}CPU of a pod"


def beside(arena: Arena, contestant: Contestant, step: Step, pods: int, limit: float) -> list[Result]:
    """Have pods wait. Then create others, and watch how long each takes from its POST to its binding."""
    how, waiting = step
    name = contestant.scheduler_name
    with settled(contestant, arena, limit) as (runs, _), SeenPods(arena) as seen:
        arena.create([_waiting_pod(number, how, name) for number in range(waiting)])
        runs.process.wait_until(
            lambda: sum(pod.attempted > 0 for pod in seen.of(NAMESPACE, WAITING)) >= waiting,
            limit,
            f"{waiting} pods {how}",
        )
        runs.process.wait_until(lambda: _is_at_rest(runs.process), limit, "all written about them")
        before = runs.process.cpu_seconds
        sent = _create(arena, [_paced_pod(number, name) for number in range(pods)])
        runs.process.wait_until(
            lambda: all(pod.scheduled for pod in seen.of(NAMESPACE, PACED)), limit, f"{pods} pods bound"
        )
        took = [1000 * (pod.scheduled - sent[int(pod.labels[NUMBER])]) for pod in seen.of(NAMESPACE, PACED)]
        cpu = 1000 * (runs.process.cpu_seconds - before) / pods
    return [
        Result(title(step), percentile(took, 50), "ms", pods, took),
        Result(cpu_title(step), cpu, "ms", pods),
    ]


def _is_at_rest(process: Process) -> bool:
    """Whether it has little to do for some time: events, for example, are written after all else."""
    before = process.cpu_seconds
    time.sleep(QUIET)
    return process.cpu_seconds - before < AT_REST * QUIET


def _waiting_pod(number: int, how: str, scheduler_name: str) -> Json:
    body = objects.pod(f"waiting-{number}", scheduler_name)
    body["metadata"]["labels"] |= WAITING
    body["spec"] |= WAITING_BY[how]
    return body


def _paced_pod(number: int, scheduler_name: str) -> Json:
    body = objects.pod(f"paced-{number}", scheduler_name)
    body["metadata"]["labels"] |= {**PACED, NUMBER: str(number)}
    return body


def _create(arena: Arena, pods: Sequence[Json]) -> list[float]:
    """Create pods at an even pace. Returns when each was sent."""
    client, sent = arena.new_client(), list[float]()
    for i in paced(len(pods), A_SECOND):
        sent.append(time.monotonic())
        client.send(Request("POST", pods_path(pods[i]), pods[i]))
    client.close()
    return sent
