"""poller.py beside a real kubectl proxy, in a cluster full of odd objects: all that its API server takes.

What no API server takes is tried in test_poison.py and test_poison_storage.py.
"""

import re
import signal
from collections import Counter
from collections.abc import Iterator
from functools import reduce
from typing import Any

import pytest
from all_cases import ALL_CASES
from cluster import ONE_SERVER, Cluster, Json, eventually
from poisons import MISSING, places, with_value
from storage import Volumes, uses

pytestmark = pytest.mark.parametrize("servers", [ONE_SERVER], indirect=True)

HEALTHY = 50

RUNNING, WAITING = (slice(0, None, 2), slice(1, None, 2)) if not ALL_CASES else (slice(None), slice(None))
"""Of the odd pods, those that run, and those that wait."""

VALUES: dict[type, list[Any]] = {
    str: ["\x1b[2J\r\nforged", "../../secrets/x", "9" * 5000, MISSING],
    int: [10**18, 2**31 - 1, -(2**31), MISSING],
    bool: [MISSING],
    dict: [MISSING],
    list: [MISSING],
}
"""What takes the place of a field's value, by its type: others no API server takes."""

LABELS = {"app": "odd"}
SELECTOR = {"matchLabels": LABELS}
TEMPLATE = {"metadata": {"labels": LABELS}, "spec": {"containers": [{"name": "main", "image": "nginx"}]}}
TERM = {
    "topologyKey": "kubernetes.io/hostname",
    "labelSelector": SELECTOR,
    "namespaces": ["default"],
    "namespaceSelector": SELECTOR,
    "matchLabelKeys": ["pod-template-hash"],
}
ON_A_NODE = {"matchExpressions": [{"key": "kubernetes.io/hostname", "operator": "In", "values": ["n1"]}]}
CONTAINER = {
    "name": "main",
    "image": "nginx",
    "resources": {"requests": {"cpu": "10m", "example.com/thing": "1"}, "limits": {"example.com/thing": "1"}},
    "ports": [{"containerPort": 80, "hostPort": 80, "hostIP": "1.2.3.4", "protocol": "TCP"}],
}
GROUP = {"labels": {"poller/group": "odd"}, "annotations": {"poller/group-size": "1"}}
OWNER = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "odd", "uid": "u", "controller": True}
CORE, APPS, STORAGE = "/api/v1", "/apis/apps/v1", "/apis/storage.k8s.io/v1"
DEFAULT = "namespaces/default"

PODS = {
    "group": {"metadata": GROUP},
    "owner": {"metadata": {"labels": LABELS, "ownerReferences": [OWNER]}},
    "container": {"spec": {"containers": [CONTAINER], "overhead": {"cpu": "1m"}}},
    "toleration": {"spec": {"tolerations": [{"key": "k", "operator": "Equal", "value": "v"}]}},
    "selector": {"spec": {"nodeSelector": {"no": "such"}, "schedulingGates": [{"name": "gate"}]}},
    "volume": {"spec": {"volumes": uses("none")}},
    "affinity": {
        "spec": {"affinity": {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [TERM]}}}
    },
    "node-affinity": {
        "spec": {
            "affinity": {
                "nodeAffinity": {
                    "preferredDuringSchedulingIgnoredDuringExecution": [
                        {"weight": 1, "preference": ON_A_NODE}
                    ]
                }
            }
        }
    },
    "spread": {
        "spec": {
            "topologySpreadConstraints": [
                {"topologyKey": "zone", "maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule", "minDomains": 1}
            ]
        }
    },
    "status": {
        "status": {
            "phase": "Pending",
            "nominatedNodeName": "n1",
            "startTime": "2026-01-01T00:00:00Z",
            "conditions": [{"type": "PodScheduled", "status": "False", "reason": "r", "message": "m"}],
        }
    },
}
"""What pods have besides a plain container, and which part of it is made odd."""

CLAIM = {
    "accessModes": ["ReadWriteOnce"],
    "storageClassName": "odd",
    "resources": {"requests": {"storage": "1Gi"}},
    "selector": SELECTOR,
    "volumeName": "odd",
}
VOLUME = {
    "accessModes": ["ReadWriteOnce"],
    "storageClassName": "odd",
    "capacity": {"storage": "1Gi"},
    "csi": {"driver": "csi.example.com", "volumeHandle": "h"},
    "nodeAffinity": {"required": {"nodeSelectorTerms": [ON_A_NODE]}},
}
NODE_STATUS = {
    "allocatable": {"cpu": "4", "memory": "8Gi", "pods": "110"},
    "images": [{"names": ["nginx"], "sizeBytes": 1}],
}
ABOUT = {"kind": "Pod", "namespace": "default", "name": "odd", "uid": "u"}

