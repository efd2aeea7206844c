"""Metrics that cost the loop little: only when they are asked for, they get Prometheus' form."""

from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping, Sequence

from prometheus_client import Metric
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.registry import Collector

from lib.kube.objects import Pod
from lib.scheduling.resources import pod_limits, pod_requests

LABELS = ["namespace", "pod", "node", "scheduler", "priority", "resource", "unit"]

UNITS = {"cpu": "cores", "memory": "bytes", "storage": "bytes", "ephemeral-storage": "bytes"}

PREFIX_UNITS = {"hugepages-": "bytes", "attachable-volumes-": "integer"}

PodsOfCluster = Callable[[], list[tuple[Pod, str]]]
"""Returns all pods, each with its node's name, which is "" without a node."""

_requests = pod_requests.__wrapped__  # what it keeps is for the pods that are being decided on


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


class PodResources(Collector):
    """What each pod requests, and its limits, as scheduling counts them.

    Source: pkg/scheduler/metrics/resources/resources.go
    """

    def __init__(self, pods: PodsOfCluster) -> None:
        self._pods = pods

    def collect(self) -> Iterator[Metric]:
        """Both metrics."""
        what = "each pod, as scheduling counts them; of pods that have not ended."
        requests = GaugeMetricFamily("kube_pod_resource_request", f"Requests of {what}", labels=LABELS)
        limits = GaugeMetricFamily("kube_pod_resource_limit", f"Limits of {what}", labels=LABELS)
        for pod, node in self._pods():
            if node and pod.has_finished:
                continue
            _add(requests, pod, node, _requests(pod))
            _add(limits, pod, node, pod_limits(pod))
        yield limits
        yield requests


def _add(family: GaugeMetricFamily, pod: Pod, node: str, amounts: Mapping[str, int]) -> None:
    spec, metadata = pod.spec, pod.metadata
    for name, amount in amounts.items():
        if amount:
            labels = [metadata.namespace, metadata.name, node, spec.scheduler_name, str(spec.priority)]
            value = amount / 1000 if name == "cpu" else amount
            family.add_metric([*labels, name, _unit(name)], value)


def _unit(resource: str) -> str:
    by_prefix = (unit for prefix, unit in PREFIX_UNITS.items() if resource.startswith(prefix))
    return UNITS.get(resource) or next(by_prefix, "")
