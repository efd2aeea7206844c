"""What happens in the cluster by itself: pods and nodes come, change and go."""

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from scripts.minicluster.disruptions import Disruptions
from scripts.minicluster.errors import ApiError
from scripts.minicluster.resources import (
    CLAIMS,
    DISRUPTION_BUDGETS,
    NAMESPACES,
    NODES,
    PODS,
    PRIORITY_CLASSES,
    STORAGE_CLASSES,
    VOLUMES,
    Resource,
)
from scripts.minicluster.store import Event, Object
from scripts.minicluster.volume_controller import NO_PROVISIONER, PROVISIONER

from .server import Server, SimulatedVolumes

NAMESPACE = "default"
SCHEDULER = "my-scheduler"
PRIORITIES = {"low": 10, "middle": 100, "high": 1000}

CLASSES = {"local": NO_PROVISIONER, "made": PROVISIONER}
"""Storage classes: volumes that are there, each on one node, or that are made when a pod needs them."""

STORAGE = {"accessModes": ["ReadWriteOnce"], "volumeMode": "Filesystem"}


@dataclass(frozen=True)
class Action:
    """Something that happens at a time. verb: a method of Cluster. details: its other arguments."""

    at: float
    verb: str
    name: str
    details: Object = field(default_factory=dict, hash=False)

    def __str__(self) -> str:
        said = ", ".join(f"{key} {value}" for key, value in self.details.items() if value)
        return f"{self.verb.replace('_', ' ')} {self.name}" + (f" ({said})" if said else "")


