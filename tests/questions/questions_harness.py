"""Asks about small clusters, as the verbs do once they have read one."""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any

import msgspec
from objects import read
from questions.answers import type_of

from lib.kube.objects import Namespace, Node, Object, Pod
from lib.kube.storage import PersistentVolume, PersistentVolumeClaim
from lib.questions.deciding import Decider
from lib.questions.snapshot import Snapshot
from lib.questions.why import Why, why
from lib.scheduling.plugins.registry import default_profile

Json = dict[str, Any]

HOSTNAME = "kubernetes.io/hostname"
ZONE = "topology.kubernetes.io/zone"


def a_node(
    name: str, zone: str = "a", cpu: str = "4", labels: dict[str, str] | None = None, **spec: Any
) -> Node:
    """A node with 8Gi of memory and room for ten pods."""
    body = {
        "metadata": {"name": name, "uid": name, "labels": {HOSTNAME: name, ZONE: zone, **(labels or {})}},
        "spec": spec,
        "status": {"allocatable": {"cpu": cpu, "memory": "8Gi", "pods": "10"}},
    }
    made: Node = read(Node, body)
    return made


def a_pod(
    name: str,
    cpu: str = "",
    on: str = "",
    labels: dict[str, str] | None = None,
    metadata: dict[str, Any] | None = None,
    requests: dict[str, str] | None = None,
    **spec: Any,
) -> Pod:
    """A pod of default-scheduler, on a node if one is named."""
    wanted = {**({"cpu": cpu} if cpu else {}), **(requests or {})}
    container = {"name": "main", "image": "nginx", "resources": {"requests": wanted}, **spec.pop("main", {})}
    body = {
        "metadata": {
            "namespace": "default",
            "name": name,
            "uid": f"uid-{name}",
            "labels": labels or {},
            **(metadata or {}),
        },
        "spec": {
            "schedulerName": "default-scheduler",
            "nodeName": on,
            "containers": [container],
            **spec,
        },
    }
    made: Pod = read(Pod, body)
    return made


def a_claim(name: str, volume: str = "", **spec: Any) -> PersistentVolumeClaim:
    """A claim of 1Gi, bound if a volume is named."""
    bound = {"pv.kubernetes.io/bind-completed": "yes"} if volume else {}
    body = {
        "metadata": {"namespace": "default", "name": name, "uid": f"uid-{name}", "annotations": bound},
        "spec": {"volumeName": volume, "resources": {"requests": {"storage": "1Gi"}}, **spec},
    }
    made: PersistentVolumeClaim = read(PersistentVolumeClaim, body)
    return made


def a_volume(name: str, labels: dict[str, str] | None = None, **spec: Any) -> PersistentVolume:
    body = {
        "metadata": {"name": name, "labels": labels or {}},
        "spec": {"capacity": {"storage": "1Gi"}, **spec},
    }
    made: PersistentVolume = read(PersistentVolume, body)
    return made


def using(*claims: str) -> dict[str, Any]:
    """What a pod's spec says of the claims that it uses."""
    return {"volumes": [{"name": name, "persistentVolumeClaim": {"claimName": name}} for name in claims]}


def snapshot_of(*objects: Object) -> Snapshot:
    """A cluster with these objects, and the namespace default."""
    snapshot = Snapshot()
    namespace = {"metadata": {"name": "default", "labels": {"kubernetes.io/metadata.name": "default"}}}
    for each in (read(Namespace, namespace), *objects):
        snapshot.of(type(each)).append(each)
    return snapshot


def decider_of(snapshot: Snapshot) -> Decider:
    return Decider(snapshot, [default_profile("default-scheduler")], Random(1))


def ask_why(pod: Pod, objects: Sequence[Object]) -> Why:
    """Why a pod has no node among these objects, of which it is one itself or not."""
    snapshot = snapshot_of(*objects)
    return why(pod, snapshot, decider_of(snapshot))


@dataclass
class Done:
    """What a run printed, and its exit status."""

    status: int
    out: str
    err: str

    @property
    def json(self) -> Json:
        """The answer, which has the fields that the page on them names."""
        assert self.err == ""
        found: Json = json.loads(self.out)
        assert self.status == (0 if found["answer"] == "yes" else 3)
        msgspec.convert(found, type=type_of(found))
        return found


Run = Callable[..., Done]
