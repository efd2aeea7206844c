"""One pod's scheduling cycle: filter the nodes, pick one, assume the pod there."""

from collections.abc import Sequence
from random import Random

from lib.kube.objects import Pod
from lib.scheduling.cluster import Cluster, NodeInfo
from lib.scheduling.decision import Decision, Rejection
from lib.scheduling.framework import CycleState, FilterPlugin, Plugin, PreFilterPlugin


def schedule_one(pod: Pod, cluster: Cluster, plugins: Sequence[Plugin], random: Random) -> Decision:
    """Decide where a pod goes, and count it there: the next decision must not give its room away."""
    state: CycleState = {}
    for plugin in plugins:
        if isinstance(plugin, PreFilterPlugin):
            plugin.pre_filter(state, pod)

    filters = [plugin for plugin in plugins if isinstance(plugin, FilterPlugin)]
    feasible: list[str] = []
    rejected: dict[str, Rejection] = {}
    for node in cluster.nodes.values():
        if rejection := _first_rejection(filters, state, pod, node):
            rejected[node.name] = rejection
        else:
            feasible.append(node.name)

    picked = random.choice(feasible) if feasible else None
    if picked:
        cluster.assume(pod, picked)
    return Decision(pod, picked, feasible, rejected)


def _first_rejection(
    filters: Sequence[FilterPlugin], state: CycleState, pod: Pod, node: NodeInfo
) -> Rejection | None:
    """The first filter that rules a node out; the filters behind it aren't asked."""
    for plugin in filters:
        if reasons := plugin.filter(state, pod, node):
            return Rejection(plugin.name, reasons)
    return None
