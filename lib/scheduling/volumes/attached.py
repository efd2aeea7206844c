"""Which volumes CSI drivers attach to each node; the results are kept.

A node's result is computed again when its pods change, or a claim, volume or class that they depend on.

Source: pkg/scheduler/framework/plugins/nodevolumelimits/csi.go
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Set
from dataclasses import dataclass, field
from functools import lru_cache

from lib.kube.objects import Pod
from lib.kube.storage import CSINode, PersistentVolumeClaim, VolumeAttachment
from lib.scheduling.cache import Cache
from lib.scheduling.kept import OfEachNode
from lib.scheduling.node_info import NodeInfo
from lib.scheduling.storage import Storage, namespaced_name
from lib.scheduling.text import Line
from lib.scheduling.volumes import in_tree
from lib.scheduling.volumes.claims import claim_name, claim_names, has_claims, why_not_owner
from lib.scheduling.volumes.in_tree import TranslationError, plugin_of

NO_LIMIT = 1 << 62
"""The number of volumes that can be attached if there is no limit."""

Attachable = tuple[str, str]
"""A driver, and the key of one of its volumes."""


class ClaimNotFoundError(Exception):
    """A claim of the pod to be scheduled doesn't exist."""


class NotOwnerError(Exception):
    """A claim wasn't created for the ephemeral volume that has its name."""


# --- volumes of a pod ------------------------------------------------------------------------------------


def volumes_of(
    pod: Pod, storage: Storage, *, is_new: bool = False, needs: set[str] | None = None
) -> set[Attachable]:
    """The volumes of a pod that drivers attach to its node. NotOwnerError if a claim isn't the pod's.

    They count only on nodes with a CSINode, where in-tree volumes are those of CSI drivers.

    is_new: whether it is the pod to be scheduled. If one of its claims doesn't exist, that is a
    ClaimNotFoundError. needs: gets the keys of the claims, volumes and classes that the result depends on.
    """
    volumes = set(_in_tree_volumes(pod))
    needed = needs if needs is not None else set()
    for reference in claim_names(pod):
        key = f"{pod.metadata.namespace}/{reference.name}"
        needed.add(key)
        claim = storage.claim(pod.metadata.namespace, reference.name)
        if claim is None:
            if is_new:
                why = f'looking up PVC {key}: persistentvolumeclaim "{reference.name}" not found'
                raise ClaimNotFoundError(why)
            continue
        if reference.ephemeral and (why_not := why_not_owner(pod, claim)):
            raise NotOwnerError(why_not)
        needed.update((claim.spec.volume_name, claim.storage_class))
        if attachable := _of_claim(claim, storage):
            volumes.add(attachable)
    return volumes


@lru_cache(maxsize=1024)
def _in_tree_volumes(pod: Pod) -> Set[Attachable]:
    """The in-tree volumes of a pod, as volumes of the CSI drivers."""
    return {
        (plugin.driver, in_tree.volume_handle(volume))
        for volume in pod.spec.volumes
        if claim_name(pod, volume) is None and (plugin := plugin_of(volume))
    }


def may_be_attached(pod: Pod) -> bool:
    """Whether a pod has volumes that a driver may attach: claims, or in-tree volumes."""
    return bool(pod.spec.volumes) and bool(claim_names(pod) or _in_tree_volumes(pod))


def may_have_volumes_of(pod: Pod, driver: str) -> bool:
    """Whether one of a pod's volumes may be attached by a driver."""
    return has_claims(pod) or any(other == driver for other, _ in _in_tree_volumes(pod))


def _of_claim(claim: PersistentVolumeClaim, storage: Storage) -> Attachable | None:
    """The key of a claim's volume; a volume that doesn't exist yet is known by its claim."""
    volume = storage.volumes.get(claim.spec.volume_name) if claim.spec.volume_name else None
    if volume is None:
        kind = storage.classes.get(claim.storage_class)
        provisioner = kind.provisioner if kind else ""
        if plugin := in_tree.PLUGINS.get(provisioner):
            provisioner = plugin.driver
        return (provisioner, f"claim {claim}") if provisioner else None
    source = volume.spec.csi
    if source is None:
        try:
            source = in_tree.as_csi(volume).spec.csi
        except TranslationError:
            return None
    return (
        (source.driver, source.volume_handle) if source and source.driver and source.volume_handle else None
    )


# --- volumes of a node ------------------------------------------------------------------------------------


def limits_of(csi_node: CSINode | None) -> dict[str, int]:
    """By driver, how many volumes can be attached; a driver that isn't in it has no limit."""
    drivers = (csi_node.spec.drivers if csi_node else None) or ()
    return {
        driver.name: driver.allocatable.count
        for driver in drivers
        if driver.allocatable and driver.allocatable.count is not None
    }


