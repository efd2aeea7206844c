"""VolumeZone: a pod goes only to the zones and regions that the labels of its volumes name.

Source: pkg/scheduler/framework/plugins/volumezone/volume_zone.go
"""

from dataclasses import dataclass

from lib.kube.changes import AnyChange, Kind
from lib.kube.objects import BETA_REGION, BETA_ZONE, REGION, SEVERAL_ZONES, ZONE, Pod
from lib.kube.storage import WAIT_FOR_FIRST_CONSUMER, PersistentVolume, StorageClass
from lib.scheduling.cache import Cache
from lib.scheduling.hints import is_about_claim_of, is_new_or_changed_node
from lib.scheduling.node_info import NodeInfo
from lib.scheduling.status import SKIP, CycleState, Status, unresolvable
from lib.scheduling.volumes.claims import ReadsVolumes, claim_names

CONFLICT = unresolvable("node(s) had no available volume zone")

LABELS = (BETA_ZONE, BETA_REGION, ZONE, REGION)
"""The labels for the zone and region of a volume or a node."""

NEWER = {BETA_ZONE: ZONE, BETA_REGION: REGION}
"""For each old label, the new one that a node may have instead."""

Topology = tuple[str, frozenset[str]]
"""A label, and the values that are allowed."""


@dataclass(frozen=True)
class VolumeZone(ReadsVolumes):
    """Filters out nodes of other zones; a node without zone and region labels passes."""

    name: str = "VolumeZone"

    events_to_register = (
        "NodeAdd",
        "NodeUpdate",
        "PersistentVolumeClaimAdd",
        "PersistentVolumeClaimUpdate",
        "PersistentVolumeAdd",
        "PersistentVolumeUpdate",
        "StorageClassAdd",
    )

    def queueing_hint(self, pod: Pod, change: AnyChange) -> bool:
        """A change of its claims; a new or moved node or volume; a new WaitForFirstConsumer class."""
        now, before = change.object, change.before
        if change.kind == Kind.DELETED:
            return False
        if isinstance(now, PersistentVolume):
            was = topologies_of(before) if isinstance(before, PersistentVolume) else None
            return was != topologies_of(now)
        if isinstance(now, StorageClass):
            return change.kind == Kind.ADDED and now.volume_binding_mode == WAIT_FOR_FIRST_CONSUMER
        return is_about_claim_of(pod, change) or is_new_or_changed_node(change, lambda node: node.labels)

    def pre_filter(self, state: CycleState, pod: Pod, cache: Cache) -> Status | None:
        """Find the zones of the volumes of the pod's claims."""
        if not pod.spec.volumes:
            return SKIP
        topologies: list[Topology] = []
        for claim in claim_names(pod):
            if claim.ephemeral:
                continue
            of_claim = _topologies(pod, claim.name, cache)
            if isinstance(of_claim, Status):
                return of_claim
            topologies += of_claim
        state[self.name] = topologies
        return None if topologies else SKIP

    def filter(self, state: CycleState, pod: Pod, node: NodeInfo) -> Status | None:
        """Reject a node in another zone or region."""
        if not any(label in node.labels for label in LABELS):
            return None
        for label, values in state[self.name]:
            where = node.labels.get(label, node.labels.get(NEWER.get(label, label)))
            if where not in values:
                return CONFLICT
        return None


def _topologies(pod: Pod, name: str, cache: Cache) -> list[Topology] | Status:
    """The topologies of a claim's volume, if it has one; or why the pod can't be scheduled."""
    if not name:
        return unresolvable("PersistentVolumeClaim had no name")
    storage = cache.storage
    claim = storage.claim(pod.metadata.namespace, name)
    if claim is None:
        return unresolvable(f'persistentvolumeclaim "{name}" not found')
    if not claim.spec.volume_name:
        if not claim.storage_class:
            return unresolvable("PersistentVolumeClaim had no pv name and storageClass name")
        kind = storage.classes.get(claim.storage_class)
        if kind is None:
            return unresolvable(f'storageclass.storage.k8s.io "{claim.storage_class}" not found')
        if kind.volume_binding_mode == WAIT_FOR_FIRST_CONSUMER:
            return []
        return unresolvable("PersistentVolume had no name")
    volume = storage.volumes.get(claim.spec.volume_name)
    if volume is None:
        return unresolvable(f'persistentvolume "{claim.spec.volume_name}" not found')
    return topologies_of(volume)


def topologies_of(volume: PersistentVolume) -> list[Topology]:
    """A volume's topologies, by its labels; a label with an empty zone is ignored."""
    topologies = []
    for label in LABELS:
        values = volume.metadata.labels.get(label)
        zones = [zone.strip() for zone in (values or "").split(SEVERAL_ZONES)]
        if values is not None and all(zones):
            topologies.append((label, frozenset(zones)))
    return topologies
