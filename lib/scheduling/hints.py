"""What a change is about, for plugins whose queueing hints say whether it could help a pod.

Counterpart in kube-scheduler: extractPodEvents and extractNodeEvents in pkg/scheduler/framework/events.go
"""

from functools import lru_cache

from lib.kube.changes import AnyChange, Kind
from lib.kube.objects import Node, Pod
from lib.scheduling.node_info import NodeInfo, described
from lib.scheduling.resources import pod_requests


def changes_anything(change: AnyChange) -> bool:
    """Whether a change of a node, or of a pod that has one, is of anything that a decision depends on."""
    if change.kind != Kind.MODIFIED or change.before is None:
        return True
    return bool(_read_by_plugins(change.before) != _read_by_plugins(change.object))


def _read_by_plugins(changed: object) -> object:
    if isinstance(changed, Node):
        return described(changed)
    if isinstance(changed, Pod):
        metadata = changed.metadata
        requests, finished = pod_requests(changed), changed.status.phase in ("Succeeded", "Failed")
        about = metadata.labels, metadata.annotations, metadata.deletion_timestamp
        return changed.spec, about, requests, finished
    return changed


def new_node(change: AnyChange) -> NodeInfo | None:
    """The node that came or changed, as it is now and without its pods."""
    if isinstance(change.object, Node) and change.kind != Kind.DELETED:
        return _without_pods(change.object)
    return None


def old_node(change: AnyChange) -> NodeInfo | None:
    """The node that changed or went, as it was and without its pods."""
    return _without_pods(change.before) if isinstance(change.before, Node) else None


@lru_cache(maxsize=16)
def _without_pods(node: Node) -> NodeInfo:
    return NodeInfo(node)


def placed_pod(change: AnyChange) -> Pod | None:
    """The pod to which something happened, if it has a node."""
    return change.object if isinstance(change.object, Pod) and change.object.spec.node_name else None


def deleted_pod(change: AnyChange) -> Pod | None:
    """The pod that left its node."""
    return placed_pod(change) if change.kind == Kind.DELETED else None
