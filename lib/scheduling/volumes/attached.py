"""Which volumes CSI drivers attach to each node; the results are kept.

A node's result is computed again when its pods change, or a claim, volume or class that they depend on.

Source: pkg/scheduler/framework/plugins/nodevolumelimits/csi.go
"""

from collections import Counter
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass
from functools import lru_cache

from lib.kube.objects import Pod
from lib.kube.storage import CSINode, PersistentVolumeClaim, VolumeAttachment
from lib.scheduling.cache import Cache, ChangedNodes
from lib.scheduling.node_info import NodeInfo
from lib.scheduling.volumes import in_tree
from lib.scheduling.volumes.assume_cache import Storage, key_of
from lib.scheduling.volumes.claims import claim_name, claim_names, has_claims, why_not_owner
from lib.scheduling.volumes.in_tree import TranslationError, plugin_of
from lib.scheduling.volumes.journal import JournalReader

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
    pod: Pod, storage: Storage, *, has_csi_node: bool, is_new: bool = False, needs: set[str] | None = None
) -> set[Attachable]:
    """The volumes of a pod that drivers attach to its node. NotOwnerError if a claim isn't the pod's.

    is_new: it is the pod to be scheduled; ClaimNotFoundError when one of its claims doesn't exist. needs:
    gets the keys of the claims, volumes and classes that the result depends on.
    """
    found = set(_in_tree_volumes(pod)) if has_csi_node else set()
    for named in claim_names(pod):
        if needs is not None:
            needs.add(f"{pod.metadata.namespace}/{named.name}")
        claim = storage.claim(pod.metadata.namespace, named.name)
        if claim is None:
            if is_new:
                about = f"{pod.metadata.namespace}/{named.name}"
                why = f'looking up PVC {about}: persistentvolumeclaim "{named.name}" not found'
                raise ClaimNotFoundError(why)
            continue
        if named.ephemeral and (why_not := why_not_owner(pod, claim)):
            raise NotOwnerError(why_not)
        if needs is not None:
            needs.update((claim.spec.volume_name, claim.storage_class))
        if attachable := _of_claim(claim, storage, has_csi_node=has_csi_node):
            found.add(attachable)
    return found


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
    return has_claims(pod) or any(each == driver for each, _ in _in_tree_volumes(pod))


def _of_claim(claim: PersistentVolumeClaim, storage: Storage, *, has_csi_node: bool) -> Attachable | None:
    """The key of a claim's volume; a volume that doesn't exist yet is known by its claim."""
    volume = storage.volumes.get(claim.spec.volume_name) if claim.spec.volume_name else None
    if volume is None:
        kind = storage.classes.get(claim.storage_class)
        provisioner = kind.provisioner if kind else ""
        if plugin := in_tree.PLUGINS.get(provisioner):
            provisioner = plugin.driver if has_csi_node else ""
        return (provisioner, f"claim {claim}") if provisioner else None
    source = volume.spec.csi
    if source is None and has_csi_node and plugin_of(volume.spec):
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
        each.name: each.allocatable.count
        for each in drivers
        if each.allocatable and each.allocatable.count is not None
    }


@dataclass(frozen=True)
class Attached:
    """The volumes that drivers attach to a node. Valid while its pods and what they need stay the same.

    limits: by driver. by_pods: volumes that pods use. counts: by driver, the number of these and of
    VolumeAttachments. needs: the keys of the claims, volumes and classes that this depends on.
    """

    pods: list[Pod]
    pod_count: int
    limits: Mapping[str, int]
    by_pods: Set[Attachable]
    counts: Counter[str]
    needs: Set[str]

    def room(self, driver: str) -> int:
        """How many more volumes of a driver can be attached."""
        return self.limits[driver] - self.counts[driver] if driver in self.limits else NO_LIMIT


