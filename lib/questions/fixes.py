"""Possible changes of a pod, of other pods or of nodes that could make a pod fit."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from lib.kube.objects import Pod
from lib.kube.storage import CSINode
from lib.questions.what_if import copies, shapes
from lib.scheduling.cache import Cache
from lib.scheduling.framework.interface import Remedy

NODES_TRIED = 3
"""At most so many of the equally promising nodes are tried."""


@dataclass(frozen=True)
class Fix(Remedy):
    """A remedy that may also add nodes. added, csi_nodes: the pods of their DaemonSets, and their drivers."""

    added: tuple[Pod, ...] = ()
    csi_nodes: tuple[CSINode, ...] = ()


def fixed(pod: Pod, fixes: Iterable[Remedy]) -> Pod | None:
    """The pod with the changes of some fixes; None if it can't be changed so."""
    for fix in fixes:
        changed = fix.edit(pod)
        if changed is None:
            return None
        pod = changed
    return pod


def new_nodes(cache: Cache) -> Iterator[Fix]:
    """One more node like an existing one."""
    everyone = [node.node for node in cache.nodes.values()]
    for shape in shapes(everyone)[:NODES_TRIED]:
        pods = cache.nodes[shape.metadata.name].pods
        (new,) = copies(shape, pods, 1, everyone, cache.storage.csi_nodes.values())
        words = f"with one more node like {shape.metadata.name}"
        drivers = (new.csi_node,) if new.csi_node else ()
        yield Fix(words, nodes=(new.node,), added=new.pods, csi_nodes=drivers)
