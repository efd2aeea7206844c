"""What is read from the API server and written to it: only the fields that are used.

Fields carry the API's names in snake case (`nodeName` is `node_name`); what isn't listed here is skipped
unread. A value of the wrong type, or a quantity that is none, fails with msgspec.ValidationError, whose
text names the path.
"""

from datetime import datetime
from typing import Annotated, Any

import msgspec

from lib.kube.quantity import Quantity


class Object(msgspec.Struct, rename="camel", omit_defaults=True):
    """Base of all API structures. Those with a `tag` have it as their `kind`, and are no other kind."""


Time = Annotated[datetime, msgspec.Meta(tz=True)]
"""metav1.Time: a moment, to the second."""


# --- metadata -------------------------------------------------------------------------------------------


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


# --- pods -----------------------------------------------------------------------------------------------


class ResourceRequirements(Object):
    """Requests by resource name."""

    requests: dict[str, Quantity] = {}


class Container(Object):
    """A container, or an init container; `restart_policy` "Always" makes the latter a sidecar."""

    name: str = ""
    resources: ResourceRequirements = msgspec.field(default_factory=ResourceRequirements)
    restart_policy: str = ""


class Toleration(Object):
    """Of a taint; an empty key with `Exists` tolerates every taint, an empty effect every effect."""

    key: str = ""
    operator: str = "Equal"
    value: str = ""
    effect: str = ""


class Requirement(Object):
    """One expression of a node selector term."""

    key: str
    operator: str
    values: tuple[str, ...] = ()


class NodeSelectorTerm(Object):
    """All of its expressions must hold; a term without any holds for no node."""

    match_expressions: tuple[Requirement, ...] = ()
    match_fields: tuple[Requirement, ...] = ()


class NodeSelector(Object):
    """One of its terms must hold."""

    node_selector_terms: tuple[NodeSelectorTerm, ...] = ()


class NodeAffinity(Object):
    """Which nodes a pod requires."""

    required_during_scheduling_ignored_during_execution: NodeSelector | None = None


class Affinity(Object):
    """A pod's affinities."""

    node_affinity: NodeAffinity | None = None


class SchedulingGate(Object):
    """While a pod has one, no scheduler may touch it."""

    name: str = ""


class PodSpec(Object):
    """What a pod asks for."""

    scheduler_name: str = ""
    node_name: str = ""
    priority: int = 0
    containers: list[Container] = []
    init_containers: list[Container] = []
    resources: ResourceRequirements = msgspec.field(default_factory=ResourceRequirements)
    overhead: dict[str, Quantity] = {}
    node_selector: dict[str, str] = {}
    affinity: Affinity = msgspec.field(default_factory=Affinity)
    tolerations: list[Toleration] = []
    scheduling_gates: list[SchedulingGate] = []


class PodCondition(Object):
    """One of a pod's conditions; `type` tells which."""

    type: str
    status: str
    reason: str = ""
    message: str = ""
    last_transition_time: Time | None = None


class PodStatus(Object):
    """How a pod fares."""

    phase: str = ""
    conditions: list[PodCondition] = []


class Pod(Object, tag_field="kind", tag=True):
    """core/v1 Pod."""

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


class NodeStatus(Object):
    """What a node has."""

    allocatable: dict[str, Quantity] = {}


class Node(Object, tag_field="kind", tag=True):
    """core/v1 Node."""

    metadata: ObjectMeta
    spec: NodeSpec = msgspec.field(default_factory=NodeSpec)
    status: NodeStatus = msgspec.field(default_factory=NodeStatus)


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


# --- what the API server says of a request --------------------------------------------------------------


class Status(Object, tag_field="kind", tag=True):
    """metav1.Status: how a request went, in the API server's words."""

    status: str
    reason: str = ""
    message: str = ""


def decode_hook(kind: type, raw: Any) -> Any:
    """Read what msgspec doesn't know of itself: quantities, which the API also takes as bare numbers."""
    if kind is Quantity:
        return Quantity.parse(str(raw))
    raise NotImplementedError(kind)
