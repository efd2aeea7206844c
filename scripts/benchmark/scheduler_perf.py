"""Kubernetes' own benchmark, run as its YAML says, for poller and for kube-scheduler.

    python -m scripts.benchmark.scheduler_perf FOLDER NAME/WORKLOAD ...

FOLDER is test/integration/scheduler_perf of a checkout of Kubernetes; NAME is a test case, WORKLOAD one of
its workloads, as in PreemptionAsync/500Nodes. Each run has an API server of its own, and prints a line.

Feature gates aren't set, and what needs a driver for devices, or a steady state, can't be run here.
Source: test/integration/scheduler_perf/executor.go, operations.go, update.go
"""

import argparse
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from copy import deepcopy
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory

import msgspec
import yaml

from scripts.benchmark import perf_objects as objects
from scripts.benchmark.arena import NAMESPACES, NODES, PRIORITY_CLASSES, Arena, arena
from scripts.benchmark.client import MERGE, THREADS, Client, Json, RefusedError, Request, clients, send_all
from scripts.benchmark.contestants import CONTESTANTS, Contestant, running
from scripts.benchmark.measures import MEBI, paced
from scripts.benchmark.perf_pods import SeenPods
from scripts.benchmark.processes import FailedError, Process
from scripts.servers.real import assets

CSI_NODES = "/apis/storage.k8s.io/v1/csinodes"
VOLUMES = "/api/v1/persistentvolumes"
BOUND: Json = {"status": {"phase": "Bound"}}


@dataclass(frozen=True)
class Figures:
    """What came of a run."""

    rate: float
    """Pods per second, of those that are measured."""
    first: float
    """Seconds until the first of them was bound."""
    last: float
    """Seconds from the last change, other than by the scheduler, until the last of them was bound."""
    cpu: float
    """Seconds of the scheduler's processor time."""
    memory: float
    """Its peak memory, in MiB."""


