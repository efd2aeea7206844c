"""The nodes and pods of the bench, as the API takes them."""

from scripts.benchmark.client import Json

ZONES = 3
MEBI = 1 << 20

WAITING = {"bench": "waiting"}
BOUND = {"bench": "bound"}
"""The labels of pods that a scheduler is to bind, and of pods that are bound from the start."""


def node(number: int) -> Json:
    """A node. 1,000 pods fit on a hundred of them."""
    name = node_name(number)
    labels = {
        "kubernetes.io/hostname": name,
        "kubernetes.io/os": "linux",
        "topology.kubernetes.io/zone": f"zone-{number % ZONES}",
    }
    room = {"cpu": "32", "memory": "64Gi", "pods": "110"}
    ready = {"type": "Ready", "status": "True", "reason": "KubeletReady", "message": "ok"}
    return {
        "metadata": {"name": name, "labels": labels},
        "status": {"capacity": room, "allocatable": room, "conditions": [ready]},
    }


def node_name(number: int) -> str:
    return f"node-{number:05}"


def pod(name: str, scheduler_name: str) -> Json:
    """A pod for a scheduler to bind. It differs from the others only in its name."""
    return _pod(name, scheduler_name, {"app": "web", **WAITING}, {"cpu": "50m", "memory": "32Mi"})


def different_pod(number: int, scheduler_name: str) -> Json:
    """A pod for a scheduler to bind. Its requests and its label differ from those of all others."""
    requests = {"cpu": f"{10 + number % 80}m", "memory": str(16 * MEBI + 4096 * number)}
    return _pod(f"web-{number}", scheduler_name, {"app": f"web-{number}", **WAITING}, requests)


def bound_pod(number: int, nodes: int) -> Json:
    """A pod that has a node from the start."""
    body = _pod(f"bound-{number}", "other", {"app": "old", **BOUND}, {"cpu": "50m", "memory": "32Mi"})
    body["spec"]["nodeName"] = node_name(number % nodes)
    return body


def typical_pod(number: int, nodes: int) -> Json:
    """A pod that has a node from the start, as a Deployment makes it: two containers, and what they need."""
    app = f"app-{number // 20}"
    body = bound_pod(number, nodes)
    body["metadata"] |= {
        "name": f"{app}-7d9f8b6c5d-{number:06}",
        "labels": {"app": app, "pod-template-hash": "7d9f8b6c5d", "team": f"team-{number % 40}", **BOUND},
        "ownerReferences": [
            {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": f"{app}-7d9f8b6c5d", "uid": f"of-{app}"}
        ],
    }
    body["spec"]["containers"] = [_typical_container(name, port) for name, port in TYPICAL.items()]
    body["spec"]["volumes"] = [{"name": "settings", "configMap": {"name": app}}]
    return body


TYPICAL = {"web": 8080, "sidecar": 9090}
"""The containers of such a pod, and their ports."""


def _typical_container(name: str, port: int) -> Json:
    return {
        "name": name,
        "image": f"registry.example/team/{name}:1.27.3",
        "env": [{"name": f"SETTING_{number}", "value": f"value {number}"} for number in range(10)],
        "ports": [{"name": "http", "containerPort": port}],
        "readinessProbe": {"httpGet": {"path": "/ready", "port": "http"}},
        "resources": {
            "requests": {"cpu": "25m", "memory": "16Mi"},
            "limits": {"cpu": "1", "memory": "256Mi"},
        },
        "volumeMounts": [{"name": "settings", "mountPath": "/etc/settings"}],
    }


def pods(number: int, scheduler_name: str, *, alike: bool) -> list[Json]:
    if alike:
        return [pod(f"web-{each}", scheduler_name) for each in range(number)]
    return [different_pod(each, scheduler_name) for each in range(number)]


def _pod(name: str, scheduler_name: str, labels: dict[str, str], requests: dict[str, str]) -> Json:
    container = {"name": "main", "image": "nginx", "resources": {"requests": requests}}
    return {
        "metadata": {"namespace": "default", "name": name, "labels": labels},
        "spec": {"schedulerName": scheduler_name, "containers": [container]},
    }
