"""Measures a question about a recorded day: who waited, for what, and what would have helped."""

import gzip
import os
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

import msgspec

from lib.questions.recording.lines import ADDED, BEGIN, DELETED, END, MODIFIED, VERSION, Head, Line
from scripts.benchmark.client import Json
from scripts.benchmark.measures import Result
from scripts.benchmark.objects import node, typical_pod
from scripts.benchmark.processes import FailedError
from scripts.servers.process import ROOT

PAST = "why of a recorded day"

DAY, RUNS_FOR, WAITS_FOR = 86_400.0, 3600.0, 600.0
"""Seconds: of the recording, that a pod runs, and that one in twenty waits for a node."""

LIMIT = 600.0
"""Seconds after which a measurement is ended."""


def ask_past(nodes: int, pods: int) -> list[Result]:
    """Ask about a day on which so many pods came; by CPU time."""
    with TemporaryDirectory(prefix="poller-bench-") as folder:
        file = Path(folder, "day.jsonl.gz")
        record_day(file, nodes, pods)
        command = [sys.executable, str(ROOT / "poller.py"), "why", "-A", "--from", str(file), "-o", "json"]
        before = os.times()
        done = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT)
        after = os.times()
    if not done.stdout:
        raise FailedError((done.stderr.strip().splitlines() or ["it ended without a word"])[-1])
    used = after.children_user - before.children_user + after.children_system - before.children_system
    return [Result(PAST, used, "s", pods)]


def record_day(file: Path, nodes: int, pods: int) -> None:
    """A recording of that day."""
    happened: list[tuple[float, str, Json]] = []
    for number in range(pods):
        came, waits = number * DAY / pods, number % 20 == 0
        body = typical_pod(number, nodes)
        body["metadata"] |= {"namespace": "default", "uid": f"uid-{number}"}
        if waits:  # for more than any node has
            body["spec"]["containers"][0]["resources"]["requests"]["cpu"] = "64"
        placed = came + (WAITS_FOR if waits else 0.5)
        waiting = {**body, "spec": {**body["spec"], "nodeName": ""}}
        happened += [(came, ADDED, waiting), (placed, MODIFIED, body), (placed + RUNS_FOR, DELETED, body)]
    happened.sort(key=lambda change: change[0])
    with gzip.open(file, "wb", 6) as out:

        def write(line: Head | Line[Json]) -> None:
            out.write(msgspec.json.encode(line) + b"\n")

        write(Head(VERSION, "2026-01-01T00:00:00Z"))
        for number in range(nodes):
            write(Line(0.0, ADDED, {"kind": "Node", "apiVersion": "v1", **node(number)}))
        write(Line(0.0, BEGIN))
        for at, event, body in happened:
            if at < DAY:
                write(Line(at, event, {"kind": "Pod", "apiVersion": "v1", **body}))
        write(Line(DAY, END))
