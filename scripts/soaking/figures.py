"""poller's memory, descriptors, threads and latency over time."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from statistics import median

from scripts.benchmark.client import Client, Request

MOST_GROWTH = {"memory": 1.05, "descriptors": 1.1, "threads": 1.1, "latency": 1.5}
"""By how much the last third of the samples may be above the first. Latency depends on what
else the machine does."""

BUCKET = re.compile(
    r'^scheduler_pod_scheduling_sli_duration_seconds_bucket\{.*le="([^"]+)".*\} (\S+)$', re.MULTILINE
)

Buckets = dict[float, float]
"""How many pods were bound within so many seconds."""


@dataclass(frozen=True)
class Figures:
    """A sample. memory: MiB. bound: pods since the last one. latency: of 95 % of them, in ms."""

    seconds: float
    memory: float
    descriptors: int
    threads: int
    latency: float
    bound: int

    def __str__(self) -> str:
        return (
            f"{self.seconds:6.0f} s: {self.memory:.1f} MiB, {self.descriptors} descriptors, "
            f"{self.threads} threads, {self.bound} pods bound, 95% of them within {self.latency:.0f} ms"
        )


def sample(seconds: float, process: int, metrics: Client, before: Buckets | None) -> tuple[Figures, Buckets]:
    """Take a sample. before: the buckets at the last one."""
    folder = Path(f"/proc/{process}")
    status = dict(line.split(":", 1) for line in (folder / "status").read_text().splitlines())
    buckets: Buckets = {}
    for limit, count in BUCKET.findall(metrics.send(Request("GET", "/metrics")).decode()):
        buckets[float(limit)] = buckets.get(float(limit), 0) + float(count)  # of all labels
    new = {limit: count - (before or {}).get(limit, 0) for limit, count in buckets.items()}
    figures = Figures(
        seconds,
        int(status["VmRSS"].split()[0]) / 1024,
        len([*(folder / "fd").iterdir()]),
        int(status["Threads"]),
        1000 * _percentile(new, 0.95),
        int(max(new.values(), default=0)),
    )
    return figures, buckets


def _percentile(buckets: Buckets, share: float) -> float:
    """Interpolated within a bucket, as Prometheus does."""
    limits = sorted(buckets)
    wanted = share * buckets[limits[-1]] if limits else 0
    for low, high in pairwise([0.0, *limits]):
        below = buckets.get(low, 0)
        if buckets[high] >= wanted > below:
            return (
                low
                if high == float("inf")
                else low + (high - low) * (wanted - below) / (buckets[high] - below)
            )
    return 0.0


def growth(samples: Sequence[Figures]) -> list[str]:
    """What has grown: a line for each figure."""
    third = len(samples) // 3
    found = []
    for name, most in MOST_GROWTH.items():
        first, last = (
            median(getattr(each, name) for each in part) for part in (samples[:third], samples[-third:])
        )
        if last > first * most:
            found.append(f"{name} grew from {first:.1f} to {last:.1f}")
    return found


def draw(samples: Sequence[Figures], file: Path) -> None:
    """Draw the figures over time."""
    from matplotlib.figure import Figure  # here, as not each soak draws

    picture = Figure(figsize=(9, 9), layout="constrained")
    minutes = [each.seconds / 60 for each in samples]
    names = {
        "memory": "memory, MiB",
        "descriptors": "descriptors",
        "threads": "threads",
        "latency": "95% bound, ms",
    }
    for axes, (name, label) in zip(picture.subplots(4, 1, sharex=True), names.items(), strict=True):
        axes.plot(minutes, [getattr(each, name) for each in samples], linewidth=1.2)
        axes.set_ylabel(label)
        axes.set_ylim(bottom=0)
        axes.grid(alpha=0.3)
    axes.set_xlabel("minutes")
    picture.savefig(file, dpi=110)
