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
    """What nodes use now: the samples of each in the last minutes, as metrics.k8s.io told; the newest first.

    It never changes: `with_more` returns another one. read: when it was read, in seconds of the loop's clock.
    """

    def __init__(self, samples: Mapping[str, list[NodeMetrics]] | None = None, read: float = -inf) -> None:
        self._samples, self.read = samples or {}, read

    def is_old(self, now: float) -> bool:
        """Whether it is time to read the metrics again."""
        return now - self.read >= REFRESH

    def with_more(self, found: Iterable[NodeMetrics], now: float) -> "Load":
        """With the metrics that were read now. Nodes that aren't among them are forgotten."""
        samples = {}
        for metrics in found:
            known = self._samples.get(metrics.metadata.name, [])
            is_new = not known or known[0].timestamp != metrics.timestamp
            samples[metrics.metadata.name] = [metrics, *known][:MAX_SAMPLES] if is_new else known
        return Load(samples, now)

    def read_in_vain(self, now: float) -> "Load":
        """The same, after the metrics could not be read."""
        return Load(self._samples, now)

    def since(self, node: str, earliest: datetime) -> list[NodeMetrics]:
        """The samples of a node that aren't older, the newest first."""
        samples = self._samples.get(node, [])
        return [*takewhile(lambda each: each.timestamp is not None and each.timestamp >= earliest, samples)]


BUDGETS_UNSEEN = "PodDisruptionBudget"
"""What rejects a pod that can't preempt others only because disruption budgets can't be listed."""


@dataclass(frozen=True)
class LookedUp:
    """What was looked up last.

    namespaces: the labels of each. budgets: the disruption budgets; None if they can't be listed.
    budgets_error: why they could not be looked up; "" if they were. budgets_unread: the namespaces with
    budgets that can't be decoded. group_sizes: how many pods PodGroups need. pod_groups_unread:
    whether a group that isn't among these may have a PodGroup. load: what nodes use.
    storage_unseen: why claims and volumes can't be read; "" if they can. devices_unseen: the same of resource
    claims and devices.
    errors: by uid, why a pod can't be scheduled now.
    pending: by uid, which pods can't be tried now, and which answer they need.
    """

    namespaces: Namespaces = field(default_factory=dict)
    budgets: Sequence[PodDisruptionBudget] | None = ()
    budgets_error: str = ""
    budgets_unread: Collection[str] = ()
    workloads: Workloads = field(default_factory=Workloads)
    group_sizes: Mapping[PodGroupRef, int] = field(default_factory=dict)
    pod_groups_unread: bool = False
    load: Load = field(default_factory=Load)
    storage_unseen: str = ""
    devices_unseen: str = ""
    errors: Mapping[str, str] = field(default_factory=dict)
    pending: Mapping[str, str] = field(default_factory=dict)
