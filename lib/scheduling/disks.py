"""In-tree disks that pods can't share, or share only for reading.

Source: pkg/scheduler/framework/plugins/volumerestrictions/volume_restrictions.go, isVolumeConflict
"""

from collections.abc import Iterator, Set
from functools import lru_cache

from lib.kube.objects import Pod, Volume

DiskUse = tuple[tuple[str, ...], bool]
"""A disk, and whether the pod may write to it. A Ceph image has one for each monitor."""


@lru_cache(maxsize=1024)
def disks_of(pod: Pod) -> Set[DiskUse]:
    """The disks that a pod uses, and how."""
    return {use for volume in pod.spec.volumes for use in _uses(volume)}


@lru_cache(maxsize=1024)
def clashing_disks(pod: Pod) -> Set[DiskUse]:
    """The uses that keep a pod away: of its disks, all that write, and all if the pod writes."""
    return {(disk, True) for disk, _ in disks_of(pod)} | {
        (disk, False) for disk, writes in disks_of(pod) if writes
    }


def _uses(volume: Volume) -> Iterator[DiskUse]:
    if ebs := volume.aws_elastic_block_store:
        yield ("ebs", ebs.volume_id), True  # it can't be shared for reading either
    if gce := volume.gce_persistent_disk:
        yield ("gce", gce.pd_name), not gce.read_only
    if iscsi := volume.iscsi:
        yield ("iscsi", iscsi.iqn), not iscsi.read_only
    if rbd := volume.rbd:
        for monitor in rbd.monitors:
            yield ("rbd", rbd.pool, rbd.image, monitor), not rbd.read_only
