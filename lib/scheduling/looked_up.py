"""What decisions need besides nodes and pods: it is looked up for the pods that are to be tried."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from itertools import takewhile
from math import inf

from lib.kube.objects import NodeMetrics, PodDisruptionBudget, PodGroupRef
from lib.scheduling.affinity import Namespaces
from lib.scheduling.workloads import Workloads

MAX_SAMPLES = 20
"""At most so many samples of a node are kept: with metrics-server, those of five minutes."""

REFRESH = 10.0
"""After so many seconds the metrics are read again, if a pod needs them; metrics-server's are 15 s apart."""


class Load:
    """How much nodes use: for each node, samples of the last minutes from metrics.k8s.io, the newest first.

    It never changes: `with_more` returns another one. read: when it was read, in seconds of the loop's clock.
    """

    def __init__(self, samples: Mapping[str, list[NodeMetrics]] | None = None, read: float = -inf) -> None:
        self._samples, self.read = samples or {}, read

    def is_old(self, now: float) -> bool:
        """Whether it is time to read the metrics again."""
        return now - self.read >= REFRESH

    def with_more(self, new: Iterable[NodeMetrics], now: float) -> "Load":
        """The load with the metrics that were read now. Nodes that aren't among these are forgotten."""
        samples = {}
        for metrics in new:
            known = self._samples.get(metrics.metadata.name, [])
            is_new = not known or known[0].timestamp != metrics.timestamp
            samples[metrics.metadata.name] = [metrics, *known][:MAX_SAMPLES] if is_new else known
        return Load(samples, now)

    def read_in_vain(self, now: float) -> "Load":
        """The same, after the metrics could not be read."""
        return Load(self._samples, now)

    def since(self, node: str, earliest: datetime) -> list[NodeMetrics]:
        """The samples of a node from this time on, the newest first."""
        samples = self._samples.get(node, [])
        return [
            *takewhile(lambda sample: sample.timestamp is not None and sample.timestamp >= earliest, samples)
        ]


BUDGETS_UNSEEN = "PodDisruptionBudget"
"""What rejects a pod that can't preempt others only because disruption budgets can't be listed."""


@dataclass(frozen=True)
class LookedUp:
    """What was looked up last."""

    namespaces: Namespaces = field(default_factory=dict)
    """The labels of each namespace."""
    budgets: Sequence[PodDisruptionBudget] | None = ()
    """The disruption budgets; None if they can't be listed."""
    budgets_error: str = ""
    """Why the budgets could not be looked up; "" if they were."""
    budgets_unread: Collection[str] = ()
    """The namespaces with budgets that can't be decoded."""
    workloads: Workloads = field(default_factory=Workloads)
    group_sizes: Mapping[PodGroupRef, int] = field(default_factory=dict)
    """How many pods each group needs that has a PodGroup."""
    pod_groups_unread: bool = False
    """Whether a group that isn't in `group_sizes` may have a PodGroup."""
    load: Load = field(default_factory=Load)
    """How much nodes use."""
    storage_unseen: str = ""
    """Why claims and volumes can't be read; "" if they can."""
    devices_unseen: str = ""
    """Why resource claims and devices can't be read; "" if they can."""
    errors: Mapping[str, str] = field(default_factory=dict)
    """By uid, why a pod can't be scheduled now."""
    pending: Mapping[str, str] = field(default_factory=dict)
    """By the uid of each pod that can't be tried now, the answer that it needs."""