class AttachedVolumes:
    """The volumes attached to each node. generation: grows with changes other than of pods."""

    def __init__(self, storage: Storage) -> None:
        self.generation = 0
        self._storage = storage
        self._changes = JournalReader(storage.journal)
        self._by_node: dict[str, Attached] = {}

    def catch_up(self) -> None:
        """Drop the results of nodes that depend on a changed claim, volume or class."""
        changed = self._changes.new()
        if changed is None:
            self.generation += 1
            self._by_node.clear()
        elif changed:
            keys, nodes = set[str](), set[str]()
            for thing in changed:
                if isinstance(thing, VolumeAttachment):
                    nodes.add(thing.spec.node_name)
                elif isinstance(thing, CSINode):
                    nodes.add(thing.metadata.name)
                else:
                    keys.add(key_of(thing.metadata))
            nodes.update(name for name, each in self._by_node.items() if not each.needs.isdisjoint(keys))
            for name in nodes:
                self._by_node.pop(name, None)
            self.generation += bool(nodes)

    def on(self, node: NodeInfo) -> Attached:
        """The volumes attached to a node; empty if it has no limits. NotOwnerError as in `volumes_of`."""
        kept = self._by_node.get(node.name)
        # Pods are added to a node's list; when one is removed, it has another list.
        if kept and kept.pods is node.pods and kept.pod_count == len(node.pods):
            return kept
        limits = limits_of(self._storage.csi_nodes.get(node.name))
        by_pods, needs = set[Attachable](), set[str]()
        for pod in node.pods if limits else ():
            by_pods |= volumes_of(pod, self._storage, has_csi_node=True, needs=needs)
        attached = self._volume_attachments(node.name, needs) if limits else set()
        counts = Counter(driver for driver, _ in by_pods | attached)
        found = Attached(node.pods, len(node.pods), limits, by_pods, counts, needs)
        self._by_node[node.name] = found
        return found

    def _volume_attachments(self, node_name: str, needs: set[str]) -> set[Attachable]:
        """The volumes with a VolumeAttachment to a node, even if no pod there uses them any more."""
        found = set()
        for each in self._storage.attachments(node_name):
            name = each.spec.source.persistent_volume_name or ""
            needs.add(name)
            volume = self._storage.volumes.get(name)
            if each.spec.attacher and volume and volume.spec.csi:
                found.add((each.spec.attacher, volume.spec.csi.volume_handle))
        return found


def attached_volumes(storage: Storage) -> AttachedVolumes:
    """The volumes attached to each node, up to date."""
    found = storage.remember("attached volumes", lambda: AttachedVolumes(storage))
    found.catch_up()
    return found


# --- how much room is left --------------------------------------------------------------------------------


class Room:
    """How many more volumes of a driver each node can attach, by its index in `Cache.node_list`."""

    def __init__(self, cache: Cache, driver: str) -> None:
        self._cache, self._driver = cache, driver
        self._values: list[int] = []
        self._generation = -1
        self._changed = ChangedNodes(cache)
        self._least = 0  # no node has less

    def everywhere(self, amount: int) -> bool:
        """Whether every node can attach so many more."""
        values = self.of_nodes()
        if self._least < amount:
            self._least = min(values, default=NO_LIMIT)
        return self._least >= amount

    def of_nodes(self) -> Sequence[int]:
        """For each node; 0 if it can't be found out. Don't keep the result: it changes."""
        attached, nodes = attached_volumes(self._cache.storage), self._cache.node_list
        changed: Sequence[int] = self._changed.indexes()
        if self._generation != attached.generation:
            self._generation, changed = attached.generation, range(len(nodes))
            self._values = [0] * len(nodes)
        for i in changed:
            self._values[i] = room = self._on(nodes[i], attached)
            self._least = min(self._least, room)
        return self._values

    def _on(self, node: NodeInfo, attached: AttachedVolumes) -> int:
        try:
            return attached.on(node).room(self._driver)
        except NotOwnerError:
            return 0


def room_for(driver: str, cache: Cache) -> Room:
    """How many more volumes of a driver each node can attach."""
    return cache.remember(("room for volumes", driver), lambda: Room(cache, driver))
