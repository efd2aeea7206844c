"""Which volume can't be reached from a node, or which claim can't get a volume there."""

from collections.abc import Iterator
from itertools import islice

from lib.kube.objects import NodeSelectorTerm, Pod, Requirement
from lib.kube.storage import (
    NO_PROVISIONER,
    SELECTED_NODE,
    PersistentVolume,
    PersistentVolumeClaim,
    TopologySelectorTerm,
)
from lib.scheduling.cache import Cache
from lib.scheduling.explaining.nearly_fitting import MOST_NAMED, nearly_fitting, storage_line
from lib.scheduling.explaining.term_texts import term_text, why_no_match
from lib.scheduling.framework.interface import Lines
from lib.scheduling.node_info import NodeInfo
from lib.scheduling.status import CycleState, Status
from lib.scheduling.storage import Storage
from lib.scheduling.text import Line, exact_amount, listed
from lib.scheduling.volumes.binder import (
    AFFINITY,
    NO_SPACE,
    NO_SUCH_VOLUMES,
    NO_VOLUMES,
    UNBOUND_IMMEDIATE,
    BinderError,
    is_delayed,
    largest_volumes,
    required_nodes_on,
)
from lib.scheduling.volumes.claims import existing_claims
from lib.scheduling.volumes.matching import allows, reaches


class VolumeBindingExplainer:
    """Explains VolumeBinding."""

    name = "VolumeBinding"

    def explain(self, state: CycleState, pod: Pod, cache: Cache, node: NodeInfo, status: Status) -> Lines:
        """The volume that can't be reached from the node, or the claim that can't get a volume there."""
        storage, reasons = cache.storage, status.reasons
        for claim in existing_claims(pod, storage):
            volume = storage.volumes.get(claim.spec.volume_name) if claim.spec.volume_name else None
            if volume and AFFINITY in reasons:
                yield from _why_out_of_reach(f"volume {volume} of claim {claim}", volume, node, storage)
            elif UNBOUND_IMMEDIATE in reasons:
                if claim.spec.volume_name and not claim.is_bound:
                    yield f"claim {claim} names volume {claim.spec.volume_name}, and isn't bound to it yet"
                elif not claim.is_bound and not is_delayed(claim, storage):
                    yield from _why_no_volume_yet(claim, storage)
            elif not claim.spec.volume_name and (NO_VOLUMES in reasons or NO_SPACE in reasons):
                reason = NO_VOLUMES if NO_VOLUMES in reasons else NO_SPACE
                yield from _why_no_volume_on(claim, node, storage, reason)
            elif claim.spec.volume_name and not volume and NO_SUCH_VOLUMES in reasons:
                yield f"claim {claim} is bound to volume {claim.spec.volume_name}, which isn't there"


def _why_out_of_reach(what: str, volume: PersistentVolume, node: NodeInfo, storage: Storage) -> Iterator[str]:
    try:
        required = required_nodes_on(volume, node, storage)
    except BinderError as error:
        yield f"{what}: {error}"
        return
    if required and not reaches(required, node.labels):
        for term in required.node_selector_terms:
            yield f"{what} needs {term_text(term)}: {why_no_match(term, node)}"


def _why_no_volume_yet(claim: PersistentVolumeClaim, storage: Storage) -> Iterator[str]:
    """Why an unbound claim keeps its pod from all nodes: its volume should be there already."""
    storage_class = storage.classes.get(claim.storage_class)
    if storage_class is None:
        yield from _without_class(claim, storage)
    elif storage_class.provisioner in ("", NO_PROVISIONER):
        yield _no_volume(claim, "has no volume, and its class makes none")
        yield from nearly_fitting(claim, storage)
    else:
        yield f"claim {_claim_text(claim)} has no volume yet; {storage_class.provisioner} is to make it"


def _why_no_volume_on(
    claim: PersistentVolumeClaim, node: NodeInfo, storage: Storage, reason: str
) -> Iterator[str]:
    """Why an unbound claim can't have a volume on this node. reason: VolumeBinding's."""
    storage_class = storage.classes.get(claim.storage_class)
    assert storage_class  # else the claim wouldn't wait for its pod
    selected = claim.metadata.annotations.get(SELECTED_NODE)
    if selected and selected != node.name:
        yield f"claim {_claim_text(claim)} is to get its volume on {selected}"
    elif storage_class.provisioner in ("", NO_PROVISIONER):
        yield _no_volume(claim, "has no volume here, and its class makes none")
        yield from [*islice(_elsewhere(claim, node, storage), MOST_NAMED)] or nearly_fitting(claim, storage)
    elif not allows(storage_class.allowed_topologies, node.labels):
        terms = [*map(_as_node_term, storage_class.allowed_topologies)]
        where = " or ".join(map(term_text, terms))
        has = listed(dict.fromkeys(why_no_match(term, node) for term in terms))
        yield f"class {storage_class.metadata.name} of claim {claim} makes volumes only for {where}: {has}"
    elif reason == NO_SPACE:
        largest = max(largest_volumes(storage_class, node, storage), default=None)
        has = (
            f"{exact_amount('storage', largest)} at most"
            if largest is not None
            else f"it publishes no capacity of class {storage_class.metadata.name} for this node"
        )
        lacks = f"{storage_class.provisioner} has not enough free storage here for claim"
        yield storage_line(f"{lacks} {_claim_text(claim)}: {has}", claim, largest or 0)


def _as_node_term(term: TopologySelectorTerm) -> NodeSelectorTerm:
    return NodeSelectorTerm(
        match_expressions=tuple(
            Requirement(expression.key, "In", expression.values)
            for expression in term.match_label_expressions
        )
    )


def _elsewhere(claim: PersistentVolumeClaim, node: NodeInfo, storage: Storage) -> Iterator[str]:
    """The free volumes of the claim's class that are large enough, but can't be reached from the node."""
    for volume in storage.volumes:
        required = volume.required_nodes
        if (
            required
            and volume.spec.claim_ref is None
            and volume.storage_class == claim.storage_class
            and volume.size >= claim.size
            and not reaches(required, node.labels)
        ):
            term = required.node_selector_terms[0] if required.node_selector_terms else NodeSelectorTerm()
            yield f"volume {volume.metadata.name} needs {term_text(term)}: {why_no_match(term, node)}"


def _without_class(claim: PersistentVolumeClaim, storage: Storage) -> Iterator[str]:
    if claim.storage_class:
        why = f"there is no StorageClass {claim.storage_class} to make one"
        yield storage_line(f"claim {claim} has no volume: {why}", claim, 0)
    else:
        yield _no_volume(claim, "has no volume, and without a class none is made")
    yield from nearly_fitting(claim, storage)


def _no_volume(claim: PersistentVolumeClaim, why: str) -> Line:
    return storage_line(f"claim {_claim_text(claim)} {why}", claim, 0)


def _claim_text(claim: PersistentVolumeClaim) -> str:
    of_class = f"class {claim.storage_class}" if claim.storage_class else "no class"
    return f"{claim} ({of_class}, {exact_amount('storage', claim.size.value)})"
