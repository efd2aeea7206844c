"""The API's objects: only the fields that are used.

Fields have the API's names in snake case (`nodeName` is `node_name`). Fields that aren't listed here are
skipped. A value of the wrong type, or an invalid quantity, raises msgspec.ValidationError, whose text names
the path.
"""

import re
from datetime import datetime
from typing import Annotated, Any, NamedTuple, TypeVar

import msgspec

from lib.kube.quantity import Quantity


class Object(msgspec.Struct, rename="camel", omit_defaults=True, gc=False):
    """Base of all API structures. If it has a `tag`, `kind` must be that.

    They form a tree, without reference cycles: so the garbage collector needn't track them.
    """


class Value(msgspec.Struct, rename="camel", omit_defaults=True, frozen=True, gc=False):
    """Base of immutable parts: they can be compared and used as keys."""


Json = dict[str, Any]
"""An object as it is written, with the API's names."""

Time = Annotated[datetime, msgspec.Meta(tz=True)]
"""metav1.Time: a moment, to the second."""

MAX_NAME = 253
"""The most characters of an object's name, which is a DNS subdomain."""

HOSTNAME = "kubernetes.io/hostname"
ZONE, REGION = "topology.kubernetes.io/zone", "topology.kubernetes.io/region"
BETA_ZONE = "failure-domain.beta.kubernetes.io/zone"
BETA_REGION = "failure-domain.beta.kubernetes.io/region"
"""Labels of nodes that Kubernetes sets."""

SEVERAL_ZONES = "__"
"""Separates the zones of a volume's label that names several."""

CORDON_TAINT = "node.kubernetes.io/unschedulable"
"""The taint that cordoned nodes get."""


# --- metadata -------------------------------------------------------------------------------------------


class OwnerReference(Object):
    """An owner of an object. `controller` marks the one that manages it."""

    kind: str = ""
    name: str = ""
    uid: str = ""
    api_version: str = ""
    controller: bool = False


class ControllerRef(NamedTuple):
    """Names a pod's controller. The pod's author writes it, so it holds the pod's own namespace."""

    namespace: str
    api_version: str
    kind: str
    name: str
    uid: str


class Names(Object):
    """What names an object: these fields can be read even if the rest of its metadata can't."""

    name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""


class Named(Object):
    """Any object, with no more than its names."""

    metadata: Names


class ObjectMeta(Names):
    """metav1.ObjectMeta."""

    generate_name: str = ""
    generation: int = 0
    creation_timestamp: Time | None = None
    deletion_timestamp: Time | None = None
    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}
    owner_references: list[OwnerReference] = []
    finalizers: tuple[str, ...] = ()
    deletion_grace_period_seconds: int = 0


class NamedObject(Object, tag_field="kind", tag=True):
    """Base of what the API server has by kind and name."""

    metadata: ObjectMeta

    def __str__(self) -> str:
        """`namespace/name`, as in all messages; without a namespace, the name alone."""
        named = self.metadata
        return f"{named.namespace}/{named.name}" if named.namespace else named.name


# --- selectors ------------------------------------------------------------------------------------------


class Requirement(Value, frozen=True):
    """One expression of a selector."""

    key: str
    operator: str
    values: tuple[str, ...] = ()


class LabelSelector(Object):
    """metav1.LabelSelector: all of it must match; an empty one matches everything."""

    match_labels: dict[str, str] = {}
    match_expressions: tuple[Requirement, ...] = ()


# --- pods -----------------------------------------------------------------------------------------------


class ResourceRequirements(Object):
    """Requests and limits by resource name. No decision depends on limits: /metrics/resources shows them."""

    requests: dict[str, Quantity] = {}
    limits: dict[str, Quantity] = {}


class ContainerPort(Object):
    """A port. A `host_port` is taken on the node, on all addresses unless `host_ip` names one."""

    host_port: int = 0
    host_ip: str = msgspec.field(default="", name="hostIP")
    protocol: str = "TCP"


class ContainerRestartRule(Object):
    """The action when a container exits, such as "Restart" or "RestartAllContainers"."""

    action: str = ""


