"""PersistentVolumes, claims, and what these depend on: only the fields that are used.

Source: k8s.io/api/core/v1/types.go and k8s.io/api/storage/v1/types.go
"""

import msgspec

from lib.kube.objects import (
    InTreeSources,
    LabelSelector,
    NamedObject,
    NodeSelector,
    Object,
    Value,
)
from lib.kube.quantity import Quantity

BIND_COMPLETED = "pv.kubernetes.io/bind-completed"
"""An annotation of claims: the volume controller has finished the binding."""

BOUND_BY_CONTROLLER = "pv.kubernetes.io/bound-by-controller"
"""An annotation of volumes and claims: a controller bound them to each other, not a person."""

SELECTED_NODE = "volume.kubernetes.io/selected-node"
"""An annotation of claims: the node for which a volume is to be provisioned."""

BETA_STORAGE_CLASS = "volume.beta.kubernetes.io/storage-class"
"""An annotation of volumes and claims with the meaning of `storageClassName`; it takes precedence."""

MIGRATED_PLUGINS = "storage.alpha.kubernetes.io/migrated-plugins"
"""An annotation of CSINodes: the in-tree plugins, separated by commas, that CSI drivers replace there."""

STORAGE = "storage"
"""The resource that claims request and volumes provide."""

NO_PROVISIONER = "kubernetes.io/no-provisioner"
"""The provisioner of a StorageClass whose volumes are created by people."""

WAIT_FOR_FIRST_CONSUMER = "WaitForFirstConsumer"
"""The `volumeBindingMode` of a StorageClass whose claims are bound when a pod needs them."""


class VolumeResourceRequirements(Object):
    """Requests by resource name."""

    requests: dict[str, Quantity] = msgspec.field(default_factory=dict)


class PersistentVolumeClaimSpec(Object):
    """What a claim requests. `volume_name`: the volume that it has, or will get."""

    access_modes: tuple[str, ...] = ()
    resources: VolumeResourceRequirements = msgspec.field(default_factory=VolumeResourceRequirements)
    selector: LabelSelector | None = None
    volume_name: str = ""
    storage_class_name: str | None = None
    volume_mode: str = "Filesystem"
    volume_attributes_class_name: str | None = None


class PersistentVolumeClaimStatus(Object):
    """A claim's status."""

    phase: str = ""


class PersistentVolumeClaim(NamedObject, eq=False):
    """core/v1 PersistentVolumeClaim."""

    spec: PersistentVolumeClaimSpec = msgspec.field(default_factory=PersistentVolumeClaimSpec)
    status: PersistentVolumeClaimStatus = msgspec.field(default_factory=PersistentVolumeClaimStatus)

    @property
    def storage_class(self) -> str:
        """The name of its StorageClass; "" for none."""
        return self.metadata.annotations.get(BETA_STORAGE_CLASS, self.spec.storage_class_name or "")

    @property
    def size(self) -> Quantity:
        """The requested size, in billionths of a byte."""
        return self.spec.resources.requests.get(STORAGE, Quantity(0))

    @property
    def is_bound(self) -> bool:
        """Whether it is bound to a volume, and the volume controller has finished."""
        return bool(self.spec.volume_name) and BIND_COMPLETED in self.metadata.annotations


class ClaimReference(Object):
    """The claim that a volume is bound to or reserved for. Without a uid: any claim of that name."""

    namespace: str = ""
    name: str = ""
    uid: str = ""


class VolumeNodeAffinity(Object):
    """From which nodes a volume can be reached."""

    required: NodeSelector | None = None


class CSIPersistentVolumeSource(Object):
    """A volume of a CSI driver."""

    driver: str = ""
    volume_handle: str = ""


class PersistentVolumeSpec(InTreeSources):
    """A volume's spec."""

    capacity: dict[str, Quantity] = msgspec.field(default_factory=dict)
    access_modes: tuple[str, ...] = ()
    claim_ref: ClaimReference | None = None
    storage_class_name: str = ""
    volume_mode: str = "Filesystem"
    node_affinity: VolumeNodeAffinity | None = None
    volume_attributes_class_name: str | None = None
    csi: CSIPersistentVolumeSource | None = None


