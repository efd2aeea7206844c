"""Which volumes a pod has, or could get, on a node.

Source: pkg/scheduler/framework/plugins/volumebinding/binder.go
"""

from collections.abc import Iterator
from dataclasses import dataclass, field

from lib.kube.objects import NodeSelector, Pod, with_parts
from lib.kube.selectors import selects
from lib.kube.storage import (
    NO_PROVISIONER,
    SELECTED_NODE,
    WAIT_FOR_FIRST_CONSUMER,
    PersistentVolume,
    PersistentVolumeClaim,
    StorageClass,
)
from lib.scheduling.node_info import NodeInfo
from lib.scheduling.storage import Storage, namespaced_name
from lib.scheduling.volumes.claims import claim_names
from lib.scheduling.volumes.in_tree import TranslationError, as_csi, is_migrated, plugin_of
from lib.scheduling.volumes.matching import Candidates, allows, bound_to, reaches

UNBOUND_IMMEDIATE = "pod has unbound immediate PersistentVolumeClaims"
AFFINITY = "node(s) didn't match PersistentVolume's node affinity"
NO_VOLUMES = "node(s) didn't find available persistent volumes to bind"
NO_SPACE = "node(s) did not have enough free storage"
NO_SUCH_VOLUMES = "node(s) unavailable due to one or more pvc(s) bound to non-existent pv(s)"


class BinderError(Exception):
    """A volume's binding failed, or can't be checked. The text says why."""


@dataclass
class PodVolumes:
    """What a pod's unbound claims would get on a node."""

    static: list[tuple[PersistentVolumeClaim, PersistentVolume]] = field(default_factory=list)
    """Existing volumes, each with its claim."""
    provisions: list[PersistentVolumeClaim] = field(default_factory=list)
    """The claims whose volumes are to be provisioned."""


@dataclass
class PodClaims:
    """A pod's claims."""

    bound: list[PersistentVolumeClaim] = field(default_factory=list)
    delayed: list[PersistentVolumeClaim] = field(default_factory=list)
    """The claims that are bound when the pod is scheduled."""
    immediate: list[PersistentVolumeClaim] = field(default_factory=list)
    """The claims that aren't bound, though they don't wait for the pod."""
    candidates: list[tuple[PersistentVolumeClaim, Candidates, int]] = field(default_factory=list)
    """For each claim in `delayed` without a selected node: the volumes that it could get, and how many of the
    pod's volumes have this claim."""


def claims_of(pod: Pod, storage: Storage) -> PodClaims:
    """Sort a pod's claims into the three kinds; all must exist."""
    claims = PodClaims()
    times: dict[str, int] = {}
    for reference, count in claim_names(pod).items():
        claim = storage.claim(pod.metadata.namespace, reference.name)
        if claim is None:
            raise BinderError(f'error getting PVC "{pod.metadata.namespace}/{reference.name}"')
        times[reference.name] = count
        if claim.is_bound:
            claims.bound.append(claim)
        elif not claim.spec.volume_name and is_delayed(claim, storage):
            claims.delayed.append(claim)
        else:
            claims.immediate.append(claim)
    unselected = [claim for claim in claims.delayed if SELECTED_NODE not in claim.metadata.annotations]
    for claim in sorted(unselected, key=lambda claim: claim.size):
        claims.candidates.append((claim, Candidates(claim, storage.free), times[claim.metadata.name]))
    return claims


def is_delayed(claim: PersistentVolumeClaim, storage: Storage) -> bool:
    """Whether a claim gets its volume only when a pod that uses it is scheduled."""
    storage_class = storage.classes.get(claim.storage_class)
    return storage_class is not None and storage_class.volume_binding_mode == WAIT_FOR_FIRST_CONSUMER