class Container(Object):
    """A container, or an init container; `restart_policy` "Always" makes the latter a sidecar."""

    name: str = ""
    image: str = ""
    resources: ResourceRequirements = msgspec.field(default_factory=ResourceRequirements)
    ports: list[ContainerPort] = []
    restart_policy: str = ""
    restart_policy_rules: list[ContainerRestartRule] = []


class ImageVolumeSource(Object):
    """An image whose content is mounted."""

    reference: str = ""


class PersistentVolumeClaimVolumeSource(Object):
    """Names a claim in the pod's namespace."""

    claim_name: str = ""


class EphemeralVolumeSource(Object):
    """The pod's own claim, `<pod>-<volume>`: it is created and deleted with the pod."""


class GCEPersistentDiskVolumeSource(Object):
    """A Google Compute Engine disk."""

    pd_name: str = ""
    read_only: bool = False


class AWSElasticBlockStoreVolumeSource(Object):
    """An Amazon EBS disk."""

    volume_id: str = msgspec.field(default="", name="volumeID")


class AzureDiskVolumeSource(Object):
    """A Microsoft Azure disk."""

    disk_uri: str = msgspec.field(default="", name="diskURI")


class CinderVolumeSource(Object):
    """An OpenStack Cinder disk."""

    volume_id: str = msgspec.field(default="", name="volumeID")


class PortworxVolumeSource(Object):
    """A Portworx volume."""

    volume_id: str = msgspec.field(default="", name="volumeID")


class InTreeSources(Object):
    """In-tree disks: Kubernetes once attached them itself, and now leaves them to CSI drivers."""

    gce_persistent_disk: GCEPersistentDiskVolumeSource | None = None
    aws_elastic_block_store: AWSElasticBlockStoreVolumeSource | None = None
    azure_disk: AzureDiskVolumeSource | None = None
    cinder: CinderVolumeSource | None = None
    portworx_volume: PortworxVolumeSource | None = None


class ISCSIVolumeSource(Object):
    """A disk behind iSCSI."""

    iqn: str = ""
    read_only: bool = False


class RBDVolumeSource(Object):
    """A Ceph RBD image; the monitors tell one Ceph cluster from another."""

    monitors: list[str] = []
    pool: str = ""
    image: str = ""
    read_only: bool = False


class CSIVolumeSource(Object):
    """A CSI ephemeral volume: the driver makes it for this pod alone."""

    driver: str = ""


class EmptyDirVolumeSource(Object):
    """A folder of the node that is deleted with the pod."""


class Volume(InTreeSources):
    """A volume: only the sources that scheduling or a drain depends on."""

    name: str = ""
    image: ImageVolumeSource | None = None
    persistent_volume_claim: PersistentVolumeClaimVolumeSource | None = None
    ephemeral: EphemeralVolumeSource | None = None
    iscsi: ISCSIVolumeSource | None = None
    rbd: RBDVolumeSource | None = None
    csi: CSIVolumeSource | None = None
    empty_dir: EmptyDirVolumeSource | None = None


class Toleration(Value, frozen=True):
    """A toleration. An empty key with `Exists` tolerates every taint, an empty effect every effect."""

    key: str = ""
    operator: str = "Equal"
    value: str = ""
    effect: str = ""


class NodeSelectorTerm(Value, frozen=True):
    """All of its expressions must hold; a term without any holds for no node."""

    match_expressions: tuple[Requirement, ...] = ()
    match_fields: tuple[Requirement, ...] = ()


class NodeSelector(Value, frozen=True):
    """One of its terms must hold."""

    node_selector_terms: tuple[NodeSelectorTerm, ...] = ()


class PreferredSchedulingTerm(Value, frozen=True):
    """A node that matches scores `weight` (1 to 100) more."""

    weight: int
    preference: NodeSelectorTerm


class NodeAffinity(Object):
    """Which nodes a pod requires, and which it prefers."""

    required_during_scheduling_ignored_during_execution: NodeSelector | None = None
    preferred_during_scheduling_ignored_during_execution: list[PreferredSchedulingTerm] = []


class PodAffinityTerm(Object):
    """Pods to be near to, or far from: the selector matches the pods, `topology_key` says what is near.

    Without namespaces and namespace selector, only pods of the pod's own namespace match.
    """

    topology_key: str
    label_selector: LabelSelector | None = None
    namespaces: tuple[str, ...] = ()
    namespace_selector: LabelSelector | None = None
    match_label_keys: tuple[str, ...] = ()
    mismatch_label_keys: tuple[str, ...] = ()


