"""Which taints a pod does not tolerate."""

from functools import partial

from lib.kube.objects import Pod, Taint, Toleration
from lib.kube.selectors import tolerations_of
from lib.scheduling import edits
from lib.scheduling.cache import Cache
from lib.scheduling.framework.interface import Lines, Rejected, Remedies, Remedy
from lib.scheduling.node_info import NodeInfo
from lib.scheduling.plugins.taint_toleration import REPELLING
from lib.scheduling.status import CycleState, Status
from lib.scheduling.text import taint_text

CONDITIONS = ("node.kubernetes.io/", "node.cloudprovider.kubernetes.io/", "karpenter.sh/")
"""The prefixes of taints for a node's condition: not ready, cordoned, out of memory, about to go."""

LEAVING = ("ToBeDeletedByClusterAutoscaler", "DeletionCandidateOfClusterAutoscaler")
"""The cluster autoscaler's taints of nodes that it removes."""

CONTROL_PLANE = ("node-role.kubernetes.io/control-plane", "node-role.kubernetes.io/master")
"""Taints that keep applications off the control plane."""


class TaintTolerationExplainer:
    """Explains TaintToleration."""

    name = "TaintToleration"

    def explain(self, state: CycleState, pod: Pod, cache: Cache, node: NodeInfo, status: Status) -> Lines:
        """The taints that are not tolerated."""
        for taint in _untolerated(node, pod):
            yield f"taint {taint_text(taint)} is not tolerated"

    def remedies(self, state: CycleState, pod: Pod, cache: Cache, rejected: Rejected) -> Remedies:
        """Tolerate a taint, but none of a node's condition, and no control plane's if there are workers."""
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


def _untolerated(node: NodeInfo, pod: Pod) -> list[Taint]:
    """All taints that keep a pod off a node."""
    tolerations = tolerations_of(pod)
    return [taint for taint in node.taints if taint.effect in REPELLING and not tolerations.tolerate(taint)]