@dataclass
class Run:
    """A workload under way: its operations, one after the other."""

    folder: Path
    """That of the test case's file: templates are named from there."""
    case: Json
    params: Mapping[str, int]
    arena: Arena
    contestant: Contestant
    process: Process
    pods: SeenPods
    limit: float
    """Seconds of patience for each wait."""
    measured: tuple[list[str], Mapping[str, str]] = field(default_factory=lambda: ([], {}))
    """The namespaces and labels of the pods that are measured."""
    began: float = 0.0
    changed: float = 0.0
    """When the last change was made, other than by the scheduler."""
    _pending: dict[str, int] = field(default_factory=dict)
    """By namespace, how many pods nobody has waited for."""
    _namespaces: set[str] = field(default_factory=set)
    _classes: set[str] = field(default_factory=set)
    _ended: threading.Event = field(default_factory=threading.Event)
    _beside: list[threading.Thread] = field(default_factory=list)
    _problems: list[Exception] = field(default_factory=list)

    def carry_out(self) -> Figures:
        """Carry out all operations. FailedError if one can't be carried out, or takes too long."""
        try:
            for index, op in enumerate(self.case["workloadTemplate"]):
                self._carry_out(index, op)
        finally:
            self._ended.set()
            for thread in self._beside:
                thread.join()
        if self._problems:
            raise FailedError(f"a change beside it failed: {self._problems[0]}")
        times = sorted(pod.scheduled for pod in self.pods.of(*self.measured) if pod.scheduled)
        if not times:
            raise FailedError("no pod is measured")
        return Figures(
            len(times) / (times[-1] - self.began),
            times[0] - self.began,
            times[-1] - self.changed,
            self.process.cpu_seconds,
            self.process.peak_memory / MEBI,
        )

    def _carry_out(self, index: int, op: Json) -> None:
        number = int(self.params[op["countParam"][1:]]) if "countParam" in op else int(op.get("count", 1))
        namespace = op.get("namespace", f"namespace-{index}")
        match op["opcode"]:
            case "createNodes":
                self._create_nodes(str(index), op, number)
            case "createNamespaces":
                for i in range(number):
                    self._have_namespace(f"{op['prefix']}-{i}", op.get("namespaceTemplatePath"))
            case "createPods":
                self._create_pods(namespace, op, number)
            case "createPodSets":
                for i in range(number):
                    one = {**op["createPodsOp"], "namespace": f"{op['namespacePrefix']}-{i}"}
                    self._carry_out(index, one)
            case "createAny":
                self._create_any(op, number)
            case "updateAny":
                self._update(op, number)
            case "deletePods" if op.get("skipWaitToCompletion"):
                self._beside_it(lambda client: self._delete_pods(client, op))
            case "deletePods":
                with self._client() as client:
                    self._delete_pods(client, op)
            case "churn":
                self._have_namespace(namespace)
                self._beside_it(lambda client: self._churn(client, op, namespace))
            case "barrier":
                self._wait(op)
            case "sleep":
                time.sleep(float(op["duration"].removesuffix("s")))
            case "startCollectingMetrics":
                self._measure(op["namespaces"], op.get("labelSelector", {}))
            case "stopCollectingMetrics":
                pass
            case other:
                raise FailedError(f"{other} can't be carried out here")

    # --- what is created, changed and deleted --------------------------------------------------------------

    def _create_nodes(self, prefix: str, op: Json, number: int) -> None:
        nodes = [objects.node_of(op, self.folder, prefix, i, number) for i in range(number)]
        self._send([Request("POST", NODES, node) for node in nodes])
        # A new node has the taint not-ready until a node controller removes it. No such controller runs here.
        kept = [(node["metadata"]["name"], node.get("spec", {}).get("taints")) for node in nodes]
        self._send(
            [Request("PATCH", f"{NODES}/{name}", {"spec": {"taints": was}}, MERGE) for name, was in kept]
        )
        strategy = op.get("nodeAllocatableStrategy", {})
        if strategy.get("csiNodeAllocatable"):
            csi_nodes = [objects.csi_node_of(strategy, name) for name, _ in kept]
            self._send([Request("POST", CSI_NODES, csi_node) for csi_node in csi_nodes])

    def _have_namespace(self, name: str, template: str | None = None) -> None:
        if name not in self._namespaces:
            body = objects.from_template(self.folder / template) if template else {}
            labels = body.get("metadata", {}).get("labels", {})
            self._send([Request("POST", NAMESPACES, {"metadata": {"name": name, "labels": labels}})])
            self._namespaces.add(name)

    def _create_pods(self, namespace: str, op: Json, number: int) -> None:
        if op.get("steadyState"):
            raise FailedError("a steady state can't be made here")
        self._have_namespace(namespace)
        if op.get("collectMetrics"):
            self._measure([namespace], {})
        path = op.get("podTemplatePath", self.case.get("defaultPodTemplatePath"))
        there = len(self.pods.of([namespace]))
        creations, of_volumes = [], []
        for i in range(number):
            pod = objects.from_template(self.folder / path, i, number) if path else deepcopy(objects.POD)
            if "persistentVolumeClaimTemplatePath" in op:
                claim, volume = objects.bound_volume(op, self.folder, namespace, i)
                of_volumes.append((claim, volume))
                use = {"claimName": claim["metadata"]["name"]}
                pod["spec"]["volumes"] = [{"name": "vol", "persistentVolumeClaim": use}]
            creations.append(self._creation(pod, namespace))
        self._create_volumes(namespace, of_volumes)
        self._send(creations)
        if op.get("skipWaitToCompletion"):
            self._pending[namespace] = self._pending.get(namespace, 0) + number
        else:
            self.process.wait_until(
                lambda: self._count([namespace], {}, "scheduled") >= there + number, self.limit, namespace
            )

    def _creation(self, pod: Json, namespace: str) -> Request:
        spec = pod["spec"]
        spec["schedulerName"] = self.contestant.scheduler_name
        if value := spec.get("priority"):  # the API server takes a number only with its class
            spec["priorityClassName"] = name = f"priority-{value}"
            if name not in self._classes:
                self._classes.add(name)
                self._send([Request("POST", PRIORITY_CLASSES, {"metadata": {"name": name}, "value": value})])
        return Request("POST", f"{NAMESPACES}/{namespace}/pods", pod)

    def _create_volumes(self, namespace: str, of_volumes: Sequence[tuple[Json, Json]]) -> None:
        claims = f"{NAMESPACES}/{namespace}/persistentvolumeclaims"
        for path, bodies in (
            (claims, [claim for claim, _ in of_volumes]),
            (VOLUMES, [v for _, v in of_volumes]),
        ):
            self._send([Request("POST", path, body) for body in bodies])
            names = [body["metadata"]["name"] for body in bodies]
            self._send([Request("PATCH", f"{path}/{name}/status", BOUND, MERGE) for name in names])

    def _create_any(self, op: Json, number: int) -> None:
        namespace = op.get("namespace", "")
        if namespace:
            self._have_namespace(namespace)
        bodies = [objects.from_template(self.folder / op["templatePath"], i, number) for i in range(number)]
        self._send([Request("POST", objects.path_of(body, namespace), body) for body in bodies])

    def _update(self, op: Json, number: int) -> None:
        with self._client() as client:
            for i in paced(number, op.get("updatePerSecond", 0)):
                wanted = objects.from_template(self.folder / op["templatePath"], i, number)
                name = wanted["metadata"]["name"]
                path = f"{objects.path_of(wanted, op.get('namespace', ''))}/{name}"
                for subresource in op.get("subresources", [""]):
                    new = objects.updated(client.get(path), wanted, subresource)
                    client.send(Request("PUT", f"{path}/{subresource}".rstrip("/"), new))
                if "status" in wanted:  # the API server keeps it as it was in the first write
                    client.send(Request("PUT", f"{path}/status", new))
                self.changed = time.monotonic()

    def _delete_pods(self, client: Client, op: Json) -> None:
        labels = ",".join(f"{key}={value}" for key, value in op.get("labelSelector", {}).items())
        path = f"{NAMESPACES}/{op['namespace']}/pods"
        found = client.get(f"{path}?labelSelector={labels}")["items"]
        for i in paced(len(found), op.get("deletePodsPerSecond", 0)):
            if self._ended.is_set():
                return
            client.send(Request("DELETE", f"{path}/{found[i]['metadata']['name']}"))
            self.changed = time.monotonic()

    def _churn(self, client: Client, op: Json, namespace: str) -> None:
        pause, most = op.get("intervalMilliseconds", 500) / 1000, op.get("number", 0)
        recreates = op["mode"] == "recreate"
        there: list[list[str]] = [[] for _ in range(most or 1)]  # the paths of the objects of each number
        for turn in count():
            if self._ended.wait(pause) or (most and turn >= most and not recreates):
                return
            paths = there[turn % len(there)]
            if recreates and paths:
                for path in paths:
                    client.send(Request("DELETE", path))
                paths.clear()
                continue
            for template in op["templatePaths"]:
                body = objects.from_template(self.folder / template, turn)
                request = Request("POST", objects.path_of(body, namespace), body)
                if body["kind"] == "Pod":
                    request = self._creation(body, namespace)
                made = msgspec.json.decode(client.send(request))
                if recreates:
                    paths.append(f"{request.path}/{made['metadata']['name']}")

    def _beside_it(self, work: Callable[[Client], None]) -> None:
        def run() -> None:
            try:
                with self._client() as client:
                    work(client)
            except (OSError, RefusedError) as error:
                self._problems.append(error)

        self._beside.append(threading.Thread(target=run, daemon=True))
        self._beside[-1].start()

    @contextmanager
    def _client(self) -> Iterator[Client]:
        client = self.arena.new_client()
        try:
            yield client
        finally:
            client.close()

    def _send(self, requests: Sequence[Request]) -> None:
        if requests:
            connections = clients(min(THREADS, len(requests)), self.arena.new_client)
            send_all(connections, requests)
            for client in connections:
                client.close()
            self.changed = time.monotonic()

    # --- what is waited for, and measured ------------------------------------------------------------------

    def _measure(self, namespaces: list[str], labels: Mapping[str, str]) -> None:
        self.arena.collect_garbage()
        self.measured = namespaces, labels
        self.began = self.changed = time.monotonic()

    def _wait(self, op: Json) -> None:
        labels = op.get("labelSelector", {})
        stage = "attempted" if op.get("stageRequirement") == "Attempted" else "scheduled"
        for name in op.get("namespaces") or [*self._pending]:
            self._wait_for(name, labels, stage)
            if stage == "scheduled":
                del self._pending[name]

    def _wait_for(self, namespace: str, labels: Mapping[str, str], stage: str) -> None:
        def done() -> bool:
            wanted = len(self.pods.of([namespace], labels)) if labels else self._pending[namespace]
            return self._count([namespace], labels, stage) >= wanted

        self.process.wait_until(done, self.limit, f"all {stage} in {namespace}")

    def _count(self, namespaces: list[str], labels: Mapping[str, str], stage: str) -> int:
        return sum(bool(getattr(pod, stage)) for pod in self.pods.of(namespaces, labels))


