"""What is read from the API server and written to it: only the fields that are used.

Fields carry the API's names in snake case (`nodeName` is `node_name`); what isn't listed here is skipped
unread. A value of the wrong type, or a quantity that is none, fails with msgspec.ValidationError, whose
text names the path.
"""

import re
from datetime import datetime
from typing import Annotated, Any, NamedTuple

import msgspec

from lib.kube.quantity import Quantity


class Object(msgspec.Struct, rename="camel", omit_defaults=True, gc=False):
    """Base of all API structures. Those with a `tag` have it as their `kind`, and are no other kind.

    They hold each other as a tree, never in a circle: the garbage collector needn't look at them.
    """


class Value(msgspec.Struct, rename="camel", omit_defaults=True, frozen=True, gc=False):
    """Base of parts that are compared and used as keys, and never changed."""


Time = Annotated[datetime, msgspec.Meta(tz=True)]
"""metav1.Time: a moment, to the second."""


# --- metadata -------------------------------------------------------------------------------------------


class OwnerReference(Object):
    """What an object belongs to; `controller` marks the one that made it."""

    kind: str = ""
    name: str = ""
    uid: str = ""
    api_version: str = ""
    controller: bool = False


class ControllerRef(NamedTuple):
    """Names the controller of a pod. As the pod's author writes it, the pod's own namespace is part of it."""

    namespace: str
    api_version: str
    kind: str
    name: str
    uid: str


class ObjectMeta(Object):
    """metav1.ObjectMeta."""

    name: str = ""
    generate_name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""
    creation_timestamp: Time | None = None
    deletion_timestamp: Time | None = None
    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}
    owner_references: list[OwnerReference] = []


# --- selectors ------------------------------------------------------------------------------------------


class Requirement(Value, frozen=True):
    """One expression of a selector."""

    key: str
    operator: str
    values: tuple[str, ...] = ()


class LabelSelector(Object):
    """metav1.LabelSelector: all of it must hold; an empty one holds for everything."""

    match_labels: dict[str, str] = {}
    match_expressions: tuple[Requirement, ...] = ()


# --- pods -----------------------------------------------------------------------------------------------


class ResourceRequirements(Object):
    """Requests by resource name."""

    requests: dict[str, Quantity] = {}


class ContainerPort(Object):
    """A port; one with a `host_port` takes that on its node, on all addresses unless `host_ip` names one."""

    host_port: int = 0
    host_ip: str = msgspec.field(default="", name="hostIP")
    protocol: str = "TCP"


class ContainerRestartRule(Object):
    """What is done when a container exits, such as "Restart" or "RestartAllContainers"."""

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
    """Names a claim of the pod's namespace."""

    claim_name: str = ""


class EphemeralVolumeSource(Object):
    """A claim of the pod's own: `<pod>-<volume>`, made and deleted with the pod."""


class GCEPersistentDiskVolumeSource(Object):
    """A disk of Google's cloud."""

    pd_name: str = ""
    read_only: bool = False


class AWSElasticBlockStoreVolumeSource(Object):
    """A disk of Amazon's cloud."""

    volume_id: str = msgspec.field(default="", name="volumeID")


class AzureDiskVolumeSource(Object):
    """A disk of Microsoft's cloud."""

    disk_uri: str = msgspec.field(default="", name="diskURI")


class CinderVolumeSource(Object):
    """A disk of OpenStack's."""

    volume_id: str = msgspec.field(default="", name="volumeID")


class InTreeSources(Object):
    """The kinds of disks that Kubernetes once attached itself, and now leaves to CSI drivers."""

    gce_persistent_disk: GCEPersistentDiskVolumeSource | None = None
    aws_elastic_block_store: AWSElasticBlockStoreVolumeSource | None = None
    azure_disk: AzureDiskVolumeSource | None = None
    cinder: CinderVolumeSource | None = None


class ISCSIVolumeSource(Object):
    """A disk behind iSCSI."""

    iqn: str = ""
    read_only: bool = False


class RBDVolumeSource(Object):
    """An image of a Ceph cluster, which is known by its monitors."""

    monitors: list[str] = []
    pool: str = ""
    image: str = ""
    read_only: bool = False


class CSIVolumeSource(Object):
    """A volume that a CSI driver makes for this pod alone."""

    driver: str = ""