@dataclass(frozen=True)
class Attached:
    """The volumes that drivers attach to a node."""

    limits: Mapping[str, int]
    """By driver, how many volumes can be attached."""
    by_pods: Set[Attachable] = frozenset()
    """The volumes that pods use."""
    counts: Mapping[str, int] = field(default_factory=Counter)
    """By driver, the number of volumes that pods use or that have a VolumeAttachment."""
    needs: Set[str] = frozenset()
    """The keys of the claims, volumes and classes that this depends on."""
    why_not: str = ""
    """Why the volumes can't be found out; "" if they can."""

    def room(self, driver: str) -> int:
        """How many more volumes of a driver can be attached; 0 if that can't be found out."""
        if self.why_not:
            return 0
        return self.limits[driver] - self.counts[driver] if driver in self.limits else NO_LIMIT


NO_LIMITS = Attached({})
"""What is known of a node where drivers can attach any number of volumes."""


class AttachedVolumes(OfEachNode[Attached]):
    """The volumes attached to each node, and how many more each can attach."""

    def __init__(self, cache: Cache) -> None:
        self._storage = cache.storage
        self._storage_token = self._storage.journal.token
        self._room: dict[str, list[int]] = {}
        """By driver, how many more volumes each node can attach."""
        self._least: dict[str, int] = {}
        """By driver, a lower bound of these."""
        super().__init__(cache, self._attached_to)

    def follow_storage(self) -> None:
        """Find the volumes of nodes again that depend on a changed claim, volume or class."""
        changed = self._storage.journal.since(self._storage_token)
        self._storage_token = self._storage.journal.token
        keys, names = set[str](), set[str]()
        for storage_object in changed or ():
            if isinstance(storage_object, VolumeAttachment):
                names.add(storage_object.spec.node_name)
            elif isinstance(storage_object, CSINode):
                names.add(storage_object.metadata.name)
            else:
                keys.add(namespaced_name(storage_object.metadata))
        if changed is None or keys or names:
            for i, node in enumerate(self._cache.node_list):
                if changed is None or node.name in names or not self.values[i].needs.isdisjoint(keys):
                    self._put(i, self._attached_to(node))

    def on(self, node: NodeInfo) -> Attached:
        """The volumes attached to a node; empty if it has no limits."""
        return self.values[self._cache.node_index[node.name]]

    def room(self, driver: str) -> list[int]:
        """How many more volumes of a driver each node can attach."""
        if driver not in self._room:
            self._room[driver] = [attached.room(driver) for attached in self.values]
            self._least[driver] = 0
        return self._room[driver]

    def has_room_everywhere(self, driver: str, amount: int) -> bool:
        """Whether every node can attach so many more volumes of a driver."""
        room = self.room(driver)
        if self._least[driver] < amount:
            self._least[driver] = min(room, default=NO_LIMIT)
        return self._least[driver] >= amount

    def _put(self, i: int, value: Attached) -> None:
        super()._put(i, value)
        for driver, room in self._room.items():
            room[i] = value.room(driver)
            self._least[driver] = min(self._least[driver], room[i])

    def _attached_to(self, node: NodeInfo) -> Attached:
        limits = limits_of(self._storage.csi_nodes.get(node.name))
        if not limits:
            return NO_LIMITS
        by_pods, needs = set[Attachable](), set[str]()
        try:
            for pod in node.pods:
                by_pods |= volumes_of(pod, self._storage, needs=needs)
        except NotOwnerError as error:
            return Attached(limits, needs=needs, why_not=str(error))
        attached = self._volume_attachments(node.name, needs)
        return Attached(limits, by_pods, Counter(driver for driver, _ in by_pods | attached), needs)

    def _volume_attachments(self, node_name: str, needs: set[str]) -> set[Attachable]:
        """The volumes with a VolumeAttachment to a node, even if no pod there uses them any more."""
        volumes = set()
        for attachment in self._storage.attachments(node_name):
            name, driver = attachment.spec.source.persistent_volume_name or "", attachment.spec.attacher
            needs.add(name)
            volume = self._storage.volumes.get(name)
            if volume and volume.spec.csi:
                volumes.add((driver, volume.spec.csi.volume_handle))
        return volumes


def attached_volumes(cache: Cache) -> AttachedVolumes:
    """The volumes attached to each node, up to date."""
    attached = cache.kept.get(("attached volumes", cache.storage), AttachedVolumes, cache)
    attached.follow_storage()
    return attached


def takers(driver: str, node: NodeInfo, storage: Storage) -> Iterator[Line]:
    """What takes the places of a driver's volumes on a node: pods, and attachments that no pod needs."""
    by_pods = set[Attachable]()
    for pod in node.pods:
        try:
            volumes = volumes_of(pod, storage)
        except NotOwnerError:
            continue
        by_pods |= volumes
        if own := sum(attacher == driver for attacher, _ in volumes):
            yield Line(f"pod {pod} has {own:,}", held_by={str(pod): own})
    for attachment in storage.attachments(node.name):
        volume = storage.volumes.get(attachment.spec.source.persistent_volume_name or "")
        source = volume.spec.csi if volume and attachment.spec.attacher == driver else None
        if volume and source and (driver, source.volume_handle) not in by_pods:
            left = f"volume {volume.metadata.name} is still attached, and no pod here uses it"
            name = f"VolumeAttachment {attachment.metadata.name}"
            yield Line(f"{left} ({name})", held_by={name: 1})
