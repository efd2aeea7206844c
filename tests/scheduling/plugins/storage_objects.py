"""Claims, volumes and such for tables of the volume plugins; whole ones, as the API would have them."""

from typing import Any

from objects import node, pod, read

from lib.kube.objects import Node, Pod
from lib.kube.storage import (
    CSINode,
    PersistentVolume,
    PersistentVolumeClaim,
    StorageClass,
    StorageObject,
    VolumeAttachment,
)
from lib.scheduling.cache import Cache
from lib.scheduling.storage import Storage

DRIVER = "disk.example.com"

Json = dict[str, Any]


def claim(
    name: str,
    volume: str = "",
    storage_class: str = "",
    owner: str = "",
    namespace: str = "default",
    **spec: Any,
) -> PersistentVolumeClaim:
    """A claim, bound to a volume if one is named; owner: the uid of the pod that it was made for."""
    metadata = {"namespace": namespace, "name": name, "uid": f"uid-of-{name}"}
    owners = [{"kind": "Pod", "name": "web", "uid": owner, "controller": True}] if owner else []
    annotations = {"pv.kubernetes.io/bind-completed": "yes"} if volume else {}
    whole = {"volumeName": volume, "storageClassName": storage_class, **spec}
    body = {"metadata": {**metadata, "ownerReferences": owners, "annotations": annotations}, "spec": whole}
    found: PersistentVolumeClaim = read(PersistentVolumeClaim, body)
    return found


def volume(name: str, labels: dict[str, str] | None = None, **spec: Any) -> PersistentVolume:
    """A volume; spec: what it is, such as `csi`."""
    found: PersistentVolume = read(
        PersistentVolume, {"metadata": {"name": name, "labels": labels or {}}, "spec": spec}
    )
    return found


def csi_volume(name: str, driver: str = DRIVER, handle: str = "") -> PersistentVolume:
    """A volume of a CSI driver, by which it is known under its handle; that is its name if none is given."""
    return volume(name, csi={"driver": driver, "volumeHandle": handle or name})


def storage_class(name: str, provisioner: str = DRIVER, mode: str = "WaitForFirstConsumer") -> StorageClass:
    body = {"metadata": {"name": name}, "provisioner": provisioner, "volumeBindingMode": mode}
    found: StorageClass = read(StorageClass, body)
    return found


def csi_node(name: str, **limits: int | None) -> CSINode:
    """The drivers of a node, with their limits; None for one without a limit.

    `example` stands for DRIVER, `ebs` for AWS's, `px` for Portworx's.
    """
    drivers = {"example": DRIVER, "ebs": "ebs.csi.aws.com", "px": "pxd.portworx.com"}
    body = {
        "metadata": {"name": name},
        "spec": {
            "drivers": [
                {"name": drivers[each], "allocatable": {"count": many}} for each, many in limits.items()
            ]
        },
    }
    found: CSINode = read(CSINode, body)
    return found


def attachment(node_name: str, volume_name: str, attacher: str = DRIVER) -> VolumeAttachment:
    """That a volume is attached to a node, whether a pod there uses it or not."""
    spec = {"attacher": attacher, "nodeName": node_name, "source": {"persistentVolumeName": volume_name}}
    body = {"metadata": {"name": f"{volume_name}-{node_name}"}, "spec": spec}
    found: VolumeAttachment = read(VolumeAttachment, body)
    return found


def user(*claims: str, name: str = "web", on: str = "", **spec: Any) -> Pod:
    """A pod that uses these claims, on a node if one is named."""
    volumes = [{"name": each, "persistentVolumeClaim": {"claimName": each}} for each in claims]
    return with_volumes(*volumes, name=name, on=on, **spec)


def with_volumes(*volumes: Json, name: str = "web", on: str = "", **spec: Any) -> Pod:
    """A pod with these volumes, as the API has them."""
    named = [{"name": f"volume-{i}", **each} for i, each in enumerate(volumes)]
    return pod(name, volumes=named, nodeName=on, **spec)


def cluster(nodes: list[Node] | str, *things: Pod | StorageObject) -> Cache:
    """Nodes, by their names as `n1 n2` if they are plain, and pods, claims, volumes and such."""
    made = [node(name) for name in nodes.split()] if isinstance(nodes, str) else nodes
    cache = Cache(made, [each for each in things if isinstance(each, Pod)])
    cache.storage = Storage(each for each in things if not isinstance(each, Pod))
    return cache
