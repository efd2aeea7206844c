"""DefaultBinder: a Binding assigns the pod to its node.

Source: pkg/scheduler/framework/plugins/defaultbinder/default_binder.go
"""

from lib.kube.objects import Pod
from lib.scheduling.status import DEFAULT_BIND, CycleState, Status


class DefaultBinder:
    """Leaves the binding to poller, which POSTs many bindings at the same time."""

    name = "DefaultBinder"

    def bind(self, state: CycleState, pod: Pod, node_name: str) -> Status | None:
        """Let poller POST the binding."""
        return DEFAULT_BIND