def find_pod_volumes(claims: PodClaims, node: NodeInfo, storage: Storage) -> PodVolumes | list[str]:
    """The volumes that a pod's unbound claims would get on a node; or why it can't run there.

    BinderError when a bound volume can't be translated to a CSI volume.
    """
    reasons = _why_not_bound(claims.bound, node, storage)
    volumes = PodVolumes()
    if not claims.delayed:
        return reasons or volumes
    selected = [claim for claim in claims.delayed if SELECTED_NODE in claim.metadata.annotations]
    if any(claim.metadata.annotations[SELECTED_NODE] != node.name for claim in selected):
        return sorted([*reasons, NO_VOLUMES], key=ORDER.index)
    taken: set[str] = set()
    for claim, candidates, times in claims.candidates:
        for _ in range(times):  # each of the pod's volumes with this claim gets a volume of its own
            volume = candidates.best_on(node.labels, taken)
            if volume is None:
                selected.append(claim)
                break
            volumes.static.append((claim, volume))
            taken.add(volume.metadata.name)
    for claim in selected:
        if why_not := _why_not_provisioned(claim, node, storage):
            return sorted([*reasons, why_not], key=ORDER.index)
    volumes.provisions = selected
    return reasons or volumes


ORDER = (AFFINITY, NO_VOLUMES, NO_SPACE, NO_SUCH_VOLUMES)
"""The order of the reasons."""


def can_be_used_everywhere(bound: list[PersistentVolumeClaim], storage: Storage) -> bool:
    """Whether the volumes of bound claims exist, and none has a node affinity or gets one as a CSI volume."""
    volumes = (storage.volumes.get(claim.spec.volume_name) for claim in bound)
    try:
        return all(
            volume and volume.required_nodes is None and as_csi(volume).required_nodes is None
            for volume in volumes
        )
    except TranslationError:  # where the plugin is migrated
        return False


def _why_not_bound(bound: list[PersistentVolumeClaim], node: NodeInfo, storage: Storage) -> list[str]:
    """Why volumes of bound claims can't be used on a node."""
    for claim in bound:
        volume = storage.volumes.get(claim.spec.volume_name)
        if volume is None:
            return [NO_SUCH_VOLUMES]
        if not _is_in_reach(volume, node, storage):
            return [AFFINITY]
    return []


def _why_not_provisioned(claim: PersistentVolumeClaim, node: NodeInfo, storage: Storage) -> str | None:
    """Why a claim's volume can't be provisioned for a node."""
    storage_class = storage.classes.get(claim.storage_class)
    if storage_class is None:
        raise BinderError(f'failed to find storage class "{claim.storage_class}"')
    provisions = storage_class.provisioner not in ("", NO_PROVISIONER)
    if not provisions or not allows(storage_class.allowed_topologies, node.labels):
        return NO_VOLUMES
    return None if _has_capacity(claim, storage_class, node, storage) else NO_SPACE


def _has_capacity(
    claim: PersistentVolumeClaim, storage_class: StorageClass, node: NodeInfo, storage: Storage
) -> bool:
    """Whether there is enough capacity for a claim; True if the driver doesn't publish its capacity."""
    driver = storage.csi_drivers.get(storage_class.provisioner)
    if not claim.size or driver is None or not driver.spec.storage_capacity:
        return True
    return any(True for _ in largest_volumes(storage_class, node, storage, claim.size.value))


def largest_volumes(
    storage_class: StorageClass, node: NodeInfo, storage: Storage, at_least: int = 0
) -> Iterator[int]:
    """The sizes of the largest volumes of a class for a node, as far as its driver publishes them."""
    for capacity in storage.capacities():
        if (
            capacity.storage_class_name == storage_class.metadata.name
            and capacity.largest_volume is not None
            and capacity.largest_volume.value >= at_least
            and selects(capacity.node_topology, node.labels)
        ):
            yield capacity.largest_volume.value


