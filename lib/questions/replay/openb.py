"""Reads the form of Alibaba's trace of a GPU cluster: one CSV of nodes, one of pods.

Sources: github.com/alibaba/clusterdata, cluster-trace-gpu-v2023; the names of labels, annotations and
resources are those of github.com/hkust-adsl/kubernetes-scheduler-simulator
"""

import csv
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from io import TextIOWrapper
from math import inf
from pathlib import Path
from typing import IO, Any, TypeVar

from lib.kube.bounded_files import unpacking
from lib.kube.objects import Node, Pod, is_object_name
from lib.questions.errors import QuestionError, file_errors
from lib.questions.manifests import convert
from lib.questions.replay.trace import Arrival, Arrivals, Made

GPU_MILLI, GPU_COUNT = "alibabacloud.com/gpu-milli", "alibabacloud.com/gpu-count"
"""A resource, and an annotation: thousandths of a GPU, of all GPUs of a node or pod; how many GPUs. As an
annotation, GPU_MILLI is how much of each GPU a pod wants."""

GPU_MODEL = "alibabacloud.com/gpu-card-model"
"""The label of a node that names the model of its GPUs."""

NODE_COLUMNS = ("sn", "cpu_milli", "memory_mib", "gpu", "model")
POD_COLUMNS = ("name", "cpu_milli", "memory_mib", "num_gpu", "gpu_milli")
"""Columns that must be there; the first has the names."""

MAX_LINE = 10_000
"""A line of a trace has fewer characters."""

MAX_PODS = 1001
"""How many pods run on a node: the trace doesn't limit them."""

Row = Mapping[str, str]
T = TypeVar("T")


def read_nodes(file: Path) -> list[Node]:
    """The nodes of a CSV: sn, cpu_milli, memory_mib, gpu, model. QuestionError names the line."""
    return list(_read(file, NODE_COLUMNS, _node, unique=True))


def read_pods(file: Path) -> Arrivals:
    """The pods of a CSV, by time: name, cpu_milli, memory_mib, num_gpu, gpu_milli.

    QuestionError names the line. Also, if they are there: gpu_spec, creation_time, scheduled_time and
    deletion_time, in seconds. A pod runs from scheduled_time to deletion_time.
    """
    length, last, in_order = 0, 0.0, True
    for arrival in _read(file, POD_COLUMNS, _arrival, unique=True):
        length, in_order, last = length + 1, in_order and last <= arrival.at, arrival.at
    if in_order:  # a trace of millions of pods needn't be in memory
        return Made(lambda: _read(file, POD_COLUMNS, _arrival), length)
    return sorted(_read(file, POD_COLUMNS, _arrival), key=lambda arrival: arrival.at)


def _read(
    file: Path, columns: tuple[str, ...], made: Callable[[Row], T], *, unique: bool = False
) -> Iterator[T]:
    """What is made of each row. unique: check that no name comes twice."""
    with _opened(file) as lines:
        rows = csv.DictReader(_short(lines, file), strict=True)
        if missing := [column for column in columns if column not in (rows.fieldnames or ())]:
            what = f"the column {missing[0]} is missing" if rows.fieldnames else "is empty"
            raise QuestionError(f"{file}:1: {what}; a first line must name the columns {', '.join(columns)}")
        names = set[int]()
        while True:
            try:
                row = next(rows, None)
                if row is None:
                    return
                if None in row:  # the key of what is too much
                    raise ValueError("has more fields than the first line")
                name = row[columns[0]]
                if not is_object_name(name):
                    raise ValueError(f"{columns[0]}: {name!r} is not a valid object name")
                if unique:
                    if hash(name) in names and (line := _line_of(name, file, columns[0])) != rows.line_num:
                        raise ValueError(f"{columns[0]}: {name} is the name of line {line}, too")
                    names.add(hash(name))  # smaller than the name: there may be millions
                yield made(row)
            except (ValueError, csv.Error) as error:
                raise QuestionError(f"{file}:{rows.reader.line_num}: {error}") from error


