"""VolumeBinding: a pod goes to a node that its volumes can be reached from, or can be provisioned for.

Source: pkg/scheduler/framework/plugins/volumebinding/volume_binding.go
"""

from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import islice
from typing import Any, ClassVar

from lib.kube.changes import AnyChange, Kind
from lib.kube.objects import NodeSelectorTerm, Pod, Requirement
from lib.kube.selectors import matches_node
from lib.kube.storage import (
    MIGRATED_PLUGINS,
    NO_PROVISIONER,
    SELECTED_NODE,
    CSIDriver,
    CSINode,
    CSIStorageCapacity,
    PersistentVolume,
    PersistentVolumeClaim,
    StorageClass,
    TopologySelectorTerm,
)
from lib.scheduling.cache import Cache
from lib.scheduling.framework.arguments import Args, UtilizationShapePoint
from lib.scheduling.framework.interface import Lines
from lib.scheduling.hints import is_about_claim_of, is_new_or_changed_node
from lib.scheduling.node_info import NodeInfo
from lib.scheduling.node_slice import NodeSlice
from lib.scheduling.plugins.node_affinity import term_text, why_no_match
from lib.scheduling.pod_limits import Comparisons
from lib.scheduling.status import SKIP, CycleState, NodeError, PluginError, Status, unresolvable, wait
from lib.scheduling.storage import Storage
from lib.scheduling.text import exact_amount, listed
from lib.scheduling.volumes.binder import (
    AFFINITY,
    NO_SPACE,
    NO_SUCH_VOLUMES,
    NO_VOLUMES,
    BinderError,
    PodClaims,
    PodVolumes,
    assume_pod_volumes,
    can_be_used_everywhere,
    check_bindings,
    claims_of,
    find_pod_volumes,
    is_delayed,
)
from lib.scheduling.volumes.claims import existing_claims, has_claims, signed_volumes, why_not_usable
from lib.scheduling.volumes.in_reach import nodes_in_reach
from lib.scheduling.volumes.matching import allows, reaches

OUT_OF_REACH = unresolvable(AFFINITY)
COMPARISONS_PER_CLAIM = 5
"""To find a volume for a claim takes as long as so many comparisons."""

MOST_NAMED = 2
"""The most volumes that are named, of those which other nodes can reach."""

UNBOUND_IMMEDIATE = "pod has unbound immediate PersistentVolumeClaims"


@dataclass
class VolumesState:
    """What the plugin keeps in the CycleState.

    by_node: by node name, which volumes the claims would get there. assumed: once a node was picked, the
    volumes and claims as they are to be written. is_handed_out: whether poller got them for writing.
    """

    cache: Cache
    claims: PodClaims
    by_node: dict[str, PodVolumes] = field(default_factory=dict)
    comparisons: Comparisons = field(default_factory=Comparisons)
    assumed: PodVolumes | None = None
    is_handed_out: bool = False

    @property
    def storage(self) -> Storage:
        """The cache's claims and volumes."""
        return self.cache.storage


class VolumeBindingArgs(Args):
    """How long a pod waits for its volumes after a node was picked."""

    bind_timeout_seconds: int = 600
    shape: tuple[UtilizationShapePoint, ...] = ()

    def problems(self, path: str) -> Iterator[str]:
        """A line for each invalid field: `PATH: why`."""
        if self.bind_timeout_seconds < 0:
            yield f"{path}.bindTimeoutSeconds: {self.bind_timeout_seconds} is less than 0"
        if self.shape:
            yield f"{path}.shape: poller doesn't score storage capacity; leave it out"

    def for_plugin(self) -> dict[str, Any]:
        """The time limit."""
        return {"bind_timeout_seconds": self.bind_timeout_seconds}


