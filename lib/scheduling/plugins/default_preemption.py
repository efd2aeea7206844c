"""DefaultPreemption: a pod that fits nowhere may have less important pods leave a node.

Source: pkg/scheduler/framework/plugins/defaultpreemption/default_preemption.go and framework/preemption
"""

from collections import Counter
from collections.abc import Mapping

from lib.kube.objects import Pod
from lib.scheduling.cluster import Cluster
from lib.scheduling.framework import Code, CycleState, PostFilterResult, Status, unschedulable
from lib.scheduling.preemption import Fits, Victims, has_victims, pick_one, victims_on

NOT_HELPFUL = "Preemption is not helpful for scheduling"
NO_VICTIMS = "No preemption victims found for incoming pod"
NEVER = "preemption: not eligible due to preemptionPolicy=Never."
ON_THEIR_WAY = "preemption: not eligible due to a terminating pod on the nominated node."

UNSEEN = "preemption: not possible as disruption budgets can't be seen."

ENOUGH = 100
"""So many nodes are tried; a tenth of all, in large clusters."""


class DefaultPreemption:
    """Finds the node where the fewest and least important victims make room."""

    name = "DefaultPreemption"

    def post_filter(
        self, state: CycleState, pod: Pod, cluster: Cluster, rejected: Mapping[str, Status], fits: Fits
    ) -> PostFilterResult | Status:
        """Try nodes in the picture; the victims of the best, or why none is any good."""
        if pod.spec.preemption_policy == "Never":
            return unschedulable(NEVER)
        if cluster.budgets is None:
            return unschedulable(UNSEEN)
        if _victims_are_leaving(pod, cluster):
            return unschedulable(ON_THEIR_WAY)

        reasons: Counter[str] = Counter()
        found: list[Victims] = []
        enough = max(ENOUGH, len(cluster.nodes) // 10)
        for name in cluster.nodes:
            status = rejected.get(name)
            if status is None or status.code == Code.UNSCHEDULABLE_AND_UNRESOLVABLE or len(found) == enough:
                reasons[NOT_HELPFUL] += 1
            elif not has_victims(pod, name, cluster):
                reasons[NO_VICTIMS] += 1
            elif victims := victims_on(pod, name, cluster, fits):
                found.append(victims)
            else:
                reasons.update(status.reasons)
        if found:
            best = pick_one(found)
            return PostFilterResult(best.node_name, best.pods)
        counted = ", ".join(sorted(f"{count} {reason}" for reason, count in reasons.items()))
        return unschedulable(f"preemption: 0/{len(cluster.nodes)} nodes are available: {counted}.")


def _victims_are_leaving(pod: Pod, cluster: Cluster) -> bool:
    """Whether room is being made for the pod already."""
    node_name = cluster.nominated_node(pod)
    node = cluster.nodes.get(node_name or "")
    return node is not None and any(
        each.metadata.uid in cluster.leaving and each.spec.priority < pod.spec.priority for each in node.pods
    )
