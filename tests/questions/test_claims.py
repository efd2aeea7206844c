"""Pods with volumes: whose volume is awaited, which claim is missing, and where a volume can be reached."""

import json
from pathlib import Path
from typing import Any

import pytest
from cluster import ONE_SERVER, Cluster, Json
from questions_harness import Run
from test_verbs import WAITING_CLASS, a_node, a_pod, write
from test_verbs_end_to_end import a_file, answer, ask

CLASSES = "/apis/storage.k8s.io/v1/storageclasses"
CLAIMS = "/api/v1/namespaces/default/persistentvolumeclaims"

USES_DATA = [{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}]


def a_claim(annotations: dict[str, str] | None = None, **spec: Any) -> Json:
    resources = {"requests": {"storage": "1Gi"}}
    metadata = {"name": "data", "namespace": "default", "uid": "uid-data", "annotations": annotations or {}}
    spec = {"accessModes": ["ReadWriteOnce"], "resources": resources, **spec}
    return {"kind": "PersistentVolumeClaim", "apiVersion": "v1", "metadata": metadata, "spec": spec}


@pytest.mark.parametrize("servers", [ONE_SERVER], indirect=True)
def test_a_pod_that_waits_for_its_provisioner(cluster: Cluster) -> None:
    """Before, `why` asked whether the scheduler runs, which had done its part."""
    cluster.add_node("n1")
    of_ebs = {"metadata": {"name": "ebs"}, "provisioner": "ebs.csi.aws.com"}
    cluster.post(CLASSES, {**of_ebs, "volumeBindingMode": "WaitForFirstConsumer"})
    selected = {"volume.kubernetes.io/selected-node": "n1"}
    claim = cluster.post(CLAIMS, a_claim(selected, storageClassName="ebs"))
    try:
        cluster.add_pod("web", volumes=USES_DATA)
        waits = ask(cluster, "why", "web").stdout
        assert waits.startswith("default/web waits for its volume\n")
        assert "ebs.csi.aws.com is to provision claim default/data (class ebs) for n1." in waits
        assert "ebs.csi.aws.com has written no event about it: is it running?" in waits
        assert "my-scheduler is to place it.\n" in waits
        about = {"kind": "PersistentVolumeClaim", "namespace": "default", "name": "data"}
        event = {
            "metadata": {"name": "x"},
            "involvedObject": {**about, "uid": claim["metadata"]["uid"]},
            "reason": "ProvisioningFailed",
            "message": "no quota left",
            "source": {"component": "ebs.csi.aws.com"},
            "lastTimestamp": "2026-01-01T00:00:00Z",
        }
        cluster.post("/api/v1/namespaces/default/events", event)
        (found,) = answer(cluster, "why", "web")["to_provision"]
        assert (found["node"], found["class"], found["provisioner"]) == ("n1", "ebs", "ebs.csi.aws.com")
        assert (found["said"]["reason"], found["said"]["message"]) == ("ProvisioningFailed", "no quota left")
    finally:
        cluster.api.delete(f"{CLASSES}/ebs")
        cluster.patch(f"{CLAIMS}/data", {"metadata": {"finalizers": None}})
        cluster.api.delete(f"{CLAIMS}/data")


def test_a_missing_claim_is_to_be_created(poller: Run, tmp_path: Path) -> None:
    other = {**a_claim(), "metadata": {"name": "other", "namespace": "default"}}
    pod = a_pod("web", "1", volumes=USES_DATA)
    file = write(tmp_path / "cluster.json", a_node("n1"), a_node("n2", "0"), other, pod)
    found = poller("why", "web", "--from", file, "-o", "json").json
    assert found["suggestions"] == [{"changes": ["create claim data"], "nodes": ["n1"]}]
    assert "-  create claim data: n1 fits" in poller("why", "web", "--from", file).out
    again = a_file(tmp_path, {**pod, "metadata": {"name": "new", "namespace": "default"}})
    (tried,) = poller("try", "-f", again, "--from", file, "-o", "json").json["pods"]
    assert (tried["node"], 'persistentvolumeclaim "data" not found' in tried["message"]) == (None, True)


@pytest.mark.parametrize("mode", ["WaitForFirstConsumer", "Immediate"])
def test_a_class_may_be_named_by_an_annotation(poller: Run, tmp_path: Path, mode: str) -> None:
    """As Cassandra's StatefulSet has it. Before, its pods were said to fit nowhere."""
    metadata = {"name": "data", "annotations": {"volume.beta.kubernetes.io/storage-class": "ebs"}}
    claim = {"metadata": metadata, "spec": {"resources": {"requests": {"storage": "1Gi"}}}}
    template = {
        "metadata": {"labels": {"app": "db"}},
        "spec": {"containers": [{"name": "main", "image": "db"}]},
    }
    spec = {"replicas": 2, "template": template, "volumeClaimTemplates": [claim]}
    manifest = tmp_path / "db.json"
    manifest.write_text(
        json.dumps({"apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": {"name": "db"}, "spec": spec})
    )
    of_ebs = {**WAITING_CLASS, "volumeBindingMode": mode}
    unrelated = {**a_claim(), "metadata": {"name": "other", "namespace": "default"}}
    file = write(tmp_path / "cluster.json", a_node("n1"), of_ebs, unrelated)
    assert poller("try", "-f", str(manifest), "--from", file, "-o", "json").json["answer"] == "yes"


def test_the_newest_default_class_counts(poller: Run, tmp_path: Path) -> None:
    """As DefaultStorageClass does it: the claim of the older one could have no volume."""

    def default_class(name: str, year: int, provisioner: str) -> Json:
        metadata = {
            "name": name,
            "annotations": {"storageclass.kubernetes.io/is-default-class": "true"},
            "creationTimestamp": f"{year}-01-01T00:00:00Z",
        }
        return {**WAITING_CLASS, "metadata": metadata, "provisioner": provisioner}

    old = default_class("old", 2020, "kubernetes.io/no-provisioner")
    new = default_class("new", 2025, "ebs.csi.aws.com")
    file = write(tmp_path / "cluster.json", a_node("n1"), old, new, {**a_claim(), "metadata": {"name": "x"}})
    pod = a_pod("web", "1", volumes=USES_DATA)
    manifest = a_file(tmp_path, pod, a_claim())
    assert poller("try", "-f", manifest, "--from", file, "-o", "json").json["answer"] == "yes"
