"""The bench's command line."""

import argparse
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import get_args

from scripts.benchmark.contestants import CONTESTANTS
from scripts.benchmark.figures import WITHOUT_ARENA, Part
from scripts.benchmark.workloads import NAMES
from scripts.servers.real import assets

PARTS: Sequence[Part] = get_args(Part)
SERVERS = "real", "embedded"
NODES = (100, 1000, 5000)
MANY_NODES = (15_000, 65_000)
WAITING = (1_000, 10_000)
SIZES = ((100, 1_000), (1_000, 10_000), (5_000, 20_000), (5_000, 50_000))
KEYS = [each.key for each in CONTESTANTS]


@dataclass(frozen=True)
class Options:
    server: str
    nodes: Sequence[int]
    pods: int
    repeat: int
    singles: int
    bound: int
    waiting: Sequence[int]
    sizes: Sequence[tuple[int, int]]
    idle: float
    limit: float
    only: Sequence[str]
    workload: Sequence[str] | None
    scale: float
    schedulers: Sequence[str]
    json: Path | None
    logs: Path | None


def options() -> Options:
    parser = argparse.ArgumentParser(
        prog="scripts/bench",
        description="How fast poller is, beside other schedulers, on an API server of the bench's own.",
    )
    add = parser.add_argument
    add("--server", choices=SERVERS, help="default: real, if etcd and kube-apiserver are there")
    add("--nodes", type=_counts, metavar="N,N", help=f"default: {_listed(NODES)}")
    add("--pods", type=count, default=1000, help="of a burst (default %(default)s)")
    add("--repeat", type=count, default=1, metavar="TIMES", help="of what varies (default %(default)s)")
    add(
        "--singles", type=count, default=50, metavar="PODS", help="that come one by one (default %(default)s)"
    )
    add(
        "--bound",
        type=count,
        default=10_000,
        metavar="PODS",
        help="that run already, for start and idle (default %(default)s)",
    )
    add(
        "--waiting",
        type=_counts,
        default=WAITING,
        metavar="PODS,PODS",
        help=f"that wait, for tick and beside (default {_listed(WAITING)})",
    )
    add(
        "--sizes",
        type=_sizes,
        default=SIZES,
        metavar="NODES:PODS,NODES:PODS",
        help=f"of clusters, for size (default {','.join(f'{nodes}:{pods}' for nodes, pods in SIZES)})",
    )
    add("--idle", type=float, default=60.0, metavar="SECONDS", help="how long to do nothing (default 60)")
    add("--limit", type=float, default=180.0, metavar="SECONDS", help="of patience for a burst (default 180)")
    add("--only", type=_some_of(PARTS), default=PARTS, metavar="PART,PART", help=f"of {', '.join(PARTS)}")
    add("--workload", type=_some_of(NAMES), metavar="NAME,NAME", help=f"of {', '.join(NAMES)}")
    add(
        "--scale", type=_scale, default=1.0, metavar="FACTOR", help="of workloads' nodes and pods (default 1)"
    )
    add(
        "--decisions",
        action="store_true",
        help=f"--only decide, by default with --nodes {_listed(MANY_NODES)}; or --workload",
    )
    add("--schedulers", type=_some_of(KEYS), default=KEYS, metavar="KEY,KEY", help=f"of {', '.join(KEYS)}")
    add("--json", type=Path, metavar="FILE", help="write all figures there")
    add("--logs", type=Path, metavar="FOLDER", help="keep what each process said there")
    chosen = parser.parse_args()
    if chosen.decisions:
        chosen.only = ["decide"]
    chosen.server = "" if set(chosen.only) <= set(WITHOUT_ARENA) else server(chosen.server)
    chosen.nodes = sorted(chosen.nodes or (MANY_NODES if chosen.decisions else NODES))
    del chosen.decisions
    return Options(**vars(chosen))


def _listed(numbers: Sequence[int]) -> str:
    return ",".join(map(str, numbers))


def server(chosen: str | None) -> str:
    """The API server to start: the chosen one; by default the real one if its binaries exist."""
    if chosen == "real" and not assets():
        sys.exit("no etcd and kube-apiserver in $KUBEBUILDER_ASSETS or /usr/local/kubebuilder/bin")
    return chosen or ("real" if assets() else "embedded")


def count(text: str) -> int:
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"{text} is less than 1")
    return number


def _scale(text: str) -> float:
    factor = float(text)
    if not 0 < factor < float("inf"):
        raise argparse.ArgumentTypeError(f"{text} is not greater than 0")
    return factor


def _counts(text: str) -> list[int]:
    return [count(each) for each in text.split(",")]


def _sizes(text: str) -> list[tuple[int, int]]:
    pairs = (each.partition(":") for each in text.split(","))
    return [(count(nodes), count(pods)) for nodes, _, pods in pairs]


def _some_of(known: Sequence[str]) -> Callable[[str], list[str]]:
    def read(text: str) -> list[str]:
        chosen = text.split(",")
        for each in chosen:
            if each not in known:
                raise argparse.ArgumentTypeError(f"{each!r} is none of {', '.join(known)}")
        return chosen

    return read
