"""The stand-in volume controller: it binds claims, makes volumes after a while, and fails when told to."""

from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from cluster import eventually, http_client

from scripts.servers.embedded import minicluster

Json = dict[str, Any]
CLAIMS = "/api/v1/namespaces/default/persistentvolumeclaims"
VOLUMES = "/api/v1/persistentvolumes"
CLASSES = "/apis/storage.k8s.io/v1/storageclasses"
SELECTED_NODE = "volume.kubernetes.io/selected-node"


@pytest.fixture(scope="module")
def client() -> Iterator[httpx.Client]:
    with (
        minicluster("--nodes", "2", "--provision-delay", "0.05") as server,
        http_client(server) as client,
    ):
        yield client


def create(client: httpx.Client, path: str, body: Json) -> Json:
    answer = client.post(path, json=body)
    assert answer.status_code == 201, answer.text
    made: Json = answer.json()
    return made


def create_class(client: httpx.Client, name: str, **more: Any) -> None:
    create(client, CLASSES, {"metadata": {"name": name}, "provisioner": "minicluster", **more})


def create_claim(client: httpx.Client, name: str, storage_class: str, size: str = "1Gi") -> None:
    spec = {
        "accessModes": ["ReadWriteOnce"],
        "storageClassName": storage_class,
        "resources": {"requests": {"storage": size}},
    }
    create(client, CLAIMS, {"metadata": {"name": name}, "spec": spec})


def create_volume(client: httpx.Client, name: str, size: str) -> None:
    spec = {
        "accessModes": ["ReadWriteOnce"],
        "storageClassName": "manual",
        "capacity": {"storage": size},
        "hostPath": {"path": "/data"},
    }
    create(client, VOLUMES, {"metadata": {"name": name}, "spec": spec})


def claim(client: httpx.Client, name: str) -> Json:
    found: Json = client.get(f"{CLAIMS}/{name}").json()
    return found


def bound(client: httpx.Client, name: str) -> str | None:
    """The volume of a claim, once they are bound to each other."""
    found = claim(client, name)
    return found["spec"]["volumeName"] if found["status"]["phase"] == "Bound" else None


def select(client: httpx.Client, name: str, node: str) -> None:
    patch = {"metadata": {"annotations": {SELECTED_NODE: node}}}
    headers = {"Content-Type": "application/merge-patch+json"}
    client.patch(f"{CLAIMS}/{name}", json=patch, headers=headers).raise_for_status()


def test_a_claim_gets_the_smallest_volume_that_is_large_enough(client: httpx.Client) -> None:
    for name, size in (("small", "500Mi"), ("large", "9Gi"), ("fitting", "2Gi")):
        create_volume(client, name, size)
    create_claim(client, "static", "manual")
    assert eventually(lambda: bound(client, "static")) == "fitting"
    volume = client.get(f"{VOLUMES}/fitting").json()
    assert volume["status"]["phase"] == "Bound"
    assert volume["spec"]["claimRef"]["name"] == "static"
    assert client.get(f"{VOLUMES}/small").json()["status"]["phase"] == "Available"
    client.delete(f"{CLAIMS}/static")
    eventually(lambda: client.get(f"{VOLUMES}/fitting").json()["status"]["phase"] == "Released")


def test_a_volume_is_made_for_a_claim_and_goes_with_it(client: httpx.Client) -> None:
    create_class(client, "at-once")
    create_claim(client, "made", "at-once")
    name = eventually(lambda: bound(client, "made"))
    client.delete(f"{CLAIMS}/made")
    eventually(lambda: client.get(f"{VOLUMES}/{name}").status_code == 404)


def test_a_claim_that_waits_for_a_pod_gets_its_volume_where_the_scheduler_says(client: httpx.Client) -> None:
    create_class(
        client, "waits", volumeBindingMode="WaitForFirstConsumer", parameters={"failures": "1", "delay": "0"}
    )
    create_claim(client, "later", "waits")
    select(client, "later", "node2")
    # The first try fails: then the scheduler is to pick again.
    eventually(lambda: SELECTED_NODE not in claim(client, "later")["metadata"]["annotations"])
    assert claim(client, "later")["status"]["phase"] == "Pending"
    select(client, "later", "node2")
    name = eventually(lambda: bound(client, "later"))
    required = client.get(f"{VOLUMES}/{name}").json()["spec"]["nodeAffinity"]["required"]
    (here,) = required["nodeSelectorTerms"][0]["matchExpressions"]
    assert here == {"key": "kubernetes.io/hostname", "operator": "In", "values": ["node2"]}


def test_a_pod_gets_claims_for_its_ephemeral_volumes(client: httpx.Client) -> None:
    create_class(client, "for-pods")
    template = {
        "accessModes": ["ReadWriteOnce"],
        "storageClassName": "for-pods",
        "resources": {"requests": {"storage": "1Gi"}},
    }
    volume = {"name": "scratch", "ephemeral": {"volumeClaimTemplate": {"spec": template}}}
    pod = {
        "metadata": {"name": "web"},
        "spec": {"containers": [{"name": "c", "image": "x"}], "volumes": [volume]},
    }
    uid = create(client, "/api/v1/namespaces/default/pods", pod)["metadata"]["uid"]
    eventually(lambda: client.get(f"{CLAIMS}/web-scratch").status_code == 200)
    (owner,) = claim(client, "web-scratch")["metadata"]["ownerReferences"]
    assert (owner["uid"], owner["controller"]) == (uid, True)
    client.delete("/api/v1/namespaces/default/pods/web")
    eventually(lambda: client.get(f"{CLAIMS}/web-scratch").status_code == 404)
