"""What a change is about, for queueing hints: could it help a pod?

Counterpart in kube-scheduler: extractPodEvents and extractNodeEvents in pkg/scheduler/framework/events.go
"""

from collections.abc import Callable
from functools import lru_cache

from lib.kube.changes import AnyChange, Change, Kind
from lib.kube.objects import Node, Pod, with_parts
from lib.kube.storage import PersistentVolumeClaim
from lib.scheduling.node_info import NodeInfo, described
from lib.scheduling.resources import pod_requests
from lib.scheduling.volumes.claims import ClaimName, claim_names

EVENTS = {Kind.ADDED: "Add", Kind.MODIFIED: "Update", Kind.DELETED: "Delete"}
"""The last part of an event's name; the first is the kind of object (framework/events.go)."""


def event_of(change: AnyChange) -> str:
    """The name of a change in metrics, such as "NodeAdd", in kube-scheduler's words."""
    resource = type(change.object).__name__
    if isinstance(change.object, Pod):
        resource = "AssignedPod" if change.object.spec.node_name else "UnschedulablePod"
    return resource + EVENTS[change.kind]


def changes_anything(change: AnyChange) -> bool:
    """Whether a change of a node or a pod changes anything that decisions depend on."""
    if change.kind != Kind.MODIFIED or change.before is None:
        return True
    return bool(_read_by_plugins(change.before) != _read_by_plugins(change.object))


def _read_by_plugins(changed: object) -> object:
    if isinstance(changed, Node):
        return described(changed)
    if isinstance(changed, Pod):
        metadata = changed.metadata
        requests, finished = pod_requests(changed), changed.has_finished
        about = metadata.labels, metadata.annotations, metadata.deletion_timestamp
        return changed.spec, about, requests, finished
    return changed


def new_node(change: AnyChange) -> NodeInfo | None:
    """The node that was added or updated, as it is now, without its pods; else None."""
    if isinstance(change.object, Node) and change.kind != Kind.DELETED:
        return _without_pods(change.object)
    return None


def old_node(change: AnyChange) -> NodeInfo | None:
    """The node that was updated or deleted, as it was before, without its pods; else None."""
    return _without_pods(change.before) if isinstance(change.before, Node) else None


def fits_now(change: AnyChange, fits: Callable[[NodeInfo], bool]) -> bool:
    """Whether a node was added or updated, fits now, and did not fit before."""
    node, before = new_node(change), old_node(change)
    return node is not None and fits(node) and (before is None or not fits(before))


def is_new_or_changed_node(change: AnyChange, read: Callable[[NodeInfo], object]) -> bool:
    """Whether a node was added, or has changed in what is read of it."""
    node, before = new_node(change), old_node(change)
    return node is not None and (before is None or read(before) != read(node))


@lru_cache(maxsize=16)
def _without_pods(node: Node) -> NodeInfo:
    return NodeInfo(node)


def placed_pod(change: AnyChange) -> Pod | None:
    """The assigned pod that the change is about; else None."""
    return change.object if isinstance(change.object, Pod) and change.object.spec.node_name else None


def changed_itself(pod: Pod, change: AnyChange) -> bool:
    """Whether the change is one of the pod itself, which has no node.

    The change that says that its nomination ended, `freed_room`, isn't one: it names a node.
    """
    changed = change.object
    return (
        isinstance(changed, Pod) and changed.metadata.uid == pod.metadata.uid and not changed.spec.node_name
    )


def before_itself(pod: Pod, change: AnyChange) -> Pod | None:
    """If the change is one of the pod itself: the pod as it was before. Else None."""
    return change.before if changed_itself(pod, change) and isinstance(change.before, Pod) else None


def is_about_claim_of(pod: Pod, change: AnyChange) -> bool:
    """Whether a pod's claim was added or changed."""
    claim = change.object
    return (
        isinstance(claim, PersistentVolumeClaim)
        and change.kind != Kind.DELETED
        and claim.metadata.namespace == pod.metadata.namespace
        and any(ClaimName(claim.metadata.name, ephemeral) in claim_names(pod) for ephemeral in (False, True))
    )


def deleted_pod(change: AnyChange) -> Pod | None:
    """The assigned pod that was deleted; else None."""
    return placed_pod(change) if change.kind == Kind.DELETED else None


def freed_room(pod: Pod, node_name: str) -> Change[Pod]:
    """The change that says that room is free: a pod was deleted from a node."""
    return Change(Kind.DELETED, with_parts(pod, spec={"node_name": node_name}), pod)