class Volume(InTreeSources):
    """A volume, as far as the place of a pod depends on it."""

    name: str = ""
    image: ImageVolumeSource | None = None
    persistent_volume_claim: PersistentVolumeClaimVolumeSource | None = None
    ephemeral: EphemeralVolumeSource | None = None
    iscsi: ISCSIVolumeSource | None = None
    rbd: RBDVolumeSource | None = None
    csi: CSIVolumeSource | None = None


class Toleration(Value, frozen=True):
    """Of a taint; an empty key with `Exists` tolerates every taint, an empty effect every effect."""

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
    """A node that matches is worth `weight` (1 to 100) more."""

    weight: int
    preference: NodeSelectorTerm


class NodeAffinity(Object):
    """Which nodes a pod requires, and which it likes."""

    required_during_scheduling_ignored_during_execution: NodeSelector | None = None
    preferred_during_scheduling_ignored_during_execution: list[PreferredSchedulingTerm] = []


class PodAffinityTerm(Object):
    """Pods to be near to, or far from: those in the same domain of `topology_key` that the selector matches.

    Without namespaces and namespace selector those of the pod's own namespace are meant.
    """

    topology_key: str
    label_selector: LabelSelector | None = None
    namespaces: tuple[str, ...] = ()
    namespace_selector: LabelSelector | None = None
    match_label_keys: tuple[str, ...] = ()
    mismatch_label_keys: tuple[str, ...] = ()


class WeightedPodAffinityTerm(Object):
    """A term that is worth `weight` (1 to 100)."""

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
    """Names a claim to devices (dynamic resource allocation)."""

    name: str = ""


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
    node_selector: dict[str, str] = {}
    affinity: Affinity = msgspec.field(default_factory=Affinity)
    tolerations: list[Toleration] = []
    topology_spread_constraints: list[TopologySpreadConstraint] = []
    volumes: list[Volume] = []
    scheduling_gates: list[SchedulingGate] = []
    host_network: bool = False
    host_users: bool | None = None
    resource_claims: list[PodResourceClaim] = []


class PodCondition(Object):
    """One of a pod's conditions; `type` tells which."""

    type: str
    status: str
    reason: str = ""
    message: str = ""
    last_transition_time: Time | None = None


class ContainerStatus(Object):
    """What a container has been given, while it is being resized: `resources` in effect, and as allotted."""

    name: str = ""
    resources: ResourceRequirements | None = None
    allocated_resources: dict[str, Quantity] = {}


class PodStatus(Object):
    """How a pod fares."""

    phase: str = ""
    nominated_node_name: str = ""
    start_time: Time | None = None
    container_statuses: list[ContainerStatus] = []
    init_container_statuses: list[ContainerStatus] = []
    conditions: list[PodCondition] = []
    resources: ResourceRequirements | None = None
    allocated_resources: dict[str, Quantity] = {}


class Pod(Object, tag_field="kind", tag=True, eq=False):
    """core/v1 Pod. Two are equal only if they are the same one, so what is worked out of one can be kept."""

    metadata: ObjectMeta
    spec: PodSpec = msgspec.field(default_factory=PodSpec)
    status: PodStatus = msgspec.field(default_factory=PodStatus)

    def __str__(self) -> str:
        """`namespace/name`, as every message calls a pod."""
        return f"{self.metadata.namespace}/{self.metadata.name}"


# --- nodes ----------------------------------------------------------------------------------------------


class Taint(Object):
    """Keeps pods off a node that don't tolerate it."""

    key: str
    value: str = ""
    effect: str = ""


class NodeSpec(Object):
    """What was wished of a node."""

    unschedulable: bool = False
    taints: list[Taint] = []


class ContainerImage(Object):
    """An image that a node has pulled."""

    names: list[str] | None = None
    size_bytes: int = 0


class NodeStatus(Object):
    """What a node has."""

    allocatable: dict[str, Quantity] = {}
    images: list[ContainerImage] = []
    declared_features: list[str] = []


class Node(Object, tag_field="kind", tag=True, eq=False):
    """core/v1 Node. Two are equal only if they are the same one."""

    metadata: ObjectMeta
    spec: NodeSpec = msgspec.field(default_factory=NodeSpec)
    status: NodeStatus = msgspec.field(default_factory=NodeStatus)


# --- what pods belong to --------------------------------------------------------------------------------


class Namespace(Object, tag_field="kind", tag=True):
    """core/v1 Namespace."""

    metadata: ObjectMeta


class ServiceSpec(Object):
    """Which pods a service stands for; none when it has no selector."""

    selector: dict[str, str] = {}