class WeightedPodAffinityTerm(Object):
    """A preferred term, with its weight (1 to 100)."""

    weight: int
    pod_affinity_term: PodAffinityTerm


class PodAffinity(Object):
    """Terms for pods to be near to; as anti-affinity, to be far from."""

    required_during_scheduling_ignored_during_execution: list[PodAffinityTerm] = []
    preferred_during_scheduling_ignored_during_execution: list[WeightedPodAffinityTerm] = []


class Affinity(Object):
    """A pod's affinities."""

    node_affinity: NodeAffinity | None = None
    pod_affinity: PodAffinity | None = None
    pod_anti_affinity: PodAffinity | None = None


class TopologySpreadConstraint(Object):
    """How evenly matching pods are to be spread over the domains of `topology_key`."""

    topology_key: str
    max_skew: int = 1
    when_unsatisfiable: str = "DoNotSchedule"
    label_selector: LabelSelector | None = None
    match_label_keys: tuple[str, ...] = ()
    min_domains: int | None = None
    node_affinity_policy: str = "Honor"
    node_taints_policy: str = "Ignore"


class SchedulingGate(Object):
    """While a pod has one, no scheduler may touch it."""

    name: str = ""


class PodResourceClaim(Object):
    """A pod's name for a ResourceClaim: one that exists, or one that is made for the pod from a template."""

    name: str = ""
    resource_claim_name: str | None = None
    resource_claim_template_name: str | None = None


class PodSchedulingGroup(Object):
    """The PodGroup with which a pod is scheduled."""

    pod_group_name: str = ""


class PodSpec(Object):
    """What a pod asks for."""

    scheduler_name: str = ""
    node_name: str = ""
    priority: int = 0
    preemption_policy: str = ""
    containers: list[Container] = []
    init_containers: list[Container] = []
    resources: ResourceRequirements = msgspec.field(default_factory=ResourceRequirements)
    overhead: dict[str, Quantity] = {}
    runtime_class_name: str | None = None
    node_selector: dict[str, str] = {}
    affinity: Affinity = msgspec.field(default_factory=Affinity)
    tolerations: list[Toleration] = []
    topology_spread_constraints: list[TopologySpreadConstraint] = []
    volumes: list[Volume] = []
    scheduling_gates: list[SchedulingGate] = []
    host_network: bool = False
    host_users: bool | None = None
    resource_claims: list[PodResourceClaim] = []
    scheduling_group: PodSchedulingGroup | None = None


class PodCondition(Object):
    """One of a pod's conditions; `type` tells which."""

    type: str
    status: str
    reason: str = ""
    message: str = ""
    last_transition_time: Time | None = None
    observed_generation: int = 0


DISRUPTED = "DisruptionTarget", "True", "PreemptionByScheduler"
"""The type, status and reason of the condition of a pod that a scheduler preempts."""


class ContainerStatus(Object):
    """A container's resources while it is resized: `resources` in effect, and those allocated."""

    name: str = ""
    resources: ResourceRequirements | None = None
    allocated_resources: dict[str, Quantity] = {}


class PodResourceClaimStatus(Object):
    """The ResourceClaim that was made for a pod. Without its name: none is needed."""

    name: str = ""
    resource_claim_name: str | None = None


class PodStatus(Object):
    """A pod's status."""

    phase: str = ""
    nominated_node_name: str = ""
    start_time: Time | None = None
    container_statuses: list[ContainerStatus] = []
    init_container_statuses: list[ContainerStatus] = []
    conditions: list[PodCondition] = []
    resources: ResourceRequirements | None = None
    allocated_resources: dict[str, Quantity] = {}
    resource_claim_statuses: list[PodResourceClaimStatus] = []


FINISHED = "status.phase!=Pending,status.phase!=Running,status.phase!=Unknown"
UNFINISHED = "status.phase!=Succeeded,status.phase!=Failed"
"""A field selector. Pods that have finished use no resources, whichever scheduler placed them."""


