"""NodeVolumeLimits: no node gets more volumes of a CSI driver than the driver can attach there.

Source: pkg/scheduler/framework/plugins/nodevolumelimits/csi.go
"""

from collections import Counter
from collections.abc import Mapping, Set
from dataclasses import dataclass

from lib.kube.changes import AnyChange, Kind
from lib.kube.objects import Pod
from lib.kube.storage import CSINode, PersistentVolumeClaim, VolumeAttachment
from lib.scheduling.cache import Cache
from lib.scheduling.framework.interface import (
    SKIP,
    CycleState,
    PluginError,
    Status,
    unresolvable,
    unschedulable,
)
from lib.scheduling.hints import deleted_pod
from lib.scheduling.node_info import NodeInfo
from lib.scheduling.volumes import in_tree
from lib.scheduling.volumes.assume_cache import Storage
from lib.scheduling.volumes.claims import claim_name, why_not_owner
from lib.scheduling.volumes.in_tree import TranslationError, plugin_of
from lib.scheduling.volumes.volume_hints import is_about_claim_of

TOO_MANY = unschedulable("node(s) exceed max volume count")

Attachable = tuple[str, str]
"""A driver, and what tells a volume of it from others."""


class _NotFoundError(Exception):
    """A claim that the pod to be placed names isn't there."""


class _NotOwnerError(Exception):
    """A claim was not made for the ephemeral volume that is to have it."""


@dataclass(frozen=True)
class NodeVolumeLimits:
    """Filters out nodes whose CSINode says that they can take no more volumes."""

    name: str = "NodeVolumeLimits"

    def queueing_hint(self, pod: Pod, change: AnyChange) -> bool:
        """A volume that is in use no longer, a driver that takes more, or a claim of the pod's that came."""
        now = change.object
        if gone := deleted_pod(change):
            return any(claim_name(gone, volume) or plugin_of(volume) for volume in gone.spec.volumes)
        if isinstance(now, VolumeAttachment):
            return change.kind == Kind.DELETED
        if isinstance(now, CSINode) and change.kind != Kind.DELETED:
            return not isinstance(change.before, CSINode) or _limits(change.before) != _limits(now)
        return change.kind == Kind.ADDED and is_about_claim_of(pod, change)

    def pre_filter(self, state: CycleState, pod: Pod, cache: Cache) -> Status | None:
        """A pod without any such volumes fits everywhere."""
        volumes = pod.spec.volumes
        if not volumes or not any(claim_name(pod, volume) or plugin_of(volume) for volume in volumes):
            return SKIP
        state[self.name] = NewVolumes(pod, cache.storage)
        return None

    def filter(self, state: CycleState, pod: Pod, node: NodeInfo) -> Status | None:
        """Reject a node that can't take as many volumes as the pod brings."""
        kept: NewVolumes = state[self.name]
        storage = kept.storage
        try:
            new = kept.on(storage.csi_nodes.get(node.name))
            attached = _attached(node, storage) if new else None
        except _NotFoundError as error:
            return unresolvable(str(error))
        except _NotOwnerError as error:
            raise PluginError(f'running "{self.name}" filter plugin: {error}') from error
        if not attached or not attached.limits:
            return None
        wanted: dict[str, int] = {}
        for volume in new:
            if volume not in attached.by_pods:
                wanted[volume[0]] = wanted.get(volume[0], 0) + 1
        for driver, more in wanted.items():
            if driver in attached.limits and attached.counts[driver] + more > attached.limits[driver]:
                return TOO_MANY
        return None


class NewVolumes:
    """What the pod to be placed brings; it depends on a node only in whether that has a CSINode."""

    def __init__(self, pod: Pod, storage: Storage) -> None:
        self.storage = storage
        self._pod = pod
        self._found: dict[bool, set[Attachable]] = {}

    def on(self, csi_node: CSINode | None) -> set[Attachable]:
        """What it brings to a node. _NotFoundError or _NotOwnerError when a claim of its is no good."""
        if (has_csi_node := csi_node is not None) not in self._found:
            self._found[has_csi_node] = _attachable(self._pod, self.storage, csi_node, is_new=True)
        return self._found[has_csi_node]


