"""DefaultBinder: the pod gets its node by a Binding.

Source: pkg/scheduler/framework/plugins/defaultbinder/default_binder.go
"""

from lib.kube.objects import Pod
from lib.scheduling.framework.interface import DEFAULT_BIND, CycleState, Status


class DefaultBinder:
    """Leaves it to poller, which POSTs the bindings of all pods that it decides on, several at a time."""

    name = "DefaultBinder"

    def bind(self, state: CycleState, pod: Pod, node_name: str) -> Status | None:
        """Have the binding POSTed."""
        return DEFAULT_BIND