class Pod(NamedObject, eq=False):
    """core/v1 Pod. Compared by identity, so that results for a pod can be kept in a dict."""

    spec: PodSpec = msgspec.field(default_factory=PodSpec)
    status: PodStatus = msgspec.field(default_factory=PodStatus)

    @property
    def has_finished(self) -> bool:
        """Whether its containers have ended for good: it uses nothing of its node any more."""
        return self.status.phase in ("Succeeded", "Failed")


# --- nodes ----------------------------------------------------------------------------------------------


class Taint(Object):
    """Keeps pods that don't tolerate it off a node."""

    key: str
    value: str = ""
    effect: str = ""


class NodeSpec(Object):
    """A node's spec."""

    unschedulable: bool = False
    taints: list[Taint] = []


class ContainerImage(Object):
    """An image that a node has pulled."""

    names: list[str] | None = None
    size_bytes: int = 0


class NodeStatus(Object):
    """A node's status."""

    allocatable: dict[str, Quantity] = {}
    images: list[ContainerImage] = []
    declared_features: list[str] = []


class Node(NamedObject, eq=False):
    """core/v1 Node. Compared by identity."""

    spec: NodeSpec = msgspec.field(default_factory=NodeSpec)
    status: NodeStatus = msgspec.field(default_factory=NodeStatus)


# --- services, budgets, controllers ----------------------------------------------------------------------


class Namespace(NamedObject):
    """core/v1 Namespace."""


class ServiceSpec(Object):
    """Which pods a service selects; none without a selector."""

    selector: dict[str, str] = {}


class Service(NamedObject):
    """core/v1 Service."""

    spec: ServiceSpec = msgspec.field(default_factory=ServiceSpec)


class PodDisruptionBudgetSpec(Object):
    """Which pods a budget protects."""

    selector: LabelSelector | None = None
    unhealthy_pod_eviction_policy: str = ""


class PodDisruptionBudgetStatus(Object):
    """How many pods may be disrupted, and which are being disrupted."""

    disruptions_allowed: int = 0
    current_healthy: int = 0
    desired_healthy: int = 0
    expected_pods: int = 0
    conditions: list[PodCondition] = []
    disrupted_pods: dict[str, Time] = {}


class PodDisruptionBudget(NamedObject):
    """policy/v1 PodDisruptionBudget."""

    spec: PodDisruptionBudgetSpec = msgspec.field(default_factory=PodDisruptionBudgetSpec)
    status: PodDisruptionBudgetStatus = msgspec.field(default_factory=PodDisruptionBudgetStatus)


class ControllerSpec(Object):
    """Which pods a controller manages."""

    selector: LabelSelector | None = None


class ReplicaSet(NamedObject):
    """apps/v1 ReplicaSet."""

    spec: ControllerSpec


class StatefulSet(NamedObject):
    """apps/v1 StatefulSet."""

    spec: ControllerSpec


class ReplicationController(NamedObject):
    """core/v1 ReplicationController; it selects pods by labels, as a service."""

    spec: ServiceSpec


def selector_of(controller: ReplicaSet | StatefulSet | ReplicationController) -> LabelSelector | None:
    """Which pods a controller manages."""
    selector = controller.spec.selector
    return LabelSelector(selector) if isinstance(selector, dict) else selector


COSCHEDULING, KUBERNETES = "scheduling.x-k8s.io", "scheduling.k8s.io"
"""The API groups of the coscheduling plugin's PodGroups, and of Kubernetes' own."""


class PodGroupRef(NamedTuple):
    """Names a group of pods; `api` is the API group of its PodGroup, "" if it has none."""

    namespace: str
    name: str
    api: str = ""


class GangSchedulingPolicy(Object):
    """How many pods must be placed together."""

    min_count: int = 1


class PodGroupSchedulingPolicy(Object):
    """How the pods of a group are scheduled; without `gang`, each alone."""

    gang: GangSchedulingPolicy | None = None


class PodGroupSpec(Object):
    """How many pods of a group must be scheduled together."""

    min_member: int = 1
    scheduling_policy: PodGroupSchedulingPolicy | None = None


