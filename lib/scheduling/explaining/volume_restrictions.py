"""Which pods use a disk, or a claim, that is for one pod alone."""

from collections import defaultdict

from lib.kube.objects import Pod
from lib.scheduling.cache import Cache
from lib.scheduling.disks import clashing_disks, disks_of
from lib.scheduling.framework.interface import Lines
from lib.scheduling.node_info import NodeInfo
from lib.scheduling.plugins.volume_restrictions import DISK_CONFLICT, IN_USE, ONE_POD
from lib.scheduling.status import CycleState, Status
from lib.scheduling.text import names, pods_text, verb
from lib.scheduling.volumes.claims import claim_names, existing_claims


class VolumeRestrictionsExplainer:
    """Explains VolumeRestrictions."""

    name = "VolumeRestrictions"

    def explain(self, state: CycleState, pod: Pod, cache: Cache, node: NodeInfo, status: Status) -> Lines:
        """The pods that use a disk there, or a ReadWriteOncePod claim."""
        if status.reasons == DISK_CONFLICT.reasons:
            for disk, holders in _users_of_disks(pod, node).items():
                yield f"disk {disk} is in use by {pods_text(holders)}"
        if status.reasons != IN_USE.reasons:
            return
        for claim in existing_claims(pod, cache.storage):
            if ONE_POD in claim.spec.access_modes:
                users = [
                    str(other)
                    for node_info in cache.nodes.values()
                    for other in node_info.pods
                    if other.metadata.namespace == pod.metadata.namespace
                    and claim.metadata.name in {used.name for used in claim_names(other)}
                ]
                if users:
                    has = verb(len(users), "has", "have")
                    yield f"claim {claim} is for one pod alone, and {names(users)} {has} it"


def _users_of_disks(pod: Pod, node: NodeInfo) -> dict[str, list[Pod]]:
    """The pods of a node with whose disks the pod's clash; by the disk, as `gce/data`."""
    users = defaultdict[str, list[Pod]](list)
    for other in node.pods:
        names_of_disks = ("/".join(disk[:3]) for disk, _ in clashing_disks(pod) & disks_of(other))
        for name in dict.fromkeys(names_of_disks):  # a Ceph image is named once for each monitor
            users[name].append(other)
    return users
