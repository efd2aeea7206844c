"""What a change is about, for plugins that say whether it could help a pod."""

from functools import lru_cache

from lib.kube.changes import AnyChange, Kind
from lib.kube.objects import Node, Pod
from lib.scheduling.node_info import NodeInfo


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
