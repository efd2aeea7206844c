"""Reads a trace and the nodes it runs on, from whichever kind of file it is."""

from collections.abc import Iterator, Sequence
from math import inf
from pathlib import Path

import durationpy

from lib.kube.objects import Node
from lib.questions.deciding import without_node
from lib.questions.errors import QuestionError
from lib.questions.files import read_files
from lib.questions.manifests import Json, as_dict, put_object, read_manifests, workloads_in
from lib.questions.new_pods import PodMaker
from lib.questions.replay import openb
from lib.questions.replay.trace import Arrival
from lib.questions.snapshot import Snapshot
from lib.scheduling.volumes.assume_cache import Storage

ARRIVES, RUNS_FOR = "poller/arrives", "poller/runs-for"
"""Annotations of a manifest: when its pods arrive, and for how long each runs, such as 90s, 15m or 1h30m."""

CSV = (".csv", ".csv.gz")


def read_snapshot(file: Path) -> Snapshot:
    """The nodes of a CSV, of manifests, or of a file that `save` wrote. QuestionError if there are none."""
    if file.name.endswith(CSV):
        snapshot = Snapshot()
        snapshot.of(Node).extend(openb.read_nodes(file))
    elif file.suffix in (".yaml", ".yml"):
        snapshot = Snapshot()
        for each in read_manifests([file], "default"):
            put_object(snapshot, each)
    else:
        snapshot = read_files([file])
    if not snapshot.of(Node):
        raise QuestionError(f"--nodes {file}: holds no nodes")
    return snapshot


def read_trace(file: Path, snapshot: Snapshot) -> list[Arrival]:
    """The arrivals of a trace, by time: a CSV, or manifests. QuestionError if there are none.

    snapshot: gets what the manifests hold besides workloads, such as PriorityClasses.
    """
    if file.name.endswith(CSV):
        arrivals = openb.read_pods(file)
    else:
        arrivals = list(_of_manifests(read_manifests([file], "default"), snapshot))
    if not arrivals:
        raise QuestionError(f"{file}: holds no pods")
    return sorted(arrivals, key=lambda each: each.at)


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
        for new in PodMaker(snapshot, Storage(())).pods_of(workload):
            pod = without_node(new.pod)
            if str(pod) in names:
                raise QuestionError(f"{workload}: there are two pods {pod}")
            names.add(str(pod))
            yield Arrival(at, pod.metadata.name, pod, runs_for)


def seconds_in(text: object, where: str) -> float:
    """A duration, such as 1h30m, in seconds; QuestionError when it is none, or negative."""
    try:
        found = durationpy.from_str(str(text)).total_seconds()
    except (durationpy.DurationError, ValueError, OverflowError):
        found = -1.0
    if found < 0:
        raise QuestionError(f"{where}: {text!r} is not a duration, such as 90s, 15m or 1h30m")
    return float(found)
