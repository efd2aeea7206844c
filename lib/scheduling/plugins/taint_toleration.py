"""TaintToleration: a tainted node takes only pods that tolerate its taints.

NoSchedule and NoExecute filter. PreferNoSchedule scores: the fewer of these taints a pod doesn't tolerate,
the better.

Source: pkg/scheduler/framework/plugins/tainttoleration/taint_toleration.go
"""

from collections.abc import Hashable, Sequence
from functools import partial

from lib.kube.changes import AnyChange
from lib.kube.objects import Pod, Taint, Toleration
from lib.kube.selectors import Tolerations, tolerations_of, untolerated
from lib.scheduling.cache import Cache
from lib.scheduling.framework.interface import DependsOn, Lines, Rejected, Remedies, Remedy
from lib.scheduling.hints import before_itself, fits_now
from lib.scheduling.node_info import NodeInfo
from lib.scheduling.node_slice import NodeSlice
from lib.scheduling.scoring import normalize_to_largest
from lib.scheduling.status import CycleState, Status, unresolvable
from lib.scheduling.text import taint_text

TAINTED = unresolvable("node(s) had untolerated taint(s)")

REPELLING = ("NoSchedule", "NoExecute")
ADVISING = "PreferNoSchedule"

CONDITIONS = ("node.kubernetes.io/", "node.cloudprovider.kubernetes.io/", "karpenter.sh/")
"""The prefixes of taints for a node's condition: not ready, cordoned, out of memory, about to go."""

LEAVING = ("ToBeDeletedByClusterAutoscaler", "DeletionCandidateOfClusterAutoscaler")
"""The cluster autoscaler's taints of nodes that it removes."""

CONTROL_PLANE = ("node-role.kubernetes.io/control-plane", "node-role.kubernetes.io/master")
"""Taints that keep applications off the control plane."""


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

    def explain(self, state: CycleState, pod: Pod, cache: Cache, node: NodeInfo, status: Status) -> Lines:
        """The taints that are not tolerated."""
        for taint in _untolerated(node, pod):
            yield f"taint {taint_text(taint)} is not tolerated"

    def remedies(self, state: CycleState, pod: Pod, cache: Cache, rejected: Rejected) -> Remedies:
        """Tolerate a taint, but for one of a node's condition, or of a control plane beside other nodes."""
        from lib.scheduling import edits  # here, as few runs explain

        workers = any(
            not any(taint.key in CONTROL_PLANE for taint in node.taints) for node in cache.node_list
        )
        to_heed = (*LEAVING, *(CONTROL_PLANE if workers else ()))
        taints = {
            (taint.key, taint.value, taint.effect): taint
            for node in cache.node_list
            for taint in _untolerated(node, pod)
            # Taints of conditions say that something is wrong there.
            if not (
                taint.key.startswith(CONDITIONS) or taint.key.endswith("not-ready") or taint.key in to_heed
            )
        }
        for taint in taints.values():
            toleration = Toleration(taint.key, "Equal", taint.value, taint.effect)
            words = f"with a toleration for {taint_text(taint)}"
            yield Remedy(words, partial(edits.tolerating, toleration=toleration))

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


def _untolerated(node: NodeInfo, pod: Pod) -> list[Taint]:
    """All taints that keep a pod off a node."""
    tolerations = tolerations_of(pod)
    return [taint for taint in node.taints if taint.effect in REPELLING and not tolerations.tolerate(taint)]
