"""What a change is about, for the queueing hints of the volume plugins."""

from lib.kube.changes import AnyChange, Kind
from lib.kube.objects import Node, Pod
from lib.kube.storage import PersistentVolumeClaim
from lib.scheduling.volumes.claims import ClaimName, claim_names


def is_new_or_relabelled_node(change: AnyChange) -> bool:
    """Whether a node was added, or its labels changed."""
    if not isinstance(change.object, Node) or change.kind == Kind.DELETED:
        return False
    before = change.before
    return not isinstance(before, Node) or before.metadata.labels != change.object.metadata.labels


def is_about_claim_of(pod: Pod, change: AnyChange) -> bool:
    """Whether a pod's claim was added or changed."""
    claim = change.object
    return (
        isinstance(claim, PersistentVolumeClaim)
        and change.kind != Kind.DELETED
        and claim.metadata.namespace == pod.metadata.namespace
        and any(ClaimName(claim.metadata.name, ephemeral) in claim_names(pod) for ephemeral in (False, True))
    )