def find(folder: Path, name: str) -> tuple[Path, Json, Json]:
    """The folder of a test case, the case, and one of its workloads; it exits if there is none."""
    case_name, _, workload_name = name.partition("/")
    for file in sorted(folder.rglob("performance-config.yaml")):
        for case in yaml.safe_load(file.read_text()):
            if case["name"] == case_name:
                for workload in case["workloads"]:
                    if workload["name"] == workload_name:
                        return file.parent, case, workload
                sys.exit(f"{case_name} has {', '.join(workload['name'] for workload in case['workloads'])}")
    sys.exit(f"{folder} has no test case {case_name}")


def run(found: tuple[Path, Json, Json], contestant: Contestant, limit: float) -> Figures:
    """Run a workload with an API server of its own. FailedError or RefusedError when it can't be run."""
    folder, case, workload = found
    with TemporaryDirectory(prefix="poller-bench-") as logs, ExitStack() as stack:
        server = stack.enter_context(arena("real" if assets() else "embedded", Path(logs)))
        if why := contestant.missing(server):
            raise FailedError(why)
        runs = stack.enter_context(running(contestant, server, server.url))
        time.sleep(2)  # until it has read that there is nothing
        params = workload.get("params", {})
        seen = stack.enter_context(SeenPods(server))
        return Run(folder, case, params, server, contestant, runs.process, seen, limit).carry_out()


