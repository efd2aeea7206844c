"""Metrics that cost the loop little: only when they are asked for, they get Prometheus' form."""

from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence

from prometheus_client import Metric
from prometheus_client.core import CounterMetricFamily, HistogramMetricFamily
from prometheus_client.registry import Collector


class Durations(Collector):
    """A histogram of seconds. `observe` takes a fraction of the time of prometheus_client's own."""

    def __init__(self, name: str, what: str, labels: Sequence[str], bounds: Sequence[float]) -> None:
        self._name, self._what, self._labels, self._bounds = name, what, labels, bounds
        self._counts: dict[tuple[str, ...], list[int]] = {}  # by labels, for each bucket
        self._sums: dict[tuple[str, ...], float] = {}

    def observe(self, labels: tuple[str, ...], seconds: float) -> None:
        """Add a duration to the histogram with these labels."""
        counts = self._counts.get(labels)
        if counts is None:
            self._sums[labels] = 0.0
            counts = self._counts[labels] = [0] * (len(self._bounds) + 1)
        counts[bisect_left(self._bounds, seconds)] += 1
        self._sums[labels] += seconds

    def collect(self) -> Iterator[Metric]:
        """The histogram. Another thread may observe meanwhile."""
        family = HistogramMetricFamily(self._name, self._what, labels=self._labels)
        for labels, counts in list(self._counts.items()):
            total, buckets = 0, []
            for bound, count in zip([*map(str, self._bounds), "+Inf"], list(counts), strict=True):
                total += count
                buckets.append((bound, total))
            family.add_metric(labels, buckets, self._sums[labels])
        yield family


class Evaluations(Collector):
    """How often plugins were asked. of: by profile, `Framework.evaluations`."""

    def __init__(self) -> None:
        self.of: dict[str, Mapping[str, Mapping[str, int]]] = {}

    def collect(self) -> Iterator[Metric]:
        """The counter."""
        family = CounterMetricFamily(
            "scheduler_plugin_evaluation_total",
            "How often a plugin was asked: at PreFilter and PreScore for a pod, else for a node."
            " Results that are kept from earlier pods aren't asked for again.",
            labels=["plugin", "extension_point", "profile"],
        )
        for profile, points in self.of.items():
            for point, by_plugin in points.items():
                for plugin, count in by_plugin.items():
                    family.add_metric([plugin, point, profile], count)
        yield family
