"""`scripts/soak`: pods and nodes come and go. Do poller's memory, descriptors, threads and latency grow?

poller runs beside an API server, with a real kubectl proxy between them. Every 5 seconds the figures are
taken. Every five minutes all pods and nodes go, and poller counts the objects that it holds at rest.
"""

import argparse
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from shutil import copyfile
from tempfile import TemporaryDirectory

from scripts.benchmark.client import Client
from scripts.benchmark.processes import FailedError, Process, line_with, process
from scripts.servers.embedded import minicluster
from scripts.servers.kubectl import kubectl_proxy

from .churn import Churn
from .figures import Figures, Rest, Watcher
from .judge import MOST_LATE, growth, problems

EVERY = 5.0
"""Seconds between two samples."""

PERIOD = 300.0
"""Seconds until all pods and nodes go; of a short soak, half of its time. In the first half, nodes come and
go. In the second half they stay: then poller keeps most of what it computes."""

LEAST_MINUTES = 3.0
"""In less there would be too few samples. In less than ten minutes, poller's warm-up counts as growth."""

SHOWN_EVERY = 12
"""Each sample of so many is printed, so that a long soak shows that it goes on."""


def options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="scripts/soak", description=__doc__)
    parser.add_argument("--minutes", type=float, default=30, metavar="M", help="(default %(default)s)")
    parser.add_argument(
        "--rate", type=int, default=20, metavar="N", help="pods a second (default %(default)s)"
    )
    parser.add_argument("--plot", type=Path, metavar="FILE", help="draw the figures into this .png or .svg")
    parser.add_argument("--log", type=Path, metavar="FILE", help="keep poller's log in this file")
    parser.add_argument("--polling", action="store_true", help="poll, instead of --watch")
    parser.add_argument(
        "--real", action="store_true", help="beside a real kube-apiserver, instead of the embedded API server"
    )
    chosen = parser.parse_args()
    if not chosen.minutes >= LEAST_MINUTES:
        parser.error(f"argument --minutes: a soak takes {LEAST_MINUTES:g} minutes at least")
    return chosen


@contextmanager
def _server(folder: Path, *, real: bool) -> Iterator[tuple[Client, str]]:
    """An API server: a client of it, and the address of a kubectl proxy."""
    if real:
        from scripts.servers.real import apiserver  # here, as few soaks need it

        with (
            apiserver(folder / "server") as cluster,
            kubectl_proxy(cluster.url, cluster.kubeconfig, folder / "proxy") as proxy,
        ):
            yield Client(cluster.url, cluster.tls), proxy
    else:
        with (
            minicluster("--nodes", "0") as server,
            kubectl_proxy(server, unix_socket=folder / "proxy") as proxy,
        ):
            yield Client(server), proxy


def main(chosen: argparse.Namespace) -> int:
    period = min(PERIOD, chosen.minutes * 30)
    with TemporaryDirectory() as name, _server(Path(name), real=chosen.real) as (client, proxy):
        counts, log = Path(name) / "counts", Path(name) / "log"
        command = [sys.executable, "-m", "scripts.soaking.probed", str(counts)]
        command += ["--proxy", proxy, "--listen", "127.0.0.1:0"]
        command += [] if chosen.polling else ["--watch"]
        churn = Churn(client, chosen.rate)
        try:
            with process(command, log) as poller:
                samples, rests = _run(chosen.minutes * 60, period, churn, poller, counts)
        finally:
            if chosen.log:
                copyfile(log, chosen.log)
    if chosen.plot:
        from .plot import draw  # here, as not each soak draws

        draw(samples, rests, period, chosen.plot)
    late = [each for each in samples if each.seconds > period]
    found = problems(late, rests)
    if churn.unbound:
        found.append(f"{churn.unbound:,} pods went without a node")
    if churn.late > MOST_LATE * churn.pods:
        found.append(f"{churn.late:,} pods came too late to count: the machine is too busy for this soak")
    print(f"{churn.pods:,} pods and {churn.nodes:,} nodes came; memory {growth(late):+.1f} MiB an hour")
    print("\n".join(found) or f"after {period:.0f} s nothing grew")
    return 1 if found else 0


def _run(
    seconds: float, period: float, churn: Churn, poller: Process, counts: Path
) -> tuple[list[Figures], list[Rest]]:
    """Let pods and nodes come and go; returns the figures over time, and what poller held at rest."""
    metrics = Client(line_with("answering", poller).rpartition(" at ")[2])
    watcher, samples, rests = Watcher(poller, metrics, counts), list[Figures](), list[Rest]()
    began = time.monotonic()
    while seconds - (time.monotonic() - began) >= EVERY:
        ends = began + min(seconds, period * (len(rests) + 1))
        while (left := ends - time.monotonic()) >= EVERY:
            churn.run(time.monotonic() + EVERY, nodes_go=left > period / 2)
            samples.append(watcher.sample(time.monotonic() - began))
            _show(samples[-1], is_kept=len(samples) % SHOWN_EVERY == 1)
        churn.clear()
        rests.append(watcher.rest(time.monotonic() - began, churn.pods, churn.nodes))
        _show(rests[-1], is_kept=True)
    return samples, rests


def _show(what: Figures | Rest, *, is_kept: bool) -> None:
    """Print a line; one that isn't to be kept is for a terminal alone, where the next replaces it."""
    start = "\r\033[K" if sys.stdout.isatty() else ""
    if is_kept or start:
        print(f"{start}{what}", end="\n" if is_kept else "", flush=True)


if __name__ == "__main__":
    try:
        sys.exit(main(options()))
    except FailedError as error:
        sys.exit(f"poller {error}")
