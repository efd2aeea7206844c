"""What a claim gets, as its status has it: devices, their configurations, and the nodes where they are.

Source: k8s.io/dynamic-resource-allocation/structured/internal/incubating/allocator_incubating.go (Allocate,
createNodeSelector)
"""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

from lib.kube.devices import (
    AllocationResult,
    DeviceAllocationConfiguration,
    DeviceAllocationResult,
    DeviceClass,
    DeviceRequestAllocationResult,
    ExactDeviceRequest,
    ResourceClaim,
)
from lib.kube.objects import NodeSelector, NodeSelectorTerm, Requirement
from lib.scheduling.devices.pools import PoolDevice


@dataclass
class RequestToMeet:
    """A request, or a subrequest of `parent`: so many devices of a class.

    all_devices: those that are wanted if all are; None if any will do.
    """

    name: str
    parent: str
    spec: ExactDeviceRequest
    device_class: DeviceClass
    count: int = 0
    all_devices: Sequence[tuple[int, PoolDevice]] | None = None

    @property
    def full_name(self) -> str:
        """The name with the parent's."""
        return f"{self.parent}/{self.name}" if self.parent else self.name

    def is_one_of(self, names: Collection[str]) -> bool:
        """Whether it is named, or its parent; if there are no names, all requests are meant."""
        return not names or self.full_name in names or self.parent in names


@dataclass
class ChosenDevice:
    """A device for a request. consumed: what the request takes of its capacities."""

    request: RequestToMeet
    device: PoolDevice
    share_id: str | None
    consumed: dict[str, str]


def allocation_of(
    claim: ResourceClaim, chosen: Iterable[ChosenDevice], met: Sequence[RequestToMeet], node_name: str
) -> AllocationResult:
    """What a claim gets. met: for each of its requests, that or the subrequest that was chosen."""
    chosen = list(chosen)
    return AllocationResult(
        DeviceAllocationResult(tuple(map(_result_of, chosen)), (*_configurations(claim, met),)),
        _node_selector([choice.device for choice in chosen], node_name),
    )


def _result_of(chosen: ChosenDevice) -> DeviceRequestAllocationResult:
    (driver, pool, name), device, _ = chosen.device
    return DeviceRequestAllocationResult(
        chosen.request.full_name,
        driver,
        pool,
        name,
        chosen.request.spec.admin_access or None,
        chosen.request.spec.tolerations,
        device.binding_conditions,
        device.binding_failure_conditions,
        chosen.share_id,
        chosen.consumed,
    )


def _configurations(
    claim: ResourceClaim, met: Sequence[RequestToMeet]
) -> Iterable[DeviceAllocationConfiguration]:
    """Those of the classes, each once with all its requests; then those of the claim that are about them."""
    by_class: dict[str, list[RequestToMeet]] = {}
    for request in met:
        by_class.setdefault(request.device_class.metadata.name, []).append(request)
    for requests in by_class.values():
        names = tuple(request.full_name for request in requests)
        for configuration in requests[0].device_class.spec.config:
            yield DeviceAllocationConfiguration(configuration.opaque, "FromClass", names)
    for own in claim.spec.devices.config:
        made = DeviceAllocationConfiguration(own.opaque, "FromClaim", own.requests)
        # Once for each request that it names, as in kube-scheduler.
        yield from [made] * (sum(request.is_one_of(own.requests) for request in met) if own.requests else 1)


def _node_selector(devices: Iterable[PoolDevice], node_name: str) -> NodeSelector | None:
    """The nodes where a claim's devices can be used: this one, those that suit all devices, or any."""
    fields: list[Requirement] = []
    expressions: list[Requirement] = []
    for _, device, of_slice in devices:
        where = device if of_slice.spec.per_device_node_selection else of_slice.spec
        if where.node_name or device.binds_to_node:
            this = Requirement("metadata.name", "In", (node_name,))
            return NodeSelector((NodeSelectorTerm(match_fields=(this,)),))
        for term in where.node_selector.node_selector_terms[:1] if where.node_selector else ():
            _add_new(term.match_fields, fields)
            _add_new(term.match_expressions, expressions)
    if fields or expressions:
        return NodeSelector((NodeSelectorTerm(tuple(expressions), tuple(fields)),))
    return None


def _add_new(more: Iterable[Requirement], to: list[Requirement]) -> None:
    for requirement in more:
        if not any(
            (requirement.key, requirement.operator, {*requirement.values})
            == (there.key, there.operator, {*there.values})
            for there in to
        ):
            to.append(requirement)
