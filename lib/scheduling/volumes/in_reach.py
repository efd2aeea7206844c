"""Which nodes can reach the volumes of bound claims; kept for all volumes with the same node affinity."""

from collections.abc import Iterable, Mapping, Sequence, Set

from lib.kube.objects import NodeSelector, NodeSelectorTerm
from lib.kube.storage import PersistentVolumeClaim
from lib.scheduling.cache import Cache
from lib.scheduling.volumes.in_tree import plugin_of
from lib.scheduling.volumes.matching import matches_labels


def nodes_in_reach(bound: Iterable[PersistentVolumeClaim], cache: Cache) -> Set[int] | None:
    """The indexes in `Cache.node_list` of the nodes that can reach the volumes of all these claims.

    None if each node must be checked: a volume doesn't exist, or is one of an in-tree plugin that a CSI
    driver replaces on some nodes.
    """
    in_reach: Set[int] | None = None
    for claim in bound:
        volume = cache.storage.volumes.get(claim.spec.volume_name)
        if volume is None or plugin_of(volume.spec):
            return None
        if volume.required_nodes is not None:
            matching = _matching(volume.required_nodes, cache)
            in_reach = matching if in_reach is None else in_reach & matching
    return in_reach


def _matching(selector: NodeSelector, cache: Cache) -> Set[int]:
    def find() -> Set[int]:
        return {i for term in selector.node_selector_terms for i in _matching_term(term, cache)}

    return cache.remember(("nodes in reach", selector), find)


def _matching_term(term: NodeSelectorTerm, cache: Cache) -> Iterable[int]:
    """The nodes that a term matches. If it lists a label's values, nodes with other values aren't visited."""
    nodes = cache.node_list
    indexes: Iterable[int] = range(len(nodes))
    for expression in term.match_expressions:
        if expression.operator == "In":
            having = _by_label(expression.key, cache)
            indexes = [i for value in set(expression.values) for i in having.get(value, ())]
            break
    return (i for i in indexes if matches_labels(term, nodes[i].labels))


def _by_label(key: str, cache: Cache) -> Mapping[str, Sequence[int]]:
    """The indexes of the nodes that have a label, by its value."""

    def find() -> Mapping[str, Sequence[int]]:
        by_value: dict[str, list[int]] = {}
        for i, node in enumerate(cache.node_list):
            if key in node.labels:
                by_value.setdefault(node.labels[key], []).append(i)
        return by_value

    return cache.remember(("nodes by label", key), find)
