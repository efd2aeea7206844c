"""Which volume a claim can get on a node, and how they are bound to each other.

Source: component-helpers/storage/volume/pv_helpers.go
"""

from collections.abc import Collection, Iterable, Mapping, Sequence

import msgspec

from lib.kube.objects import HOSTNAME, NodeSelector, NodeSelectorTerm
from lib.kube.selectors import matches, selects
from lib.kube.storage import (
    BOUND_BY_CONTROLLER,
    ClaimReference,
    PersistentVolume,
    PersistentVolumeClaim,
    TopologySelectorTerm,
)
from lib.scheduling.free_volumes import ANYWHERE, FreeVolumes


def reaches(selector: NodeSelector | None, labels: Mapping[str, str]) -> bool:
    """Whether a volume with this node affinity can be reached from a node with these labels.

    Only labels are checked: here, a term's expressions on fields match every node.
    """
    return selector is None or any(matches_labels(term, labels) for term in selector.node_selector_terms)


def matches_labels(term: NodeSelectorTerm, labels: Mapping[str, str]) -> bool:
    """Whether labels match a term; an empty term matches no node."""
    if not term.match_expressions and not term.match_fields:
        return False
    return all(matches(expression, labels) for expression in term.match_expressions)


def allows(topologies: Iterable[TopologySelectorTerm], labels: Mapping[str, str]) -> bool:
    """Whether a class allows volumes for a node; without terms, for all nodes."""
    terms = list(topologies)
    return not terms or any(
        term.match_label_expressions
        and all(
            labels.get(expression.key) in expression.values for expression in term.match_label_expressions
        )
        for term in terms
    )


def is_for(volume: PersistentVolume, claim: PersistentVolumeClaim) -> bool:
    """Whether a volume is bound to a claim, or reserved for it."""
    kept_for = volume.spec.claim_ref
    return (
        kept_for is not None
        and (kept_for.namespace, kept_for.name) == (claim.metadata.namespace, claim.metadata.name)
        and kept_for.uid in ("", claim.metadata.uid)
    )


def bound_to(volume: PersistentVolume, claim: PersistentVolumeClaim) -> PersistentVolume:
    """The volume, bound to a claim; the same object if nothing changes."""
    mine = ClaimReference(claim.metadata.namespace, claim.metadata.name, claim.metadata.uid)
    metadata = volume.metadata
    if not is_for(volume, claim) and BOUND_BY_CONTROLLER not in metadata.annotations:
        annotations = {**metadata.annotations, BOUND_BY_CONTROLLER: "yes"}
        metadata = msgspec.structs.replace(metadata, annotations=annotations)
    if metadata is volume.metadata and volume.spec.claim_ref == mine:
        return volume
    spec = msgspec.structs.replace(volume.spec, claim_ref=mine)
    return msgspec.structs.replace(volume, metadata=metadata, spec=spec)


class Candidates:
    """The volumes that a claim could get, while none of them is assumed to change."""

    def __init__(self, claim: PersistentVolumeClaim, volumes: FreeVolumes) -> None:
        self._claim, self._volumes = claim, volumes
        kept = volumes.kept_for(str(claim))
        # Volumes that are reserved for a claim must fit it, too.
        self._kept = [volume for volume in kept if is_for(volume, claim) and self._fits(volume)]
        self._anywhere = self._sorted(volumes.free(claim.storage_class, ANYWHERE))

    def best_on(self, labels: Mapping[str, str], taken: Collection[str]) -> PersistentVolume | None:
        """The volume that a claim gets on a node with these labels. taken: names of volumes it can't get.

        If a volume is reserved for the claim, the claim gets this one, or none if the node can't reach it.
        Otherwise the claim gets the smallest volume.
        """
        for volume in self._kept:
            if volume.metadata.name not in taken:
                return volume if reaches(volume.required_nodes, labels) else None
        best: PersistentVolume | None = None
        for volume in self._volumes.free(self._claim.storage_class, labels.get(HOSTNAME) or ANYWHERE):
            if (
                volume.metadata.name not in taken
                and (best is None or self._volumes.order(volume) < self._volumes.order(best))
                and self._fits(volume)
                and self._may_have(volume)
                and reaches(volume.required_nodes, labels)
            ):
                best = volume
        for volume in self._anywhere:
            if best and self._volumes.order(best) < self._volumes.order(volume):
                break
            if volume.metadata.name not in taken and reaches(volume.required_nodes, labels):
                return volume
        return best

    def _sorted(self, volumes: Iterable[PersistentVolume]) -> Sequence[PersistentVolume]:
        """The volumes that the claim could get, the smallest first."""
        fitting = [volume for volume in volumes if self._fits(volume) and self._may_have(volume)]
        return sorted(fitting, key=self._volumes.order) if len(fitting) > 1 else fitting

    def _fits(self, volume: PersistentVolume) -> bool:
        claim = self._claim
        return (
            volume.storage_class == claim.storage_class
            and volume.size >= claim.size
            and volume.spec.volume_mode == claim.spec.volume_mode
            and (volume.spec.volume_attributes_class_name or "")
            == (claim.spec.volume_attributes_class_name or "")
            and volume.metadata.deletion_timestamp is None
        )

    def _may_have(self, volume: PersistentVolume) -> bool:
        """The further conditions for a volume that isn't reserved for the claim."""
        spec = self._claim.spec
        is_selected = spec.selector is None or selects(spec.selector, volume.metadata.labels)
        return is_selected and set(spec.access_modes) <= set(volume.spec.access_modes)
