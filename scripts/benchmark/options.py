"""The bench's command line."""

import argparse
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import get_args

from scripts.benchmark.contestants import CONTESTANTS
from scripts.benchmark.figures import Part
from scripts.servers.real import assets

PARTS: Sequence[Part] = get_args(Part)
SERVERS = "real", "embedded"
KEYS = [each.key for each in CONTESTANTS]


@dataclass(frozen=True)
class Options:
    server: str
    nodes: Sequence[int]
    pods: int
    repeat: int
    singles: int
    bound: int
    idle: float
    limit: float
    only: Sequence[str]
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
    add("--nodes", type=_counts, default=[100, 1000, 5000], metavar="N,N", help="default: 100,1000,5000")
    add("--pods", type=count, default=1000, help="of a burst (default %(default)s)")
    add("--repeat", type=count, default=1, metavar="TIMES", help="bursts, single pods (default %(default)s)")
    add("--singles", type=count, default=50, metavar="PODS", help="one at a time (default %(default)s)")
    add(
        "--bound",
        type=count,
        default=10_000,
        metavar="PODS",
        help="that run already, for start and idle (default %(default)s)",
    )
    add("--idle", type=float, default=60.0, metavar="SECONDS", help="how long to do nothing (default 60)")
    add("--limit", type=float, default=180.0, metavar="SECONDS", help="of patience for a burst (default 180)")
    add("--only", type=_some_of(PARTS), default=PARTS, metavar="PART,PART", help=f"of {', '.join(PARTS)}")
    add("--schedulers", type=_some_of(KEYS), default=KEYS, metavar="KEY,KEY", help=f"of {', '.join(KEYS)}")
    add("--json", type=Path, metavar="FILE", help="write all figures there")
    add("--logs", type=Path, metavar="FOLDER", help="keep what each process said there")
    chosen = parser.parse_args()
    chosen.server = server(chosen.server)
    chosen.nodes = sorted(chosen.nodes)
    return Options(**vars(chosen))


def server(chosen: str | None) -> str:
    """Which API server to start: the real one where it is, unless told."""
    if chosen == "real" and not assets():
        sys.exit("no etcd and kube-apiserver in $KUBEBUILDER_ASSETS or /usr/local/kubebuilder/bin")
    return chosen or ("real" if assets() else "embedded")


def count(text: str) -> int:
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"{text} is less than 1")
    return number


def _counts(text: str) -> list[int]:
    return [count(each) for each in text.split(",")]


def _some_of(known: Sequence[str]) -> Callable[[str], list[str]]:
    def read(text: str) -> list[str]:
        chosen = text.split(",")
        for each in chosen:
            if each not in known:
                raise argparse.ArgumentTypeError(f"{each!r} is none of {', '.join(known)}")
        return chosen

    return read
