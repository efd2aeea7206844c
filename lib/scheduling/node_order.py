"""The order in which nodes are filtered: zone by zone in turn, so that a sample of them is of all zones.

Source: pkg/scheduler/backend/cache/node_tree.go; GetZoneKey in k8s.io/component-helpers/node/topology
"""

from collections.abc import Iterable
from itertools import chain, zip_longest

from lib.kube.objects import Node
from lib.scheduling.node_info import NodeInfo
from lib.scheduling.volumes.in_tree import BETA_REGION, BETA_ZONE, REGION, ZONE


def zone_of(node: Node) -> tuple[str, str]:
    """A node's region and zone; "" for what its labels don't say."""
    labels = node.metadata.labels
    return labels.get(BETA_REGION, labels.get(REGION, "")), labels.get(BETA_ZONE, labels.get(ZONE, ""))


def in_turn(nodes: Iterable[NodeInfo]) -> list[NodeInfo]:
    """The first node of each zone, then the second of each, and so on."""
    zones: dict[tuple[str, str], list[NodeInfo]] = {}
    for node in nodes:
        zones.setdefault(zone_of(node.node), []).append(node)
    return [node for node in chain.from_iterable(zip_longest(*zones.values())) if node]