OTHERS: dict[str, Json] = {
    f"{CORE}/nodes": {
        "metadata": {"annotations": {"k": "v"}},
        "spec": {"taints": [{"key": "k", "value": "v", "effect": "PreferNoSchedule"}]},
        "status": NODE_STATUS,
    },
    f"{CORE}/{DEFAULT}/services": {"spec": {"selector": LABELS, "ports": [{"port": 80}]}},
    f"{CORE}/{DEFAULT}/replicationcontrollers": {"spec": {"selector": LABELS, "template": TEMPLATE}},
    f"{APPS}/{DEFAULT}/replicasets": {"spec": {"selector": SELECTOR, "template": TEMPLATE}},
    f"{APPS}/{DEFAULT}/statefulsets": {
        "spec": {"selector": SELECTOR, "serviceName": "odd", "template": TEMPLATE}
    },
    f"/apis/policy/v1/{DEFAULT}/poddisruptionbudgets": {
        "spec": {"selector": SELECTOR, "minAvailable": 1},
        "status": {"disruptionsAllowed": 1, "disruptedPods": {"k": "2026-01-01T00:00:00Z"}},
    },
    f"{CORE}/{DEFAULT}/events": {
        "involvedObject": ABOUT,
        "reason": "FailedScheduling",
        "source": {"component": "my-scheduler"},
        "count": 1,
        "lastTimestamp": "2026-01-01T00:00:00Z",
    },
    f"{CORE}/{DEFAULT}/persistentvolumeclaims": {"spec": CLAIM, "status": {"phase": "Bound"}},
    f"{CORE}/persistentvolumes": {"spec": VOLUME, "status": {"phase": "Available"}},
    f"{STORAGE}/storageclasses": {
        "provisioner": "csi.example.com",
        "volumeBindingMode": "WaitForFirstConsumer",
        "allowedTopologies": [{"matchLabelExpressions": [{"key": "zone", "values": ["a"]}]}],
    },
    f"{STORAGE}/csinodes": {
        "spec": {"drivers": [{"name": "csi.example.com", "nodeID": "i", "allocatable": {"count": 1}}]}
    },
    f"{STORAGE}/csidrivers": {"spec": {"storageCapacity": True}},
    f"{STORAGE}/{DEFAULT}/csistoragecapacities": {
        "storageClassName": "odd",
        "nodeTopology": SELECTOR,
        "capacity": "1Gi",
        "maximumVolumeSize": "1Gi",
    },
    f"{STORAGE}/volumeattachments": {
        "spec": {"attacher": "csi.example.com", "nodeName": "n1", "source": {"persistentVolumeName": "odd"}}
    },
}
"""Of each kind an object as it should be, by the path where it is created."""


NAMED_BY_PODS = {
    "persistentvolumeclaims": "PersistentVolumeClaim",
    "replicationcontrollers": "ReplicationController",
    "replicasets": "ReplicaSet",
    "statefulsets": "StatefulSet",
}

PODS_PATH = f"{CORE}/{DEFAULT}/pods"


def odd_ones(body: Json, name: str, part: slice = slice(None)) -> Iterator[Json]:
    """The object itself, and with each value in each place, under names of their own."""
    odd = [body]
    for path in places(body):
        found = reduce(lambda inner, key: inner[key], path, body)
        odd += [with_value(body, path, value) for value in VALUES[type(found)]]
    for number, each in [*enumerate(odd)][part]:
        yield {**each, "metadata": {**each.get("metadata", {}), "name": f"{name}-{number}"}}


def create(cluster: Cluster, path: str, bodies: Iterator[Json]) -> list[str]:
    """Create what the API server takes; the names. It must have an answer to everything."""
    names: list[str] = []
    for body in bodies:
        made = cluster.api.post(path, json=body)
        assert made.status_code < 500, f"{path} {made.text[:300]}: {str(body)[:300]}"
        if made.status_code != 201:
            continue
        name = body["metadata"]["name"]
        if "status" in body:
            patch = cluster.api.patch(
                f"{path}/{name}/status",
                json={"status": body["status"]},
                headers={"Content-Type": "application/merge-patch+json"},
            )
            assert patch.status_code < 500, f"{path} {patch.text[:300]}: {str(body)[:300]}"
        names.append(name)
    return names


