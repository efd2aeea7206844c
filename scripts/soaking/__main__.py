"""`scripts/soak`: pods and nodes come and go. Do poller's memory, descriptors, threads and latency grow?

poller.py runs beside an embedded API server and a real kubectl proxy. Every 5 seconds the figures are taken.
"""

import argparse
import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory

from scripts.benchmark.client import Client
from scripts.benchmark.processes import FailedError, Process, line_with, process
from scripts.servers.embedded import minicluster
from scripts.servers.kubectl import kubectl_proxy

from .churn import Churn
from .figures import Figures, draw, growth, sample

EVERY = 5.0
"""Seconds between two samples."""

WARM_UP = 300.0
"""Seconds after which nothing may grow any more; of a short soak, half of its time."""


def options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="scripts/soak", description=__doc__)
    parser.add_argument("--minutes", type=float, default=30, metavar="M", help="(default %(default)s)")
    parser.add_argument(
        "--rate", type=int, default=20, metavar="N", help="pods a second (default %(default)s)"
    )
    parser.add_argument("--plot", type=Path, metavar="FILE", help="draw the figures into this .png or .svg")
    parser.add_argument("--polling", action="store_true", help="poll, instead of --watch")
    return parser.parse_args()


def main(chosen: argparse.Namespace) -> int:
    with (
        TemporaryDirectory() as folder,
        minicluster("--nodes", "0") as server,
        kubectl_proxy(server, unix_socket=Path(folder) / "proxy") as proxy,
    ):
        command = [sys.executable, "poller.py", "--proxy", proxy, "--listen", "127.0.0.1:0"]
        command += [] if chosen.polling else ["--watch"]
        with process(command, Path(folder) / "log") as poller:
            samples = _run(chosen, server, poller)
    for each in samples[:: max(1, len(samples) // 10)]:
        print(each)
    if chosen.plot:
        draw(samples, chosen.plot)
    began = min(WARM_UP, chosen.minutes * 30)
    problems = growth([each for each in samples if each.seconds >= began])
    print("\n".join(problems) or f"after {began:.0f} s nothing grew")
    return 1 if problems else 0


def _run(chosen: argparse.Namespace, server: str, poller: Process) -> list[Figures]:
    """Let pods and nodes come and go; returns the figures over time."""
    metrics = Client(line_with("answering", poller).rpartition(" at ")[2])
    began, samples, previous = time.monotonic(), list[Figures](), None
    with Churn(server, chosen.rate) as churn:
        while (now := time.monotonic()) < began + chosen.minutes * 60:
            poller.check()
            time.sleep(max(0.0, began + EVERY * (len(samples) + 1) - now))
            figures, previous = sample(time.monotonic() - began, poller.handle.pid, metrics, previous)
            samples.append(figures)
            if sys.stderr.isatty():
                print(f"\r{figures} ", end="", file=sys.stderr, flush=True)
    print(f"{churn.pods:,} pods and {churn.nodes:,} nodes came, {churn.pods_gone:,} pods went")
    return samples


if __name__ == "__main__":
    try:
        sys.exit(main(options()))
    except FailedError as error:
        sys.exit(f"poller {error}")
