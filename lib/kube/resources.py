"""The resources of the API that poller uses, and what pods need of them: two tables.

Lists, watches, look-ups, snapshots and rights go by these. A plugin can name what it needs: a `Need`.
"""

import pkgutil
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, cast

from lib.kube.objects import (
    COSCHEDULING,
    KUBERNETES,
    ControllerRef,
    Namespace,
    Node,
    NodeMetrics,
    Object,
    Pod,
    PodDisruptionBudget,
    PodGroup,
    ReplicaSet,
    ReplicationController,
    Service,
    StatefulSet,
)
from lib.kube.resource_claims import may_need_devices


@dataclass(frozen=True, eq=False)
class Resource:
    """A resource of the API, and the rights to it."""

    plural: str
    """Its name in paths."""
    objects: type[Object] | str = ""
    """The class of its objects; or where that is in lib/kube, if few runs import it."""
    group: str = ""
    version: str = "v1"
    inside: bool = False
    """Whether rights in the served namespaces are enough."""
    reads: tuple[str, ...] = ()
    """The verbs with which it is read; it is watched only with --watch."""
    writes: tuple[str, ...] = ()
    elsewhere: str = ""
    """What is logged if those of namespaces that aren't served may not be read; "" if all are needed."""

    @property
    def kind(self) -> type[Any]:
        """The class of its objects."""
        if isinstance(self.objects, str):
            return cast(type[Any], pkgutil.resolve_name(f"lib.kube.{self.objects}"))
        return self.objects

    @property
    def api_version(self) -> str:
        """The version of its API, as objects have it: `v1`, `apps/v1`."""
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def api(self) -> str:
        """The path of its API: `/api/v1`, `/apis/apps/v1`."""
        return f"/apis/{self.api_version}" if self.group else f"/api/{self.version}"

    @property
    def path(self) -> str:
        """The path that lists all of its objects."""
        return f"{self.api}/{self.plural}"


GET, LIST, LOOK = ("get",), ("list",), ("list", "watch")
"""How resources are read."""

PATCH = ("patch", "get")
"""How they are written, if what came of a write is looked up."""

STORAGE, DYNAMIC = "storage.k8s.io", "resource.k8s.io"
"""The API groups of volumes and of devices."""

NODES = Resource("nodes", Node, reads=LOOK)
NODE_METRICS = Resource("nodes", NodeMetrics, "metrics.k8s.io", "v1beta1", reads=LIST)
LABELS_UNKNOWN = "the labels of other namespaces are not known"
NAMESPACES = Resource("namespaces", Namespace, reads=LIST, elsewhere=LABELS_UNKNOWN)
UNCOUNTED = "what pods of other namespaces request is not counted"
PODS = Resource("pods", Pod, inside=True, reads=LOOK, writes=GET, elsewhere=UNCOUNTED)
SERVICES = Resource("services", Service, inside=True, reads=LOOK)
BUDGETS = Resource("poddisruptionbudgets", PodDisruptionBudget, "policy", inside=True, reads=LIST)

REPLICATION_CONTROLLERS = Resource("replicationcontrollers", ReplicationController, inside=True, reads=GET)
REPLICA_SETS = Resource("replicasets", ReplicaSet, "apps", inside=True, reads=GET)
STATEFUL_SETS = Resource("statefulsets", StatefulSet, "apps", inside=True, reads=GET)

POD_GROUPS = Resource("podgroups", PodGroup, COSCHEDULING, "v1alpha1", inside=True, reads=GET)
GANGS = Resource("podgroups", PodGroup, KUBERNETES, "v1alpha2", inside=True, reads=GET)
"""Kubernetes' own; an API server may have another version of them (pod_groups.py asks which)."""

CLAIMS = Resource(
    "persistentvolumeclaims",
    "storage:PersistentVolumeClaim",
    inside=True,
    reads=LOOK,
    writes=PATCH,
    elsewhere="volumes of pods of other namespaces are not counted",
)
PERSISTENT_VOLUMES = Resource("persistentvolumes", "storage:PersistentVolume", reads=LOOK, writes=PATCH)
STORAGE_CLASSES = Resource("storageclasses", "storage:StorageClass", STORAGE, reads=LOOK)
CSI_NODES = Resource("csinodes", "storage:CSINode", STORAGE, reads=LOOK)
CSI_DRIVERS = Resource("csidrivers", "storage:CSIDriver", STORAGE, reads=LOOK)
CAPACITIES = Resource("csistoragecapacities", "storage:CSIStorageCapacity", STORAGE, reads=LOOK)
ATTACHMENTS = Resource("volumeattachments", "storage:VolumeAttachment", STORAGE, reads=LOOK)

