"""The API's objects about devices, resource.k8s.io/v1: only the fields that are used.

A driver tells of its devices in ResourceSlices. A DeviceClass says which of them are of a kind. A
ResourceClaim requests some, and its status says which it has got.

Source: staging/src/k8s.io/api/resource/v1/types.go
"""

from collections.abc import Sequence
from typing import Annotated

import msgspec

from lib.kube.objects import NamedObject, NodeSelector, Object, PodCondition, Time, Value

Amount = Annotated[
    str, msgspec.Meta(pattern=r"^[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([KMGTPE]i|[numkMGTPE]|[eE][+-]?[0-9]+)?$")
]
"""A quantity as it is written: an allocation repeats it. `Quantity.parse` reads it."""

RESULTS_MAX_SIZE = 32
"""The most devices that a claim can have (AllocationResultsMaxSize)."""


# --- what there is --------------------------------------------------------------------------------------


class DeviceAttribute(Value, frozen=True):
    """A value, of one of these types."""

    int_value: int | None = msgspec.field(default=None, name="int")
    bool_value: bool | None = msgspec.field(default=None, name="bool")
    string_value: str | None = msgspec.field(default=None, name="string")
    version_value: str | None = msgspec.field(default=None, name="version")


class CapacityRequestPolicyRange(Value, frozen=True):
    """Requests are rounded up to `min` and a number of `step`s; above `max` they aren't met."""

    min: Amount | None = None
    max: Amount | None = None
    step: Amount | None = None


class CapacityRequestPolicy(Value, frozen=True):
    """How much of a capacity may be requested. `default` is for requests that name no amount."""

    default: Amount | None = None
    valid_values: tuple[Amount, ...] = ()
    valid_range: CapacityRequestPolicyRange | None = None


class DeviceCapacity(Value, frozen=True):
    """How much of something a device has."""

    value: Amount
    request_policy: CapacityRequestPolicy | None = None


class Counter(Value, frozen=True):
    """An amount of what devices of a pool share, such as the memory of a GPU with partitions."""

    value: Amount


class CounterSet(Object):
    """Counters by name."""

    name: str
    counters: dict[str, Counter] = msgspec.field(default_factory=dict)


class DeviceCounterConsumption(Object):
    """What a device takes of a set of counters while it is in use."""

    counter_set: str
    counters: dict[str, Counter] = msgspec.field(default_factory=dict)


class DeviceTaint(Value, frozen=True):
    """A reason not to use a device, unless a request tolerates it."""

    key: str
    value: str = ""
    effect: str = ""


class Device(Object):
    """A device. The names of attributes and capacities are DOMAIN/ID, or ID alone for the driver's domain."""

    name: str
    attributes: dict[str, DeviceAttribute] = msgspec.field(default_factory=dict)
    capacity: dict[str, DeviceCapacity] = msgspec.field(default_factory=dict)
    consumes_counters: tuple[DeviceCounterConsumption, ...] = ()
    node_name: str | None = None
    node_selector: NodeSelector | None = None
    all_nodes: bool = False
    taints: tuple[DeviceTaint, ...] = ()
    binds_to_node: bool = False
    binding_conditions: tuple[str, ...] = ()
    binding_failure_conditions: tuple[str, ...] = ()
    allow_multiple_allocations: bool = False


class ResourcePool(Value, frozen=True):
    """The pool of a slice: complete if it has so many slices of the newest generation."""

    name: str
    generation: int = 0
    resource_slice_count: int = 0


class ResourceSliceSpec(Object):
    """Devices of a driver, for one node, for some, for all, or as each device says."""

    driver: str
    pool: ResourcePool
    node_name: str | None = None
    node_selector: NodeSelector | None = None
    all_nodes: bool = False
    devices: tuple[Device, ...] = ()
    per_device_node_selection: bool = False
    shared_counters: tuple[CounterSet, ...] = ()


class ResourceSlice(NamedObject):
    """resource.k8s.io/v1 ResourceSlice."""

    spec: ResourceSliceSpec


# --- what is wanted -------------------------------------------------------------------------------------


class CELDeviceSelector(Value, frozen=True):
    """An expression about the variable `device`."""

    expression: str


class DeviceSelector(Value, frozen=True):
    """Selects devices."""

    cel: CELDeviceSelector | None = None


class DeviceToleration(Value, frozen=True):
    """Lets a request have devices with a taint."""

    key: str = ""
    operator: str = ""
    value: str = ""
    effect: str = ""
    toleration_seconds: int | None = None


class CapacityRequirements(Object):
    """How much of capacities a request needs, by their names."""

    requests: dict[str, Amount] = msgspec.field(default_factory=dict)


class ExactDeviceRequest(Object):
    """A number of devices of a class, or all of them. By the API's default it is one."""

    device_class_name: str = ""
    selectors: tuple[DeviceSelector, ...] = ()
    allocation_mode: str = ""
    count: int = 0
    admin_access: bool | None = None
    tolerations: tuple[DeviceToleration, ...] = ()
    capacity: CapacityRequirements | None = None

    def __post_init__(self) -> None:
        """Manifests leave defaults out; they are written nevertheless, as kube-scheduler does."""
        self.allocation_mode = self.allocation_mode or "ExactCount"
        if self.allocation_mode == "ExactCount":
            self.count = self.count or 1


