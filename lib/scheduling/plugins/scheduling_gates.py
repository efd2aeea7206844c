"""SchedulingGates: a pod with gates isn't queued until the last of them has been lifted.

Source: pkg/scheduler/framework/plugins/schedulinggates/scheduling_gates.go
"""

from lib.kube.objects import Pod
from lib.scheduling.framework.interface import Status, unresolvable


class SchedulingGates:
    """Keeps gated pods out of the queue."""

    name = "SchedulingGates"

    def pre_enqueue(self, pod: Pod) -> Status | None:
        """Reject a pod that has gates."""
        gates = " ".join(gate.name for gate in pod.spec.scheduling_gates)
        return unresolvable(f"waiting for scheduling gates: [{gates}]") if gates else None