@dataclass(frozen=True)
class VolumeBinding:
    """Filters out nodes from which bound volumes can't be reached, or where claims can't be bound.

    bind_timeout_seconds: after that, a pod whose volumes are still not bound is rejected.
    """

    bind_timeout_seconds: int = 600
    name: str = "VolumeBinding"
    args: ClassVar = VolumeBindingArgs

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

    def sign_for_hint(self, pod: Pod) -> Hashable:
        """The pod's namespace and volumes."""
        return signed_volumes(pod)

    def helps_owners_alone(self, change: AnyChange) -> bool:
        """Each change of a PersistentVolumeClaim."""
        return isinstance(change.object, PersistentVolumeClaim)

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
        claims = claims_of(pod, storage)
        if claims.immediate:
            return unresolvable(UNBOUND_IMMEDIATE)
        if not claims.delayed and can_be_used_everywhere(claims.bound, storage):
            return SKIP
        state[self.name] = VolumesState(cache, claims)
        return None

    def filter_nodes(self, state: CycleState, pod: Pod, nodes: NodeSlice) -> Sequence[Status | None]:
        """Reject nodes where the pod can't get its volumes. If all are bound, all nodes are found at once."""
        kept: VolumesState = state[self.name]
        within = None if kept.claims.delayed else nodes_in_reach(kept.claims.bound, kept.cache)
        if within is None:
            return [self._rejection(kept, node) for node in nodes]
        return [None if i in within else OUT_OF_REACH for i in nodes.indexes]

    def _rejection(self, kept: VolumesState, node: NodeInfo) -> Status | None:
        kept.comparisons.add(COMPARISONS_PER_CLAIM * len(kept.claims.delayed))
        try:
            found = find_pod_volumes(kept.claims, node, kept.storage)
        except BinderError as error:
            raise NodeError(f'running "{self.name}" filter plugin: {error}') from error
        if isinstance(found, PodVolumes):
            kept.by_node[node.name] = found
            return None
        return unresolvable(*found)

    def explain(self, state: CycleState, pod: Pod, cache: Cache, node: NodeInfo, status: Status) -> Lines:
        """The volume that can't be reached from the node, or the claim that can't get one there."""
        for claim in existing_claims(pod, cache.storage):
            volume = cache.storage.volumes.get(claim.spec.volume_name) if claim.spec.volume_name else None
            if volume and AFFINITY in status.reasons:
                required = volume.required_nodes
                if required and not matches_node(required, node.node):
                    for term in required.node_selector_terms:
                        needs = f"volume {volume.metadata.name} of claim {claim} needs {term_text(term)}"
                        yield f"{needs}: {why_no_match(term, node)}"
            elif not claim.spec.volume_name and UNBOUND_IMMEDIATE in status.reasons:
                if not is_delayed(claim, cache.storage):
                    yield _why_no_volume_yet(claim, cache.storage)
            elif not claim.spec.volume_name and (NO_VOLUMES in status.reasons or NO_SPACE in status.reasons):
                reason = NO_VOLUMES if NO_VOLUMES in status.reasons else NO_SPACE
                yield from _why_no_volume_on(claim, node, cache.storage, reason)
            elif claim.spec.volume_name and not volume and NO_SUCH_VOLUMES in status.reasons:
                yield f"claim {claim} is bound to volume {claim.spec.volume_name}, which isn't there"

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
            kept.assumed = assume_pod_volumes(kept.by_node[node_name], node_name, kept.storage)
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
            return None if check_bindings(kept.assumed, node, kept.storage) else waits()
        except BinderError as error:
            raise PluginError(f'running PreBind plugin "{self.name}": binding volumes: {error}') from error

    def unreserve(self, state: CycleState, pod: Pod, node_name: str) -> None:
        """Undo this pod's assumptions; those made before for another pod with the same claim stay."""
        kept: VolumesState | None = state.get(self.name)
        if kept and kept.assumed:
            for each in _changed(kept.by_node[node_name], kept.assumed):
                kept.storage.restore(each)
            kept.assumed = None


