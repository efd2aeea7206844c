"""Reads a trace and the nodes it runs on, from whichever kind of file it is."""

from collections.abc import Iterator, Sequence
from math import inf
from pathlib import Path

from lib.kube.objects import Json, Node
from lib.questions.deciding import without_node
from lib.questions.durations import seconds_in
from lib.questions.errors import QuestionError
from lib.questions.files import read_files
from lib.questions.manifests import as_dict, put_object, read_manifests, workloads_in
from lib.questions.new_pods import PodMaker
from lib.questions.replay import openb
from lib.questions.replay.recorded import is_recording, read_recording
from lib.questions.replay.trace import Arrival, Arrivals, Trace
from lib.questions.snapshot import Snapshot
from lib.scheduling.cache import Cache

ARRIVES, RUNS_FOR = "poller/arrives", "poller/runs-for"
"""Annotations of a manifest: when its pods arrive, and for how long each runs, such as 90s, 15m or 1h30m."""

CSV = (".csv", ".csv.gz")

NO_NODES = "--nodes FILE is missing: on which nodes are these pods to run?"


def read_snapshot(file: Path) -> Snapshot:
    """The nodes of a CSV, of manifests, or of a file that `save` wrote. QuestionError if there are none."""
    snapshot = Snapshot()
    if file.name.endswith(CSV):
        snapshot.of(Node).extend(openb.read_nodes(file))
    elif file.suffix in (".yaml", ".yml"):
        for each in read_manifests([file], "default"):
            put_object(snapshot, each)
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
        raise QuestionError(NO_NODES)
    if file.name.endswith(CSV):
        arrivals: Arrivals = openb.read_pods(file)
    else:
        found = _of_manifests(read_manifests([file], "default"), snapshot)
        arrivals = sorted(found, key=lambda each: each.at)
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
        for new in PodMaker(snapshot, Cache()).pods_of(workload):
            pod = without_node(new.pod)
            if str(pod) in names:
                raise QuestionError(f"{workload}: there are two pods {pod}")
            names.add(str(pod))
            yield Arrival(at, pod.metadata.name, pod, runs_for)
