"""Asks one plugin as a scheduling cycle asks it, and builds the small clusters that it is asked about.

Of all nodes at once it must say the same as of each alone.
"""

from collections.abc import Sequence
from itertools import count
from typing import Any

from objects import node, read

from lib.kube.objects import Node, Pod
from lib.scheduling.cache import Cache
from lib.scheduling.framework.interface import (
    NormalizeScorePlugin,
    Plugin,
    PreFilterPlugin,
    PreScorePlugin,
    implements,
)
from lib.scheduling.framework.runtime import for_nodes
from lib.scheduling.node_slice import NodeSlice
from lib.scheduling.status import SKIP, CycleState, Status

_numbers = count()

HOSTNAME = "kubernetes.io/hostname"
NOT_ASKED = "not asked"
"""What stands for a plugin's scores where it says that it has nothing to score."""


# --- asking -----------------------------------------------------------------------------------------------


def filter_one(plugin: Plugin, state: CycleState, pod: Pod, cluster: Cache, name: str) -> Status | None:
    """What a filter answers for a single node."""
    return all_of(plugin, "filter", state, pod, cluster, [name])[name]


def all_of(
    plugin: Plugin, method: str, state: CycleState, pod: Pod, cluster: Cache, names: Sequence[str]
) -> dict[str, Any]:
    """What a plugin answers for nodes, together as in a cycle."""
    some = NodeSlice(cluster, [cluster.node_index[name] for name in names])
    return dict(zip(names, for_nodes(plugin, method)(state, pod, some), strict=True))


def statuses(plugin: Plugin, pod: Pod, cluster: Cache) -> dict[str, Status]:
    """What a filter answers for each node that it rejects."""
    state: CycleState = {}
    if implements(plugin, PreFilterPlugin) and plugin.pre_filter(state, pod, cluster) == SKIP:
        return {}
    asked = {name: filter_one(plugin, state, pod, cluster, name) for name in cluster.node_index}
    assert all_of(plugin, "filter", state, pod, cluster, [*asked]) == asked
    return {name: status for name, status in asked.items() if status}


def reasons(plugin: Plugin, pod: Pod, cluster: Cache) -> dict[str, list[str]]:
    """What a filter has against each node that it rejects, in words."""
    return {name: list(status.reasons) for name, status in statuses(plugin, pod, cluster).items()}


def fitting(plugin: Plugin, pod: Pod, cluster: Cache) -> str:
    """The nodes that a filter lets pass, as `a b c`."""
    rejected = statuses(plugin, pod, cluster)
    return " ".join(name for name in sorted(cluster.nodes) if name not in rejected)


def raw_scores(
    plugin: Plugin, pod: Pod, cluster: Cache, candidates: str = "", state: CycleState | None = None
) -> dict[str, int] | str:
    """The candidates' scores (every node's, if none are named) before they are brought into the range."""
    state = {} if state is None else state
    nodes = [cluster.nodes[name] for name in candidates.split() or sorted(cluster.nodes)]
    if implements(plugin, PreScorePlugin) and plugin.pre_score(state, pod, cluster, nodes) == SKIP:
        return NOT_ASKED
    names = [node.name for node in nodes]
    found = {name: all_of(plugin, "score", state, pod, cluster, [name])[name] for name in names}
    assert all_of(plugin, "score", state, pod, cluster, names) == found
    return found


def scores(plugin: Plugin, pod: Pod, cluster: Cache, candidates: str = "") -> dict[str, int] | str:
    """The candidates' scores, 0 to 100."""
    state: CycleState = {}
    found = raw_scores(plugin, pod, cluster, candidates, state)
    if isinstance(found, dict) and implements(plugin, NormalizeScorePlugin):
        plugin.normalize_score(state, pod, found)
    return found


# --- building ---------------------------------------------------------------------------------------------


def pairs(text: str) -> dict[str, str]:
    """Labels from `app=web tier=front`."""
    return dict(pair.split("=") for pair in text.split())


def any_name() -> str:
    """A name that no other pod has: pods are told apart by it."""
    return f"pod-{next(_numbers)}"


def labelled(
    labels: str = "", *, on: str = "", namespace: str = "default", metadata: Any = None, **spec: Any
) -> Pod:
    """A pod with these labels, running on a node if one is named; `metadata` and `spec` as in the API."""
    spec = {"containers": [{"name": "main"}], "nodeName": on} | spec
    name = any_name()
    told = {"name": name, "uid": name, "namespace": namespace, "labels": pairs(labels), **(metadata or {})}
    made: Pod = read(Pod, {"metadata": told, "spec": spec})
    return made


def running(where: str, labels: str = "app=web", **more: Any) -> list[Pod]:
    """Pods alike, one for each node that is named: two on a and one on b with `a a b`."""
    return [labelled(labels, on=name, **more) for name in where.split()]


def zones(**nodes: str) -> list[Node]:
    """Nodes with their hostname and their zone as labels: `zones(east="a b", west="c")`."""
    return [
        node(name, {"zone": zone, HOSTNAME: name}) for zone, names in nodes.items() for name in names.split()
    ]


def selecting(labels: str) -> dict[str, Any]:
    """A label selector."""
    return {"matchLabels": pairs(labels)}


def taint(text: str) -> dict[str, str]:
    """A taint as kubectl writes it: key=value:Effect."""
    pair, effect = text.split(":")
    key, _, value = pair.partition("=")
    return {"key": key, "value": value, "effect": effect}
