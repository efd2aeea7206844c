"""TaintToleration: a tainted node takes only pods that tolerate its taints.

NoSchedule and NoExecute filter. PreferNoSchedule scores: the fewer of these taints a pod doesn't tolerate,
the better.

Source: pkg/scheduler/framework/plugins/tainttoleration/taint_toleration.go
"""

from collections.abc import Hashable, Sequence

from lib.kube.changes import AnyChange
from lib.kube.objects import Pod
from lib.kube.selectors import Tolerations, tolerations_of, untolerated
from lib.scheduling.cache import Cache
from lib.scheduling.framework.interface import DependsOn
from lib.scheduling.hints import before_itself, fits_now
from lib.scheduling.node_info import NodeInfo
from lib.scheduling.node_slice import NodeSlice
from lib.scheduling.scoring import normalize_to_largest
from lib.scheduling.status import CycleState, Status, unresolvable

TAINTED = unresolvable("node(s) had untolerated taint(s)")

REPELLING = ("NoSchedule", "NoExecute")
ADVISING = "PreferNoSchedule"


class TaintToleration:
    """Filters out nodes with a taint that the pod doesn't tolerate; scores by PreferNoSchedule taints."""

    name = "TaintToleration"
    equal_stay_equal = True
    reads = DependsOn.NODES

    def sign_pod(self, pod: Pod) -> Hashable:
        """The pod's tolerations."""
        return tuple(pod.spec.tolerations)

    events_to_register = ("NodeAdd", "NodeUpdate")

    def queueing_hint(self, pod: Pod, change: AnyChange) -> bool:
        """A node whose taints the pod tolerates, and that is new or had other taints; a new toleration."""
        if was := before_itself(pod, change):
            return was.spec.tolerations != pod.spec.tolerations
        return fits_now(change, lambda node: not _repels(node, pod))

    def filter_nodes(self, state: CycleState, pod: Pod, nodes: NodeSlice) -> Sequence[Status | None]:
        """Reject nodes with an untolerated taint; most nodes have no taints."""
        return [TAINTED if node.taints and _repels(node, pod) else None for node in nodes]

    def pre_score(self, state: CycleState, pod: Pod, cache: Cache, nodes: Sequence[NodeInfo]) -> None:
        """Find the pod's tolerations."""
        state[self.name] = tolerations_of(pod)

    def score_nodes(self, state: CycleState, pod: Pod, nodes: NodeSlice) -> Sequence[int]:
        """The number of PreferNoSchedule taints that the pod doesn't tolerate; most nodes have no taints."""
        tolerations: Tolerations = state[self.name]

        def unwanted(node: NodeInfo) -> int:
            advising = [taint for taint in node.taints if taint.effect == ADVISING]
            return sum(not tolerations.tolerate(taint) for taint in advising)

        return [unwanted(node) if node.taints else 0 for node in nodes]

    def normalize_score(self, state: CycleState, pod: Pod, scores: dict[str, int]) -> None:
        """The fewest taints become 100."""
        normalize_to_largest(scores, reverse=True)


def _repels(node: NodeInfo, pod: Pod) -> bool:
    return untolerated(pod, node.taints, REPELLING) is not None
