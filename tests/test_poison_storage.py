"""One odd claim, volume or other object of storage holds up no pods but those that need it.

Beside it, pods with claims of each kind are placed, and those without volumes: see test_poison.py.
"""

from typing import Any

import pytest
from canned import KINDS, STORAGE
from poisoned_cluster import NODES, WAYS, Json, around, node, one_way, place, pod
from poisons import odd_ones, whole
from storage import BIND_COMPLETED, uses

from lib.kube import storage

DRIVER = "csi.example.com"

Objects = dict[str, list[Any]]


def claim(name: str, storage_class: str = "local", volume: str = "") -> Json:
    """A claim that waits for the first pod that uses it; or that has this volume."""
    names = {"name": name, "namespace": "default", "uid": f"uid-of-{name}", "resourceVersion": "1"}
    requests = {"requests": {"storage": "1Gi"}}
    spec = {"accessModes": ["ReadWriteOnce"], "storageClassName": storage_class, "resources": requests}
    if not volume:
        return {"metadata": names, "spec": spec, "status": {"phase": "Pending"}}
    done = {**names, "annotations": {BIND_COMPLETED: "yes"}}
    return {"metadata": done, "spec": {**spec, "volumeName": volume}, "status": {"phase": "Bound"}}


def volume(name: str, **spec: Any) -> Json:
    has = {"capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"], "storageClassName": "local"}
    names = {"name": name, "uid": f"uid-of-{name}", "resourceVersion": "1"}
    return {"metadata": names, "spec": {**has, **spec}, "status": {"phase": "Available"}}


def around_with_storage() -> Objects:
    """15 of the 50 pods use claims: they have a volume, or get one that is there, or one that is made."""
    cluster: Objects = {resource: [] for resource in STORAGE}
    for number in range(5):
        has, gets, has_made = f"has-{number}", f"gets-{number}", f"has-made-{number}"
        reference = {"namespace": "default", "name": has, "uid": f"uid-of-{has}"}
        csi = {"driver": DRIVER, "volumeHandle": has}
        cluster["persistentvolumes"] += [volume(has, claimRef=reference, csi=csi), volume(gets)]
        cluster["persistentvolumeclaims"] += [claim(has, volume=has), claim(gets), claim(has_made, "made")]
    for name, provisioner in (("local", "kubernetes.io/no-provisioner"), ("made", DRIVER)):
        mode = {"provisioner": provisioner, "volumeBindingMode": "WaitForFirstConsumer"}
        cluster["storageclasses"].append({"metadata": {"name": name}, **mode})
    cluster["csidrivers"].append({"metadata": {"name": DRIVER}, "spec": {"storageCapacity": True}})
    some = {"metadata": {"name": "some", "namespace": "default"}, "nodeTopology": {}, "capacity": "100Gi"}
    cluster["csistoragecapacities"].append({**some, "storageClassName": "made"})
    driver = {"name": DRIVER, "allocatable": {"count": 30}}
    for number in range(NODES):
        cluster["csinodes"].append({"metadata": {"name": f"n{number}"}, "spec": {"drivers": [driver]}})
    attached = {"attacher": DRIVER, "nodeName": "n0", "source": {"persistentVolumeName": "has-0"}}
    cluster["volumeattachments"].append({"metadata": {"name": "attached"}, "spec": attached})
    cluster |= around()
    for its_pod, its_claim in zip(cluster["pods"][1:], cluster["persistentvolumeclaims"], strict=False):
        its_pod["spec"]["volumes"] = uses(its_claim["metadata"]["name"])
    return cluster


def odd_claims(part: slice) -> Objects:
    full = whole(storage.PersistentVolumeClaim)
    waits = {**full, "spec": {**full["spec"], "storageClassName": "local", "volumeName": ""}}
    metadata = {**full["metadata"], "annotations": {BIND_COMPLETED: "yes"}}
    has = {**full, "metadata": metadata, "spec": {**full["spec"], "volumeName": "has-0"}}
    # Of the second, only what the first has not.
    odd = odd_ones(waits, namespace="default") + odd_ones(has, ("metadata", "annotations"), "default")
    odd += odd_ones(has, ("spec", "volumeName"), "default")
    return {"persistentvolumeclaims": odd[part]}