def main() -> None:
    """Run what the command line names."""
    keys = {contestant.key: contestant for contestant in CONTESTANTS}
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", type=Path, metavar="FOLDER")
    parser.add_argument("names", nargs="+", metavar="NAME/WORKLOAD")
    parser.add_argument(
        "--schedulers",
        type=lambda text: text.split(","),
        default=["watch", "kube-unlimited"],
        metavar="KEY,KEY",
        help=f"of {', '.join(keys)} (default watch,kube-unlimited)",
    )
    parser.add_argument("--repeat", type=int, default=1, metavar="TIMES", help="in turns (default 1)")
    parser.add_argument(
        "--limit",
        type=float,
        default=600.0,
        metavar="SECONDS",
        help="of patience for each wait (default 600)",
    )
    chosen = parser.parse_args()
    if unknown := [key for key in chosen.schedulers if key not in keys]:
        parser.error(f"there is no scheduler {unknown[0]}")
    for name in chosen.names:
        found, rates = find(chosen.folder, name), dict[str, list[float]]()
        for key in chosen.schedulers * chosen.repeat:
            try:
                figures = run(found, keys[key], chosen.limit)
            except (FailedError, RefusedError, OSError) as error:
                print(f"{name}, {keys[key].title}: {error}", flush=True)
                continue
            rates.setdefault(key, []).append(figures.rate)
            print(
                f"{name}, {keys[key].title}: {figures.rate:.1f} pods/s; "
                f"the first after {figures.first:.2f} s, "
                f"the last {figures.last:.2f} s after the last change; CPU {figures.cpu:.1f} s, "
                f"memory {figures.memory:.0f} MiB",
                flush=True,
            )
        if len(rates) == 2:
            one, other = map(median, rates.values())
            print(f"{name}: {one / other:.2f} of the other (medians)", flush=True)


if __name__ == "__main__":
    main()
