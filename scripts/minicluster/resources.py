"""Every resource that is served, one line each. Discovery, routes and the store are made from this table."""

import base64
import hashlib
from dataclasses import dataclass
from functools import cached_property, partial

VERBS = ("create", "delete", "deletecollection", "get", "list", "patch", "update", "watch")
READ_AND_WRITE = ("get", "patch", "update")


@dataclass(frozen=True)
class Subresource:
    name: str
    kind: str = ""  # empty: the kind of the resource itself
    verbs: tuple[str, ...] = READ_AND_WRITE
    group_version: str = ""  # the group and version of the kind, if not the resource's own


STATUS = Subresource("status")
SCALE = Subresource("scale", "Scale", READ_AND_WRITE, "autoscaling/v1")
BINDING = Subresource("binding", "Binding", ("create",))
EVICTION = Subresource("eviction", "Eviction", ("create",), "policy/v1")


@dataclass(frozen=True)
class Resource:
    group_version: str
    plural: str
    kind: str
    namespaced: bool = True
    short_names: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    subresources: tuple[Subresource, ...] = ()
    verbs: tuple[str, ...] = VERBS
    has_generation: bool = False  # whether metadata.generation counts the changes of the spec

    @cached_property
    def group(self) -> str:
        return self.group_version.rpartition("/")[0]

    @cached_property
    def version(self) -> str:
        return self.group_version.rpartition("/")[2]

    @cached_property
    def qualified(self) -> str:
        """The name in error messages: `pods`, `leases.coordination.k8s.io`."""
        return f"{self.plural}.{self.group}" if self.group else self.plural

    @cached_property
    def singular(self) -> str:
        return self.kind.lower()

    @cached_property
    def storage_version_hash(self) -> str:
        """The hash in discovery by which a client sees a change of the stored version (KEP-1380)."""
        path = f"{self.group}/{self.version}/{self.kind}"
        return base64.b64encode(hashlib.sha256(path.encode()).digest()[:8]).decode()

    def subresource(self, name: str) -> Subresource | None:
        return next((sub for sub in self.subresources if sub.name == name), None)


_core = partial(Resource, "v1")
_storage = partial(Resource, "storage.k8s.io/v1")

