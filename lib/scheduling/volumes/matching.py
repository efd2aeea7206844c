"""Which volume a claim can have on a node, and what binds them to each other.

Source: component-helpers/storage/volume/pv_helpers.go
"""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field

import msgspec

from lib.kube.objects import NodeSelector, NodeSelectorTerm
from lib.kube.selectors import matches, selects
from lib.kube.storage import (
    BOUND_BY_CONTROLLER,
    ClaimReference,
    PersistentVolume,
    PersistentVolumeClaim,
    TopologySelectorTerm,
)


def reaches(selector: NodeSelector | None, labels: Mapping[str, str]) -> bool:
    """Whether a volume with this node affinity can be reached from a node with these labels.

    Only labels are looked at: what a term says of fields holds for every node, here.
    """
    return selector is None or any(_matches(term, labels) for term in selector.node_selector_terms)


def _matches(term: NodeSelectorTerm, labels: Mapping[str, str]) -> bool:
    if not term.match_expressions and not term.match_fields:
        return False
    return all(matches(each, labels) for each in term.match_expressions)


def allows(topologies: Iterable[TopologySelectorTerm], labels: Mapping[str, str]) -> bool:
    """Whether a class lets volumes be provisioned for a node; without any terms it does for all."""
    terms = list(topologies)
    return not terms or any(
        term.match_label_expressions
        and all(labels.get(each.key) in each.values for each in term.match_label_expressions)
        for term in terms
    )


def is_for(volume: PersistentVolume, claim: PersistentVolumeClaim) -> bool:
    """Whether a volume is bound to a claim, or kept for it."""
    kept_for = volume.spec.claim_ref
    return (
        kept_for is not None
        and (kept_for.namespace, kept_for.name) == (claim.metadata.namespace, claim.metadata.name)
        and kept_for.uid in ("", claim.metadata.uid)
    )


def bound_to(volume: PersistentVolume, claim: PersistentVolumeClaim) -> PersistentVolume:
    """A volume as it is when it is bound to a claim; if nothing of it changes, the same one."""
    mine = ClaimReference(claim.metadata.namespace, claim.metadata.name, claim.metadata.uid)
    metadata = volume.metadata
    if not is_for(volume, claim) and BOUND_BY_CONTROLLER not in metadata.annotations:
        annotations = {**metadata.annotations, BOUND_BY_CONTROLLER: "yes"}
        metadata = msgspec.structs.replace(metadata, annotations=annotations)
    if metadata is volume.metadata and volume.spec.claim_ref == mine:
        return volume
    spec = msgspec.structs.replace(volume.spec, claim_ref=mine)
    return msgspec.structs.replace(volume, metadata=metadata, spec=spec)


@dataclass
class Candidates:
    """The volumes that a claim could have, as far as that doesn't depend on the node.

    kept: those that are kept for the claim. free: the others, the smallest first.
    """

    kept: list[PersistentVolume] = field(default_factory=list)
    free: list[PersistentVolume] = field(default_factory=list)

    def best_on(self, labels: Mapping[str, str], taken: Collection[str]) -> PersistentVolume | None:
        """The volume that a claim gets on a node with these labels; taken: names of those it can't have.

        If a volume is kept for the claim, it is this one or, where it can't be reached, none.
        """
        for volume in self.kept:
            if volume.metadata.name not in taken:
                return volume if reaches(volume.required_nodes, labels) else None
        for volume in self.free:
            if volume.metadata.name not in taken and reaches(volume.required_nodes, labels):
                return volume
        return None


def candidates(claim: PersistentVolumeClaim, volumes: Iterable[PersistentVolume]) -> Candidates:
    """The volumes, of those of its class, that a claim could have on one node or another."""
    found = Candidates()
    for volume in volumes:
        if not _fits(volume, claim):
            continue
        if is_for(volume, claim):
            found.kept.append(volume)
        elif (
            volume.spec.claim_ref is None
            and volume.status.phase == "Available"
            and (claim.spec.selector is None or selects(claim.spec.selector, volume.metadata.labels))
            and set(claim.spec.access_modes) <= set(volume.spec.access_modes)
        ):
            found.free.append(volume)
    found.free.sort(key=lambda volume: volume.size)
    return found


def _fits(volume: PersistentVolume, claim: PersistentVolumeClaim) -> bool:
    """What must hold also of a volume that is kept for the claim."""
    return (
        volume.size >= claim.size
        and volume.spec.volume_mode == claim.spec.volume_mode
        and (volume.spec.volume_attributes_class_name or "")
        == (claim.spec.volume_attributes_class_name or "")
        and volume.metadata.deletion_timestamp is None
    )
