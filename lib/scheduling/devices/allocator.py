"""Finds devices for the claims of a pod, on a node.

Claim by claim, request by request, device by device: each takes the first device that is free, that its
selectors match and that suits the constraints. When the search gets stuck, it goes back to take another.

Source: k8s.io/dynamic-resource-allocation/structured/internal/incubating/allocator_incubating.go, with the
features that kube-scheduler 1.36 has by default
"""

from collections import defaultdict
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from enum import Enum
from random import Random
from uuid import UUID

from lib.kube.devices import (
    RESULTS_MAX_SIZE,
    AllocationResult,
    DeviceClass,
    DeviceSelector,
    DeviceTaint,
    DeviceToleration,
    ExactDeviceRequest,
    ResourceClaim,
)
from lib.scheduling.devices.constraints import Constraint
from lib.scheduling.devices.consumption import (
    Consumed,
    CounterKey,
    Counters,
    added,
    consumed_by,
    is_enough,
)
from lib.scheduling.devices.pools import DeviceId, Pool, PoolDevice, Pools
from lib.scheduling.devices.results import ChosenDevice, RequestToMeet, allocation_of
from lib.scheduling.devices.selectors import SelectorError, Selectors
from lib.scheduling.devices.taken import Taken
from lib.scheduling.node_info import NodeInfo

ALL, EXACT_COUNT = "All", "ExactCount"

TOO_LONG = "timed out trying to allocate devices"


class AllocationError(Exception):
    """A pod's claims can't be allocated, on no node. The text is kube-scheduler's."""


class NodeAllocationError(AllocationError):
    """They can't be allocated on this node; perhaps on another one."""


class AllocationTimeoutError(AllocationError):
    """The search on this node was ended: it took too long."""


class Allocator:
    """Allocates the claims of one pod, on one node after the other.

    pools: of all slices; keep them as long as the slices are the same. selectors: those that were compiled;
    keep them, too. classes: by name. taken: the devices of other claims. random: for the names of shares.
    clock: the time in seconds.
    """

    def __init__(
        self,
        pools: Pools,
        selectors: Selectors,
        classes: Mapping[str, DeviceClass],
        taken: Taken,
        random: Random,
        clock: Callable[[], float],
    ) -> None:
        self.pools, self.selectors, self.classes, self.taken = pools, selectors, classes, taken
        self.clock = clock
        self.counters: dict[str, dict[CounterKey, int]] = {}
        self._random = random

    def search(
        self, node: NodeInfo, claims: Sequence[ResourceClaim], until: float = float("inf")
    ) -> Callable[[], Iterator[AllocationResult]] | None:
        """What each claim gets on a node, put together when it is called; None if not all get devices.

        until: when to stop the search. AllocationError and its subclasses when there is no answer.
        """
        search = _Search(self, node, claims, until)
        return search.results if search.run() else None

    def share_id(self) -> str:
        """A new name for a share of a device."""
        return str(UUID(int=self._random.getrandbits(128), version=4))


RequestKey = tuple[int, int, int]
"""The claim, its request, and of this the subrequest."""


class _End(Enum):
    """What came of a part of the search: all claims got their devices from there on, or they can't get them,
    or a claim would get more devices than it can have, with the alternatives that were chosen before.
    """

    FOUND = "found"
    STUCK = "stuck"
    TOO_MANY = "too many"


FOUND, STUCK, TOO_MANY = _End

Steps = Generator["Steps", _End, _End]
"""A part of the search. It yields the part that comes next, and is sent what came of that."""


def _end_of(steps: Steps) -> _End:
    """Carry out a part of the search. There may be thousands of parts in each other, one for each device."""
    under_way = [steps]
    end: _End | None = None
    while under_way:
        try:
            under_way.append(under_way[-1].send(end))  # type: ignore[arg-type]  # None begins it
            end = None
        except StopIteration as ended:
            under_way.pop()
            end = ended.value
    assert end is not None
    return end