class PersistentVolumeStatus(Object):
    """A volume's status."""

    phase: str = ""


class PersistentVolume(NamedObject, eq=False):
    """core/v1 PersistentVolume."""

    spec: PersistentVolumeSpec = msgspec.field(default_factory=PersistentVolumeSpec)
    status: PersistentVolumeStatus = msgspec.field(default_factory=PersistentVolumeStatus)

    @property
    def storage_class(self) -> str:
        """The name of its StorageClass; "" for none."""
        return self.metadata.annotations.get(BETA_STORAGE_CLASS, self.spec.storage_class_name)

    @property
    def size(self) -> Quantity:
        """The size, in billionths of a byte."""
        return self.spec.capacity.get(STORAGE, Quantity(0))

    @property
    def required_nodes(self) -> NodeSelector | None:
        """A selector of the nodes from which it can be reached; None for all."""
        return self.spec.node_affinity.required if self.spec.node_affinity else None


class TopologySelectorLabelRequirement(Value, frozen=True):
    """The label must have one of the values."""

    key: str
    values: tuple[str, ...] = ()


class TopologySelectorTerm(Value, frozen=True):
    """All of its expressions must match; a term without any matches no node."""

    match_label_expressions: tuple[TopologySelectorLabelRequirement, ...] = ()


class StorageClass(NamedObject, eq=False):
    """storage.k8s.io/v1 StorageClass."""

    provisioner: str = ""
    volume_binding_mode: str = ""
    allowed_topologies: tuple[TopologySelectorTerm, ...] = ()


class VolumeNodeResources(Object):
    """How many volumes a driver can attach; None is any number."""

    count: int | None = None


class CSINodeDriver(Object):
    """A driver that runs on a node."""

    name: str = ""
    allocatable: VolumeNodeResources | None = None


class CSINodeSpec(Object):
    """The drivers of a node."""

    drivers: list[CSINodeDriver] | None = None


class CSINode(NamedObject, eq=False):
    """storage.k8s.io/v1 CSINode; it has its node's name."""

    spec: CSINodeSpec = msgspec.field(default_factory=CSINodeSpec)


class CSIDriverSpec(Object):
    """Whether the driver publishes CSIStorageCapacity objects: how much it can provision where."""

    storage_capacity: bool = False


class CSIDriver(NamedObject, eq=False):
    """storage.k8s.io/v1 CSIDriver."""

    spec: CSIDriverSpec = msgspec.field(default_factory=CSIDriverSpec)


class CSIStorageCapacity(NamedObject, eq=False):
    """storage.k8s.io/v1 CSIStorageCapacity: how much of a class can be provisioned for some nodes."""

    storage_class_name: str = ""
    node_topology: LabelSelector | None = None
    capacity: Quantity | None = None
    maximum_volume_size: Quantity | None = None

    @property
    def largest_volume(self) -> Quantity | None:
        """The size of the largest volume that can be provisioned; None if that isn't known."""
        return self.capacity if self.maximum_volume_size is None else self.maximum_volume_size


class VolumeAttachmentSource(Object):
    """The volume that is attached, if it is a PersistentVolume."""

    persistent_volume_name: str | None = None


class VolumeAttachmentSpec(Object):
    """What a driver attaches to which node."""

    attacher: str = ""
    node_name: str = ""
    source: VolumeAttachmentSource = msgspec.field(default_factory=VolumeAttachmentSource)


class VolumeAttachment(NamedObject, eq=False):
    """storage.k8s.io/v1 VolumeAttachment."""

    spec: VolumeAttachmentSpec = msgspec.field(default_factory=VolumeAttachmentSpec)


StorageObject = (
    PersistentVolumeClaim
    | PersistentVolume
    | StorageClass
    | CSINode
    | CSIDriver
    | CSIStorageCapacity
    | VolumeAttachment
)
"""The kinds that the scheduling of pods with volumes depends on."""