class DeviceSubRequest(ExactDeviceRequest):
    """One of several ways to meet a request."""

    name: str = ""


class DeviceRequest(Object):
    """A request: exactly one thing, or the first of several that is available."""

    name: str
    exactly: ExactDeviceRequest | None = None
    first_available: tuple[DeviceSubRequest, ...] = ()

    @property
    def options(self) -> Sequence[tuple[str, ExactDeviceRequest]]:
        """What is requested, each with its full name: the best first, if it is one of several things."""
        several = [(f"{self.name}/{option.name}", option) for option in self.first_available]
        return several or [(self.name, self.exactly or ExactDeviceRequest())]


class DeviceConstraint(Object):
    """Devices of these requests, or of all, have the same value of an attribute, or each has its own."""

    requests: tuple[str, ...] = ()
    match_attribute: str | None = None
    distinct_attribute: str | None = None


class OpaqueDeviceConfiguration(Object):
    """What a driver is told. Nobody else reads it."""

    driver: str = ""
    parameters: msgspec.Raw = msgspec.Raw(b"null")


class DeviceConfiguration(Object):
    """A configuration, as a class has it."""

    opaque: OpaqueDeviceConfiguration | None = None


class DeviceClaimConfiguration(DeviceConfiguration):
    """A configuration for some requests; for all, if it names none."""

    requests: tuple[str, ...] = ()


class DeviceClaim(Object):
    """What a claim requests."""

    requests: tuple[DeviceRequest, ...] = ()
    constraints: tuple[DeviceConstraint, ...] = ()
    config: tuple[DeviceClaimConfiguration, ...] = ()


class ResourceClaimSpec(Object):
    """What a claim requests."""

    devices: DeviceClaim = msgspec.field(default_factory=DeviceClaim)


class DeviceClassSpec(Object):
    """Devices of a class: those that all selectors match."""

    selectors: tuple[DeviceSelector, ...] = ()
    config: tuple[DeviceConfiguration, ...] = ()
    extended_resource_name: str | None = None


class DeviceClass(NamedObject):
    """resource.k8s.io/v1 DeviceClass."""

    spec: DeviceClassSpec = msgspec.field(default_factory=DeviceClassSpec)


# --- what a claim has got -------------------------------------------------------------------------------


class DeviceRequestAllocationResult(Object):
    """A device for a request. share_id: which share of it, if several may use it."""

    request: str
    driver: str
    pool: str
    device: str
    admin_access: bool | None = None
    tolerations: tuple[DeviceToleration, ...] = ()
    binding_conditions: tuple[str, ...] = ()
    binding_failure_conditions: tuple[str, ...] = ()
    share_id: str | None = msgspec.field(default=None, name="shareID")
    consumed_capacity: dict[str, Amount] = msgspec.field(default_factory=dict)


class DeviceAllocationConfiguration(DeviceConfiguration):
    """A configuration for the devices of these requests, and whether the class or the claim has it."""

    source: str = ""  # FromClass, FromClaim
    requests: tuple[str, ...] = ()


class DeviceAllocationResult(Object):
    """The devices, and their configurations."""

    results: tuple[DeviceRequestAllocationResult, ...] = ()
    config: tuple[DeviceAllocationConfiguration, ...] = ()


class AllocationResult(Object):
    """What a claim has got. node_selector: the nodes where it can be used; all, if there is none."""

    devices: DeviceAllocationResult = msgspec.field(default_factory=DeviceAllocationResult)
    node_selector: NodeSelector | None = None
    allocation_timestamp: Time | None = None


class ResourceClaimConsumerReference(Value, frozen=True):
    """The pod that uses a claim."""

    resource: str = ""
    name: str = ""
    uid: str = ""
    api_group: str = ""


class AllocatedDeviceStatus(Object):
    """What a driver says of a device that a claim has."""

    driver: str
    pool: str
    device: str
    share_id: str | None = msgspec.field(default=None, name="shareID")
    conditions: tuple[PodCondition, ...] = ()


class ResourceClaimStatus(Object):
    """What a claim has got, and who uses it."""

    allocation: AllocationResult | None = None
    reserved_for: tuple[ResourceClaimConsumerReference, ...] = ()
    devices: tuple[AllocatedDeviceStatus, ...] = ()


class ResourceClaim(NamedObject):
    """resource.k8s.io/v1 ResourceClaim."""

    spec: ResourceClaimSpec = msgspec.field(default_factory=ResourceClaimSpec)
    status: ResourceClaimStatus = msgspec.field(default_factory=ResourceClaimStatus)


class ResourceClaimTemplateSpec(Object):
    """What the claims of a template are like."""

    spec: ResourceClaimSpec = msgspec.field(default_factory=ResourceClaimSpec)


class ResourceClaimTemplate(NamedObject):
    """resource.k8s.io/v1 ResourceClaimTemplate: each pod that names it gets a claim of its own."""

    spec: ResourceClaimTemplateSpec = msgspec.field(default_factory=ResourceClaimTemplateSpec)


DeviceObject = ResourceClaim | DeviceClass | ResourceSlice
"""The kinds that are read."""
