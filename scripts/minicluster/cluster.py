"""The objects of a new cluster: namespaces, the system's priority classes, and the requested nodes."""

from .api import Api
from .clock import timestamp
from .defaults import fill_in
from .resources import NAMESPACES, NODES, PRIORITY_CLASSES
from .store import Object


def furnish(api: Api, nodes: int) -> None:
    for name in ("default", "kube-node-lease", "kube-public", "kube-system"):
        api.create(NAMESPACES, "", {"metadata": {"name": name}})
    for name, value in (("system-cluster-critical", 2_000_000_000), ("system-node-critical", 2_000_001_000)):
        api.create(PRIORITY_CLASSES, "", {"metadata": {"name": name}, "value": value})
    for number in range(1, nodes + 1):
        _add_node(api, number)


def _add_node(api: Api, number: int) -> None:
    """Add a node that is ready, and has no longer the taint of a new one."""
    stored = api.create(NODES, "", _node(number))
    content = stored.copy()
    del content["spec"]["taints"]
    fill_in(NODES, content)
    api.store.put(NODES, content)


def _node(number: int) -> Object:
    name = f"node{number}"
    capacity = {"cpu": "4", "memory": "8Gi", "pods": "110"}
    high, low = divmod(number, 256)
    now = timestamp()
    healthy = {"lastHeartbeatTime": now, "lastTransitionTime": now}
    pressures = [
        {"type": f"{what}Pressure", "status": "False", "reason": f"KubeletHasNo{what}Pressure", **healthy}
        for what in ("Memory", "Disk", "PID")
    ]
    ready = {"type": "Ready", "status": "True", "reason": "KubeletReady", "message": "ok", **healthy}
    return {
        "metadata": {
            "name": name,
            "labels": {
                "kubernetes.io/arch": "amd64",
                "kubernetes.io/hostname": name,
                "kubernetes.io/os": "linux",
                "topology.kubernetes.io/zone": f"zone{1 + (number - 1) % 3}",
            },
        },
        "status": {
            "capacity": capacity,
            "allocatable": capacity,
            "conditions": [*pressures, ready],
            "addresses": [
                {"type": "InternalIP", "address": f"10.0.{high}.{low}"},
                {"type": "Hostname", "address": name},
            ],
            "nodeInfo": {
                "kubeletVersion": "v1.36.2",
                "osImage": "Linux",
                "kernelVersion": "6",
                "containerRuntimeVersion": "containerd://2",
                "operatingSystem": "linux",
                "architecture": "amd64",
            },
        },
    }
