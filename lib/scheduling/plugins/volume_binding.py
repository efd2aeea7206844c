"""VolumeBinding: a pod goes to a node that its volumes can be reached from, or can be provisioned for.

Source: pkg/scheduler/framework/plugins/volumebinding/volume_binding.go
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING

from lib.kube.changes import AnyChange, Kind
from lib.kube.objects import Pod
from lib.kube.storage import (
    MIGRATED_PLUGINS,
    CSIDriver,
    CSINode,
    CSIStorageCapacity,
    PersistentVolume,
    PersistentVolumeClaim,
    StorageClass,
)
from lib.lazily import Lazy
from lib.scheduling.cache import Cache
from lib.scheduling.hints import is_about_claim_of, is_new_or_changed_node
from lib.scheduling.node_info import NodeInfo
from lib.scheduling.node_slice import NodeSlice
from lib.scheduling.pod_limits import Comparisons
from lib.scheduling.status import SKIP, CycleState, NodeError, PluginError, Status, unresolvable, wait
from lib.scheduling.volumes.claims import ReadsVolumes, has_claims, why_not_usable

if TYPE_CHECKING:
    from lib.scheduling.storage import Storage
    from lib.scheduling.volumes import binder, in_reach
    from lib.scheduling.volumes.binder import PodClaims, PodVolumes
else:
    binder, in_reach = Lazy("lib.scheduling.volumes.binder"), Lazy("lib.scheduling.volumes.in_reach")

COMPARISONS_PER_CLAIM = 5
"""To find a volume for a claim takes as long as so many comparisons."""


@dataclass
class VolumesState:
    """What the plugin keeps in the CycleState."""

    cache: Cache
    claims: "PodClaims"
    by_node: "dict[str, PodVolumes]" = field(default_factory=dict)
    """By node name, which volumes the claims would get there."""
    comparisons: Comparisons = field(default_factory=Comparisons)
    assumed: "PodVolumes | None" = None
    """When a node is picked: the volumes and claims as they are to be written."""
    is_handed_out: bool = False
    """Whether poller got these for writing."""

    @property
    def storage(self) -> "Storage":
        """The cache's claims and volumes."""
        return self.cache.storage


