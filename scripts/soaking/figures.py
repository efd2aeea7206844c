"""poller's memory, descriptors, threads and latency over time, and what it holds while it rests."""

import json
import os
import re
import signal
import time
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

from scripts.benchmark.client import Client, Request
from scripts.benchmark.processes import FailedError, Process

BUCKET = re.compile(
    r'^scheduler_pod_scheduling_sli_duration_seconds_bucket\{.*le="([^"]+)".*\} (\S+)$', re.MULTILINE
)

Buckets = dict[float, float]
"""How many pods were bound within so many seconds."""

COUNTED_WITHIN = 30.0
"""Seconds within which poller counts its objects."""


@dataclass(frozen=True)
class Figures:
    """A sample. memory: MiB. bound: pods since the last one. latency: of 95 % of them, in ms.

    memory is what poller has written to. What is only read from files, such as its libraries, isn't counted:
    the kernel takes that away and brings it back as other programs need memory.
    """

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


@dataclass(frozen=True)
class Rest:
    """What poller holds when all pods and nodes have gone, but for one node.

    pods, nodes: how many came until then. blocks: of memory, one or two for an object. kinds: the number of
    objects of each class.
    """

    seconds: float
    pods: int
    nodes: int
    blocks: int
    kinds: Mapping[str, int]

    def __str__(self) -> str:
        return f"{self.seconds:6.0f} s: at rest, after {self.pods:,} pods, {self.blocks:,} blocks"


class Watcher:
    """Takes samples of a poller that runs `scripts.soaking.probed`. metrics: a client of its --listen."""

    def __init__(self, poller: Process, metrics: Client, counts: Path) -> None:
        self._poller, self._metrics, self._counts = poller, metrics, counts
        self._folder = Path(f"/proc/{poller.handle.pid}")
        self._before: Buckets = self._buckets()

    def sample(self, seconds: float) -> Figures:
        """A sample, at this time of the soak. FailedError if poller has ended."""
        self._poller.check()
        status = dict(line.split(":", 1) for line in (self._folder / "status").read_text().splitlines())
        now = self._buckets()
        new = {limit: count - self._before.get(limit, 0) for limit, count in now.items()}
        self._before = now
        return Figures(
            seconds,
            int(status["RssAnon"].split()[0]) / 1024,
            len([*(self._folder / "fd").iterdir()]),
            int(status["Threads"]),
            1000 * percentile(new, 0.95),
            int(max(new.values(), default=0)),
        )

    def rest(self, seconds: float, pods: int, nodes: int) -> Rest:
        """What poller holds now. FailedError if it doesn't tell in time."""
        self._counts.unlink(missing_ok=True)
        os.kill(self._poller.handle.pid, signal.SIGUSR2)
        deadline = time.monotonic() + COUNTED_WITHIN
        while not self._counts.exists():
            self._poller.check()
            if time.monotonic() > deadline:
                raise FailedError(f"didn't count its objects within {COUNTED_WITHIN:g} s")
            time.sleep(0.05)
        self._before = self._buckets()
        return Rest(seconds, pods, nodes, **json.loads(self._counts.read_text()))

    def _buckets(self) -> Buckets:
        found: Buckets = {}
        for limit, count in BUCKET.findall(self._metrics.send(Request("GET", "/metrics")).decode()):
            found[float(limit)] = found.get(float(limit), 0) + float(count)  # of all labels
        return found


def percentile(buckets: Buckets, share: float) -> float:
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
