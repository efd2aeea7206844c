"""VolumeRestrictions: pods can't share a disk, or a claim, that is for one pod only.

Source: pkg/scheduler/framework/plugins/volumerestrictions/volume_restrictions.go
"""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

from lib.kube.changes import AnyChange, Kind
from lib.kube.objects import Node, Pod
from lib.scheduling.cache import Cache
from lib.scheduling.disks import clashing_disks, disks_of
from lib.scheduling.hints import deleted_pod, is_about_claim_of
from lib.scheduling.kept import CountOfPods
from lib.scheduling.node_info import NodeInfo
from lib.scheduling.resources import add
from lib.scheduling.status import SKIP, CycleState, PluginError, Status, unresolvable, unschedulable
from lib.scheduling.volumes.claims import NOT_FOUND, ReadsVolumes, claim_names, has_claims

DISK_CONFLICT = unschedulable("node(s) had no available disk")
IN_USE = unschedulable(
    "node(s) unavailable due to PersistentVolumeClaim with ReadWriteOncePod access mode already in-use "
    "by another pod"
)

ONE_POD = "ReadWriteOncePod"


@dataclass(frozen=True)
class VolumeRestrictions(ReadsVolumes):
    """Filters out nodes where a disk is in use, and all nodes if a ReadWriteOncePod claim is in use."""

    name: str = "VolumeRestrictions"

    events_to_register = ("NodeAdd", "AssignedPodDelete", "PersistentVolumeClaimAdd")

    def queueing_hint(self, pod: Pod, change: AnyChange) -> bool:
        """A deleted pod that used the same disk or claim; a new node, or a new claim of the pod."""
        if gone := deleted_pod(change):
            return gone.metadata.namespace == pod.metadata.namespace and (
                not clashing_disks(pod).isdisjoint(disks_of(gone))
                or bool({*_claims_by_name(pod)} & {*_claims_by_name(gone)})
            )
        if change.kind != Kind.ADDED:
            return False
        return isinstance(change.object, Node) or is_about_claim_of(pod, change)

    def pre_filter(self, state: CycleState, pod: Pod, cache: Cache) -> Status | None:
        """Find out whether a ReadWriteOncePod claim of the pod is in use."""
        if not pod.spec.volumes:
            return SKIP
        if cache.looked_up.storage_unseen and has_claims(pod):
            raise PluginError(cache.looked_up.storage_unseen)
        for_one_pod: set[str] = set()
        for name in _claims_by_name(pod):
            claim = cache.storage.claim(pod.metadata.namespace, name)
            if claim is None:
                return unresolvable(NOT_FOUND.format(name))
            if ONE_POD in claim.spec.access_modes:
                for_one_pod.add(name)
        in_use = bool(for_one_pod) and _is_in_use(for_one_pod, pod.metadata.namespace, cache)
        state[self.name] = in_use
        return None if in_use or disks_of(pod) else SKIP

    def filter(self, state: CycleState, pod: Pod, node: NodeInfo) -> Status | None:
        """Reject a node where a disk of the pod is in use, or every node if a claim is."""
        if not node.disks.keys().isdisjoint(clashing_disks(pod)):
            return DISK_CONFLICT
        return IN_USE if state[self.name] else None


def _is_in_use(claims: set[str], namespace: str, cache: Cache) -> bool:
    """Whether a pod uses one of these claims. If several pods do, it is enough that one of them is removed.

    kube-scheduler counts in this way; preemption depends on it.
    """
    removed = (pod for pod in cache.removed.values() if pod.metadata.namespace == namespace)
    given_up = [name for pod in removed for name in _claims_by_name(pod) if name in claims]
    users = cache.kept.get("users of claims", ClaimUsers, cache).counts
    uses = {name for name in claims if users[namespace, name]}.union(given_up)
    return len(uses) > len(given_up)


class ClaimUsers(CountOfPods):
    """How many times assigned pods name each claim.

    Counterpart in kube-scheduler: PVCRefCounts in pkg/scheduler/framework/types.go
    """

    def __init__(self, cache: Cache) -> None:
        self.counts = Counter[tuple[str, str]]()  # by namespace and name
        self._begin(cache)

    def _count(self, node: NodeInfo, pod: Pod, sign: int) -> None:
        for name in _claims_by_name(pod):
            add(self.counts, (pod.metadata.namespace, name), sign)


def _claims_by_name(pod: Pod) -> Iterable[str]:
    """The claims that a pod names, each once, without those of ephemeral volumes: no other pod has them."""
    return (claim.name for claim in claim_names(pod) if not claim.ephemeral) if pod.spec.volumes else ()
