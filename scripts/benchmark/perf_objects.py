"""The objects of scheduler_perf: what its templates, and the strategies of its operations, make.

Source: test/integration/scheduler_perf in Kubernetes: util.go, node_util.go, update.go; test/utils/runners.go
"""

import re
from collections.abc import Mapping, Sequence
from copy import deepcopy
from functools import cache
from pathlib import Path

import yaml

from scripts.benchmark.client import Json
from scripts.benchmark.processes import FailedError

PLURALS = {
    "Namespace": "namespaces",
    "Node": "nodes",
    "PersistentVolume": "persistentvolumes",
    "PersistentVolumeClaim": "persistentvolumeclaims",
    "Pod": "pods",
    "Service": "services",
    "StorageClass": "storageclasses",
}
IN_NAMESPACES = "Pod", "PersistentVolumeClaim", "Service"

POD: Json = {
    "metadata": {"generateName": "pod-"},
    "spec": {"containers": [{"name": "pause", "image": "registry.k8s.io/pause:3.10.1"}]},
}
NODE: Json = {
    "status": {
        "capacity": {"cpu": "4", "memory": "32Gi", "pods": "110"},
        "conditions": [{"type": "Ready", "status": "True"}],
    }
}
"""What is created where an operation names no template."""

_text = cache(Path.read_text)


def from_template(path: Path, index: int = 0, number: int = 1) -> Json:
    """An object. index: which of `number` objects it is. FailedError if the template can't be filled in."""
    values = {".Index": index, ".Count": number}

    def value(found: re.Match[str]) -> str:
        match [str(values.get(word, word)) for word in found[1].split()]:
            case ["Mod", one, other]:
                return str(int(one) % int(other))
            case ["DivideInt", one, other]:
                return str(int(one) // int(other))
            case [one]:
                return one
        raise FailedError(f"{path.name}: {found[0]} can't be filled in")

    made: Json = yaml.safe_load(re.sub(r"{{(.*?)}}", value, _text(path)))
    return made


def path_of(body: Json, namespace: str) -> str:
    """Where an object is created."""
    version, kind = body.get("apiVersion", "v1"), body["kind"]
    if kind not in PLURALS:
        raise FailedError(f"objects of the kind {kind} can't be created here")
    within = f"/namespaces/{namespace}" if kind in IN_NAMESPACES else ""
    return f"/{'apis' if '/' in version else 'api'}/{version}{within}/{PLURALS[kind]}"


def node_of(op: Json, folder: Path, prefix: str, index: int, number: int) -> Json:
    """One of the nodes that an operation creates."""
    path = op.get("nodeTemplatePath")
    node = from_template(folder / path, index, number) if path else deepcopy(NODE)
    metadata = node.setdefault("metadata", {})
    name = metadata.setdefault("name", f"{metadata.pop('generateName', 'node-')}{prefix}-{index}")
    labels = metadata.setdefault("labels", {})
    labels["kubernetes.io/hostname"] = name
    if strategy := op.get("labelNodePrepareStrategy"):
        labels[strategy["labelKey"]] = strategy["labelValues"][index % len(strategy["labelValues"])]
    if strategy := op.get("uniqueNodeLabelStrategy"):
        labels[strategy["labelKey"]] = name
    allocatable = node["status"].setdefault("allocatable", {**node["status"]["capacity"]})
    allocatable.update(op.get("nodeAllocatableStrategy", {}).get("nodeAllocatable", {}))
    return node


def csi_node_of(strategy: Json, name: str) -> Json:
    """The CSINode of a node whose volumes are limited."""
    limits = strategy["csiNodeAllocatable"].items()
    drivers = [{"name": driver, "nodeID": driver, "allocatable": limit} for driver, limit in limits]
    migrated = ",".join(strategy.get("migratedPlugins") or ())
    notes = {"storage.alpha.kubernetes.io/migrated-plugins": migrated} if migrated else {}
    return {"metadata": {"name": name, "annotations": notes}, "spec": {"drivers": drivers}}


def bound_volume(op: Json, folder: Path, namespace: str, index: int) -> tuple[Json, Json]:
    """A claim, and the volume that it is bound to."""
    claim = from_template(folder / op["persistentVolumeClaimTemplatePath"], index)
    volume = from_template(folder / op["persistentVolumeTemplatePath"], index)
    name, volume_name = f"pvc-{index}", f"{namespace}-vol-{index}"
    claim.setdefault("metadata", {})["name"] = name
    claim["spec"]["volumeName"] = volume_name
    volume.setdefault("metadata", {})["name"] = volume_name
    spec = volume["spec"]
    spec["claimRef"] = {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "namespace": namespace,
        "name": name,
    }
    if "csi" in spec:
        spec["csi"]["volumeHandle"] = volume_name
    elif "awsElasticBlockStore" in spec:
        spec["awsElasticBlockStore"]["volumeID"] = f"vol-{index}"
    return claim, volume


def updated(now: Json, wanted: Json, subresource: str) -> Json:
    """An object as it is to be: a pod keeps its node, and what the API server has filled in."""
    labels = wanted["metadata"].get("labels", {})
    if now["kind"] != "Pod":
        of_both = {**now["metadata"].get("labels", {}), **labels}
        return {**wanted, "metadata": {**wanted["metadata"], "labels": of_both}}
    new, spec = deepcopy(now), wanted["spec"]
    del new["metadata"]["resourceVersion"]  # the scheduler may change it meanwhile
    if subresource == "resize":
        for container, like in zip(new["spec"]["containers"], spec["containers"], strict=True):
            container["resources"] = like.get("resources", {})
        return new
    new["metadata"]["labels"] = labels
    new["spec"]["tolerations"] = [
        *spec.get("tolerations", ()),
        *_of_server(now["spec"].get("tolerations", ())),
    ]
    new["spec"]["schedulingGates"] = spec.get("schedulingGates", [])
    return new


def _of_server(tolerations: Sequence[Mapping[str, str]]) -> list[Mapping[str, str]]:
    """The tolerations that the API server adds."""
    return [each for each in tolerations if each.get("key", "").startswith("node.kubernetes.io/")]
