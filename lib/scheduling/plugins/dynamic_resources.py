"""DynamicResources: a pod goes to a node where its resource claims can get devices.

What it does for a pod with claims is imported when the first such pod comes: lib/scheduling/devices.

Source: pkg/scheduler/framework/plugins/dynamicresources/dynamicresources.go
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib.util import find_spec
from typing import TYPE_CHECKING, ClassVar

from lib.kube.changes import AnyChange
from lib.kube.objects import Node, Pod
from lib.kube.resource_claims import UndoClaim
from lib.kube.resources import DEVICES
from lib.scheduling.cache import Cache
from lib.scheduling.handle import Handle
from lib.scheduling.hints import changed_itself, is_new_or_changed_node
from lib.scheduling.node_info import NodeInfo, described
from lib.scheduling.scoring import normalize_to_largest
from lib.scheduling.status import (
    SKIP,
    CycleState,
    PluginError,
    Rejection,
    Status,
    unresolvable,
    unschedulable,
    wait,
)

if TYPE_CHECKING:
    from lib.scheduling.devices.pod_devices import PodDevices

NO_CLAIMS = unschedulable("no new claims to deallocate")

NO_CEL = unresolvable(
    "the pod needs devices, and the package cel-expr-python isn't installed: run pip install cel-expr-python"
)

FILTER_TIMEOUT, BINDING_TIMEOUT = 10.0, 600.0


@dataclass(frozen=True)
class DynamicResources:
    """Filters out nodes where a pod can't get its devices. Prefers nodes where it gets its first choices."""

    filter_timeout: float = FILTER_TIMEOUT
    """After so many seconds, a node's devices aren't looked at any further; 0 for no limit."""
    binding_timeout: float = BINDING_TIMEOUT
    """After so many seconds, a device that isn't ready is given up."""
    handle: Handle = field(default_factory=Handle, repr=False, compare=False)
    """For the time, and for the cluster's claims before a pod is tried."""
    name: str = "DynamicResources"
    needs: ClassVar = (DEVICES,)

    # --- when a pod is tried ----------------------------------------------------------------------------

    def pre_enqueue(self, pod: Pod) -> Status | None:
        """Keep a pod out of the queue while one of its claims isn't there."""
        if not pod.spec.resource_claims:
            return None
        if not _has_cel():
            return NO_CEL
        cache = self.handle.cache
        if cache is None or not cache.knows_claims:  # its first attempt finds out
            return None
        from lib.scheduling.devices.claims_of_pod import ClaimMissingError, claims_of

        try:
            claims_of(pod, cache.devices)
        except ClaimMissingError as error:
            return unresolvable(str(error))
        return None

    events_to_register = (
        "NodeAdd",
        "NodeUpdate",
        "ResourceClaimAdd",
        "ResourceClaimUpdate",
        "ResourceClaimDelete",
        "ResourceSliceAdd",
        "ResourceSliceUpdate",
        "DeviceClassAdd",
        "DeviceClassUpdate",
    )

    def helps_owners_alone(self, change: AnyChange) -> bool:
        """A change of a ResourceClaim that gives no devices back."""
        if isinstance(change.object, Pod | Node):
            return False
        from lib.scheduling.devices.claims_of_pod import changes_claim, gives_back

        return changes_claim(change) and not gives_back(change)

    def queueing_hint(self, pod: Pod, change: AnyChange) -> bool:
        """A change of the pod's claims; devices that another claim gives back; a class, slice or node that
        came or changed.
        """
        if isinstance(change.object, Node):
            return is_new_or_changed_node(change, lambda node: described(node.node))
        if isinstance(change.object, Pod):
            return changed_itself(pod, change)
        from lib.scheduling.devices.claims_of_pod import may_give_devices

        return may_give_devices(pod, change)

    # --- the scheduling cycle ---------------------------------------------------------------------------

    def pre_filter(self, state: CycleState, pod: Pod, cache: Cache) -> Status | None:
        """Find the pod's claims. Reject it if they can't be allocated now."""
        if not pod.spec.resource_claims and not cache.classes_by_resource:
            return SKIP
        if pod.spec.resource_claims and not _has_cel():
            return NO_CEL
        from lib.scheduling.devices.pod_devices import PodDevices, devices_of

        devices = devices_of(
            pod,
            cache.devices,
            binding_timeout=self.binding_timeout,
            filter_timeout=self.filter_timeout,
            now=self.handle.now,
            random=self.handle.random,
        )
        if devices is None:
            return SKIP
        if cache.looked_up.devices_unseen:
            raise PluginError(cache.looked_up.devices_unseen)
        if not isinstance(devices, PodDevices):
            return devices
        if rejection := devices.check():
            return rejection
        state[self.name] = devices
        return None

    def filter(self, state: CycleState, pod: Pod, node: NodeInfo) -> Status | None:
        """Reject a node where the pod's claims can't be allocated, or used."""
        kept: PodDevices = state[self.name]
        return kept.filter(node)

    def post_filter(
        self,
        state: CycleState,
        pod: Pod,
        cache: Cache,
        rejected: Mapping[str, Rejection],
        filter_node: Callable[[str], Rejection | None],
    ) -> Status:
        """Take the devices of a claim away that only this pod uses, and that can't be used on some node."""
        kept: PodDevices | None = state.get(self.name)
        return kept.free_claim() if kept else NO_CLAIMS

    def pre_score(
        self, state: CycleState, pod: Pod, cache: Cache, nodes: Sequence[NodeInfo]
    ) -> Status | None:
        """Nothing to score for a pod without claims."""
        return None if self.name in state else SKIP

    def score(self, state: CycleState, pod: Pod, node: NodeInfo) -> int:
        """The more of its first choices the pod gets there, the better."""
        kept: PodDevices = state[self.name]
        return kept.score(node.name)

    def normalize_score(self, state: CycleState, pod: Pod, scores: dict[str, int]) -> None:
        """The best node gets 100."""
        normalize_to_largest(scores)

    def reserve(self, state: CycleState, pod: Pod, node_name: str) -> Status | None:
        """Count the devices that the pod gets on this node."""
        kept: PodDevices | None = state.get(self.name)
        if kept:
            kept.reserve(node_name)
        return None

    def unreserve(self, state: CycleState, pod: Pod, node_name: str) -> Sequence[UndoClaim] | None:
        """Don't count the pod's devices any longer. Returns what is to be written to release them."""
        kept: PodDevices | None = state.get(self.name)
        return kept.unreserve() if kept else None

    # --- the binding cycle ------------------------------------------------------------------------------

    def pre_bind(self, state: CycleState, pod: Pod, node_name: str) -> Status | None:
        """Let poller write the claims; then wait until their devices are ready, if they must be."""
        kept: PodDevices | None = state.get(self.name)
        if not kept:
            return None
        waiting = f"waiting for binding conditions for device on node {node_name}"
        if not kept.is_handed_out and (writes := kept.to_write(node_name)):
            return wait(waiting, limit=self.binding_timeout, writes=writes)
        return None if kept.is_ready() else wait(waiting, limit=self.binding_timeout + SPARE)


SPARE = 60.0
"""The claim's own time limit comes first: its message names the claim."""


def _has_cel() -> bool:
    return find_spec("cel_expr_python") is not None