class PodGroup(NamedObject):
    """A PodGroup of Kubernetes (scheduling.k8s.io), or of the coscheduling plugin (scheduling.x-k8s.io).

    Only the first has a scheduling policy.
    """

    spec: PodGroupSpec = msgspec.field(default_factory=PodGroupSpec)

    @property
    def ref(self) -> PodGroupRef:
        """What names it."""
        api = KUBERNETES if self.spec.scheduling_policy else COSCHEDULING
        return PodGroupRef(self.metadata.namespace, self.metadata.name, api)

    @property
    def needed(self) -> int:
        """How many pods must be placed together; 0 if each may be placed alone."""
        policy = self.spec.scheduling_policy
        if policy is None:
            return self.spec.min_member
        return policy.gang.min_count if policy.gang else 0


class NodeMetrics(NamedObject):
    """metrics.k8s.io/v1beta1 NodeMetrics: what a node uses, on average of some seconds before `timestamp`."""

    timestamp: Time | None = None
    usage: dict[str, Quantity] = {}


# --- events, and what poller writes ---------------------------------------------------------------------


class ObjectReference(Object):
    """Names another object."""

    kind: str
    name: str
    namespace: str = ""
    uid: str = ""
    api_version: str = ""
    resource_version: str = ""


class Binding(NamedObject):
    """core/v1 Binding: assigns a pod to a node."""

    target: ObjectReference


class EventSource(Object):
    """The component that reports an event."""

    component: str = ""


class EventSeries(Object):
    """The number and the last time, in events of the new form."""

    count: int = 0
    last_observed_time: Time | None = None


class Event(NamedObject):
    """core/v1 Event, in both forms."""

    involved_object: ObjectReference
    reason: str = ""
    message: str = ""
    type: str = ""
    source: EventSource = msgspec.field(default_factory=EventSource)
    count: int = 0
    first_timestamp: Time | None = None
    last_timestamp: Time | None = None
    event_time: Time | None = None
    series: EventSeries | None = None
    action: str = ""
    related: ObjectReference | None = None
    reporting_component: str = ""
    reporting_instance: str = ""

    @property
    def said_at(self) -> datetime | None:
        """The last time of the event."""
        observed = self.series.last_observed_time if self.series else None
        return observed or self.last_timestamp or self.event_time or self.metadata.creation_timestamp

    @property
    def said_by(self) -> str:
        """The component that reported it."""
        return self.reporting_component or self.source.component

    @property
    def times(self) -> int:
        """The number of times."""
        return max(self.count, self.series.count if self.series else 0, 1)


class LeaseSpec(Value, frozen=True):
    """The holder of a lease. Times are MicroTimes: always six digits after the seconds."""

    holder_identity: str | None = None
    lease_duration_seconds: int | None = None
    acquire_time: str | None = None
    renew_time: str | None = None
    lease_transitions: int | None = None


class Lease(Object, tag_field="kind", tag=True):
    """coordination.k8s.io/v1 Lease. All of its metadata is kept, for the update."""

    metadata: dict[str, Any]
    spec: LeaseSpec = LeaseSpec()


# --- errors, copies, and decoding -----------------------------------------------------------------------


class Status(Object, tag_field="kind", tag=True):
    """metav1.Status: the API server's report about a request."""

    status: str
    reason: str = ""
    message: str = ""
    code: int = 0


T = TypeVar("T", bound=Object)


def with_parts(thing: T, **parts: dict[str, Any]) -> T:
    """A copy with other values of some fields of its parts, such as `spec={"node_name": "n1"}`."""
    replace = msgspec.structs.replace
    return replace(thing, **{name: replace(getattr(thing, name), **fields) for name, fields in parts.items()})


UNREADABLE = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)
"""The exceptions when JSON can't be decoded as objects."""


def decode_hook(kind: type, raw: Any) -> Any:
    """Decode types that msgspec doesn't know: quantities, which may also be plain numbers."""
    if kind is Quantity:
        return Quantity.parse(str(raw))
    raise NotImplementedError(kind)


def is_object_name(text: str) -> bool:
    """Whether a name is valid for most kinds of objects (apimachinery's validation, NameIsDNSSubdomain)."""
    return len(text) <= MAX_NAME and bool(re.fullmatch("[a-z0-9]([-.a-z0-9]*[a-z0-9])?", text))
