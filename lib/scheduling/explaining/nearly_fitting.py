"""Volumes that a claim nearly could get, and what is wrong with them: for people who ask `why`."""

from collections.abc import Iterator, Sequence
from functools import lru_cache

from lib.kube.selectors import selects
from lib.kube.storage import PersistentVolume, PersistentVolumeClaim
from lib.scheduling.storage import Storage
from lib.scheduling.text import Line, count, exact_amount, listed, names, verb
from lib.scheduling.volumes.matching import is_for

MOST_NAMED = 2
"""At most so many volumes are named."""


def nearly_fitting(claim: PersistentVolumeClaim, storage: Storage) -> Sequence[str]:
    """The volumes with which the least is wrong, wherever they are: `volume pv1 is ...`."""
    return _nearly_fitting(claim, storage, storage.journal.token)


@lru_cache(maxsize=256)
def _nearly_fitting(claim: PersistentVolumeClaim, storage: Storage, _: int) -> Sequence[str]:
    found = [(volume, [*_wrong(volume, claim)]) for volume in storage.volumes]
    used = {volume: None for volume, wrong in found if wrong and _is_used(volume, claim, storage)}
    nearest = [(volume, wrong) for volume, wrong in found if wrong and volume not in used]
    nearest.sort(key=lambda near: len(near[1]))
    nearest = [near for near in nearest if len(near[1]) == len(nearest[0][1])]
    said = [_text(volume, wrong, claim) for volume, wrong in nearest[:MOST_NAMED]]
    if more := len(nearest) - len(said):
        said.append(f"as little is wrong with {count(more, 'more volume')}")
    if used and not nearest:
        who = f"{verb(len(used), 'volume', 'volumes')} {names([str(volume) for volume in used])}"
        said.append(f"{who} {verb(len(used), 'is', 'are')} held by other claims")
    return said


def _text(volume: PersistentVolume, wrong: Sequence[str], claim: PersistentVolumeClaim) -> str:
    words = f"volume {volume.metadata.name} {listed(wrong)}"
    return (
        storage_line(words, claim, volume.size.value, volume=str(volume))
        if _is_small(volume, claim)
        else words
    )


def storage_line(words: str, claim: PersistentVolumeClaim, has: int, **more: str) -> Line:
    """A line about a claim that wants more bytes than there are."""
    numbers = {"claim": str(claim), "class": claim.storage_class, "needs": claim.size.value, **more}
    return Line(words, resource="storage", has=has, free=has, **numbers)


def _is_small(volume: PersistentVolume, claim: PersistentVolumeClaim) -> bool:
    return volume.size < claim.size


def _is_used(volume: PersistentVolume, claim: PersistentVolumeClaim, storage: Storage) -> bool:
    """Whether another claim that is there has the volume."""
    holder = volume.spec.claim_ref
    return bool(holder and storage.claim(holder.namespace, holder.name)) and not is_for(volume, claim)


def _wrong(volume: PersistentVolume, claim: PersistentVolumeClaim) -> Iterator[str]:
    """What keeps a claim from a volume, except the place where the volume is."""
    spec, wanted, holder = volume.spec, claim.spec, volume.spec.claim_ref
    if volume.metadata.deletion_timestamp:
        yield "is being deleted"
    if holder and not is_for(volume, claim):
        if volume.status.phase == "Released":
            yield f"is released: its claimRef still names the earlier claim {holder.namespace}/{holder.name}"
        else:
            yield f"is held by claim {holder.namespace}/{holder.name}"
    elif not holder and volume.status.phase != "Available":
        yield f"has the phase {volume.status.phase or 'unknown'}, not Available"
    if volume.storage_class != claim.storage_class:
        yield f"has {f'class {volume.storage_class}' if volume.storage_class else 'no class'}"
    if _is_small(volume, claim):
        has, size = (exact_amount("storage", stored.size.value) for stored in (volume, claim))
        yield f"has {has} (the claim wants {size})"
    if missing := [mode for mode in wanted.access_modes if mode not in spec.access_modes]:
        modes = listed(spec.access_modes) or "no access mode"
        yield f"has {modes} (the claim wants {listed(missing)})"
    if spec.volume_mode != wanted.volume_mode:
        yield f"has the volume mode {spec.volume_mode} (the claim wants {wanted.volume_mode})"
    if (spec.volume_attributes_class_name or "") != (wanted.volume_attributes_class_name or ""):
        yield "has another VolumeAttributesClass"
    if wanted.selector is not None and not selects(wanted.selector, volume.metadata.labels):
        yield "isn't selected by the claim's selector"
