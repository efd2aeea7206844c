"""Possible changes of a pod, of other pods or of nodes that could make a pod fit."""

import logging
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from lib.kube.objects import ObjectMeta, Pod, with_parts
from lib.kube.quantity import Quantity
from lib.kube.storage import WAIT_FOR_FIRST_CONSUMER, StorageClass, StorageObject
from lib.questions.new_claims import missing_claim
from lib.questions.what_if import copies, shapes
from lib.scheduling.cache import Cache
from lib.scheduling.framework.interface import Remedy
from lib.scheduling.framework.runtime import describe, raise_if_interrupted
from lib.scheduling.node_info import NodeInfo, capacity
from lib.scheduling.resources import pod_requests, total
from lib.scheduling.text import exact_amount, is_bytes, labels_text, listed, verb
from lib.scheduling.volumes.claims import claim_names, existing_claims

log = logging.getLogger(__name__)

NODES_TRIED = 3
"""At most so many of the equally promising nodes are tried."""


@dataclass(frozen=True)
class Fix(Remedy):
    """A remedy that may also add objects.

    added: the pods of DaemonSets on added nodes. storage: the drivers of added nodes; claims and volumes.
    """

    added: tuple[Pod, ...] = ()
    storage: tuple[StorageObject, ...] = ()


def fixed(pod: Pod, fixes: Iterable[Remedy]) -> Pod | None:
    """The pod with the changes of some fixes; None if it can't be changed so.

    A policy's edit that fails is named, and changes no answer.
    """
    for fix in fixes:
        try:
            changed = fix.edit(pod)
        except BaseException as error:
            raise_if_interrupted(error)
            log.warning("%s: this can't be tried: %s", fix.words or "a remedy", describe(error))
            return None
        if changed is None:
            return None
        pod = changed
    return pod


NOT_READY = ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable")
"""The taints of nodes that aren't ready, or that the control plane has lost."""

KUBERNETES_LABELS = ("kubernetes.io", "k8s.io")
"""The domains of labels that say what a node is, and where: to change them would be a lie."""


def changed_nodes(pod: Pod, nodes: Iterable[NodeInfo]) -> Iterator[Remedy]:
    """Nodes that become ready, or that get the labels of the pod's nodeSelector."""
    for info in nodes:
        node = info.node
        taints = [taint for taint in node.spec.taints if taint.key not in NOT_READY]
        if len(taints) < len(node.spec.taints):
            ready = with_parts(node, spec={"taints": taints})
            yield Remedy(f"once {info.name} is Ready", nodes=(ready,))
        wanted = pod.spec.node_selector.items() - node.metadata.labels.items()
        if wanted and not any(key.partition("/")[0].endswith(KUBERNETES_LABELS) for key, _ in wanted):
            more = dict(sorted(wanted))
            labelled = with_parts(node, metadata={"labels": {**node.metadata.labels, **more}})
            yield Remedy(f"with the label {labels_text(more)} on {info.name}", nodes=(labelled,))


def new_nodes(cache: Cache, pod: Pod) -> Iterator[Fix]:
    """One more node like an existing one; larger, if the pod needs that."""
    everyone = [node.node for node in cache.nodes.values()]
    for shape in shapes(everyone)[:NODES_TRIED]:
        pods = cache.nodes[shape.metadata.name].pods
        (new,) = copies(shape, pods, 1, everyone, cache.storage.csi_nodes.values())
        words = f"with one more node like {shape.metadata.name}"
        drivers = (new.csi_node,) if new.csi_node else ()
        more = _needed_of(pod, NodeInfo(new.node), new.pods)
        node = new.node
        if more:
            has = listed(f"{name} {exact_amount(name, many)}" for name, many in more.items())
            words = f"{words}, but with {has}"
            grown = {
                name: Quantity(many * (10**6 if name == "cpu" else 10**9)) for name, many in more.items()
            }
            node = with_parts(node, status={"allocatable": {**node.status.allocatable, **grown}})
        yield Fix(words, nodes=(node,), added=new.pods, storage=drivers)


def _needed_of(pod: Pod, node: NodeInfo, daemons: Iterable[Pod]) -> dict[str, int]:
    """What a node must have for a pod beside those of its DaemonSets, of resources that it has too little of.

    In whole cores, and whole Gi.
    """
    taken = total(map(pod_requests, daemons))
    needed = {}
    for name, wanted in pod_requests(pod).items():
        least, unit = wanted + taken.get(name, 0), 1000 if name == "cpu" else 2**30 if is_bytes(name) else 1
        if wanted and 0 < capacity(node, name) < least:
            needed[name] = -(-least // unit) * unit
    return needed


def missing_classes(pod: Pod, cache: Cache) -> Iterator[Fix]:
    """The StorageClasses that a pod's claims name, and that don't exist."""
    claims = [claim for claim in existing_claims(pod, cache.storage) if not claim.spec.volume_name]
    named = dict.fromkeys(claim.storage_class for claim in claims if claim.storage_class)
    missing = [storage_class for storage_class in named if cache.storage.classes.get(storage_class) is None]
    if missing and not cache.looked_up.storage_unseen:
        new = tuple(StorageClass(ObjectMeta(name=name), "any", WAIT_FOR_FIRST_CONSUMER) for name in missing)
        what = verb(len(missing), "StorageClass", "StorageClasses")
        yield Fix(f"create {what} {listed(missing)}, whose volumes can be made", storage=new)


def missing_claims(pod: Pod, cache: Cache) -> Iterator[Fix]:
    """The claims that a pod names, and that don't exist."""
    names = [claim_name.name for claim_name in claim_names(pod) if not claim_name.ephemeral]
    missing = [name for name in names if cache.storage.claim(pod.metadata.namespace, name) is None]
    if missing and not cache.looked_up.storage_unseen:
        new = [fix for name in missing for fix in missing_claim(pod, name, cache.storage)]
        yield Fix(f"create {verb(len(missing), 'claim', 'claims')} {listed(missing)}", storage=tuple(new))
