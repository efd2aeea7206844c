"""The tables of volumes, claims of volumes, and what these depend on."""

from typing import Any

from .columns import AGE, NAME, Column, Object, at
from .resources import (
    CLAIMS,
    CSI_CAPACITIES,
    CSI_DRIVERS,
    CSI_NODES,
    STORAGE_CLASSES,
    VOLUME_ATTACHMENTS,
    VOLUMES,
    Resource,
)

MODES = {
    "ReadWriteOnce": "RWO",
    "ReadOnlyMany": "ROX",
    "ReadWriteMany": "RWX",
    "ReadWriteOncePod": "RWOP",
}
BETA_CLASS = "volume.beta.kubernetes.io/storage-class"
DEFAULT_CLASS = "storageclass.kubernetes.io/is-default-class"


def _modes(modes: list[str] | None) -> str:
    return ",".join(short for mode, short in MODES.items() if mode in (modes or ()))


def _phase(content: Object) -> str:
    return "Terminating" if content["metadata"].get("deletionTimestamp") else content["status"]["phase"]


def _class(content: Object) -> str:
    annotations = content["metadata"].get("annotations") or {}
    name: str = annotations.get(BETA_CLASS, content["spec"].get("storageClassName", ""))
    return name


def _claim(content: Object) -> str:
    claim = content["spec"].get("claimRef")
    return f"{claim.get('namespace', '')}/{claim.get('name', '')}" if claim else ""


def _given(claim: Object, field: str) -> Any:
    """The value in the status of a claim that has a volume."""
    return claim["status"].get(field) if claim["spec"].get("volumeName") else None


def _given_capacity(claim: Object) -> str:
    capacity: Object = _given(claim, "capacity") or {}
    return str(capacity.get("storage", ""))


def _yes_or_no(name: str, field: str, says: str, otherwise: bool = False) -> Column:
    return Column(name, at("spec", field, default=otherwise), says, type="boolean")


def _class_name(content: Object) -> str:
    name: str = content["metadata"]["name"]
    is_default = (content["metadata"].get("annotations") or {}).get(DEFAULT_CLASS) == "true"
    return f"{name} (default)" if is_default else name


def _driver_modes(content: Object) -> str:
    return ",".join(content["spec"].get("volumeLifecycleModes") or ["Persistent"])


CLASS = Column("StorageClass", _class, "The StorageClass that it is of.")
ATTRIBUTES = Column(
    "VolumeAttributesClass",
    at("spec", "volumeAttributesClassName", default="<unset>"),
    "The VolumeAttributesClass that it is of.",
)
VOLUME_MODE = Column(
    "VolumeMode", at("spec", "volumeMode", default="<unset>"), "A file system or a block device.", wide=True
)

STORAGE_COLUMNS: dict[Resource, list[Column]] = {
    VOLUMES: [
        NAME,
        Column("Capacity", at("spec", "capacity", "storage"), "How much it holds."),
        Column("Access Modes", lambda c: _modes(c["spec"].get("accessModes")), "How it can be mounted."),
        Column(
            "Reclaim Policy", at("spec", "persistentVolumeReclaimPolicy"), "What becomes of it in the end."
        ),
        Column("Status", _phase, "Where it stands, in a word."),
        Column("Claim", _claim, "The claim that has it."),
        CLASS,
        ATTRIBUTES,
        Column("Reason", at("status", "reason"), "Why it stands there."),
        AGE,
        VOLUME_MODE,
    ],
    CLAIMS: [
        NAME,
        Column("Status", _phase, "Where it stands, in a word."),
        Column("Volume", at("spec", "volumeName"), "The volume that it has."),
        Column("Capacity", _given_capacity, "How much that holds."),
        Column("Access Modes", lambda c: _modes(_given(c, "accessModes")), "How that can be mounted."),
        CLASS,
        ATTRIBUTES,
        AGE,
        VOLUME_MODE,
    ],
    STORAGE_CLASSES: [
        Column("Name", _class_name, "Its name."),
        Column("Provisioner", at("provisioner"), "Who makes its volumes."),
        Column("ReclaimPolicy", at("reclaimPolicy"), "What becomes of them in the end."),
        Column("VolumeBindingMode", at("volumeBindingMode"), "When claims get theirs."),
        Column(
            "AllowVolumeExpansion",
            lambda c: str(bool(c.get("allowVolumeExpansion"))).lower(),
            "Whether they can grow.",
        ),
        AGE,
    ],
    CSI_NODES: [
        NAME,
        Column("Drivers", lambda c: len(c["spec"].get("drivers") or ()), "How many run.", type="integer"),
        AGE,
    ],
    CSI_DRIVERS: [
        NAME,
        _yes_or_no("AttachRequired", "attachRequired", "Attaches volumes.", otherwise=True),
        _yes_or_no("PodInfoOnMount", "podInfoOnMount", "Is told of pods."),
        _yes_or_no("StorageCapacity", "storageCapacity", "Says how much space it has."),
        Column("TokenRequests", lambda _: "<unset>", "Tokens that it needs."),
        _yes_or_no("RequiresRepublish", "requiresRepublish", "Is asked again and again."),
        Column("Modes", _driver_modes, "Kinds of volumes that it serves."),
        AGE,
    ],
    CSI_CAPACITIES: [
        NAME,
        Column("StorageClassName", at("storageClassName"), "The class that it is about."),
        Column("Capacity", at("capacity"), "How much can be provisioned."),
    ],
    VOLUME_ATTACHMENTS: [
        NAME,
        Column("Attacher", at("spec", "attacher"), "The driver."),
        Column("PV", at("spec", "source", "persistentVolumeName"), "The volume."),
        Column("Node", at("spec", "nodeName"), "The node."),
        Column("Attached", at("status", "attached", default=False), "Whether it is done.", type="boolean"),
        AGE,
    ],
}
