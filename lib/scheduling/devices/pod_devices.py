"""The devices of one pod, in one attempt to schedule it.

Counterpart in kube-scheduler: stateData, and what the plugin does with it, in
pkg/scheduler/framework/plugins/dynamicresources/dynamicresources.go
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import cached_property, partial
from random import Random

from lib.kube.devices import AllocationResult, ResourceClaim
from lib.kube.objects import Pod
from lib.kube.resource_claims import (
    UNNAMED,
    DeallocateClaim,
    DeleteClaim,
    ReleaseClaim,
    RequestMapping,
    ReserveClaim,
    UndoClaim,
)
from lib.kube.selectors import matches_node
from lib.scheduling.devices.allocator import (
    TOO_LONG,
    AllocationError,
    AllocationTimeoutError,
    Allocator,
    NodeAllocationError,
)
from lib.scheduling.devices.claims_of_pod import (
    BindingFailedError,
    ClaimMissingError,
    claims_of,
    has_binding_conditions,
    is_ready,
    is_reserved_for,
)
from lib.scheduling.devices.cluster_devices import ClusterDevices
from lib.scheduling.devices.extended_resources import (
    CANNOT_FIT,
    claim_for,
    needed_of_devices,
    requested_of_classes,
    with_requests,
)
from lib.scheduling.devices.kept_answers import KeptAnswer, what_is_claimed
from lib.scheduling.devices.search_time import USUAL
from lib.scheduling.node_info import NodeInfo
from lib.scheduling.status import Code, NodeError, PluginError, Status, unresolvable, unschedulable

CANNOT_ALLOCATE = "cannot allocate all claims"
NOT_AVAILABLE = unresolvable("resourceclaim not available on the node")
EXTENDED_STALE = unresolvable("cannot schedule extended resource claim")
EXTENDED_CANNOT_FIT = unresolvable(CANNOT_FIT)
BEING_ALLOCATED = "resource claim {} is in the process of being allocated"
NO_CLASS = "request {}: device class {} does not exist"
UNKNOWN_REQUEST = "resource claim {}, request {}: unknown request type"
DEALLOCATED = "deallocation of ResourceClaim completed"
DELETED = "deletion of ResourceClaim completed"
STILL_NOT = unschedulable("still not schedulable")

MAX_SUBREQUESTS = 8
"""A request has at most so many alternatives (FirstAvailableDeviceRequestMaxSize)."""


DeviceSearch = Callable[[], Iterator[AllocationResult]]
"""Returns what each claim gets, as a search has found."""


@dataclass
class Found:
    """What a pod would get on a node."""

    claims: list[ResourceClaim]
    """Those without an allocation."""
    search: DeviceSearch
    mappings: tuple[RequestMapping, ...] = ()
    """Which request is for which container's extended resource."""
    score: int = 0
    """The more of the first choices these are, the higher."""

    @cached_property
    def allocations(self) -> list[AllocationResult]:
        """What each claim gets: put together for the picked node only, and where scores depend on it."""
        return [*self.search()]


@dataclass
class _Wanted:
    """Claims that are to get devices. mappings: see `Found`."""

    claims: list[ResourceClaim]
    mappings: tuple[RequestMapping, ...] = ()

    @cached_property
    def key(self) -> bytes:
        """What is claimed."""
        return what_is_claimed(self.claims)


