"""ActualLoad: scores nodes by what they use now, not by what their pods request. Off by default.

What a node uses comes from the API metrics.k8s.io, which metrics-server serves. Pods that have come to the
node since are added with what they request, and so is the pod that is to be placed.

With a `targetUtilization`, a node is better the closer its use is to that, and worse again beyond. So nodes
fill up one after the other. Without it, a node is better the less it is used, and the less its use varies.

If a node's metrics are missing, or older than `maxAge`, its pods count as using what they request.

After TargetLoadPacking and LoadVariationRiskBalancing of kubernetes-sigs/scheduler-plugins, pkg/trimaran
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from statistics import fmean, pstdev
from typing import ClassVar

from lib.kube.objects import NodeMetrics, Pod
from lib.kube.resources import LOAD
from lib.scheduling.cache import Cache
from lib.scheduling.handle import Handle
from lib.scheduling.node_info import NodeInfo
from lib.scheduling.resources import amounts, requests_at_least
from lib.scheduling.status import MAX_NODE_SCORE, CycleState

MAX_AGE = 180.0
"""Seconds. Metrics that are older say nothing of now."""

WINDOW = timedelta(seconds=30)
"""A sample is the average over about this time before it."""

RESOURCES = ("cpu", "memory")


@dataclass(frozen=True)
class ActualLoad:
    """Scores nodes by what they use."""

    target_utilization: int = 0
    """In percent; 0 for as little as possible."""
    max_age: float = MAX_AGE
    handle: Handle = field(default_factory=Handle, repr=False, compare=False)
    name: str = "ActualLoad"
    needs: ClassVar = (LOAD,)

    def pre_score(self, state: CycleState, pod: Pod, cache: Cache, nodes: Sequence[NodeInfo]) -> None:
        """Find the samples that are new enough."""
        earliest = self.handle.now() - timedelta(seconds=self.max_age)
        load = cache.looked_up.load
        state[self.name] = {node.name: load.since(node.name, earliest) for node in nodes}

    def score(self, state: CycleState, pod: Pod, node: NodeInfo) -> int:
        """The score by one resource: the one with the largest share in use, or with the greatest risk."""
        samples: list[NodeMetrics] = state[self.name].get(node.name, [])
        shares = [self._shares(samples, pod, node, name) for name in RESOURCES]
        if self.target_utilization:
            return self._packed(max(used for used, _ in shares))
        risk = max((used + deviation) / 2 for used, deviation in shares)
        return round(MAX_NODE_SCORE * (1 - min(risk, 1)))

    def _shares(self, samples: list[NodeMetrics], pod: Pod, node: NodeInfo, name: str) -> tuple[float, float]:
        """For a resource, the share that is used with this pod, and the standard deviation of the samples."""
        whole = node.allocatable.get(name, 0)
        if not whole:
            return 1.0, 0.0
        coming = [pod, *(other for other in node.pods if _came_after(samples, other))]
        more = sum(requests_at_least(other, pod_level=True).get(name, 0) for other in coming)
        used = [amounts(sample.usage).get(name, 0) / whole for sample in samples]
        if not used:
            return more / whole, 0.0
        now = used[0] if self.target_utilization else fmean(used)
        return now + more / whole, pstdev(used)

    def _packed(self, used: float) -> int:
        """From the target's score at 0 up to the best at the target, and from there down to 0 at 100 %."""
        target = self.target_utilization / 100
        if used <= target:
            return round(MAX_NODE_SCORE * (target + (1 - target) * used / target))
        return round(MAX_NODE_SCORE * target * max(1 - used, 0) / (1 - target))


def _came_after(samples: list[NodeMetrics], pod: Pod) -> bool:
    """Whether what a pod uses isn't in the newest sample yet: it hasn't started, or has just started."""
    if not samples:
        return True
    started, newest = pod.status.start_time, samples[0].timestamp
    return started is None or newest is None or started > newest - WINDOW
