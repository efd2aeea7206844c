"""Measures poller's decisions without an API server, in a separate process: their speed and memory.

`python -m scripts.benchmark.decisions NODES PODS {alike,different}`, or `... WORKLOAD SCALE`
"""

import subprocess
import sys
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any, TypeVar

import msgspec
from msgspec.structs import replace

import lib.startup  # noqa: F401  # it sets the garbage collector's threshold
from lib.kube.changes import Change, Kind
from lib.kube.devices import DeviceObject
from lib.kube.objects import Node, Pod, Service, decode_hook
from lib.kube.storage import StorageObject
from lib.scheduling.cache import Cache
from lib.scheduling.decision import Decision, Outcome
from lib.scheduling.looked_up import LookedUp
from lib.scheduling.plugins.registry import default_profile
from lib.scheduling.scheduling_cycle import Scheduler
from lib.scheduling.workloads import Workloads
from scripts.benchmark import objects
from scripts.benchmark.client import Json
from scripts.benchmark.measures import MEBI, MEMORY, Result, in_words
from scripts.benchmark.processes import FailedError, peak_memory
from scripts.benchmark.workloads import Workload, chosen
from scripts.servers.process import ROOT

NAME = "bench"
LIMIT = 1800.0
"""Seconds after which a measurement is ended."""

Read = TypeVar("Read", Node, Pod, Service)


def deciding(what: str) -> str:
    return f"deciding alone, {what}"


def decide(nodes: int, pods: int, *, alike: bool) -> list[Result]:
    """Decide on the pods of a burst."""
    return _measured(in_words(alike), pods, [str(nodes), str(pods), "alike" if alike else "different"])


def decide_workload(workload: Workload, scale: float) -> list[Result]:
    """Decide on the measured pods of a workload, which has been scaled by `scale`."""
    return _measured(workload.title, workload.measured, [workload.name, str(scale)])


def _measured(what: str, pods: int, arguments: Sequence[str]) -> list[Result]:
    """Pods per second of CPU time. Other processes on the machine hardly change it."""
    command = [sys.executable, "-m", "scripts.benchmark.decisions", *arguments]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=LIMIT)
    if done.returncode:
        raise FailedError((done.stderr.strip().splitlines() or ["it ended without a word"])[-1])
    seconds, memory = map(float, done.stdout.split())
    return [
        Result(deciding(what), pods / seconds, "pods/s", pods),
        Result(f"{deciding(what)}, {MEMORY}", memory / MEBI, "MiB", pods),
    ]


# --- in the separate process ----------------------------------------------------------------------------


@dataclass
class Scene:
    """The objects of a cluster, and the pods to decide on, as the API has them."""

    nodes: Iterable[Json]
    waiting: Iterable[Json]
    existing: Iterable[Json] = ()
    namespaces: dict[str, dict[str, str]] = field(default_factory=dict)
    services: Sequence[Json] = ()
    storage: Sequence[Json] = ()
    devices: Sequence[Json] = ()


def main(arguments: Sequence[str]) -> None:
    scene = _workload_scene(*arguments) if len(arguments) == 2 else _burst_scene(*arguments)
    services = [read(Service, each) for each in scene.services]
    cache = Cache(
        (read(Node, each) for each in scene.nodes),
        (read(Pod, with_uid(each)) for each in scene.existing),
        LookedUp(scene.namespaces, workloads=Workloads(services)),
    )
    for each in scene.storage:
        cache.storage.put(_read_storage(each))
    for each in scene.devices:
        cache.devices.put(_read_device(each))
    waiting = [read(Pod, with_uid(each)) for each in scene.waiting]
    scheduler = Scheduler(default_profile(NAME), Random(1), in_full=False)
    began = time.process_time()
    decisions = [_decide(scheduler, pod, cache) for pod in waiting]
    seconds = time.process_time() - began
    if missed := [each.message for each in decisions if each.outcome != Outcome.SCHEDULED]:
        sys.exit(f"{len(missed)} of {len(waiting)} pods were given no node: {missed[0]}")
    print(seconds, peak_memory(Path("/proc/self")))


def _decide(scheduler: Scheduler, pod: Pod, cache: Cache) -> Decision:
    """Decide on a pod. If it preempts others, they are removed, and poller decides again."""
    decision = scheduler.schedule_one(pod, cache)
    if decision.victims:
        for victim in decision.victims:
            cache.apply(Change(Kind.DELETED, victim, victim))
        decision = scheduler.schedule_one(pod, cache)
    if pod.spec.resource_claims and decision.outcome == Outcome.SCHEDULED:
        _write_claims(decision, cache)
    return decision


def _write_claims(decision: Decision, cache: Cache) -> None:
    """What the API server would have of the pod's claims, once they are written."""
    for step in decision.state["DynamicResources"].to_write(decision.node_name):
        claim = step.claim
        status = replace(claim.status, allocation=step.allocation or claim.status.allocation)
        cache.devices.written(replace(claim, status=status), claim.metadata.uid)


def _burst_scene(nodes: str, pods: str, kind: str) -> Scene:
    return Scene(map(objects.node, range(int(nodes))), objects.pods(int(pods), NAME, alike=kind == "alike"))


def _workload_scene(name: str, scale: str) -> Scene:
    workload = chosen([name], float(scale))[0]
    labels = {"team": "devops"} if workload.teams else {}
    service = workload.service_object()
    of_devices = [*workload.device_objects(), *workload.device_claims()]
    return Scene(
        workload.node_objects(),
        workload.measured_pods(NAME),
        workload.existing_pods(),
        dict.fromkeys(workload.namespaces(), labels),
        [service] if service else [],
        workload.storage_objects(),
        [with_uid(each) for each in of_devices if each["kind"] != "ResourceClaimTemplate"],
    )


def with_uid(body: Json) -> Json:
    metadata = body["metadata"]
    return {**body, "metadata": {**metadata, "uid": f"uid-of-{metadata['name']}"}}


def read(kind: type[Read], body: Any) -> Read:
    """The object as poller reads it from JSON."""
    return msgspec.json.decode(msgspec.json.encode(body), type=kind, dec_hook=decode_hook)


def _read_storage(body: Json) -> StorageObject:
    found: StorageObject = msgspec.json.decode(
        msgspec.json.encode(body), type=StorageObject, dec_hook=decode_hook
    )
    return found


def _read_device(body: Json) -> DeviceObject:
    found: DeviceObject = msgspec.json.decode(
        msgspec.json.encode(body), type=DeviceObject, dec_hook=decode_hook
    )
    return found


if __name__ == "__main__":
    main(sys.argv[1:])
