"""Which pods use a claim that is for one pod alone."""

from lib.kube.objects import Pod
from lib.scheduling.cache import Cache
from lib.scheduling.framework.interface import Lines
from lib.scheduling.node_info import NodeInfo
from lib.scheduling.plugins.volume_restrictions import IN_USE, ONE_POD
from lib.scheduling.status import CycleState, Status
from lib.scheduling.text import names, verb
from lib.scheduling.volumes.claims import claim_names, existing_claims


class VolumeRestrictionsExplainer:
    """Explains VolumeRestrictions."""

    name = "VolumeRestrictions"

    def explain(self, state: CycleState, pod: Pod, cache: Cache, node: NodeInfo, status: Status) -> Lines:
        """The pods that use a ReadWriteOncePod claim."""
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