def _changed(before: PodVolumes, after: PodVolumes) -> list[PersistentVolume | PersistentVolumeClaim]:
    """The assumed volumes and claims that differ from the API server's."""
    volumes = [new for (_, old), (_, new) in zip(before.static, after.static, strict=True) if new is not old]
    claims = [new for old, new in zip(before.provisions, after.provisions, strict=True) if new is not old]
    return [*volumes, *claims]


def _migrated(csi_node: CSINode) -> str:
    return csi_node.metadata.annotations.get(MIGRATED_PLUGINS, "")


def _largest(capacity: CSIStorageCapacity) -> int:
    """The largest volume's size; -1 if it isn't known."""
    return -1 if capacity.largest_volume is None else capacity.largest_volume


# --- for people who ask -----------------------------------------------------------------------------------


def _why_no_volume_yet(claim: PersistentVolumeClaim, storage: Storage) -> str:
    """Why an unbound claim keeps its pod from all nodes: its volume should be there already."""
    kind = storage.classes.get(claim.storage_class)
    if kind is None:
        return _without_class(claim)
    if kind.provisioner in ("", NO_PROVISIONER):
        return f"claim {_claim_text(claim)} has no volume, and its class makes none"
    return f"claim {_claim_text(claim)} has no volume yet; {kind.provisioner} is to make it"


def _why_no_volume_on(
    claim: PersistentVolumeClaim, node: NodeInfo, storage: Storage, reason: str
) -> Iterator[str]:
    """Why an unbound claim can't have a volume on this node. reason: VolumeBinding's."""
    kind = storage.classes.get(claim.storage_class)
    selected = claim.metadata.annotations.get(SELECTED_NODE)
    if kind is None:
        yield _without_class(claim)
    elif selected:
        if selected != node.name:
            yield f"claim {_claim_text(claim)} is to get its volume on {selected}"
    elif kind.provisioner in ("", NO_PROVISIONER):
        yield f"claim {_claim_text(claim)} has no volume here, and its class makes none"
        yield from islice(_elsewhere(claim, node, storage), MOST_NAMED)
    elif not allows(kind.allowed_topologies, node.labels):
        terms = [*map(_as_node_term, kind.allowed_topologies)]
        where = " or ".join(map(term_text, terms))
        has = listed(dict.fromkeys(why_no_match(term, node) for term in terms))
        yield f"class {kind.metadata.name} of claim {claim} makes volumes only for {where}: {has}"
    elif reason == NO_SPACE:
        yield f"{kind.provisioner} has not enough free storage here for claim {_claim_text(claim)}"


def _as_node_term(term: TopologySelectorTerm) -> NodeSelectorTerm:
    return NodeSelectorTerm(
        match_expressions=tuple(
            Requirement(each.key, "In", each.values) for each in term.match_label_expressions
        )
    )


def _elsewhere(claim: PersistentVolumeClaim, node: NodeInfo, storage: Storage) -> Iterator[str]:
    """The free volumes of the claim's class that are large enough, but can't be reached from the node."""
    for volume in storage.volumes:
        required = volume.required_nodes
        if (
            required
            and volume.spec.claim_ref is None
            and volume.storage_class == claim.storage_class
            and volume.size >= claim.size
            and not reaches(required, node.labels)
        ):
            term = required.node_selector_terms[0] if required.node_selector_terms else NodeSelectorTerm()
            yield f"volume {volume.metadata.name} needs {term_text(term)}: {why_no_match(term, node)}"


def _without_class(claim: PersistentVolumeClaim) -> str:
    if not claim.storage_class:
        return f"claim {_claim_text(claim)} has no volume, and without a class none is made"
    return f"claim {claim} has no volume: there is no StorageClass {claim.storage_class} to make one"


def _claim_text(claim: PersistentVolumeClaim) -> str:
    of_class = f"class {claim.storage_class}" if claim.storage_class else "no class"
    return f"{claim} ({of_class}, {exact_amount('storage', claim.size.value)})"