class Cluster:
    """Does the actions. on_action: called with each that had an effect."""

    def __init__(self, server: Server, on_action: Callable[[Action], None]) -> None:
        self._server, self._api, self._store = server, server.api, server.store
        self._on_action = on_action
        self._budgets = Disruptions(self._api)
        for name in (NAMESPACE, "kube-system"):
            self._api.create(NAMESPACES, "", {"metadata": {"name": name}})
        for name, value in PRIORITIES.items():
            self._api.create(PRIORITY_CLASSES, "", {"metadata": {"name": name}, "value": value})
        for name, provisioner in CLASSES.items():
            kind = {"provisioner": provisioner, "volumeBindingMode": "WaitForFirstConsumer"}
            self._api.create(STORAGE_CLASSES, "", {"metadata": {"name": name}, **kind})
        self._volumes = SimulatedVolumes(self._api, 2.0, server.agenda)
        self._store.listen(self._control)

    def do(self, action: Action) -> None:
        """Do it, if the objects that it is about are there."""
        try:
            getattr(self, action.verb)(action.name, **action.details)
        except ApiError:
            return
        self._on_action(action)

    def _control(self, event: Event) -> None:
        """The controllers of budgets and volumes take a step, a moment after a change."""
        if event.resource in (PODS, DISRUPTION_BUDGETS):
            self._server.agenda.after(0.05, self._recount)
        for stored in [event.new, *self._volumes.touched_by(event)]:
            if stored.resource in (CLAIMS, VOLUMES):
                self._server.agenda.after(0.05, partial(self._step, stored.resource, stored.key))

    def _recount(self) -> None:
        for budget in self._store.every(DISRUPTION_BUDGETS):
            self._budgets.budget(budget)

    def _step(self, resource: Resource, key: tuple[str, str]) -> None:
        if stored := self._store.get(resource, key):
            (self._volumes.claim if resource == CLAIMS else self._volumes.volume)(stored)

    # --- nodes ------------------------------------------------------------------------------------------

    def add_node(self, name: str, cpu: int = 4, zone: str = "", labels: Object | None = None) -> None:
        """A node that is ready. cpu: whole ones; as many Gi of memory."""
        resources = {"cpu": str(cpu), "memory": f"{cpu}Gi", "pods": "20"}
        body = {
            "metadata": {
                "name": name,
                "labels": {
                    "kubernetes.io/hostname": name,
                    **({"topology.kubernetes.io/zone": zone} if zone else {}),
                    **(labels or {}),
                },
            },
            "status": {"capacity": resources, "allocatable": resources},
        }
        self._api.create(NODES, "", body)
        self._change(NODES, ("", name), lambda content: content["spec"].pop("taints", None))

    def delete_node(self, name: str) -> None:
        """The node goes, and its pods with it."""
        self._api.delete(NODES, ("", name), {})

    def replace_node(self, name: str, **details: Any) -> None:
        """The node goes, and another of the same name comes in the same moment."""
        self.delete_node(name)
        self.add_node(name, **details)

    def cordon(self, name: str, on: bool = True) -> None:
        """The node takes no more pods, or does again."""
        self._change(NODES, ("", name), lambda content: content["spec"].update(unschedulable=on))

    def taint(self, name: str, on: bool = True) -> None:
        """The node gets the taint `for=others:NoSchedule`, or loses it."""
        taints = [{"key": "for", "value": "others", "effect": "NoSchedule"}] if on else []
        self._change(NODES, ("", name), lambda content: content["spec"].update(taints=taints))

    def resize(self, name: str, cpu: int) -> None:
        """The node's allocatable changes."""
        new = {"cpu": str(cpu), "memory": f"{cpu}Gi"}
        self._change(NODES, ("", name), lambda content: content["status"]["allocatable"].update(new))

    # --- pods -------------------------------------------------------------------------------------------

    def add_pod(self, name: str, cpu: int = 500, priority: str = "", **more: Any) -> None:
        """A pod that requests so many thousandths of a cpu.

        more: fields of its spec; `labels`; `annotations`; `ports`; `claim`, the class of a claim that it has.
        The label `apart` keeps it from nodes with pods of the same value; `spread` is spread over zones.
        """
        labels, scheduler = more.pop("labels", {}), more.pop("scheduler", SCHEDULER)
        metadata = {"name": name, "labels": labels, "annotations": more.pop("annotations", {})}
        container = {
            "name": "main",
            "image": "nginx",
            "resources": {"requests": {"cpu": f"{cpu}m", "memory": f"{cpu}Mi"}},
            "ports": [{"containerPort": port, "hostPort": port} for port in more.pop("ports", ())],
        }
        spec = {"schedulerName": scheduler, "containers": [container], **more}
        if apart := labels.get("apart"):
            term = {
                "labelSelector": {"matchLabels": {"apart": apart}},
                "topologyKey": "kubernetes.io/hostname",
            }
            spec["affinity"] = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
        if spread := labels.get("spread"):
            spec["topologySpreadConstraints"] = [
                {
                    "maxSkew": 1,
                    "topologyKey": "topology.kubernetes.io/zone",
                    "whenUnsatisfiable": "DoNotSchedule",
                    "labelSelector": {"matchLabels": {"spread": spread}},
                }
            ]
        if priority:
            spec["priorityClassName"] = priority
        if kind := spec.pop("claim", ""):
            spec["volumes"] = [{"name": "data", "persistentVolumeClaim": {"claimName": name}}]
            self._add_claim(name, kind)
        self._api.create(PODS, NAMESPACE, {"metadata": metadata, "spec": spec})

    def _add_claim(self, name: str, kind: str) -> None:
        if not self._store.get(CLAIMS, (NAMESPACE, name)):
            spec = {**STORAGE, "storageClassName": kind, "resources": {"requests": {"storage": "1Gi"}}}
            self._api.create(CLAIMS, NAMESPACE, {"metadata": {"name": name}, "spec": spec})

    def add_group(self, name: str, size: int, **details: Any) -> None:
        """So many pods that are to be bound all or none."""
        for i in range(size):
            annotations = {"poller/group-size": str(size)}
            self.add_pod(f"{name}-{i}", labels={"poller/group": name}, annotations=annotations, **details)

    def delete_group(self, name: str) -> None:
        """All pods of a group are deleted."""
        for pod in self._store.every(PODS):
            if pod.metadata["labels"].get("poller/group") == name:
                self.delete_pod(pod.key[1])

    def delete_pod(self, name: str, grace: int = 0) -> None:
        """The pod is deleted, at once or after its grace period."""
        self._api.delete(PODS, (NAMESPACE, name), {"gracePeriodSeconds": grace})
        if self._store.get(CLAIMS, (NAMESPACE, name)):
            self._api.delete(CLAIMS, (NAMESPACE, name), {})

    def make_pod_again(self, name: str, **details: Any) -> None:
        """The pod is deleted, and another of the same name is made in the same moment."""
        self.delete_pod(name)
        self.add_pod(name, **details)

    def finish_pod(self, name: str) -> None:
        """The pod has done its work, if it runs."""
        pod = self._api.find(PODS, (NAMESPACE, name))
        if pod.content["spec"].get("nodeName"):
            self._change(PODS, pod.key, lambda content: content["status"].update(phase="Succeeded"))

    def open_gate(self, name: str) -> None:
        """The pod's scheduling gates are removed."""
        self._change(PODS, (NAMESPACE, name), lambda content: content["spec"].pop("schedulingGates", None))

    def relabel_pod(self, name: str, labels: Object) -> None:
        """The pod's labels change."""
        self._change(PODS, (NAMESPACE, name), lambda content: content["metadata"].update(labels=labels))

    # --- volumes ----------------------------------------------------------------------------------------

    def add_volume(self, name: str, node: str) -> None:
        """A volume on a node."""
        here = {"key": "kubernetes.io/hostname", "operator": "In", "values": [node]}
        spec = {
            **STORAGE,
            "capacity": {"storage": "1Gi"},
            "storageClassName": "local",
            "local": {"path": f"/disks/{name}"},
            "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [here]}]}},
            "persistentVolumeReclaimPolicy": "Delete",
        }
        self._api.create(VOLUMES, "", {"metadata": {"name": name}, "spec": spec})

    # --- others -----------------------------------------------------------------------------------------

    def add_budget(self, name: str, app: str, least: int) -> None:
        """A budget for the pods of an app."""
        spec = {"minAvailable": least, "selector": {"matchLabels": {"app": app}}}
        self._api.create(DISRUPTION_BUDGETS, NAMESPACE, {"metadata": {"name": name}, "spec": spec})

    def change_budget(self, name: str, least: int) -> None:
        """The budget asks for another number."""
        self._change(
            DISRUPTION_BUDGETS, (NAMESPACE, name), lambda content: content["spec"].update(minAvailable=least)
        )

    def _change(self, resource: Resource, key: tuple[str, str], change: Callable[[Object], object]) -> None:
        content = self._api.find(resource, key).copy()
        change(content)
        self._store.put(resource, content)