# A device that a claim anywhere has must not be given away: so claims are read everywhere.
RESOURCE_CLAIMS = Resource("resourceclaims", "devices:ResourceClaim", DYNAMIC, reads=LOOK)
DEVICE_CLASSES = Resource("deviceclasses", "devices:DeviceClass", DYNAMIC, reads=LOOK)
SLICES = Resource("resourceslices", "devices:ResourceSlice", DYNAMIC, reads=LOOK)


BINDINGS = Resource("pods/binding", inside=True, writes=("create",))
CONDITIONS = Resource("pods/status", inside=True, writes=("patch",))
EVENTS = Resource("events", inside=True, writes=("create", "patch"))
EVICTIONS = Resource("pods", inside=True, writes=("delete",))
OWN_CLAIMS = Resource(
    "resourceclaims", group=DYNAMIC, inside=True, writes=(*GET, "create", "patch", "update", "delete")
)
CLAIM_STATUSES = Resource("resourceclaims/status", group=DYNAMIC, inside=True, writes=("patch",))
CLAIM_BINDINGS = Resource("resourceclaims/binding", group=DYNAMIC, writes=("patch",))


@dataclass(frozen=True, eq=False)
class Need:
    """What pods need besides nodes and other pods."""

    resources: tuple[Resource, ...] = ()
    """Where it is."""
    written: tuple[Resource, ...] = ()
    """What poller writes because of it."""
    called: str = ""
    """What messages call it; `{}` is the key of what is looked up."""
    without: str = ""
    """What poller goes on without if it may not read this; "" if the pods that need it have to wait."""
    unlisted: str = ""
    """What a question goes on without then; `{}` is the kind. "" if it can't."""
    claimed: str = ""
    """What claims are for, if these are claims."""
    of: Callable[[Pod], bool] = lambda _: True
    """Whether a pod may need it."""


def needs_storage(pod: Pod) -> bool:
    """Whether the scheduling of a pod depends on claims or volumes."""
    return any(
        volume.persistent_volume_claim
        or volume.ephemeral
        or volume.gce_persistent_disk
        or volume.aws_elastic_block_store
        or volume.azure_disk
        or volume.cinder
        or volume.portworx_volume
        for volume in pod.spec.volumes
    )


ALL = ""
"""The key of what isn't looked up for each pod, namespace or owner by itself."""

SPREADING = "spreading pods that belong together"

READING = Need((NODES, PODS))
LOAD = Need((NODE_METRICS,), called="node metrics", without="what nodes use (ActualLoad)")
NAMESPACE_LABELS = Need((NAMESPACES,), called="namespaces", unlisted="the labels of namespaces")
OWN_SERVICES = Need(
    (SERVICES,),
    called="services of namespace {}",
    without=SPREADING,
    unlisted="spreading the pods of a service by default",
)
CONTROLLERS = Need(
    (REPLICATION_CONTROLLERS, REPLICA_SETS, STATEFUL_SETS),
    called="{0.kind} {0.namespace}/{0.name}",
    without=SPREADING,
    unlisted="spreading the pods of a {} by default",
)
GROUP_SIZES = Need(
    (POD_GROUPS, GANGS), called="PodGroup {0.namespace}/{0.name}", unlisted="the sizes of pod groups"
)
PREEMPTION = Need(
    (BUDGETS,), (EVICTIONS,), called="disruption budgets", without="preemption", unlisted="disruption budgets"
)
WRITING = Need(written=(BINDINGS, CONDITIONS, EVENTS))
VOLUMES = Need(
    (CLAIMS, PERSISTENT_VOLUMES, STORAGE_CLASSES, CSI_NODES, CSI_DRIVERS, CAPACITIES, ATTACHMENTS),
    called="claims and volumes",
    unlisted="some of what pods with volumes depend on, so where they fit may be wrong",
    claimed="volumes",
    of=needs_storage,
)
DEVICES = Need(
    (RESOURCE_CLAIMS, DEVICE_CLASSES, SLICES),
    (OWN_CLAIMS, CLAIM_STATUSES, CLAIM_BINDINGS),
    called="resource claims and devices",
    unlisted="what devices there are, and which are in use",
    claimed="devices",
    of=may_need_devices,
)

NEEDS = (
    *(READING, LOAD, NAMESPACE_LABELS, OWN_SERVICES, CONTROLLERS, GROUP_SIZES),
    *(PREEMPTION, WRITING, VOLUMES, DEVICES),
)
"""All of them, in the order in which missing rights are told."""


def resource_of(controller: ControllerRef) -> Resource | None:
    """The resource of a pod's controller; None if such controllers' pods aren't spread by default."""
    for resource in CONTROLLERS.resources:
        if (resource.api_version, resource.kind.__name__) == (controller.api_version, controller.kind):
            return resource
    return None
