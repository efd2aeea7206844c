"""TaintToleration: a tainted node takes only pods that tolerate its taints.

Source: pkg/scheduler/framework/plugins/tainttoleration/taint_toleration.go
"""

from collections.abc import Sequence

from lib.kube.objects import Pod
from lib.kube.selectors import untolerated
from lib.scheduling.cluster import NodeInfo
from lib.scheduling.framework import FITS, CycleState

REASON = "node(s) had untolerated taint(s)"

REPELLING = ("NoSchedule", "NoExecute")
"""The effects that keep a pod off; PreferNoSchedule only advises against the node."""


class TaintToleration:
    """Filters out nodes with a taint that the pod doesn't tolerate."""

    name = "TaintToleration"

    def filter(self, state: CycleState, pod: Pod, node: NodeInfo) -> Sequence[str]:
        """Reject a node with an untolerated taint."""
        return (REASON,) if untolerated(node.node.spec.taints, pod.spec.tolerations, REPELLING) else FITS
