"""A steady state: pods are created, bound and deleted, turn after turn, and their claims with them.

kube-controller-manager's claim controller makes the claims, and takes their devices away.

Source: createPodsSteadily in test/integration/scheduler_perf/executor.go
"""

import time
from collections.abc import Iterator
from contextlib import closing, contextmanager

from scripts.benchmark import devices
from scripts.benchmark.arena import NAMESPACES, Arena, pods_path
from scripts.benchmark.client import THREADS, Request, clients, send_all
from scripts.benchmark.contestants import Contestant
from scripts.benchmark.measures import MEBI, Result, memory_of, settled
from scripts.benchmark.processes import FailedError, Process, process
from scripts.benchmark.workloads import Workload
from scripts.servers.real import assets

SECONDS = 10.0
"""How long pods come and go: scheduler_perf's `duration`."""

CONTROLLER = "kube-controller-manager"
WAITING = "labelSelector=bench=waiting"


def steady(arena: Arena, contestant: Contestant, workload: Workload, limit: float) -> list[Result]:
    """How many pods are bound per second; and the contestant's peak memory.

    As soon as all pods of a turn are bound they are deleted, and as many are created.
    """
    with _claim_controller(arena) as controller, settled(contestant, arena, limit) as (runs, bindings):
        arena.collect_garbage()
        began = time.monotonic()
        until, turn, first = began + SECONDS, 0, len(bindings.seen)
        connections = clients(THREADS, arena.new_client)
        while (left := until - time.monotonic()) > 0:
            pods = workload.steady_pods(contestant.scheduler_name, turn)
            send_all(connections, [Request("POST", pods_path(each), each) for each in pods])
            turn += 1
            if bindings.wait_for(first + turn * workload.measured, left):
                connections[0].send(_deletion_of_pods(workload))
        bound = sum(began < when <= until for when in bindings.seen.values())
        if not bound:
            raise FailedError(f"bound no pod in {SECONDS:g} s; it said: {runs.process.last_words()}")
        memory = runs.process.peak_memory / MEBI
        controller.check()
        _delete_claims(arena, workload, limit)
    return [
        Result(workload.title, bound / SECONDS, "pods/s", bound),
        Result(memory_of(workload), memory, "MiB", bound),
    ]


@contextmanager
def _claim_controller(arena: Arena) -> Iterator[Process]:
    binary = (folder / CONTROLLER) if (folder := assets()) else None
    if arena.kind != "real" or not binary or not binary.exists():
        raise FailedError(f"a steady state needs a real API server, and {CONTROLLER} beside kube-apiserver")
    command = [str(binary), f"--kubeconfig={arena.kubeconfig}", "--controllers=resourceclaim-controller"]
    command += ["--leader-elect=false", "--secure-port=0", "--kube-api-qps=5000", "--kube-api-burst=5000"]
    with process(command, arena.folder / f"{CONTROLLER}.log") as running:
        yield running


def _delete_claims(arena: Arena, workload: Workload, limit: float) -> None:
    """Delete the pods, and the claims that were made for them; the controller takes their devices away."""
    claims = f"{devices.API}/namespaces/{workload.namespace}/resourceclaims?{WAITING}"
    with closing(arena.new_client()) as client:
        client.send(_deletion_of_pods(workload))
        client.send(Request("DELETE", claims))
        until = time.monotonic() + limit
        while client.get(f"{claims}&limit=1")["items"]:
            if time.monotonic() > until:
                raise FailedError(f"the claims were not deleted in {limit:g} s")
            time.sleep(0.1)


def _deletion_of_pods(workload: Workload) -> Request:
    return Request("DELETE", f"{NAMESPACES}/{workload.namespace}/pods?gracePeriodSeconds=0&{WAITING}")
