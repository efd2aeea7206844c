"""The cluster of an ask, as poller reads it."""

import json
from datetime import UTC, datetime
from functools import lru_cache
from random import Random
from typing import Any

import msgspec

from lib.kube import devices, objects, storage
from lib.kube.changes import Change, Kind
from lib.kube.objects import (
    ControllerRef,
    LabelSelector,
    Node,
    Object,
    Pod,
    PodDisruptionBudget,
    Service,
    decode_hook,
)
from lib.scheduling.cache import Cache
from lib.scheduling.framework.interface import Plugin, Profile
from lib.scheduling.handle import Handle
from lib.scheduling.looked_up import LookedUp
from lib.scheduling.plugins.registry import make
from lib.scheduling.scheduling_cycle import Scheduler
from lib.scheduling.workloads import Workloads
from lib.service.config.profile_builder import arguments_for

from .kube_scheduler import Json

STORAGE: dict[str, Any] = {
    each.__name__: each
    for each in (
        storage.PersistentVolume,
        storage.PersistentVolumeClaim,
        storage.StorageClass,
        storage.CSINode,
        storage.CSIDriver,
        storage.CSIStorageCapacity,
        storage.VolumeAttachment,
    )
}
DEVICES: dict[str, Any] = {
    each.__name__: each for each in (devices.DeviceClass, devices.ResourceClaim, devices.ResourceSlice)
}
KINDS: dict[str, Any] = {"Pod": Pod, "Node": Node, **STORAGE, **DEVICES}
"""The types of the objects that changes are about."""

CONTROLLERS = {"ReplicationController": "v1", "ReplicaSet": "apps/v1", "StatefulSet": "apps/v1"}


class Asked:
    """An ask's cluster and pod, and a scheduler with its plugins.

    msgspec.ValidationError if an object can't be read.
    """

    def __init__(self, ask: Json) -> None:
        self.pod: Pod = read(Pod, ask["pod"])
        self.cache = _cache(ask, self.pod)
        self.scheduler, self.plugins, handle = _scheduler(json.dumps(ask["plugins"]))
        object.__setattr__(handle, "cache", self.cache)  # to make a scheduler takes longer than all else
        for each in ask.get("nominated", ()):
            self.cache.nominator.add(read(Pod, each), each["status"]["nominatedNodeName"])


@lru_cache(maxsize=256)
def _scheduler(chosen: str) -> tuple[Scheduler, list[Plugin], Handle]:
    """A scheduler with these plugins, as JSON; and what they get from poller."""
    handle = Handle(Random(1), now=lambda: datetime.now(UTC))
    own = [_plugin(each, handle) for each in json.loads(chosen)]
    plugins = (*own, make("DefaultBinder", handle, {}))
    weights = {each.name: 1 for each in plugins if hasattr(each, "score") or hasattr(each, "score_nodes")}
    return Scheduler(Profile("x", plugins, weights), Random(1)), own, handle


def read(kind: type[Object], body: Any) -> Any:
    """An object of JSON. msgspec.ValidationError if it isn't one."""
    return msgspec.json.decode(msgspec.json.encode(body), type=kind, dec_hook=decode_hook)


def _plugin(chosen: Json, handle: Handle) -> Plugin:
    args = {name: each for name, each in chosen.get("args", {}).items() if name not in ("kind", "apiVersion")}
    return make(chosen["name"], handle, arguments_for(chosen["name"], args, "args"))


def _cache(ask: Json, pod: Pod) -> Cache:
    there: Json = ask.get("objects", {})
    namespaces = {
        each["metadata"]["name"]: each["metadata"].get("labels") or {} for each in there.get("Namespace", ())
    }
    services = [read(Service, each) for each in there.get("Service", ())]
    budgets = [read(PodDisruptionBudget, each) for each in there.get("PodDisruptionBudget", ())]
    looked_up = LookedUp(
        namespaces=namespaces,
        workloads=Workloads(services, _selectors(there, pod)),
        budgets=tuple(budgets),
    )
    nodes = [read(Node, each["node"]) for each in ask["nodes"]]
    cache = Cache(nodes, [read(Pod, pod) for each in ask["nodes"] for pod in each["pods"]], looked_up)
    for kind, bodies in there.items():
        for each in bodies:
            if kind in STORAGE or kind in DEVICES:
                cache.apply(Change(Kind.ADDED, read(KINDS[kind], each)))
    cache.knows_claims = True
    return cache


def _selectors(there: Json, pod: Pod) -> dict[ControllerRef, LabelSelector]:
    """The selector of the controller of the pod, if it is there."""
    found = {}
    for owner in pod.metadata.owner_references:
        for each in there.get(owner.kind, ()):
            names = each["metadata"].get("namespace", ""), each["metadata"].get("name")
            if (
                owner.controller
                and names == (pod.metadata.namespace, owner.name)
                and CONTROLLERS.get(owner.kind) == owner.api_version
            ):
                selector = each["spec"].get("selector") or {}
                labels = {"matchLabels": selector} if owner.kind == "ReplicationController" else selector
                reference = ControllerRef(names[0], owner.api_version, owner.kind, owner.name, owner.uid)
                found[reference] = read(objects.LabelSelector, labels)
    return found