PODS = Resource(
    "v1",
    "pods",
    "Pod",
    short_names=("po",),
    categories=("all",),
    subresources=(BINDING, EVICTION, STATUS),
    has_generation=True,
)
NODES = Resource("v1", "nodes", "Node", False, ("no",), subresources=(STATUS,))
NAMESPACES = Resource(
    "v1",
    "namespaces",
    "Namespace",
    False,
    ("ns",),
    subresources=(STATUS,),
    verbs=tuple(verb for verb in VERBS if verb != "deletecollection"),
)
EVENTS = _core("events", "Event", short_names=("ev",))
BINDINGS = Resource("v1", "bindings", "Binding", verbs=("create",))
DEPLOYMENTS = Resource(
    "apps/v1", "deployments", "Deployment", True, ("deploy",), ("all",), (SCALE, STATUS), has_generation=True
)
REPLICA_SETS = Resource(
    "apps/v1", "replicasets", "ReplicaSet", True, ("rs",), ("all",), (SCALE, STATUS), has_generation=True
)
STATEFUL_SETS = Resource(
    "apps/v1", "statefulsets", "StatefulSet", True, ("sts",), ("all",), (SCALE, STATUS), has_generation=True
)
DISRUPTION_BUDGETS = Resource(
    "policy/v1",
    "poddisruptionbudgets",
    "PodDisruptionBudget",
    True,
    ("pdb",),
    subresources=(STATUS,),
    has_generation=True,
)
PRIORITY_CLASSES = Resource(
    "scheduling.k8s.io/v1", "priorityclasses", "PriorityClass", False, ("pc",), has_generation=True
)
# Of Kubernetes 1.36 with the gates GenericWorkload and GangScheduling.
POD_GROUPS = Resource("scheduling.k8s.io/v1alpha2", "podgroups", "PodGroup", subresources=(STATUS,))
CLAIMS = _core(
    "persistentvolumeclaims", "PersistentVolumeClaim", short_names=("pvc",), subresources=(STATUS,)
)
VOLUMES = _core(
    "persistentvolumes", "PersistentVolume", short_names=("pv",), namespaced=False, subresources=(STATUS,)
)
STORAGE_CLASSES = _storage("storageclasses", "StorageClass", False, ("sc",))
CSI_DRIVERS = _storage("csidrivers", "CSIDriver", False)
CSI_NODES = _storage("csinodes", "CSINode", False)
CSI_CAPACITIES = _storage("csistoragecapacities", "CSIStorageCapacity")
VOLUME_ATTACHMENTS = _storage("volumeattachments", "VolumeAttachment", False, subresources=(STATUS,))
_devices = partial(Resource, "resource.k8s.io/v1")
DEVICE_CLASSES = _devices("deviceclasses", "DeviceClass", False, has_generation=True)
RESOURCE_CLAIMS = _devices("resourceclaims", "ResourceClaim", subresources=(STATUS,))
RESOURCE_CLAIM_TEMPLATES = _devices("resourceclaimtemplates", "ResourceClaimTemplate")
RESOURCE_SLICES = _devices("resourceslices", "ResourceSlice", False, has_generation=True)
LEASES = Resource("coordination.k8s.io/v1", "leases", "Lease")
_rbac = partial(Resource, "rbac.authorization.k8s.io/v1")
CLUSTER_ROLE_BINDINGS = _rbac("clusterrolebindings", "ClusterRoleBinding", False)
CLUSTER_ROLES = _rbac("clusterroles", "ClusterRole", False)
ROLE_BINDINGS = _rbac("rolebindings", "RoleBinding")
ROLES = _rbac("roles", "Role")
ACCESS_REVIEWS = Resource(
    "authorization.k8s.io/v1",
    "selfsubjectaccessreviews",
    "SelfSubjectAccessReview",
    False,
    verbs=("create",),
)

# In the order in which discovery lists groups and, within a group, resources.
RESOURCES: tuple[Resource, ...] = (
    BINDINGS,
    _core("configmaps", "ConfigMap", short_names=("cm",)),
    _core("endpoints", "Endpoints", short_names=("ep",)),
    EVENTS,
    _core("limitranges", "LimitRange", short_names=("limits",)),
    NAMESPACES,
    NODES,
    CLAIMS,
    VOLUMES,
    PODS,
    _core("podtemplates", "PodTemplate"),
    # Nothing acts on these; kube-scheduler doesn't start without them.
    _core("replicationcontrollers", "ReplicationController", short_names=("rc",), categories=("all",)),
    _core("resourcequotas", "ResourceQuota", short_names=("quota",), subresources=(STATUS,)),
    _core("secrets", "Secret"),
    _core("serviceaccounts", "ServiceAccount", short_names=("sa",)),
    Resource("v1", "services", "Service", short_names=("svc",), categories=("all",), subresources=(STATUS,)),
    DEPLOYMENTS,
    REPLICA_SETS,
    STATEFUL_SETS,
    ACCESS_REVIEWS,
    Resource("networking.k8s.io/v1", "networkpolicies", "NetworkPolicy", short_names=("netpol",)),
    DISRUPTION_BUDGETS,
    CLUSTER_ROLE_BINDINGS,
    CLUSTER_ROLES,
    ROLE_BINDINGS,
    ROLES,
    CSI_DRIVERS,
    CSI_NODES,
    CSI_CAPACITIES,
    STORAGE_CLASSES,
    VOLUME_ATTACHMENTS,
    PRIORITY_CLASSES,
    POD_GROUPS,
    LEASES,
    DEVICE_CLASSES,
    RESOURCE_CLAIMS,
    RESOURCE_CLAIM_TEMPLATES,
    RESOURCE_SLICES,
)

BY_PATH = {(resource.group_version, resource.plural): resource for resource in RESOURCES}
