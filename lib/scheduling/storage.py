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
    """Objects by `namespaced_name` their metadata, as the API server has them or as they are assumed to be.

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

    def put(self, thing: T) -> None:
        """Store the API server's object; an assumed object of an earlier version is dropped."""
        key = namespaced_name(thing.metadata)
        before, assumed = self._stored.get(key), self._assumed.get(key)
        self._stored[key] = thing
        version = thing.metadata.resource_version
        changed = before is None or before.metadata.resource_version != version
        if changed and not (assumed and is_older(version, assumed.metadata.resource_version)):
            self._assumed.pop(key, None)

    def delete(self, key: str) -> None:
        """Remove an object that the API server has deleted."""
        self._stored.pop(key, None)
        self._assumed.pop(key, None)

    def is_assumed(self, key: str) -> bool:
        """Whether an object is assumed, and the API server's object isn't like that yet."""
        return key in self._assumed

    def assume(self, thing: T) -> None:
        """Assume an object as it is going to be written."""
        self._assumed[namespaced_name(thing.metadata)] = thing

    def written(self, thing: T) -> None:
        """Take an object as the API server has written it, unless a later change has been seen."""
        key, version = namespaced_name(thing.metadata), thing.metadata.resource_version
        seen = stored.metadata.resource_version if (stored := self._stored.get(key)) else version
        if seen == version or is_older(version, seen):
            self._assumed.pop(key, None)
        else:
            self._assumed[key] = thing

    def restore(self, key: str) -> None:
        """Drop what is assumed of an object."""
        self._assumed.pop(key, None)


class Storage:
    """All objects that the scheduling of pods with volumes depends on.

    journal: those that were added, updated or deleted. free: the volumes that claims could get.
    """

    def __init__(self, objects: Iterable[StorageObject] = ()) -> None:
        self.journal = Journal[StorageObject](MAX_CHANGES)
        self.claims = AssumeCache[PersistentVolumeClaim]()  # by namespace/name
        self.volumes = AssumeCache[PersistentVolume]()  # by name
        self.free = FreeVolumes()
        self.classes: dict[str, StorageClass] = {}
        self.csi_nodes: dict[str, CSINode] = {}
        self.csi_drivers: dict[str, CSIDriver] = {}
        self._capacities: dict[str, CSIStorageCapacity] = {}
        self._attachments: dict[str, dict[str, VolumeAttachment]] = {}  # by node, by name
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

    def put(self, thing: StorageObject) -> None:
        """Store an object as the API server has it."""
        self.journal.add(thing)
        kept = self._like(thing)
        if isinstance(kept, AssumeCache):
            kept.put(thing)
        else:
            kept[namespaced_name(thing.metadata)] = thing
        self._follow(thing)

    def assume(self, thing: PersistentVolume | PersistentVolumeClaim) -> None:
        """Assume a volume or a claim as it is going to be written."""
        self._cache_of(thing).assume(thing)
        self._follow(thing)

    def written(self, thing: PersistentVolume | PersistentVolumeClaim) -> None:
        """Take a volume or a claim as the API server has written it, unless a later change was seen."""
        self._cache_of(thing).written(thing)
        self._follow(thing)

    def restore(self, thing: PersistentVolume | PersistentVolumeClaim) -> None:
        """Drop what is assumed of a volume or a claim."""
        self._cache_of(thing).restore(namespaced_name(thing.metadata))
        self._follow(thing)

    def _cache_of(self, thing: PersistentVolume | PersistentVolumeClaim) -> AssumeCache[Any]:
        return self.volumes if isinstance(thing, PersistentVolume) else self.claims

    def delete(self, thing: StorageObject) -> None:
        """Remove an object that the API server has deleted."""
        self.journal.add(thing)
        kept, name = self._like(thing), namespaced_name(thing.metadata)
        if isinstance(kept, AssumeCache):
            kept.delete(name)
        else:
            kept.pop(name, None)
            if isinstance(thing, VolumeAttachment) and not kept:  # nodes go, and others have other names
                del self._attachments[thing.spec.node_name]
        self._follow(thing)

    def _follow(self, thing: StorageObject) -> None:
        """If a volume has changed, so has what claims could get."""
        if isinstance(thing, PersistentVolume):
            self.free.file(thing.metadata.name, self.volumes.get(thing.metadata.name))

    def _like(self, thing: StorageObject) -> AssumeCache[Any] | dict[str, Any]:
        """The objects of the same kind."""
        if isinstance(thing, VolumeAttachment):
            return self._attachments.setdefault(thing.spec.node_name, {})
        return self._by_kind[type(thing)]

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
