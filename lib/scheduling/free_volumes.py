"""The volumes that claims could get, by StorageClass and by the only node that can reach them.

With a local volume on each of thousands of nodes, a claim is compared only with the few of one node.

Source: component-helpers/storage/volume/pv_helpers.go, FindMatchingVolume
"""

from collections.abc import Iterable, Iterator
from typing import Any

from lib.kube.objects import HOSTNAME, NodeSelectorTerm
from lib.kube.storage import PersistentVolume

ANYWHERE = ""
"""Used instead of a hostname if a volume can be reached from other nodes than those that it names."""

Place = tuple[str, str]
"""A StorageClass, "" for none, and the hostname of a node."""

_Index = dict[Any, dict[str, PersistentVolume]]
"""Volumes by name, by their place or claim. No dict of volumes is empty: each claim is another key."""


class FreeVolumes:
    """Volumes that no claim has, and those that are reserved for one; as they are assumed to be."""

    def __init__(self) -> None:
        self._free: _Index = {}
        """The volumes that no claim has, by Place."""
        self._kept: _Index = {}
        """The volumes that are reserved for a claim, by the claim."""
        self._where: dict[str, list[tuple[_Index, Place | str]]] = {}
        """By a volume's name, the keys under which it is in these."""
        self._order: dict[str, int] = {}
        """By a volume's name, when it came: of equal volumes, the first is taken."""
        self._filed = 0

    def file(self, name: str, volume: PersistentVolume | None) -> None:
        """Note what a volume is like now; None if it is gone."""
        for index, key in self._where.pop(name, ()):
            del index[key][name]
            if not index[key]:
                del index[key]
        if volume is None:
            self._order.pop(name, None)
            return
        if name not in self._order:
            self._order[name] = self._filed = self._filed + 1
        kept_for = volume.spec.claim_ref
        where: list[tuple[_Index, Place | str]] = []
        if kept_for:
            where = [(self._kept, f"{kept_for.namespace}/{kept_for.name}")]
        elif volume.status.phase == "Available":
            where = [(self._free, (volume.storage_class, host)) for host in _hostnames(volume)]
        for index, key in where:
            index.setdefault(key, {})[name] = volume
        self._where[name] = where

    def kept_for(self, claim: str) -> Iterator[PersistentVolume]:
        """The volumes that name a claim, by its namespace/name; the smallest first."""
        return iter(sorted(self._kept.get(claim, {}).values(), key=self.order))

    def free(self, storage_class: str, hostname: str) -> Iterable[PersistentVolume]:
        """The volumes that only this node, or a few that they name, can reach; or those with ANYWHERE."""
        return self._free.get((storage_class, hostname), {}).values()

    def order(self, volume: PersistentVolume) -> tuple[int, int]:
        """A sort key: the smallest first; with equal sizes, the one that came first."""
        return volume.size, self._order[volume.metadata.name]


def _hostnames(volume: PersistentVolume) -> set[str]:
    """The hostnames of the only nodes that can reach a volume; ANYWHERE if it doesn't use that label."""
    terms = volume.required_nodes.node_selector_terms if volume.required_nodes else ()
    hostnames: set[str] = set()
    for term in terms:
        names = _hostnames_of(term)
        if names is None:
            return {ANYWHERE}
        hostnames.update(names)
    return hostnames or {ANYWHERE}


def _hostnames_of(term: NodeSelectorTerm) -> tuple[str, ...] | None:
    for expression in term.match_expressions:
        if expression.key == HOSTNAME and expression.operator == "In":
            return expression.values
    return None