def odd_pods(part: slice, node_name: str = "") -> Iterator[Json]:
    for what, body in PODS.items():
        for odd in odd_ones(body, f"odd-{what}{node_name}", part):
            spec = odd.get("spec", {})
            if isinstance(spec, dict):
                where = {"nodeName": node_name} if node_name else {}
                plain = {"schedulerName": "my-scheduler", "containers": [{"name": "main", "image": "nginx"}]}
                yield {**odd, "spec": {**plain, **where, **spec}}


def healthy_pods(name: str) -> Iterator[Json]:
    """50 pods, of which some look at others, and some belong to something."""
    near = {"topologyKey": "kubernetes.io/hostname", "labelSelector": SELECTOR, "namespaceSelector": {}}
    like = {"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 1, "podAffinityTerm": near}]}
    for number in range(HEALTHY):
        more = [{}, {"affinity": {"podAffinity": like}}, {"affinity": {"podAntiAffinity": like}}][number % 3]
        spec = {"schedulerName": "my-scheduler", "containers": [{"name": "main", "image": "nginx"}], **more}
        metadata = {"name": f"{name}-{number}", "labels": LABELS}
        if number % 5 == 0:
            metadata["ownerReferences"] = [{**OWNER, "name": "odd-replicasets-0"}]
        yield {"metadata": metadata, "spec": spec}


def pods_that_need(kind: str, names: list[str]) -> Iterator[Json]:
    """For each object of a kind that is looked at for a pod, such a pod."""
    for name in names:
        spec: Json = {"schedulerName": "my-scheduler", "containers": [{"name": "main", "image": "nginx"}]}
        metadata: Json = {"name": f"needs-{name}", "labels": LABELS}
        if kind == "PersistentVolumeClaim":
            spec["volumes"] = uses(name)
        else:
            version = "v1" if kind == "ReplicationController" else "apps/v1"
            metadata["ownerReferences"] = [{**OWNER, "apiVersion": version, "kind": kind, "name": name}]
        yield {"metadata": metadata, "spec": spec}


def fill(cluster: Cluster) -> set[str]:
    """Have all that is odd in the cluster; the names of the pods that wait."""
    for number in range(3):
        cluster.add_node(f"n{number}", cpu="1000", pods="10000", **{"example.com/thing": "1000"})
    create(cluster, PODS_PATH, odd_pods(RUNNING, "n1"))
    waiting = create(cluster, PODS_PATH, odd_pods(WAITING))
    for path, body in OTHERS.items():
        resource = path.rsplit("/", 1)[1]
        names = create(cluster, path, odd_ones(body, f"odd-{resource}"))
        assert names or resource == "replicationcontrollers", path  # of which the embedded server knows none
        if kind := NAMED_BY_PODS.get(resource):
            waiting += create(cluster, PODS_PATH, pods_that_need(kind, names))
    return set(waiting)


@pytest.fixture
def odd_cluster(cluster: Cluster) -> Iterator[Cluster]:
    """The cluster, from which all that was created is deleted in the end."""
    yield cluster
    Volumes(cluster).clear()
    for path in OTHERS:
        cluster.api.request("DELETE", path)
        if path.endswith("services"):  # which some servers don't delete together
            for each in cluster.api.get(path).json()["items"]:
                cluster.api.delete(f"{path}/{each['metadata']['name']}")


def holds_up_none(said: str, pods: str, waiting: set[str]) -> None:
    """All healthy pods are bound; each odd one is named; nothing is said twice, and there is no traceback."""
    lines = [re.sub(r"^[-\d:,.TZ ]+", "", line) for line in said.splitlines()]
    bound = {line.split()[0] for line in lines if " is bound to " in line}
    assert bound >= {f"default/{pods}-{number}" for number in range(HEALTHY)}
    assert "Traceback" not in said
    assert [line for line, times in Counter(lines).items() if times > 1] == []
    named = set(re.findall(r"default/([-a-z0-9]+)", said))
    assert waiting - named == set()


def test_odd_objects_hold_up_no_healthy_pod(odd_cluster: Cluster) -> None:
    waiting = fill(odd_cluster)
    create(odd_cluster, PODS_PATH, healthy_pods("polled"))
    done = odd_cluster.poller()
    holds_up_none(done.stderr, "polled", waiting)
    assert done.returncode == 3, done.stderr[-1000:]  # which is to say that some pods fit nowhere

    create(odd_cluster, PODS_PATH, healthy_pods("watched"))
    with odd_cluster.running_poller("--watch") as poller:
        eventually(lambda: poller.said.count(" is bound to ") >= HEALTHY)
        poller.stop(signal.SIGTERM)
    holds_up_none(poller.said, "watched", set())
    assert poller.process.returncode == 0, poller.said[-1000:]
