"""SchedulingGates: a pod with gates isn't queued until the last of them has been lifted.

Source: pkg/scheduler/framework/plugins/schedulinggates/scheduling_gates.go
"""

from lib.kube.changes import AnyChange
from lib.kube.objects import Pod
from lib.scheduling.hints import changed_itself
from lib.scheduling.status import Status, unresolvable


class SchedulingGates:
    """Keeps gated pods out of the queue."""

    name = "SchedulingGates"
    events_to_register = ()

    def pre_enqueue(self, pod: Pod) -> Status | None:
        """Reject a pod that has gates."""
        gates = " ".join(gate.name for gate in pod.spec.scheduling_gates)
        return unresolvable(f"waiting for scheduling gates: [{gates}]") if gates else None

    def queueing_hint(self, pod: Pod, change: AnyChange) -> bool:
        """Only a change of the pod itself."""
        return changed_itself(pod, change)
