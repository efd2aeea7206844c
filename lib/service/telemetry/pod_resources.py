"""The metrics of /metrics/resources: what each pod requests, and its limits, as scheduling counts them.

Source: pkg/scheduler/metrics/resources/resources.go
"""

from collections.abc import Callable, Iterator, Mapping

from prometheus_client import CollectorRegistry, Metric
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from lib.kube.objects import Pod
from lib.scheduling.resources import pod_limits, pod_requests

LABELS = ["namespace", "pod", "node", "scheduler", "priority", "resource", "unit"]

UNITS = {"cpu": "cores", "memory": "bytes", "storage": "bytes", "ephemeral-storage": "bytes"}

PREFIX_UNITS = {"hugepages-": "bytes", "attachable-volumes-": "integer"}

PodsOfCluster = Callable[[], list[tuple[Pod, str]]]
"""Returns all pods, each with its node's name, which is "" without a node."""

_requests = pod_requests.__wrapped__  # what it keeps is for the pods that are being decided on


def registry_of(pods: PodsOfCluster) -> CollectorRegistry:
    """A registry with the requests and limits of pods."""
    registry = CollectorRegistry()
    registry.register(_PodResources(pods))
    return registry


class _PodResources(Collector):
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