@dataclass(frozen=True)
class Attached:
    """What drivers attach to a node, as long as its pods, and all that is known of volumes, are the same.

    limits: how many, by driver. by_pods: volumes that pods use. counts: of these and of VolumeAttachments.
    """

    pods: list[Pod]
    pod_count: int
    version: int
    limits: Mapping[str, int]
    by_pods: Set[Attachable]
    counts: Counter[str]


def _attached(node: NodeInfo, storage: Storage) -> Attached:
    """What drivers attach to a node; kept from pod to pod. A node without limits isn't looked into."""
    kept: Attached | None = storage.attached.get(node.name)
    if (
        kept
        and kept.version == storage.version
        and kept.pods is node.pods  # pods are added to this list; when one is removed, there is another
        and kept.pod_count == len(node.pods)
    ):
        return kept
    csi_node = storage.csi_nodes.get(node.name)
    limits = _limits(csi_node)
    by_pods = set[Attachable]()
    for other in node.pods if limits else ():
        by_pods |= _attachable(other, storage, csi_node)
    counts = Counter(driver for driver, _ in by_pods | _volume_attachments(node.name, storage))
    found = Attached(node.pods, len(node.pods), storage.version, limits, by_pods, counts)
    storage.attached[node.name] = found
    return found


def _limits(csi_node: CSINode | None) -> dict[str, int]:
    """How many volumes can be attached, by driver; one that isn't named has no limit."""
    drivers = (csi_node.spec.drivers if csi_node else None) or ()
    return {
        each.name: each.allocatable.count
        for each in drivers
        if each.allocatable and each.allocatable.count is not None
    }


def _attachable(
    pod: Pod, storage: Storage, csi_node: CSINode | None, *, is_new: bool = False
) -> set[Attachable]:
    """The volumes of a pod that drivers attach; is_new: it is the one to be placed."""
    found = set()
    for volume in pod.spec.volumes:
        named = claim_name(pod, volume)
        if named is None:
            if csi_node and (plugin := plugin_of(volume)):
                found.add((plugin.driver, in_tree.volume_handle(volume)))
            continue
        claim = storage.claim(pod.metadata.namespace, named.name)
        if claim is None:
            if is_new:
                about = f"{pod.metadata.namespace}/{named.name}"
                why = f'looking up PVC {about}: persistentvolumeclaim "{named.name}" not found'
                raise _NotFoundError(why)
            continue
        if named.ephemeral and (why_not := why_not_owner(pod, claim)):
            raise _NotOwnerError(why_not)
        if attachable := _of_claim(claim, storage, csi_node):
            found.add(attachable)
    return found


def _of_claim(claim: PersistentVolumeClaim, storage: Storage, csi_node: CSINode | None) -> Attachable | None:
    """What a claim's volume counts as; one that isn't there yet is told from others by the claim."""
    volume = storage.volumes.get(claim.spec.volume_name) if claim.spec.volume_name else None
    if volume is None:
        kind = storage.classes.get(claim.storage_class)
        provisioner = kind.provisioner if kind else ""
        if plugin := in_tree.PLUGINS.get(provisioner):
            provisioner = plugin.driver if csi_node else ""
        return (provisioner, f"claim {claim}") if provisioner else None
    source = volume.spec.csi
    if source is None and csi_node and plugin_of(volume.spec):
        try:
            source = in_tree.as_csi(volume).spec.csi
        except TranslationError:
            return None
    return (
        (source.driver, source.volume_handle) if source and source.driver and source.volume_handle else None
    )


def _volume_attachments(node_name: str, storage: Storage) -> set[Attachable]:
    """What is attached to a node, whether a pod there still uses it or not."""
    found = set()
    for each in storage.attachments(node_name):
        volume = storage.volumes.get(each.spec.source.persistent_volume_name or "")
        if each.spec.attacher and volume and volume.spec.csi:
            found.add((each.spec.attacher, volume.spec.csi.volume_handle))
    return found