class _Search:
    """A search on one node. `_request` and `_device` are followed by each other, until all claims got their
    devices.
    """

    def __init__(
        self, allocator: Allocator, node: NodeInfo, claims: Sequence[ResourceClaim], until: float
    ) -> None:
        self._allocator, self._node, self._claims, self._until = allocator, node, claims, until
        self._pools = allocator.pools.of(node)
        self._candidates: list[tuple[Pool, PoolDevice]] = [
            (pool, device)
            for pool in self._pools
            if not (pool.is_incomplete or pool.invalid)
            for device in pool.devices
        ]
        self._requests: dict[RequestKey, RequestToMeet] = {}
        self._chosen_sub_request: dict[tuple[int, int], int] = {}
        self._constraints: list[list[Constraint]] = []
        self._matches: dict[tuple[DeviceId, RequestKey], bool] = {}
        self._counters = Counters(allocator.taken, allocator.counters)
        self._in_use: dict[DeviceId, set[int]] = defaultdict(set)  # by which claims
        self._consumed: dict[DeviceId, Consumed] = {}
        self._chosen: list[list[ChosenDevice]] = [[] for _ in claims]

    def run(self) -> bool:
        """Whether all claims got their devices. Errors: see `Allocator.search`."""
        for index, claim in enumerate(self._claims):
            self._prepare(index, claim)
        if _end_of(self._request(0, 0)) is FOUND:
            return True
        if any(pool.invalid for pool in self._pools):
            raise NodeAllocationError("invalid resource pools were encountered")
        return False

    def results(self) -> Iterator[AllocationResult]:
        """What each claim got."""
        for index, claim in enumerate(self._claims):
            met = [
                self._requests[index, number, self._chosen_sub_request.get((index, number), 0)]
                for number in range(len(claim.spec.devices.requests))
            ]
            yield allocation_of(claim, self._chosen[index], met, self._node.name)

    # --- before the search ------------------------------------------------------------------------------

    def _prepare(self, index: int, claim: ResourceClaim) -> None:
        """Note a claim's requests and constraints. AllocationError when it can't be allocated at all."""
        fewest = 0
        for number, request in enumerate(claim.spec.devices.requests):
            options: list[tuple[str, str, ExactDeviceRequest]] = [
                (alternative.name, request.name, alternative) for alternative in request.first_available
            ] or [(request.name, "", request.exactly or ExactDeviceRequest())]
            for option, (name, parent, spec) in enumerate(options):
                key = index, number, option
                self._requests[key] = self._request_to_meet(key, claim, name, parent, spec)
            fewest += min(self._requests[index, number, option].count for option in range(len(options)))
        if fewest > RESULTS_MAX_SIZE:
            raise AllocationError(
                f"claim {claim}: number of requested devices {fewest} exceeds the claim limit of "
                f"{RESULTS_MAX_SIZE}"
            )
        self._constraints.append([*self._constraints_of(claim)])

    def _constraints_of(self, claim: ResourceClaim) -> Iterator[Constraint]:
        for number, constraint in enumerate(claim.spec.devices.constraints):
            if constraint.match_attribute is not None:
                yield Constraint(constraint.requests, constraint.match_attribute, distinct=False)
            elif constraint.distinct_attribute is not None:
                yield Constraint(constraint.requests, constraint.distinct_attribute, distinct=True)
            else:
                raise AllocationError(
                    f"claim {claim}, constraint #{number}: empty constraint (unsupported constraint type?)"
                )

    def _request_to_meet(
        self, key: RequestKey, claim: ResourceClaim, name: str, parent: str, spec: ExactDeviceRequest
    ) -> RequestToMeet:
        where = f"claim {claim}, request {name}"
        for number, selector in enumerate(spec.selectors):
            if selector.cel is None:
                raise AllocationError(
                    f"{where}, selector #{number}: CEL expression empty (unsupported selector type?)"
                )
        if not spec.device_class_name:
            raise AllocationError(f"{where}: missing device class name (unsupported request type?)")
        device_class = self._allocator.classes.get(spec.device_class_name)
        if device_class is None:
            wanted = spec.device_class_name
            why = f'deviceclass.resource.k8s.io "{wanted}" not found'
            raise AllocationError(f"{where}: could not retrieve device class {wanted}: {why}")
        request = RequestToMeet(name, parent, spec, device_class)
        if spec.allocation_mode == EXACT_COUNT:
            request.count = spec.count
        elif spec.allocation_mode == ALL:
            request.all_devices = [*self._all_devices(key, where, request)]
            request.count = len(request.all_devices)
        else:
            raise AllocationError(f"{where}: unsupported count mode {spec.allocation_mode}")
        return request

    def _all_devices(
        self, key: RequestKey, where: str, request: RequestToMeet
    ) -> Iterator[tuple[int, PoolDevice]]:
        """The devices that are all: each with the number of its pool."""
        for number, pool in enumerate(self._pools):
            for state, is_so in (("being updated", pool.is_incomplete), ("invalid", pool.invalid)):
                if is_so:
                    raise AllocationError(
                        f"{where}: asks for all devices, but resource pool {pool} is currently {state}"
                    )
            for device in pool.devices:
                if self._selects(key, request, device) and self._has_enough(request, device):
                    yield number, device

    # --- the search -------------------------------------------------------------------------------------

    def _check_time(self) -> None:
        if self._allocator.clock() > self._until:
            raise AllocationTimeoutError(TOO_LONG)

    def _request(self, index: int, number: int) -> Steps:
        """Allocate this request of a claim, and all after it."""
        if index == len(self._claims):
            return FOUND
        self._check_time()
        requests = self._claims[index].spec.devices.requests
        if number == len(requests):
            return (yield self._request(index + 1, 0))
        options = len(requests[number].first_available)
        if not options:
            return (yield self._device((index, number, 0), 0, 0))
        ends: set[_End] = set()
        for option in range(options):
            end = yield self._device((index, number, option), 0, 0)
            if end is FOUND:
                self._chosen_sub_request[index, number] = option
                return end
            ends.add(end)
        return STUCK if STUCK in ends else TOO_MANY

    def _device(self, key: RequestKey, number: int, start: int) -> Steps:
        """Allocate the request's device of this number, and all that comes after it.

        start: the first candidate. Those before it were tried for the devices before: their order doesn't
        matter.
        """
        self._check_time()
        request = self._requests[key]
        if request.all_devices is not None and not request.all_devices:
            return STUCK
        if len(self._chosen[key[0]]) + request.count - number > RESULTS_MAX_SIZE:
            return TOO_MANY
        if request.all_devices is not None:  # there is no choice
            of_pool, device = request.all_devices[number]
            if not self._take(key, self._pools[of_pool], device):
                return STUCK
            end = yield self._after(key, number, 0)
            if end is not FOUND:
                self._give_back(key, self._pools[of_pool], device)
            return end
        for at in range(start, len(self._candidates)):
            pool, device = self._candidates[at]
            if (
                not self._is_in_use(request, device.id, key[0])
                and self._selects(key, request, device)
                and self._has_enough(request, device)
                and self._take(key, pool, device)
            ):
                end = yield self._after(key, number, at + 1)
                if end is FOUND:
                    return end
                self._give_back(key, pool, device)
                if end is TOO_MANY:
                    return end
        return STUCK

    def _after(self, key: RequestKey, number: int, start: int) -> Steps:
        """What comes after the request's device of this number."""
        if number + 1 < self._requests[key].count:
            return self._device(key, number + 1, start)
        return self._request(key[0], key[1] + 1)

    def _take(self, key: RequestKey, pool: Pool, device: PoolDevice) -> bool:
        """Take a device that is selected, if it is free, tolerated, and suits the constraints."""
        index, request = key[0], self._requests[key]
        is_shared = device.device.allow_multiple_allocations
        if request.spec.admin_access:
            if not is_shared and index in self._in_use[device.id]:
                return False
        elif self._is_in_use(request, device.id, index):
            return False
        # As in kube-scheduler, counters stay taken if the device isn't tolerated or doesn't suit.
        has_share = device.id in self._allocator.taken.consumed or device.id in self._consumed
        if (
            device.device.consumes_counters
            and not (is_shared and has_share)
            and not self._counters.take(pool, device.device)
        ):
            return False
        if any(not is_tolerated(taint, request.spec.tolerations) for taint in device.device.taints):
            return False
        for number, constraint in enumerate(self._constraints[index]):
            if not constraint.add(request, device):
                if request.all_devices is not None:
                    raise AllocationError(
                        f"claim {self._claims[index]}, request {request.name}: cannot add device "
                        f"{device.id} because a claim constraint would not be satisfied"
                    )
                for before in self._constraints[index][:number]:
                    before.remove(request)
                return False
        if not is_shared:
            self._in_use[device.id].add(index)
        if not self._has_enough(request, device):
            return False
        share_id, consumed = None, dict[str, str]()
        if is_shared:
            share_id = self._allocator.share_id()
            consumed = consumed_by(device.device, request.spec.capacity)
            self._consumed[device.id] = added(self._consumed.get(device.id, {}), consumed)
        self._chosen[index].append(ChosenDevice(request, device, share_id, consumed))
        return True

    def _give_back(self, key: RequestKey, pool: Pool, device: PoolDevice) -> None:
        """Undo `_take`."""
        index, request = key[0], self._requests[key]
        chosen = self._chosen[index].pop()
        for constraint in self._constraints[index]:
            constraint.remove(request)
        self._in_use[device.id].discard(index)
        if device.device.allow_multiple_allocations:
            # As in kube-scheduler, a device without capacities stays one that is shared already.
            if chosen.consumed and device.id in self._consumed:
                self._consumed[device.id] = added(self._consumed[device.id], chosen.consumed, -1)
                if not any(self._consumed[device.id].values()):
                    del self._consumed[device.id]
        elif device.device.consumes_counters:
            self._counters.give_back(pool, device.device)

    def _is_in_use(self, request: RequestToMeet, device: DeviceId, index: int) -> bool:
        """Whether a device can't be had. With admin access, that is so only if the claim has it already."""
        if request.spec.admin_access:
            return index in self._in_use[device]
        return device in self._allocator.taken.devices or bool(self._in_use[device])

    def _has_enough(self, request: RequestToMeet, device: PoolDevice) -> bool:
        """Whether a device has the capacities that a request wants."""
        consumed = self._allocator.taken.consumed.get(device.id, {})
        if ours := self._consumed.get(device.id):
            consumed = {name: consumed.get(name, 0) + ours.get(name, 0) for name in {**consumed, **ours}}
        return is_enough(device.device, request.spec.capacity, consumed)

    def _selects(self, key: RequestKey, request: RequestToMeet, device: PoolDevice) -> bool:
        """Whether the selectors of a request and of its class match a device, and the node can reach it."""
        if (known := self._matches.get((device.id, key))) is not None:
            return known
        self._check_time()
        of_class = request.device_class
        found = (
            self._all_match(f"class {of_class.metadata.name}", of_class.spec.selectors, device)
            and self._all_match(f"claim {self._claims[key[0]]}", request.spec.selectors, device)
            and (
                not device.slice.spec.per_device_node_selection
                or self._allocator.pools.reaches(device.device, self._node)
            )
        )
        self._matches[device.id, key] = found
        return found

    def _all_match(self, whose: str, selectors: Sequence[DeviceSelector], device: PoolDevice) -> bool:
        of, driver = self._allocator.selectors, device.id.driver
        try:
            return of.match_all(selectors, device.device, driver, self._check_time)
        except SelectorError as error:
            raise AllocationError(f"{whose}: {error}") from None


def is_tolerated(taint: DeviceTaint, tolerations: Sequence[DeviceToleration]) -> bool:
    """Whether a taint doesn't matter. Source: k8s.io/dynamic-resource-allocation/resourceclaim."""
    return taint.effect not in ("NoSchedule", "NoExecute") or any(
        toleration.effect in ("", taint.effect)
        and toleration.key in ("", taint.key)
        and (
            toleration.operator == "Exists"
            or (toleration.operator in ("", "Equal") and toleration.value == taint.value)
        )
        for toleration in tolerations
    )
