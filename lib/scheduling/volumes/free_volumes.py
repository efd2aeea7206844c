"""The volumes that claims could get, by StorageClass and by the only node that can reach them.

With a local volume on each of thousands of nodes, a claim is compared only with the few of one node.

Source: component-helpers/storage/volume/pv_helpers.go, FindMatchingVolume
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator

from lib.kube.objects import HOSTNAME, NodeSelectorTerm
from lib.kube.storage import PersistentVolume

ANYWHERE = ""
"""Used instead of a hostname if a volume can be reached from other nodes than those that it names."""

Place = tuple[str, str]
"""A StorageClass, "" for none, and the hostname of a node."""


class FreeVolumes:
    """Volumes that no claim has, and those that are reserved for one; as they are assumed to be."""

    def __init__(self) -> None:
        self._free: defaultdict[Place, dict[str, PersistentVolume]] = defaultdict(dict)  # by name
        self._kept: defaultdict[str, dict[str, PersistentVolume]] = defaultdict(dict)  # by claim, by name
        self._where: dict[str, list[dict[str, PersistentVolume]]] = {}  # by name: all dicts that it is in
        self._order: dict[str, int] = {}  # by name: of equal volumes, the first is taken
        self._filed = 0

    def file(self, name: str, volume: PersistentVolume | None) -> None:
        """Note what a volume is like now; None: it is gone."""
        for place in self._where.pop(name, ()):
            place.pop(name, None)
        if volume is None:
            self._order.pop(name, None)
            return
        if name not in self._order:
            self._order[name] = self._filed = self._filed + 1
        kept_for = volume.spec.claim_ref
        if kept_for:
            places = [self._kept[f"{kept_for.namespace}/{kept_for.name}"]]
        elif volume.status.phase == "Available":
            places = [self._free[volume.storage_class, host] for host in _hostnames(volume)]
        else:
            places = []
        for place in places:
            place[name] = volume
        self._where[name] = places

    def kept_for(self, claim: str) -> Iterator[PersistentVolume]:
        """The volumes that name a claim, by its namespace/name; the smallest first."""
        return iter(sorted(self._kept[claim].values(), key=self.order) if claim in self._kept else ())

    def free(self, storage_class: str, hostname: str) -> Iterable[PersistentVolume]:
        """The volumes that only this node, or a few that they name, can reach; or those with ANYWHERE."""
        place = storage_class, hostname
        return self._free[place].values() if place in self._free else ()

    def order(self, volume: PersistentVolume) -> tuple[int, int]:
        """A sort key: the smallest first; with equal sizes, the one that came first."""
        return volume.size, self._order[volume.metadata.name]


def _hostnames(volume: PersistentVolume) -> set[str]:
    """The hostnames of the only nodes that can reach a volume; ANYWHERE if it doesn't use that label."""
    terms = volume.required_nodes.node_selector_terms if volume.required_nodes else ()
    found: set[str] = set()
    for term in terms:
        names = _hostnames_of(term)
        if names is None:
            return {ANYWHERE}
        found.update(names)
    return found or {ANYWHERE}


def _hostnames_of(term: NodeSelectorTerm) -> tuple[str, ...] | None:
    for each in term.match_expressions:
        if each.key == HOSTNAME and each.operator == "In":
            return each.values
    return None
