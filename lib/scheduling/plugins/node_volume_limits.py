"""NodeVolumeLimits: no node gets more volumes of a CSI driver than the driver can attach there.

Source: pkg/scheduler/framework/plugins/nodevolumelimits/csi.go
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from lib.kube.changes import AnyChange, Kind
from lib.kube.objects import Pod
from lib.kube.storage import CSINode, VolumeAttachment
from lib.lazily import Lazy
from lib.scheduling.cache import Cache
from lib.scheduling.hints import deleted_pod, is_about_claim_of
from lib.scheduling.node_info import NodeInfo
from lib.scheduling.node_slice import NodeSlice
from lib.scheduling.status import SKIP, CycleState, NodeError, Status, unresolvable, unschedulable
from lib.scheduling.volumes.claims import ReadsVolumes

if TYPE_CHECKING:
    from lib.scheduling.volumes import attached
    from lib.scheduling.volumes.attached import Attachable, AttachedVolumes
else:
    attached = Lazy("lib.scheduling.volumes.attached")

TOO_MANY = unschedulable("node(s) exceed max volume count")


@dataclass(frozen=True)
class NodeVolumeLimits(ReadsVolumes):
    """Filters out nodes that can't attach the pod's volumes, by the limits of their CSINode."""

    name: str = "NodeVolumeLimits"

    events_to_register = (
        "AssignedPodDelete",
        "PersistentVolumeClaimAdd",
        "VolumeAttachmentDelete",
        "CSINodeAdd",
        "CSINodeUpdate",
    )

    def queueing_hint(self, pod: Pod, change: AnyChange) -> bool:
        """A volume that is no longer used, a driver with a higher limit, or a new claim of the pod."""
        now = change.object
        if gone := deleted_pod(change):
            return bool(gone.spec.volumes) and attached.may_be_attached(gone)
        if isinstance(now, VolumeAttachment):
            return change.kind == Kind.DELETED and attached.may_have_volumes_of(pod, now.spec.attacher)
        if isinstance(now, CSINode) and change.kind != Kind.DELETED:
            return not isinstance(change.before, CSINode) or _takes_more(change.before, now)
        return change.kind == Kind.ADDED and is_about_claim_of(pod, change)

    def pre_filter(self, state: CycleState, pod: Pod, cache: Cache) -> Status | None:
        """SKIP if the pod has no such volumes, or if all nodes have room for them."""
        if not pod.spec.volumes or not attached.may_be_attached(pod):
            return SKIP
        new = NewVolumes(pod, cache)
        if new.are_usable and all(
            new.attached.has_room_everywhere(driver, more) for driver, more in new.by_driver.items()
        ):
            return SKIP
        state[self.name] = new
        return None

    def filter_nodes(self, state: CycleState, pod: Pod, nodes: NodeSlice) -> Sequence[Status | None]:
        """Reject nodes that can't attach all of the pod's volumes."""
        new: NewVolumes = state[self.name]
        if not new.are_usable:
            return [self._rejection(new, node) for node in nodes]
        lacking = [False] * len(nodes)
        for driver, more in new.by_driver.items():
            room = nodes.pick(new.attached.room(driver))
            lacking = [lacks or left < more for lacks, left in zip(lacking, room, strict=True)]
        # Some nodes that lack room for all of the volumes may have a part of them attached already.
        with_lacking = zip(nodes, lacking, strict=True)
        return [self._rejection(new, node) if lacks else None for node, lacks in with_lacking]

    def _rejection(self, new: "NewVolumes", node: NodeInfo) -> Status | None:
        try:
            volumes = new.volumes
        except attached.ClaimNotFoundError as error:
            return unresolvable(str(error))
        except attached.NotOwnerError as error:
            raise NodeError(f'running "{self.name}" filter plugin: {error}') from error
        on_node = new.attached.on(node) if volumes else None
        if not on_node or not on_node.limits:
            return None
        if on_node.why_not:
            raise NodeError(f'running "{self.name}" filter plugin: {on_node.why_not}')
        more = new.not_yet_on(node)
        return TOO_MANY if any(on_node.room(driver) < wanted for driver, wanted in more.items()) else None


def _takes_more(before: CSINode, now: CSINode) -> bool:
    """Whether a driver's limit was raised or removed."""
    limits = attached.limits_of(now)
    return any(
        limits.get(driver, attached.NO_LIMIT) > old for driver, old in attached.limits_of(before).items()
    )


class NewVolumes:
    """The new pod's volumes."""

    by_driver: Counter[str]
    """How many volumes must be attached; only if they are usable."""
    are_usable: bool
    """Whether the volumes can be found out. If they can't, `volumes` raises an error."""

    def __init__(self, pod: Pod, cache: Cache) -> None:
        self._cache, self._pod = cache, pod
        try:
            self.by_driver = Counter(driver for driver, _ in self.volumes)
            self.are_usable = True
        except (attached.ClaimNotFoundError, attached.NotOwnerError):
            self.are_usable = False

    @cached_property
    def volumes(self) -> "set[Attachable]":
        """All volumes. ClaimNotFoundError or NotOwnerError when a claim can't be used."""
        return attached.volumes_of(self._pod, self._cache.storage, is_new=True)

    def not_yet_on(self, node: NodeInfo) -> Counter[str]:
        """By driver, how many of the volumes no pod of this node uses."""
        by_pods = self.attached.on(node).by_pods
        return Counter(volume[0] for volume in self.volumes if volume not in by_pods)

    @cached_property
    def attached(self) -> "AttachedVolumes":
        """The volumes attached to each node."""
        return attached.attached_volumes(self._cache)