@dataclass(frozen=True)
class VolumeBinding(ReadsVolumes):
    """Filters out nodes from which bound volumes can't be reached, or where claims can't be bound."""

    bind_timeout_seconds: int = 600
    """After so long, a pod whose volumes are still not bound is rejected."""
    name: str = "VolumeBinding"

    events_to_register = (
        "NodeAdd",
        "NodeUpdate",
        "PersistentVolumeClaimAdd",
        "PersistentVolumeClaimUpdate",
        "PersistentVolumeAdd",
        "PersistentVolumeUpdate",
        "StorageClassAdd",
        "StorageClassUpdate",
        "CSINodeAdd",
        "CSINodeUpdate",
        "CSIDriverAdd",
        "CSIDriverUpdate",
        "CSIStorageCapacityAdd",
        "CSIStorageCapacityUpdate",
    )

    def queueing_hint(self, pod: Pod, change: AnyChange) -> bool:
        """A change of its claims; a volume, class, node or capacity that came, or changed for the better."""
        if change.kind == Kind.DELETED:
            return False
        now, before = change.object, change.before
        match now:
            case PersistentVolumeClaim():
                return is_about_claim_of(pod, change)
            case PersistentVolume():
                return True
            case StorageClass():
                return not isinstance(before, StorageClass) or (
                    before.allowed_topologies != now.allowed_topologies
                )
            case CSINode():
                return not isinstance(before, CSINode) or _migrated(before) != _migrated(now)
            case CSIDriver():
                return not isinstance(before, CSIDriver) or (
                    before.spec.storage_capacity and not now.spec.storage_capacity
                )
            case CSIStorageCapacity():
                return not isinstance(before, CSIStorageCapacity) or _largest(before) < _largest(now)
        return is_new_or_changed_node(change, lambda node: node.labels)

    def pre_filter(self, state: CycleState, pod: Pod, cache: Cache) -> Status | None:
        """Reject a pod with a claim that can't be used, or with an unbound claim of an Immediate class."""
        if not has_claims(pod):
            return SKIP
        if cache.looked_up.storage_unseen:
            raise PluginError(cache.looked_up.storage_unseen)
        storage = cache.storage
        if why_not := why_not_usable(pod, storage):
            return unresolvable(why_not)
        claims = binder.claims_of(pod, storage)
        if claims.immediate:
            return unresolvable(binder.UNBOUND_IMMEDIATE)
        if not claims.delayed and binder.can_be_used_everywhere(claims.bound, storage):
            return SKIP
        state[self.name] = VolumesState(cache, claims)
        return None

    def filter_nodes(self, state: CycleState, pod: Pod, nodes: NodeSlice) -> Sequence[Status | None]:
        """Reject nodes where the pod can't get its volumes. If all are bound, that is kept for all nodes."""
        kept: VolumesState = state[self.name]
        within = None if kept.claims.delayed else in_reach.nodes_in_reach(kept.claims.bound, kept.cache)
        if within is None:
            return [self._rejection(kept, node) for node in nodes]
        out_of_reach = unresolvable(binder.AFFINITY)
        return [None if i in within else out_of_reach for i in nodes.indexes]

    def _rejection(self, kept: VolumesState, node: NodeInfo) -> Status | None:
        kept.comparisons.add(COMPARISONS_PER_CLAIM * len(kept.claims.delayed))
        try:
            volumes = binder.find_pod_volumes(kept.claims, node, kept.storage)
        except binder.BinderError as error:
            raise NodeError(f'running "{self.name}" filter plugin: {error}') from error
        if isinstance(volumes, binder.PodVolumes):
            kept.by_node[node.name] = volumes
            return None
        return unresolvable(*volumes)

    def pre_score(
        self, state: CycleState, pod: Pod, cache: Cache, nodes: Sequence[NodeInfo]
    ) -> Status | None:
        """SKIP: kube-scheduler's feature StorageCapacityScoring is off by default, too."""
        return SKIP

    def score(self, state: CycleState, pod: Pod, node: NodeInfo) -> int:
        """All nodes are alike."""
        return 0

    def reserve(self, state: CycleState, pod: Pod, node_name: str) -> Status | None:
        """Assume that the claims are bound to the volumes that they get on this node."""
        kept: VolumesState | None = state.get(self.name)
        if kept and kept.claims.delayed:
            kept.assumed = binder.assume_pod_volumes(kept.by_node[node_name], node_name, kept.storage)
        return None

    def pre_bind(self, state: CycleState, pod: Pod, node_name: str) -> Status | None:
        """Let poller write the assumed claims and volumes, and wait until they are bound."""
        kept: VolumesState | None = state.get(self.name)
        if not kept or not kept.assumed:
            return None
        names = sorted({claim.metadata.name for claim in kept.claims.delayed})
        waits = partial(
            wait, f"waiting for claims to be bound: {', '.join(names)}", limit=self.bind_timeout_seconds
        )
        if not kept.is_handed_out:
            kept.is_handed_out = True
            return waits(writes=_changed(kept.by_node[node_name], kept.assumed))
        node = kept.cache.nodes[node_name]
        try:
            return None if binder.check_bindings(kept.assumed, node, kept.storage) else waits()
        except binder.BinderError as error:
            raise PluginError(f'running PreBind plugin "{self.name}": binding volumes: {error}') from error

    def unreserve(self, state: CycleState, pod: Pod, node_name: str) -> None:
        """Undo what is assumed for this pod. What was assumed before for another pod with the claim stays."""
        kept: VolumesState | None = state.get(self.name)
        if kept and kept.assumed:
            for changed in _changed(kept.by_node[node_name], kept.assumed):
                kept.storage.restore(changed)
            kept.assumed = None


def _changed(before: "PodVolumes", after: "PodVolumes") -> list[PersistentVolume | PersistentVolumeClaim]:
    """The assumed volumes and claims that differ from the API server's."""
    volumes = [new for (_, old), (_, new) in zip(before.static, after.static, strict=True) if new is not old]
    claims = [new for old, new in zip(before.provisions, after.provisions, strict=True) if new is not old]
    return [*volumes, *claims]


def _migrated(csi_node: CSINode) -> str:
    return csi_node.metadata.annotations.get(MIGRATED_PLUGINS, "")


def _largest(capacity: CSIStorageCapacity) -> int:
    """The largest volume's size; -1 if it isn't known."""
    return -1 if capacity.largest_volume is None else capacity.largest_volume