def assume_pod_volumes(volumes: PodVolumes, node_name: str, storage: Storage) -> PodVolumes:
    """Assume that claims and volumes are bound: no other pod gets them. Returns what is to be written."""
    assumed = PodVolumes()
    for claim, volume in volumes.static:
        bound = bound_to(volume, claim)
        if bound is not volume:
            storage.assume(bound)
        assumed.static.append((claim, bound))
    for claim in volumes.provisions:
        if SELECTED_NODE in claim.metadata.annotations:
            assumed.provisions.append(claim)
            continue
        annotations = {**claim.metadata.annotations, SELECTED_NODE: node_name}
        selected = with_parts(claim, metadata={"annotations": annotations})
        storage.assume(selected)
        assumed.provisions.append(selected)
    return assumed


def check_bindings(assumed: PodVolumes, node: NodeInfo, storage: Storage) -> bool:
    """Whether a pod's claims are bound to the volumes that they should get. BinderError when they never will.

    Checks the API server's objects; False while it doesn't show what was written.
    """
    return all(_is_bound_to(claim, volume, node, storage) for claim, volume in assumed.static) and all(
        _is_provisioned(claim, node, storage) for claim in assumed.provisions
    )


def _is_bound_to(
    claim: PersistentVolumeClaim, volume: PersistentVolume, node: NodeInfo, storage: Storage
) -> bool:
    """Whether a claim is bound to an existing volume. BinderError when it never will be."""
    name, key = volume.metadata.name, namespaced_name(claim.metadata)
    stored, stored_claim = storage.volumes.get_stored(name), storage.claims.get_stored(key)
    if stored is None:
        raise BinderError(f'failed to check binding: persistentvolume "{name}" not found')
    if stored_claim is None:
        raise BinderError(f'failed to check binding: persistentvolumeclaim "{key}" not found')
    if storage.volumes.is_assumed(name):
        return False
    _check_reaches(stored, node, storage)
    if stored.spec.claim_ref is None or not stored.spec.claim_ref.uid:
        raise BinderError(f'ClaimRef got reset for pv "{name}"')
    return stored_claim.is_bound


def _is_provisioned(claim: PersistentVolumeClaim, node: NodeInfo, storage: Storage) -> bool:
    """Whether a claim is bound to a volume that was provisioned. BinderError when it never will be."""
    key = namespaced_name(claim.metadata)
    stored_claim = storage.claims.get_stored(key)
    if stored_claim is None:
        raise BinderError(f'failed to check provisioning pvc: persistentvolumeclaim "{key}" not found')
    if storage.claims.is_assumed(key):
        return False
    if stored_claim.metadata.annotations.get(SELECTED_NODE) != node.name:
        raise BinderError(f'provisioning failed for PVC "{claim.metadata.name}"')
    if stored_claim.spec.volume_name:
        provisioned = storage.volumes.get_stored(stored_claim.spec.volume_name)
        if provisioned is None:
            return False
        _check_reaches(provisioned, node, storage)
    return stored_claim.is_bound


def _check_reaches(volume: PersistentVolume, node: NodeInfo, storage: Storage) -> None:
    """BinderError when a volume can't be reached from the node that was picked."""
    if not _is_in_reach(volume, node, storage):
        raise BinderError(f'pv "{volume.metadata.name}" node affinity doesn\'t match node "{node.name}"')


def _is_in_reach(volume: PersistentVolume, node: NodeInfo, storage: Storage) -> bool:
    return reaches(required_nodes_on(volume, node, storage), node.labels)


def required_nodes_on(volume: PersistentVolume, node: NodeInfo, storage: Storage) -> NodeSelector | None:
    """The nodes that can reach a volume, as it is on this one; None for all.

    If the volume's in-tree plugin is migrated on the node, it is a CSI volume there. BinderError when it
    can't be translated to one.
    """
    plugin = plugin_of(volume.spec)
    if plugin and is_migrated(plugin, storage.csi_nodes.get(node.name)):
        try:
            volume = as_csi(volume)
        except TranslationError as error:
            raise BinderError(f"could not translate pv: {error}") from error
    return volume.required_nodes
