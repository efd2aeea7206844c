"""Details of rejections because of a pod's volumes, with their names."""

from collections.abc import Iterator

from lib.kube.objects import Pod
from lib.kube.selectors import matches_node
from lib.kube.storage import PersistentVolume, PersistentVolumeClaim
from lib.questions.text import exact_amount, names
from lib.scheduling.cache import Cache
from lib.scheduling.node_info import NodeInfo
from lib.scheduling.plugins.volume_restrictions import IN_USE, ONE_POD
from lib.scheduling.volumes import binder
from lib.scheduling.volumes.claims import claim_names

Reasons = tuple[str, ...]


def volume_binding(pod: Pod, cache: Cache, node: NodeInfo, reasons: Reasons) -> Iterator[str]:
    """The volume that can't be reached from a node, or the claim that can't get one there."""
    for claim in claims(pod, cache):
        volume = cache.storage.volumes.get(claim.spec.volume_name) if claim.spec.volume_name else None
        if volume and binder.AFFINITY in reasons:
            required = volume.required_nodes
            if required and not matches_node(required, node.node):
                yield f"volume {volume.metadata.name} of claim {claim} can't be reached from here"
        elif not claim.spec.volume_name and (binder.NO_VOLUMES in reasons or binder.NO_SPACE in reasons):
            yield f"claim {_claim_text(claim)} can't have a volume here"
        elif claim.spec.volume_name and not volume and binder.NO_SUCH_VOLUMES in reasons:
            yield f"claim {claim} is bound to volume {claim.spec.volume_name}, which isn't there"


def volume_zone(pod: Pod, cache: Cache, _node: NodeInfo, _reasons: Reasons) -> Iterator[str]:
    """The zones of the pod's volumes."""
    for claim in claims(pod, cache):
        volume = cache.storage.volumes.get(claim.spec.volume_name) if claim.spec.volume_name else None
        if volume and (where := _zones(volume)):
            yield f"volume {volume.metadata.name} of claim {claim} is in {where}"


def volume_restrictions(pod: Pod, cache: Cache, _node: NodeInfo, reasons: Reasons) -> Iterator[str]:
    """The pods that use a ReadWriteOncePod claim."""
    if reasons != IN_USE.reasons:
        return
    for claim in claims(pod, cache):
        if ONE_POD in claim.spec.access_modes:
            users = [
                str(other)
                for each in cache.nodes.values()
                for other in each.pods
                if other.metadata.namespace == pod.metadata.namespace
                and claim.metadata.name in {used.name for used in claim_names(other)}
            ]
            if users:
                yield f"claim {claim} is for one pod alone, and {names(users)} has it"


def node_volume_limits(_pod: Pod, cache: Cache, node: NodeInfo, _reasons: Reasons) -> Iterator[str]:
    """How many volumes the node's drivers can attach."""
    csi_node = cache.storage.csi_nodes.get(node.name)
    for driver in (csi_node.spec.drivers if csi_node else None) or ():
        if driver.allocatable and driver.allocatable.count is not None:
            yield f"driver {driver.name} attaches no more than {driver.allocatable.count} volumes here"


def claims(pod: Pod, cache: Cache) -> Iterator[PersistentVolumeClaim]:
    """The existing claims of a pod."""
    found = (cache.storage.claim(pod.metadata.namespace, each.name) for each in claim_names(pod))
    return (each for each in found if each)


def _claim_text(claim: PersistentVolumeClaim) -> str:
    of_class = f"class {claim.storage_class}" if claim.storage_class else "no class"
    return f"{claim} ({of_class}, {exact_amount('storage', claim.size.value)})"


def _zones(volume: PersistentVolume) -> str:
    said = volume.metadata.labels.items()
    return names([f"{key}={value}" for key, value in said if "zone" in key or "region" in key])
