"""The zones of a pod's volumes."""

from lib.kube.objects import Pod
from lib.kube.storage import PersistentVolume
from lib.scheduling.cache import Cache
from lib.scheduling.framework.interface import Lines
from lib.scheduling.node_info import NodeInfo
from lib.scheduling.status import CycleState, Status
from lib.scheduling.text import names
from lib.scheduling.volumes.claims import existing_claims


class VolumeZoneExplainer:
    """Explains VolumeZone."""

    name = "VolumeZone"

    def explain(self, state: CycleState, pod: Pod, cache: Cache, node: NodeInfo, status: Status) -> Lines:
        """The zones of the pod's volumes."""
        for claim in existing_claims(pod, cache.storage):
            volume = cache.storage.volumes.get(claim.spec.volume_name) if claim.spec.volume_name else None
            if volume and (where := _zones(volume)):
                yield f"volume {volume.metadata.name} of claim {claim} is in {where}"


def _zones(volume: PersistentVolume) -> str:
    said = volume.metadata.labels.items()
    return names([f"{key}={value}" for key, value in said if "zone" in key or "region" in key])
