"""The volumes of workloads whose pods have claims: each claim is bound to a volume of a CSI driver.

Source: the folder volumes of scheduler_perf (see workloads.py), and its templates pv-csi.yaml and pvc.yaml
"""

from scripts.benchmark.client import Json

DRIVER = "ebs.csi.aws.com"
ATTACHABLE = 39
"""How many volumes of the driver a node can have."""

ACCESS_MODES = ["ReadOnlyMany"]
SIZE = "1Gi"

_STORAGE_API = "/apis/storage.k8s.io/v1"


def path_of(storage: Json) -> str:
    """The path at which an object of this module is created."""
    if storage["kind"] == "PersistentVolumeClaim":
        return f"/api/v1/namespaces/{storage['metadata']['namespace']}/persistentvolumeclaims"
    return {"PersistentVolume": "/api/v1/persistentvolumes", "CSINode": f"{_STORAGE_API}/csinodes"}[
        storage["kind"]
    ]


def csi_node(node_name: str) -> Json:
    """The object that says that the driver runs on a node."""
    driver = {"name": DRIVER, "nodeID": node_name, "allocatable": {"count": ATTACHABLE}}
    return {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "CSINode",
        "metadata": {"name": node_name},
        "spec": {"drivers": [driver]},
    }


def claim_and_volume(pod: Json) -> list[Json]:
    """A claim with the pod's name and namespace, and the volume that it is bound to."""
    namespace, name = pod["metadata"]["namespace"], pod["metadata"]["name"]
    volume_name = f"{namespace}-{name}"
    reference = {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "namespace": namespace, "name": name}
    claim: Json = {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {
            "namespace": namespace,
            "name": name,
            "annotations": {"pv.kubernetes.io/bind-completed": "true"},
        },
        "spec": {
            "accessModes": ACCESS_MODES,
            "resources": {"requests": {"storage": SIZE}},
            "volumeName": volume_name,
        },
    }
    volume: Json = {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": volume_name},
        "spec": {
            "accessModes": ACCESS_MODES,
            "capacity": {"storage": SIZE},
            "csi": {"driver": DRIVER, "volumeHandle": volume_name},
            "persistentVolumeReclaimPolicy": "Retain",
            "claimRef": reference,
        },
    }
    return [claim, volume]


def use_of_claim(name: str) -> Json:
    """The part of a pod's spec that names its claim."""
    return {"volumes": [{"name": "vol", "persistentVolumeClaim": {"claimName": name}}]}
