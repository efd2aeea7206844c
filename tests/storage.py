"""Volumes and claims for tests; does the work of the volume controller and of provisioners.

No volume controller runs beside a real kube-apiserver.
"""

from typing import Any

from cluster import Cluster, Json

CLAIMS = "/api/v1/namespaces/default/persistentvolumeclaims"
VOLUMES = "/api/v1/persistentvolumes"
CLASSES = "/apis/storage.k8s.io/v1/storageclasses"
SELECTED_NODE = "volume.kubernetes.io/selected-node"
BIND_COMPLETED = "pv.kubernetes.io/bind-completed"


class Volumes:
    """The volumes of a cluster; does the work of the volume controller and of provisioners."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    # --- what there is ----------------------------------------------------------------------------------

    def add_class(self, name: str, provisioner: str = "kubernetes.io/no-provisioner") -> None:
        body = {
            "metadata": {"name": name},
            "provisioner": provisioner,
            "volumeBindingMode": "WaitForFirstConsumer",
        }
        self._cluster.post(CLASSES, body)

    def add_claim(self, name: str, storage_class: str = "", **spec: Any) -> Json:
        wanted = {
            "accessModes": ["ReadWriteOnce"],
            "storageClassName": storage_class,
            "resources": {"requests": {"storage": "1Gi"}},
            **spec,
        }
        return self._cluster.post(CLAIMS, {"metadata": {"name": name}, "spec": wanted})

    def add_volume(self, name: str, node: str, storage_class: str = "", claim: str = "") -> None:
        """A local volume of a node, that is free, or made for a claim."""
        here = {"key": "kubernetes.io/hostname", "operator": "In", "values": [node]}
        spec: Json = {
            "accessModes": ["ReadWriteOnce"],
            "storageClassName": storage_class,
            "capacity": {"storage": "1Gi"},
            "local": {"path": "/data"},
            "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [here]}]}},
        }
        if claim:
            spec["claimRef"] = self._reference(claim)
        self._cluster.post(VOLUMES, {"metadata": {"name": name}, "spec": spec})
        self._cluster.patch(f"{VOLUMES}/{name}/status", {"status": {"phase": "Available"}})

    def add_bound(self, name: str, node: str) -> None:
        """A claim with a local volume of a node, both of this name."""
        self.add_claim(name, volumeName=name)
        self.add_volume(name, node, claim=name)
        self.finish(name, name)

    def _reference(self, claim: str) -> Json:
        names = {"kind": "PersistentVolumeClaim", "apiVersion": "v1", "namespace": "default", "name": claim}
        return {**names, "uid": self.claim(claim)["metadata"]["uid"]}

    def claim(self, name: str) -> Json:
        return dict(self._cluster.api.get(f"{CLAIMS}/{name}").json())

    def selected_node(self, claim: str) -> str | None:
        annotations: Json = self.claim(claim)["metadata"].get("annotations") or {}
        return annotations.get(SELECTED_NODE)

    def claim_of(self, volume: str) -> str | None:
        """The claim that a volume is reserved for."""
        found = self._cluster.api.get(f"{VOLUMES}/{volume}").json()["spec"].get("claimRef")
        return found["name"] if found else None

    # --- what controllers do ----------------------------------------------------------------------------

    def finish(self, claim: str, volume: str) -> None:
        """Bind a claim to the volume that is reserved for it."""
        annotated = {"annotations": {BIND_COMPLETED: "yes"}}
        self._cluster.patch(f"{CLAIMS}/{claim}", {"metadata": annotated, "spec": {"volumeName": volume}})
        for path in (f"{CLAIMS}/{claim}", f"{VOLUMES}/{volume}"):
            self._cluster.patch(f"{path}/status", {"status": {"phase": "Bound"}})

    def provision(self, claim: str) -> None:
        """Make the volume of a claim on the node that was selected."""
        node = self.selected_node(claim)
        assert node
        self.add_volume(f"for-{claim}", node, self.claim(claim)["spec"]["storageClassName"], claim)
        self.finish(claim, f"for-{claim}")

    def fail_to_provision(self, claim: str) -> None:
        """Report that the volume can't be made on that node."""
        self._cluster.patch(f"{CLAIMS}/{claim}", {"metadata": {"annotations": {SELECTED_NODE: None}}})

    def clear(self) -> None:
        for path in (CLAIMS, VOLUMES, CLASSES):
            for each in self._cluster.api.get(path).json()["items"]:
                name, finalizers = each["metadata"]["name"], each["metadata"].get("finalizers")
                if finalizers:
                    self._cluster.patch(f"{path}/{name}", {"metadata": {"finalizers": None}})
                self._cluster.api.delete(f"{path}/{name}")


def uses(*claims: str) -> list[Json]:
    """A pod's volumes, by the names of claims."""
    return [{"name": name, "persistentVolumeClaim": {"claimName": name}} for name in claims]