@dataclass
class PodDevices:
    """A pod's claims, and what it would get on each node."""

    pod: Pod
    devices: ClusterDevices
    claims: list[ResourceClaim]
    extended: ResourceClaim | None
    """The claim for its extended resources, if a DeviceClass serves one of them."""
    requested: Mapping[str, int]
    """These resources."""
    binding_timeout: float
    filter_timeout: float
    now: Callable[[], datetime]
    random: Random
    """For the names of shares."""
    by_node: dict[str, Found] = field(default_factory=dict)
    """What it would get, by the node's name."""
    unavailable: dict[str, None] = field(default_factory=dict)
    """The names of allocated claims that can't be used on some node."""
    reserved: Found | None = None
    """What it gets on the picked node."""
    is_handed_out: bool = False
    """Whether the writes of its claims were handed out."""
    _with_extended: dict[frozenset[str], _Wanted] = field(default_factory=dict)

    @property
    def all_claims(self) -> Iterator[ResourceClaim]:
        """The pod's claims, and last the one for its extended resources."""
        yield from self.claims
        if self.extended:
            yield self.extended

    # --- which nodes fit --------------------------------------------------------------------------------

    def check(self) -> Status | None:
        """Reject a pod with a claim that can't be allocated on any node now."""
        for claim in self.all_claims:
            if claim.status.allocation:
                continue
            if claim.metadata.uid in self.devices.pending:
                return unresolvable(BEING_ALLOCATED.format(claim))
            for request in claim.spec.devices.requests if claim is not self.extended else ():
                if not (request.exactly or request.first_available):
                    return unresolvable(UNKNOWN_REQUEST.format(claim, request.name))
                for name, spec in request.options:
                    if spec.device_class_name not in self.devices.classes:
                        return unresolvable(NO_CLASS.format(name, spec.device_class_name))
        return None

    def filter(self, node: NodeInfo) -> Status | None:
        """Why the pod can't get its devices on a node; None if it can. PluginError fails the whole pod."""
        wanted = self._wanted
        if self.extended:
            if self.extended.metadata.name != UNNAMED:
                return EXTENDED_STALE  # PostFilter deletes it
            needed = needed_of_devices(self.requested, node, self.devices)
            if needed is None:
                return EXTENDED_CANNOT_FIT
            if needed:
                wanted = self._wanted_also(self.extended, needed)
        unavailable = [
            claim for claim, given in self._allocated if not self._is_available(claim, given, node)
        ]
        found: Found | None = None
        if wanted.claims:
            allocated = self._allocate(node, wanted)
            if isinstance(allocated, Status):
                return allocated
            found = allocated
        if unavailable:
            self.unavailable |= dict.fromkeys(claim.metadata.name for claim in unavailable)
            return NOT_AVAILABLE
        if found:
            self.by_node[node.name] = found
        return None

    @cached_property
    def _allocated(self) -> list[tuple[ResourceClaim, AllocationResult]]:
        return [(claim, given) for claim in self.claims if (given := claim.status.allocation)]

    @cached_property
    def _wanted(self) -> _Wanted:
        """The pod's claims without an allocation."""
        return _Wanted([claim for claim in self.claims if not claim.status.allocation])

    def claims_on(self, node: NodeInfo) -> list[ResourceClaim]:
        """The pod's claims, and last the one for extended resources, if the node needs devices for these."""
        needed = needed_of_devices(self.requested, node, self.devices) if self.extended else None
        if not (self.extended and needed):
            return self.claims
        return [*self.claims, self._wanted_also(self.extended, needed).claims[-1]]

    def _wanted_also(self, extended: ResourceClaim, needed: set[str]) -> _Wanted:
        """The same, and the claim for extended resources: it depends on those that the node has itself."""
        key = frozenset(needed)
        if key not in self._with_extended:
            special, mappings = with_requests(extended, self.pod, needed, self.devices)
            self._with_extended[key] = _Wanted([*self._wanted.claims, special], mappings)
        return self._with_extended[key]

    def _allocate(self, node: NodeInfo, wanted: _Wanted) -> Found | Status:
        devices, claims, which = self.devices, wanted.claims, (wanted.key, node.name)
        pools = devices.pools.of(node)
        if answer := devices.answers.get(*which, pools, devices.taken):
            if answer.rejection:
                return unresolvable(answer.rejection)
            search_again = partial(self._search_again, node, claims)
            return Found(claims, search_again, wanted.mappings, answer.score)
        search, rejection, seconds = self._search(node, wanted)
        found = Found(claims, search, wanted.mappings) if search else None
        if found and self._has_choices:
            found.score = sum(map(_score, claims, found.allocations))
        # Where devices are found, the search is made again for what they are: not a slow one.
        if rejection or seconds <= USUAL:
            answer = KeptAnswer(rejection, found.score if found else 0)
            devices.answers.put(*which, pools, devices.taken, answer)
        return found or unresolvable(rejection)

    def _search(self, node: NodeInfo, wanted: _Wanted) -> tuple[DeviceSearch | None, str, float]:
        """What the claims get on a node, or why they don't get it; and how many seconds the search took."""
        running, ended, began = 'running "DynamicResources" filter plugin', True, self._seconds()
        search_time = self.devices.search_time
        limit = search_time.limit(wanted.key, node, self.filter_timeout, began)
        if not limit:  # it would hold up all pods again
            raise PluginError(f"{running}: node {node.name}: {TOO_LONG}")
        search, rejection = None, CANNOT_ALLOCATE
        try:
            search = self._allocator.search(node, wanted.claims, began + limit)
        except NodeAllocationError as error:
            rejection = str(error)
        except AllocationTimeoutError as error:
            ended = False
            raise PluginError(f"{running}: node {node.name}: {error}") from error
        except AllocationError as error:
            raise NodeError(f"{running}: {error}") from error
        finally:
            seconds = self._seconds() - began
            search_time.took(wanted.key, node, seconds, limit, ended=ended)
        return search, "" if search else rejection, seconds

    @cached_property
    def _allocator(self) -> Allocator:
        devices = self.devices
        return Allocator(
            devices.pools, devices.selectors, devices.classes, devices.taken, self.random, self._seconds
        )

    def _search_again(self, node: NodeInfo, claims: list[ResourceClaim]) -> Iterator[AllocationResult]:
        """What the claims get on a node where they are known to get their devices."""
        found = self._allocator.search(node, claims)
        assert found
        return found()

    def _seconds(self) -> float:
        return self.now().timestamp()

    def _is_available(self, claim: ResourceClaim, allocation: AllocationResult, node: NodeInfo) -> bool:
        """Whether an allocated claim can be used on a node, and hasn't failed to get ready."""
        if allocation.node_selector and not matches_node(allocation.node_selector, node.node):
            return False
        return not self.why_never_ready(claim)

    def why_never_ready(self, claim: ResourceClaim) -> str:
        """Why devices of an allocated claim will not get ready; "" if they are ready, or still may be."""
        try:
            if is_ready(claim) or not self._is_too_late(claim):
                return ""
        except BindingFailedError as error:
            return str(error)
        return f"device binding timeout: claim={claim.metadata.name}"

    def _is_too_late(self, claim: ResourceClaim) -> bool:
        """Whether a claim's devices have had too much time to get ready."""
        allocation = claim.status.allocation
        if not allocation or not allocation.allocation_timestamp or not has_binding_conditions(claim):
            return False
        return allocation.allocation_timestamp + timedelta(seconds=self.binding_timeout) < self.now()

    # --- no node fits -----------------------------------------------------------------------------------

    def free_claim(self) -> Status:
        """Take the devices of a claim away that is in the way, so that it can get others."""
        for claim in self.claims:
            users = {user.uid for user in claim.status.reserved_for}
            if claim.metadata.name in self.unavailable and users <= {self.pod.metadata.uid}:
                return Status(Code.UNSCHEDULABLE, (DEALLOCATED,), undo=(DeallocateClaim(claim),))
        if self.extended and self.extended.metadata.name != UNNAMED:
            return Status(Code.UNSCHEDULABLE, (DELETED,), undo=(DeleteClaim(self.extended),))
        return STILL_NOT

    # --- how good a node is -----------------------------------------------------------------------------

    def score(self, node_name: str) -> int:
        """The more of its first choices the pod gets there, the better."""
        found = self.by_node.get(node_name)
        if not found:
            return 0
        return found.score + sum(_score(claim, given) for claim, given in self._allocated)

    @cached_property
    def _has_choices(self) -> bool:
        return any(
            request.first_available for claim in self.claims for request in claim.spec.devices.requests
        )

    # --- a node was picked ------------------------------------------------------------------------------

    def reserve(self, node_name: str) -> None:
        """Count what the pod gets on this node, before it is written."""
        self.reserved = found = self.by_node.get(node_name)
        for claim, allocation in zip(found.claims, found.allocations, strict=True) if found else ():
            self.devices.reserve(claim.metadata.uid, allocation)

    def unreserve(self) -> list[UndoClaim]:
        """Don't count it any longer. Returns what is to be written, for what was written of it."""
        undo: list[UndoClaim] = []
        for claim in self.reserved.claims if self.reserved else ():
            self.devices.unreserve(claim.metadata.uid)
        self.reserved = None
        if not self.is_handed_out:
            return undo
        for claim in self.claims:
            now = self.devices.claims.get(str(claim))
            if now and now.metadata.uid == claim.metadata.uid and is_reserved_for(now, self.pod):
                undo.append(ReleaseClaim(now, self.pod))
        if self.extended:
            created = claim_for(self.pod, self.devices)
            if created.metadata.name != UNNAMED:
                self.devices.forget(created)
                undo.append(DeleteClaim(created))
        return undo

    def to_write(self, node_name: str) -> list[ReserveClaim]:
        """What is to be written of the claims: that the pod uses them, and new allocations.

        PluginError when another scheduler has given one of the devices away since they were reserved.
        """
        for mine in self.reserved.allocations if self.reserved else ():
            for device in self.devices.taken.given_twice(mine):
                raise PluginError(_in_pre_bind(f"device {device} got allocated elsewhere in the meantime"))
        steps, self.is_handed_out = [], True
        self.by_node = {}  # the others aren't needed any more, and there may be many
        new = zip(self.reserved.claims, self.reserved.allocations, strict=True) if self.reserved else ()
        allocations = {claim.metadata.uid: (claim, allocation) for claim, allocation in new}
        for claim in self.all_claims:
            now, allocation = allocations.get(claim.metadata.uid, (claim, None))
            if claim is self.extended:
                if allocation and self.reserved:
                    steps.append(ReserveClaim(now, self.pod, node_name, allocation, self.reserved.mappings))
            elif not is_reserved_for(claim, self.pod):
                steps.append(ReserveClaim(now, self.pod, node_name, allocation))
        return steps

    def is_ready(self) -> bool:
        """Whether all devices are ready. PluginError when one never will be."""
        for claim in self.claims:
            now = self.devices.claims.get(str(claim))
            if now is None:
                raise PluginError(_in_pre_bind(f'could not find ResourceClaim "{claim}"'))
            if why := self.why_never_ready(now):
                raise PluginError(_in_pre_bind(why))
            if not is_ready(now):
                return False
        return True


def _in_pre_bind(why: str) -> str:
    return f'running PreBind plugin "DynamicResources": {why}'


def devices_of(
    pod: Pod,
    devices: ClusterDevices,
    *,
    binding_timeout: float,
    filter_timeout: float,
    now: Callable[[], datetime],
    random: Random,
) -> PodDevices | Status | None:
    """A pod's claims; None if it needs no devices, or a rejection if a claim isn't there."""
    try:
        claims = claims_of(pod, devices)
    except ClaimMissingError as error:
        return unresolvable(str(error))
    requested = requested_of_classes(pod, devices)
    extended = claim_for(pod, devices) if requested else None
    if not claims and not extended:
        return None
    return PodDevices(pod, devices, claims, extended, requested, binding_timeout, filter_timeout, now, random)


def _score(claim: ResourceClaim, allocation: AllocationResult) -> int:
    chosen = {result.request for result in allocation.devices.results}
    return sum(
        MAX_SUBREQUESTS - i
        for request in claim.spec.devices.requests
        for i, alternative in enumerate(request.first_available)
        if f"{request.name}/{alternative.name}" in chosen
    )