class Service(Object, tag_field="kind", tag=True):
    """core/v1 Service."""

    metadata: ObjectMeta
    spec: ServiceSpec = msgspec.field(default_factory=ServiceSpec)


class PodDisruptionBudgetSpec(Object):
    """Which pods a budget protects."""

    selector: LabelSelector | None = None


class PodDisruptionBudgetStatus(Object):
    """How many of them may go, and which are going."""

    disruptions_allowed: int = 0
    disrupted_pods: dict[str, Time] = {}


class PodDisruptionBudget(Object, tag_field="kind", tag=True):
    """policy/v1 PodDisruptionBudget."""

    metadata: ObjectMeta
    spec: PodDisruptionBudgetSpec = msgspec.field(default_factory=PodDisruptionBudgetSpec)
    status: PodDisruptionBudgetStatus = msgspec.field(default_factory=PodDisruptionBudgetStatus)


class ControllerSpec(Object):
    """Which pods a controller looks after."""

    selector: LabelSelector | None = None


class ReplicaSet(Object, tag_field="kind", tag=True):
    """apps/v1 ReplicaSet."""

    spec: ControllerSpec
    metadata: ObjectMeta = msgspec.field(default_factory=ObjectMeta)


class StatefulSet(Object, tag_field="kind", tag=True):
    """apps/v1 StatefulSet."""

    spec: ControllerSpec
    metadata: ObjectMeta = msgspec.field(default_factory=ObjectMeta)


class ReplicationController(Object, tag_field="kind", tag=True):
    """core/v1 ReplicationController; it selects as a service does."""

    spec: ServiceSpec
    metadata: ObjectMeta = msgspec.field(default_factory=ObjectMeta)


class PodGroupSpec(Object):
    """How many pods of a group must be placed together."""

    min_member: int = 1


class PodGroup(Object, tag_field="kind", tag=True):
    """scheduling.x-k8s.io/v1alpha1 PodGroup, of the coscheduling plugin."""

    spec: PodGroupSpec = msgspec.field(default_factory=PodGroupSpec)
    metadata: ObjectMeta = msgspec.field(default_factory=ObjectMeta)


# --- what poller writes ---------------------------------------------------------------------------------


class ObjectReference(Object):
    """Names another object."""

    kind: str
    name: str
    namespace: str = ""
    uid: str = ""
    api_version: str = ""


class Binding(Object, tag_field="kind", tag=True):
    """core/v1 Binding: this pod runs on that node."""

    metadata: ObjectMeta
    target: ObjectReference


class EventSource(Object):
    """Who says it."""

    component: str = ""


class Event(Object, tag_field="kind", tag=True):
    """core/v1 Event."""

    metadata: ObjectMeta
    involved_object: ObjectReference
    reason: str = ""
    message: str = ""
    type: str = ""
    source: EventSource = msgspec.field(default_factory=EventSource)
    count: int = 0
    first_timestamp: Time | None = None
    last_timestamp: Time | None = None


class LeaseSpec(Value, frozen=True):
    """Who holds a lease; times are MicroTimes, always with six digits after the seconds."""

    holder_identity: str | None = None
    lease_duration_seconds: int | None = None
    acquire_time: str | None = None
    renew_time: str | None = None
    lease_transitions: int | None = None


class Lease(Object, tag_field="kind", tag=True):
    """coordination.k8s.io/v1 Lease; its metadata are kept whole, to be put back as they were."""

    metadata: dict[str, Any]
    spec: LeaseSpec = LeaseSpec()


# --- what the API server says of a request --------------------------------------------------------------


class Status(Object, tag_field="kind", tag=True):
    """metav1.Status: how a request went, in the API server's words."""

    status: str
    reason: str = ""
    message: str = ""
    code: int = 0


UNREADABLE = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)
"""What is raised when JSON can't be read as objects."""


def decode_hook(kind: type, raw: Any) -> Any:
    """Read what msgspec doesn't know of itself: quantities, which the API also takes as bare numbers."""
    if kind is Quantity:
        return Quantity.parse(str(raw))
    raise NotImplementedError(kind)


def is_object_name(text: str) -> bool:
    """Whether an object can have this name, as most can (apimachinery's validation, NameIsDNSSubdomain)."""
    return len(text) <= 253 and bool(re.fullmatch("[a-z0-9]([-.a-z0-9]*[a-z0-9])?", text))