@contextmanager
def _opened(file: Path) -> Iterator[IO[str]]:
    """A text file, unpacked if it is gzipped. QuestionError when it can't be read."""
    # A spreadsheet begins a file with a mark. What isn't UTF-8 fits nowhere: so it is told with its line.
    how: dict[str, Any] = {"encoding": "utf-8-sig", "errors": "surrogateescape", "newline": ""}
    with file_errors(file), unpacking(file) as packed, TextIOWrapper(packed, **how) as opened:
        yield opened


def _short(lines: IO[str], file: Path) -> Iterator[str]:
    """The lines. QuestionError at one that is longer than any of such a trace."""
    number = 0
    while line := lines.readline(MAX_LINE):
        number += 1
        if len(line) == MAX_LINE:
            raise QuestionError(f"{file}:{number}: is longer than {MAX_LINE:,} characters")
        yield line


def _line_of(name: str, file: Path, column: str) -> int:
    """The first line with this name."""
    with _opened(file) as lines:
        rows = csv.DictReader(_short(lines, file), strict=True)
        return next(rows.line_num for row in rows if row[column] == name)


def _number(row: Row, column: str, otherwise: int | None = None) -> int:
    """A whole number that isn't negative. ValueError says which column has none."""
    text = row.get(column) or ""
    if not text and otherwise is not None:
        return otherwise
    if not (text.isascii() and text.isdecimal() and len(text) < 16):
        raise ValueError(f"{column}: {text!r} is not a whole number")
    return int(text)


def _node(row: Row) -> Node:
    name, gpus = row["sn"], _number(row, "gpu")
    allocatable: dict[str, Any] = {
        "cpu": f"{_number(row, 'cpu_milli')}m",
        "memory": f"{_number(row, 'memory_mib')}Mi",
        "pods": str(MAX_PODS),
    }
    labels = {"kubernetes.io/hostname": name}
    if gpus:
        allocatable |= {GPU_MILLI: str(gpus * 1000), GPU_COUNT: str(gpus)}
        labels[GPU_MODEL] = row["model"]
    body = {"metadata": {"name": name, "labels": labels}, "status": {"allocatable": allocatable}}
    return convert(body, Node, f"node {name}")


def _arrival(row: Row) -> Arrival:
    at = _number(row, "creation_time", 0)
    began, ended = _number(row, "scheduled_time", at), _number(row, "deletion_time", -1)
    if 0 <= ended < began:
        raise ValueError(f"deletion_time: {ended} is before the pod began to run, at {began}")
    asked = (_number(row, "cpu_milli"), _number(row, "memory_mib"), _number(row, "num_gpu"))
    like = _pod(*asked, _number(row, "gpu_milli", 0), row.get("gpu_spec") or "")
    return Arrival(float(at), row["name"], like, float(ended - began) if ended >= 0 else inf)


@cache
def _pod(cpu: int, memory: int, gpus: int, each: int, models: str) -> Pod:
    """A pod of these requests. each: how many thousandths of each GPU."""
    requests = {"cpu": f"{cpu}m", "memory": f"{memory}Mi"}
    metadata: dict[str, Any] = {"name": "like", "namespace": "default"}
    spec: dict[str, Any] = {"containers": [{"name": "main", "resources": {"requests": requests}}]}
    if gpus:
        if not 0 < each <= 1000 or (gpus > 1 and each < 1000):
            raise ValueError(f"gpu_milli: {each} is not a part of {gpus} GPUs: 1000, or less of one GPU")
        requests[GPU_MILLI] = str(gpus * each)
        metadata["annotations"] = {GPU_MILLI: str(each), GPU_COUNT: str(gpus)}
        if models:
            wanted = {"key": GPU_MODEL, "operator": "In", "values": models.split("|")}
            required = {"nodeSelectorTerms": [{"matchExpressions": [wanted]}]}
            spec["affinity"] = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}}
    return convert({"metadata": metadata, "spec": spec}, Pod, "a pod")
