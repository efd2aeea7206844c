"""The order in which nodes are filtered: zone by zone in turn, so that a sample of them is of all zones.

Source: pkg/scheduler/backend/cache/node_tree.go
"""

from collections.abc import Iterable
from itertools import chain, zip_longest

from lib.scheduling.node_info import NodeInfo


def in_turn(nodes: Iterable[NodeInfo]) -> list[NodeInfo]:
    """The first node of each zone, then the second of each, and so on."""
    zones: dict[tuple[str, str], list[NodeInfo]] = {}
    for node in nodes:
        zones.setdefault(node.zone, []).append(node)
    return [node for node in chain.from_iterable(zip_longest(*zones.values())) if node]