def odd_volumes(part: slice) -> Objects:
    """Free ones, that may be had by whoever asks for one; and those that a claim says that it has."""
    full = whole(storage.PersistentVolume)
    like = {"storageClassName": "local", "accessModes": ["ReadWriteOnce"], "capacity": {"storage": "1Gi"}}
    free = {**full, "spec": {**full["spec"], **like, "claimRef": None}, "status": {"phase": "Available"}}
    has = {**full, "spec": {**full["spec"], **like, "csi": {"driver": DRIVER, "volumeHandle": "x"}}}
    odd = odd_ones(free) + odd_ones(has, ("spec", "claimRef")) + odd_ones(has, ("spec", "csi"))
    odd = odd[part]
    claims = [claim(f"of-{name}", volume=name) for name in names_of(odd)]
    return {"persistentvolumes": odd, "persistentvolumeclaims": claims}


def odd_others(part: slice) -> Objects:
    """Classes, with claims of them; CSINodes, with nodes of their names; and what drivers say."""
    classes = odd_ones({**whole(storage.StorageClass), "volumeBindingMode": "WaitForFirstConsumer"})[part]
    driver = {"name": DRIVER, "allocatable": {"count": 1}}
    csi_nodes = odd_ones({**whole(storage.CSINode), "spec": {"drivers": [driver]}})[part]
    capacity = {**whole(storage.CSIStorageCapacity), "storageClassName": "made"}
    where = {"attacher": DRIVER, "nodeName": "n1", "source": {"persistentVolumeName": "has-1"}}
    return {
        "storageclasses": classes,
        "persistentvolumeclaims": [claim(f"of-{name}", name) for name in names_of(classes)],
        "csinodes": csi_nodes,
        "nodes": [node(name) for name in names_of(csi_nodes)],
        "csidrivers": odd_ones(whole(storage.CSIDriver))[part],
        "csistoragecapacities": odd_ones(capacity, namespace="default")[part],
        "volumeattachments": odd_ones({**whole(storage.VolumeAttachment), "spec": where})[part],
    }


def names_of(bodies: list[Any]) -> list[str]:
    """Their names, as far as they have any that an object can have."""
    found = [body["metadata"].get("name") for body in bodies if isinstance(body.get("metadata"), dict)]
    return [name for name in found if isinstance(name, str)]


@WAYS
@pytest.mark.parametrize("odd", [odd_claims, odd_volumes, odd_others])
def test_storage(caplog: pytest.LogCaptureFixture, odd: Any, by_watch: bool) -> None:
    cluster = around_with_storage()
    for resource, bodies in odd(one_way(by_watch)).items():
        # They come first, so that they are known when a pod is placed.
        cluster[resource] = bodies + cluster[resource]
        if resource == "persistentvolumeclaims":
            cluster["pods"] += [pod(f"uses-{name}", volumes=uses(name)) for name in names_of(bodies)]
    place(cluster, caplog, by_watch=by_watch, dry_run=True)


@WAYS
@pytest.mark.parametrize("resource", ["persistentvolumeclaims", "csinodes"])
def test_volumes_that_cannot_be_listed_hold_up_pods_with_volumes_only(
    caplog: pytest.LogCaptureFixture, resource: str, by_watch: bool
) -> None:
    cluster = around()
    cluster["pods"].append(pod("needs-volumes", volumes=uses("data")))
    place(cluster, caplog, by_watch=by_watch, dry_run=True, failing=[resource])
    said = [each.getMessage() for each in caplog.records if "needs-volumes" in each.getMessage()]
    assert any("volumes can't be read" in line and f"no {resource} today" in line for line in said), said


def test_each_kind_of_storage_that_poller_reads_is_tried() -> None:
    assert {KINDS[resource] for resource in STORAGE} == {
        each.__name__ for each in storage.StorageObject.__args__
    }
