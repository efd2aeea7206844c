"""DynamicResources: a pod with resource claims isn't scheduled, because poller can't allocate devices.

kube-scheduler's plugin of this name allocates them (pkg/scheduler/framework/plugins/dynamicresources).
Without it, a pod that is bound would wait on its node for devices that nobody allocates.
"""

from collections.abc import Callable, Hashable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from lib.kube.changes import AnyChange
from lib.kube.objects import Pod
from lib.scheduling.cache import Cache
from lib.scheduling.framework.arguments import Args, Duration
from lib.scheduling.framework.interface import (
    SKIP,
    CycleState,
    DependsOn,
    Rejection,
    Status,
    unresolvable,
    unschedulable,
)

NO_CLAIMS = unschedulable("no new claims to deallocate")

NOT_SUPPORTED = unresolvable("the pod has spec.resourceClaims, and poller can't allocate devices")


class DynamicResourcesArgs(Args):
    """kube-scheduler's time limits for devices; poller allocates none."""

    filter_timeout: Duration | None = None
    binding_timeout: Duration | None = None

    def problems(self, path: str) -> Iterator[str]:
        """A line for each invalid field: `PATH: why`."""
        if self.filter_timeout is not None and self.filter_timeout < 0:
            yield f"{path}.filterTimeout: {self.filter_timeout:g}s is less than 0"
        if self.binding_timeout is not None and self.binding_timeout < 1:
            yield f"{path}.bindingTimeout: {self.binding_timeout:g}s is less than 1s"

    def for_plugin(self) -> dict[str, Any]:
        """None: the plugin rejects pods that need devices."""
        return {}


@dataclass(frozen=True)
class DynamicResources:
    """Rejects pods with resource claims."""

    name: str = "DynamicResources"
    args: ClassVar = DynamicResourcesArgs
    reads: ClassVar = DependsOn.NODES

    def sign_pod(self, pod: Pod) -> Hashable:
        """Whether the pod has resource claims."""
        return bool(pod.spec.resource_claims)

    def queueing_hint(self, pod: Pod, change: AnyChange) -> bool:
        """Nothing helps such a pod."""
        return False

    def pre_filter(self, state: CycleState, pod: Pod, cache: Cache) -> Status:
        """Reject a pod with claims on all nodes."""
        return NOT_SUPPORTED if pod.spec.resource_claims else SKIP

    def post_filter(
        self,
        state: CycleState,
        pod: Pod,
        cache: Cache,
        rejected: Mapping[str, Rejection],
        filter_node: Callable[[str], Status | None],
    ) -> Status:
        """Say what kube-scheduler says of a pod without claims."""
        return NO_CLAIMS
