"""Reads a trace and the nodes it runs on, from whichever kind of file it is; or makes a trace up."""

import re
from collections.abc import Iterator, Mapping, Sequence
from math import inf
from pathlib import Path

from lib.kube.objects import Json, Node, Pod
from lib.kube.system import MACHINE
from lib.questions.deciding import without_node
from lib.questions.durations import seconds_in
from lib.questions.errors import CommandLineError, QuestionError
from lib.questions.files import read_files
from lib.questions.manifests import convert, read_manifests, workloads_in
from lib.questions.new_pods import PodMaker
from lib.questions.pod_templates import as_dict
from lib.questions.recording.reading import is_recording
from lib.questions.replay import openb
from lib.questions.replay.recorded import read_recording
from lib.questions.replay.trace import Arrival, Arrivals, Made, Trace
from lib.questions.snapshot import Snapshot
from lib.scheduling.cache import Cache

ARRIVES, RUNS_FOR = "poller/arrives", "poller/runs-for"
"""Annotations of a manifest: when its pods arrive, and for how long each runs, such as 90s, 15m or 1h30m."""

CSV = (".csv", ".csv.gz")

NO_NODES = "--nodes FILE is missing: on which nodes are these pods to run?"


def read_snapshot(file: Path) -> Snapshot:
    """The nodes of a CSV, or of a file for `--from`. QuestionError if there are none."""
    snapshot = Snapshot()
    if file.name.endswith(CSV):
        snapshot.of(Node).extend(openb.read_nodes(file))
    else:
        snapshot = read_files([file])
    if not snapshot.of(Node):
        raise QuestionError(f"--nodes {file}: holds no nodes")
    return snapshot


def read_trace(file: Path, snapshot: Snapshot | None) -> tuple[Snapshot, Trace]:
    """A trace: a CSV, manifests, or a recording. Returns the cluster that it begins with, too.

    snapshot: the cluster; a recording has its own, and other nodes take the place of those. It gets what
    manifests hold besides workloads, such as PriorityClasses. QuestionError if there are no pods.
    """
    if is_recording(file):
        return read_recording(file, snapshot)
    if snapshot is None:
        raise CommandLineError(NO_NODES)
    if file.name.endswith(CSV):
        arrivals: Arrivals = openb.read_pods(file)
    else:
        found = _of_manifests(read_manifests([file], "default"), snapshot)
        arrivals = sorted(found, key=lambda arrival: arrival.at)
    if not len(arrivals):
        raise QuestionError(f"{file}: holds no pods")
    return snapshot, Trace(arrivals)


def _of_manifests(objects: Sequence[Json], snapshot: Snapshot) -> Iterator[Arrival]:
    """The pods of each workload; all of its pods arrive at once."""
    names: set[str] = set()
    for workload in workloads_in(objects, snapshot):
        if workload.replicas is None:
            raise QuestionError(f"{workload}: a DaemonSet has no place in a trace")
        metadata = as_dict(workload.template.get("metadata"), workload)
        annotations = as_dict(metadata.get("annotations"), workload)
        at = seconds_in(annotations.get(ARRIVES, "0s"), f"{workload}: {ARRIVES}")
        runs_for = inf
        if RUNS_FOR in annotations:
            runs_for = seconds_in(annotations[RUNS_FOR], f"{workload}: {RUNS_FOR}")
        maker = PodMaker(snapshot, Cache())
        for new in maker.pods_of(workload):
            if refused := maker.refused.get(workload):
                raise QuestionError(f"{workload}: {refused}")
            pod = without_node(new.pod)
            if str(pod) in names:
                raise QuestionError(f"{workload}: there are two pods {pod}")
            names.add(str(pod))
            yield Arrival(at, pod.metadata.name, pod, runs_for)


# --- traces that are made up ------------------------------------------------------------------------------

SIZES: Mapping[str, tuple[str, str]] = {
    "small": ("250m", "512Mi"),
    "medium": ("1", "2Gi"),
    "large": ("4", "16Gi"),
    "huge": ("16", "64Gi"),
}
"""What a pod of each size requests: cpu, memory."""

PER = {"s": 1.0, "min": 60.0, "h": 3600.0}


def generated(arrivals: str, mix: str, length: float, mean_run: float, seed: int) -> Made:
    """Pods that arrive for `length` seconds, and run for `mean_run` seconds in the mean.

    arrivals: such as poisson:20/min; the times between two pods are exponential, and so is how long each
    runs. mix: sizes with weights, such as small=70,large=30. QuestionError when one of them is wrong. The
    same seed makes the same pods.
    """
    form = re.fullmatch(r"poisson:(\d{1,9}(?:\.\d{1,9})?)/(s|min|h)", arrivals)
    if not form or not float(form[1]):
        raise CommandLineError(f"--arrivals {arrivals}: is not of the form poisson:20/min; also /s and /h")
    if not mean_run:
        raise CommandLineError("--runs-for: must be longer than 0s")
    rate = float(form[1]) / PER[form[2]]
    weights = _weights(mix)
    pods = {size: _pod(*SIZES[size]) for size in weights}

    def make() -> Iterator[Arrival]:
        random = MACHINE.random(seed)
        at, number = random.expovariate(rate), 0
        while at <= length:
            number += 1
            (size,) = random.choices([*weights], [*weights.values()])
            yield Arrival(at, f"{size}-{number}", pods[size], random.expovariate(1 / mean_run))
            at += random.expovariate(rate)

    return Made(make, sum(1 for _ in make()))


def _weights(mix: str) -> dict[str, float]:
    found: dict[str, float] = {}
    for part in mix.split(","):
        size, _, weight = part.partition("=")
        if size not in SIZES or not re.fullmatch(r"\d{1,9}", weight) or size in found:
            known = ", ".join(SIZES)
            raise CommandLineError(f"--mix {mix}: is not of the form small=70,large=30; sizes are {known}")
        found[size] = float(weight)
    if not any(found.values()):
        raise CommandLineError(f"--mix {mix}: one of the weights must be more than 0")
    return found


def _pod(cpu: str, memory: str) -> Pod:
    resources = {"requests": {"cpu": cpu, "memory": memory}}
    spec = {"containers": [{"name": "main", "resources": resources}]}
    return convert({"metadata": {"name": "like", "namespace": "default"}, "spec": spec}, Pod, "a pod")
