"""What decisions need besides nodes and pods: it is looked up for the pods that are to be tried."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

from lib.kube.objects import PodDisruptionBudget
from lib.scheduling.affinity import Namespaces
from lib.scheduling.load import Load
from lib.scheduling.workloads import Workloads


@dataclass(frozen=True)
class LookedUp:
    """What was looked up last.

    namespaces: the labels of each. budgets: the disruption budgets; None if they can't be listed.
    budgets_error: why they could not be looked up; "" if they were. budgets_unread: the namespaces with
    budgets that can't be decoded. group_sizes: of PodGroups, by namespace and name. load: what nodes use.
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
    group_sizes: Mapping[tuple[str, str], int] = field(default_factory=dict)
    load: Load = field(default_factory=Load)
    storage_unseen: str = ""
    devices_unseen: str = ""
    errors: Mapping[str, str] = field(default_factory=dict)
    pending: Mapping[str, str] = field(default_factory=dict)
