"""The cache of claims, volumes and what they depend on, with assumed changes.

Source: pkg/scheduler/util/assumecache/assume_cache.go
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Generic, TypeVar

from lib.kube.changes import AnyObject, is_older
from lib.kube.objects import ObjectMeta
from lib.kube.storage import (
    CSIDriver,
    CSINode,
    CSIStorageCapacity,
    PersistentVolume,
    PersistentVolumeClaim,
    StorageClass,
    StorageObject,
    VolumeAttachment,
)
from lib.scheduling.free_volumes import FreeVolumes
from lib.scheduling.kept import Journal

MAX_CHANGES = 10_000
"""The journal of claims, volumes and so on starts over when it has more changes."""


T = TypeVar("T", bound=AnyObject)


class AssumeCache(Generic[T]):
    """Objects by `namespaced_name`, as the API server has them or as they are assumed to be.

    An assumed object is valid until the API server's object changes, or until `restore`.
    """

    def __init__(self) -> None:
        self._stored: dict[str, T] = {}
        self._assumed: dict[str, T] = {}

    def get(self, key: str) -> T | None:
        """An object, as it is assumed to be."""
        return self._assumed.get(key) or self._stored.get(key)

    def get_stored(self, key: str) -> T | None:
        """An object as the API server has it."""
        return self._stored.get(key)

    def __iter__(self) -> Iterator[T]:
        return (self._assumed.get(key, stored) for key, stored in self._stored.items())

    def put(self, changed: T) -> None:
        """Store the API server's object; an assumed object of an earlier version is dropped."""
        key = namespaced_name(changed.metadata)
        before, assumed = self._stored.get(key), self._assumed.get(key)
        self._stored[key] = changed
        version = changed.metadata.resource_version
        is_new = before is None or before.metadata.resource_version != version
        if is_new and not (assumed and is_older(version, assumed.metadata.resource_version)):
            self._assumed.pop(key, None)

    def delete(self, key: str) -> None:
        """Remove an object that the API server has deleted."""
        self._stored.pop(key, None)
        self._assumed.pop(key, None)

    def is_assumed(self, key: str) -> bool:
        """Whether an object is assumed, and the API server's object isn't like that yet."""
        return key in self._assumed

    def assume(self, changed: T) -> None:
        """Assume an object as it is going to be written."""
        self._assumed[namespaced_name(changed.metadata)] = changed

    def written(self, changed: T) -> None:
        """Take an object as the API server has written it, unless a later change has been seen."""
        key, version = namespaced_name(changed.metadata), changed.metadata.resource_version
        seen = stored.metadata.resource_version if (stored := self._stored.get(key)) else version
        if seen == version or is_older(version, seen):
            self._assumed.pop(key, None)
        else:
            self._assumed[key] = changed

    def restore(self, key: str) -> None:
        """Drop what is assumed of an object."""
        self._assumed.pop(key, None)


class Storage:
    """All objects that the scheduling of pods with volumes depends on."""

    def __init__(self, objects: Iterable[StorageObject] = ()) -> None:
        self.journal = Journal[StorageObject](MAX_CHANGES)
        """The objects that were added, updated or deleted."""
        self.claims = AssumeCache[PersistentVolumeClaim]()
        self.volumes = AssumeCache[PersistentVolume]()
        self.free = FreeVolumes()
        """The volumes that claims could get."""
        self.classes: dict[str, StorageClass] = {}
        self.csi_nodes: dict[str, CSINode] = {}
        self.csi_drivers: dict[str, CSIDriver] = {}
        self._capacities: dict[str, CSIStorageCapacity] = {}
        self._attachments: dict[str, dict[str, VolumeAttachment]] = {}
        """By the name of their node, then by their own name."""
        self._by_kind: Mapping[type, AssumeCache[Any] | dict[str, Any]] = {
            PersistentVolumeClaim: self.claims,
            PersistentVolume: self.volumes,
            StorageClass: self.classes,
            CSINode: self.csi_nodes,
            CSIDriver: self.csi_drivers,
            CSIStorageCapacity: self._capacities,
        }
        for storage_object in objects:
            self.put(storage_object)

    def put(self, changed: StorageObject) -> None:
        """Store an object as the API server has it."""
        self.journal.add(changed)
        kept = self._like(changed)
        if isinstance(kept, AssumeCache):
            kept.put(changed)
        else:
            kept[namespaced_name(changed.metadata)] = changed
        self._follow(changed)

    def assume(self, changed: PersistentVolume | PersistentVolumeClaim) -> None:
        """Assume a volume or a claim as it is going to be written."""
        self._cache_of(changed).assume(changed)
        self._follow(changed)

    def written(self, changed: PersistentVolume | PersistentVolumeClaim) -> None:
        """Take a volume or a claim as the API server has written it, unless a later change was seen."""
        self._cache_of(changed).written(changed)
        self._follow(changed)

    def restore(self, changed: PersistentVolume | PersistentVolumeClaim) -> None:
        """Drop what is assumed of a volume or a claim."""
        self._cache_of(changed).restore(namespaced_name(changed.metadata))
        self._follow(changed)

    def _cache_of(self, changed: PersistentVolume | PersistentVolumeClaim) -> AssumeCache[Any]:
        return self.volumes if isinstance(changed, PersistentVolume) else self.claims

    def delete(self, changed: StorageObject) -> None:
        """Remove an object that the API server has deleted."""
        self.journal.add(changed)
        kept, name = self._like(changed), namespaced_name(changed.metadata)
        if isinstance(kept, AssumeCache):
            kept.delete(name)
        else:
            kept.pop(name, None)
            if isinstance(changed, VolumeAttachment) and not kept:  # nodes go, and others have other names
                del self._attachments[changed.spec.node_name]
        self._follow(changed)

    def _follow(self, changed: StorageObject) -> None:
        """If a volume has changed, so has what claims could get."""
        if isinstance(changed, PersistentVolume):
            self.free.file(changed.metadata.name, self.volumes.get(changed.metadata.name))

    def _like(self, changed: StorageObject) -> AssumeCache[Any] | dict[str, Any]:
        """The objects of the same kind."""
        if isinstance(changed, VolumeAttachment):
            return self._attachments.setdefault(changed.spec.node_name, {})
        return self._by_kind[type(changed)]

    def claim(self, namespace: str, name: str) -> PersistentVolumeClaim | None:
        """A claim, as it is assumed to be."""
        return self.claims.get(f"{namespace}/{name}")

    def capacities(self) -> Iterable[CSIStorageCapacity]:
        """The CSIStorageCapacity objects: how much drivers can provision."""
        return self._capacities.values()

    def attachments(self, node_name: str) -> Iterable[VolumeAttachment]:
        """The VolumeAttachments of a node."""
        return self._attachments.get(node_name, {}).values()


def namespaced_name(metadata: ObjectMeta) -> str:
    """An object's key in its kind: `namespace/name`, or its name if it has no namespace."""
    return f"{metadata.namespace}/{metadata.name}" if metadata.namespace else metadata.name
