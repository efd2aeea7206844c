"""What happens in the cluster by itself: pods and nodes come, change and go."""

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from scripts.minicluster.claim_controller import ClaimController
from scripts.minicluster.disruptions import Disruptions
from scripts.minicluster.errors import ApiError
from scripts.minicluster.pods import bind
from scripts.minicluster.resources import (
    CLAIMS,
    DEPLOYMENTS,
    DEVICE_CLASSES,
    DISRUPTION_BUDGETS,
    LEASES,
    NAMESPACES,
    NODES,
    PODS,
    PRIORITY_CLASSES,
    REPLICA_SETS,
    RESOURCE_CLAIM_TEMPLATES,
    RESOURCE_CLAIMS,
    RESOURCE_SLICES,
    RESOURCES,
    STORAGE_CLASSES,
    VOLUMES,
    Resource,
)
from scripts.minicluster.store import Object, Stored, WatchEvent
from scripts.minicluster.volume_controller import NO_PROVISIONER, PROVISIONER
from scripts.minicluster.workloads import Workloads

from .server import ENDS, Server, SimulatedVolumes
from .values import labels_of

NAMESPACE, PASSING, TROUBLED = "default", "passing", "troubled"
"""Namespaces: the second one ends and begins again. The third is in some worlds alone: only its requests meet
faults there. Pods whose names begin with `x` are in the second, with `y` in the third."""

HOMES = {"x": PASSING, "y": TROUBLED}

SCHEDULER = "my-scheduler"
PRIORITIES = {"low": 10, "middle": 100, "high": 1000}

CLASSES = {"local": NO_PROVISIONER, "made": PROVISIONER}
"""Storage classes: volumes that are there, each on one node, or that are made when a pod needs them."""

ONE_DEVICE = {"devices": {"requests": [{"name": "gpu", "exactly": {"deviceClassName": "gpu"}}]}}
"""What a claim asks for: a device of a class."""

OPERATOR = "operator"
"""Who takes the pollers' lease away, and never renews it."""

CONTROLLED = (
    PODS,
    DISRUPTION_BUDGETS,
    CLAIMS,
    VOLUMES,
    DEPLOYMENTS,
    REPLICA_SETS,
    RESOURCE_CLAIMS,
    NAMESPACES,
)
"""Resources that controllers look after."""

STORAGE = {"accessModes": ["ReadWriteOnce"], "volumeMode": "Filesystem"}


def home_of(name: str) -> str:
    """The namespace of a pod."""
    return HOMES.get(name[:1], NAMESPACE)


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
    """Does the actions.

    on_action: called with each that had an effect. controllers: whether there are none, and stand-ins do
    their work.
    """

    def __init__(self, server: Server, on_action: Callable[[Action], None], controllers: bool = True) -> None:
        self._server, self._api, self._store = server, server.api, server.store
        self._on_action = on_action
        self._budgets = Disruptions(self._api)
        self._workloads, self._claims = Workloads(self._api), ClaimController(self._api)
        for name in (NAMESPACE, PASSING, "kube-system"):
            if not self._store.get(NAMESPACES, ("", name)):
                self._api.create(NAMESPACES, "", {"metadata": {"name": name}})
        for name, value in PRIORITIES.items():
            self._api.create(PRIORITY_CLASSES, "", {"metadata": {"name": name}, "value": value})
        for name, provisioner in CLASSES.items():
            kind = {"provisioner": provisioner, "volumeBindingMode": "WaitForFirstConsumer"}
            self._api.create(STORAGE_CLASSES, "", {"metadata": {"name": name}, **kind})
        self._api.create(DEVICE_CLASSES, "", {"metadata": {"name": "gpu"}, "spec": {}})
        template = {"metadata": {"name": "one-gpu"}, "spec": {"spec": ONE_DEVICE}}
        self._api.create(RESOURCE_CLAIM_TEMPLATES, NAMESPACE, template)
        self._volumes = SimulatedVolumes(self._api, 2.0, server.agenda)
        self._due: set[tuple[Resource, tuple[str, str]]] = set()  # steps of controllers
        if controllers:
            self._store.listen(self._control)

    def do(self, action: Action) -> None:
        """Do it, if the objects that it is about are there."""
        try:
            getattr(self, action.verb)(action.name, **action.details)
        except ApiError:
            return
        self._on_action(action)

    def _control(self, event: WatchEvent) -> None:
        """Controllers take a step, a moment after a change."""
        for stored in [event.new, *self._volumes.touched_by(event), *self._claims.touched_by(event)]:
            self._later(stored.resource, stored.key)
        if event.resource == PODS:
            for budget in self._store.every(DISRUPTION_BUDGETS, event.new.key[0]):
                self._later(DISRUPTION_BUDGETS, budget.key)
        for owner in event.new.metadata.get("ownerReferences") or ():
            for resource in (REPLICA_SETS, DEPLOYMENTS):
                if owner["kind"] == resource.kind:
                    self._later(resource, (event.new.key[0], owner["name"]))
        if event.kind == "DELETED" and event.resource in (PODS, REPLICA_SETS, DEPLOYMENTS):
            self._server.agenda.after(0.05, partial(self._collect, event.new.metadata["uid"]))

    def _later(self, resource: Resource, key: tuple[str, str]) -> None:
        if resource in CONTROLLED and (resource, key) not in self._due:
            self._due.add((resource, key))
            self._server.agenda.after(0.05, partial(self._step, resource, key))

    def _step(self, resource: Resource, key: tuple[str, str]) -> None:
        self._due.discard((resource, key))
        steps: dict[Resource, Callable[[Stored], object]] = {
            PODS: self._claims.pod,
            DISRUPTION_BUDGETS: self._budgets.budget,
            CLAIMS: self._volumes.claim,
            VOLUMES: self._volumes.volume,
            DEPLOYMENTS: self._workloads.deployment,
            REPLICA_SETS: self._workloads.replica_set,
            RESOURCE_CLAIMS: self._claims.claim,
            NAMESPACES: self._end_namespace,
        }
        if stored := self._store.get(resource, key):
            with suppress(ApiError):  # the namespace ends
                steps[resource](stored)

    def _collect(self, owner: str) -> None:
        """Delete what a deleted object owned."""
        for each in self._store.owned_by(owner):
            with suppress(ApiError):
                self._api.delete(each.resource, each.key, {})

    def _end_namespace(self, namespace: Stored) -> None:
        """Delete all that is in a namespace that ends, and then the namespace."""
        if not namespace.metadata.get("deletionTimestamp"):
            return
        left = [
            each
            for kind in RESOURCES
            if kind.namespaced
            for each in self._store.every(kind, namespace.key[1])
        ]
        for each in left:
            with suppress(ApiError):
                self._api.delete(each.resource, each.key, {})
        if left:
            self._later(NAMESPACES, namespace.key)
        else:
            self._api.finish_delete(namespace)

    # --- nodes ------------------------------------------------------------------------------------------

    def add_node(
        self,
        name: str,
        cpu: int = 4,
        zone: str = "",
        labels: Object | None = None,
        pods: int = 20,
        devices: int = 0,
        tainted: bool = False,
        extended: Object | None = None,
    ) -> None:
        """A node that is ready. cpu: whole ones; as many Gi of memory. pods: how many it takes.

        tainted: whether it has the taint that `taint` gives it. extended: how many of each extended resource.
        """
        resources = {"cpu": str(cpu), "memory": f"{cpu}Gi", "pods": str(pods)}
        resources |= {name: str(number) for name, number in (extended or {}).items() if number}
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
        self.taint(name, on=tainted)
        if devices:
            spec = {
                "driver": "driver",
                "nodeName": name,
                "pool": {"name": name, "generation": 1, "resourceSliceCount": 1},
                "devices": [{"name": f"gpu-{i}"} for i in range(devices)],
            }
            self._api.create(RESOURCE_SLICES, "", {"metadata": {"name": f"devices-{name}"}, "spec": spec})

    def delete_node(self, name: str) -> None:
        """The node goes, and its pods and devices with it."""
        self._api.delete(NODES, ("", name), {})
        if self._store.get(RESOURCE_SLICES, ("", f"devices-{name}")):
            self._api.delete(RESOURCE_SLICES, ("", f"devices-{name}"), {})

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

    def plug(self, name: str, resource: str, number: int) -> None:
        """The node's device plugin has so many of an extended resource now."""
        self._change(
            NODES,
            ("", name),
            lambda content: content["status"]["allocatable"].update({resource: str(number)}),
        )

    def add_device_class(self, name: str, resource: str) -> None:
        """A class of devices, which serves an extended resource."""
        spec = {"extendedResourceName": resource}
        self._api.create(DEVICE_CLASSES, "", {"metadata": {"name": name}, "spec": spec})

    # --- pods -------------------------------------------------------------------------------------------

    def add_pod(self, name: str, cpu: int = 500, priority: str = "", memory: int = 0, **more: Any) -> None:
        """A pod that requests so many thousandths of a cpu, and as many Mi of memory if not told otherwise.

        more: fields of its spec; `labels`; `annotations`; `ports`; `ends`, the seconds that it takes to end;
        `claim`, the class of a claim that it has; `device`, whether it has a claim of its own for a device,
        or one of a template; `extended`, the extended resources that it requests. The label `apart` keeps it
        from nodes with pods of the same value; `near` puts it into their zone; `spread` is spread over zones.
        """
        labels, scheduler = more.pop("labels", {}), more.pop("scheduler", SCHEDULER)
        annotations = {**more.pop("annotations", {}), **_ends(more)}
        metadata = {"name": name, "labels": labels, "annotations": annotations}
        container: Object = {
            "name": "main",
            "image": "nginx",
            "resources": {"requests": {"cpu": f"{cpu}m", "memory": f"{memory or cpu}Mi"}},
            "ports": [{"containerPort": port, "hostPort": port} for port in more.pop("ports", ())],
        }
        if extended := {resource: str(number) for resource, number in more.pop("extended", {}).items()}:
            container["resources"]["requests"] |= extended
            container["resources"]["limits"] = extended
        spec = {"schedulerName": scheduler, "containers": [container], **more}
        if apart := labels.get("apart"):
            term = {
                "labelSelector": {"matchLabels": {"apart": apart}},
                "topologyKey": "kubernetes.io/hostname",
            }
            spec["affinity"] = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
        if near := labels.get("near"):
            term = {
                "labelSelector": {"matchLabels": {"near": near}},
                "topologyKey": "topology.kubernetes.io/zone",
            }
            spec["affinity"] = {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
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
            self.add_claim(name, kind)
        if kind := spec.pop("device", ""):
            shared = kind == "template" and home_of(name) == NAMESPACE
            of = {"resourceClaimTemplateName": "one-gpu"} if shared else {"resourceClaimName": name}
            spec["resourceClaims"] = [{"name": "gpu", **of}]
            container["resources"]["claims"] = [{"name": "gpu"}]
            if not shared and not self._store.get(RESOURCE_CLAIMS, (home_of(name), name)):
                claim = {"metadata": {"name": name}, "spec": ONE_DEVICE}
                self._api.create(RESOURCE_CLAIMS, home_of(name), claim)
        self._api.create(PODS, home_of(name), {"metadata": metadata, "spec": spec})

    def add_claim(self, name: str, kind: str) -> None:
        """A claim for a volume of a class, for the pod of this name."""
        if not self._store.get(CLAIMS, (home_of(name), name)):
            spec = {**STORAGE, "storageClassName": kind, "resources": {"requests": {"storage": "1Gi"}}}
            self._api.create(CLAIMS, home_of(name), {"metadata": {"name": name}, "spec": spec})

    def add_deployment(self, name: str, replicas: int, **details: Any) -> None:
        """A Deployment, whose pods are replaced when they are deleted. details: as of `add_pod`."""
        cpu, priority = details["cpu"], details.get("priority", "")
        requests = {"cpu": f"{cpu}m", "memory": f"{cpu}Mi"}
        spec = {
            "schedulerName": details.get("scheduler", SCHEDULER),
            "containers": [{"name": "main", "image": "nginx", "resources": {"requests": requests}}],
            **({"priorityClassName": priority} if priority else {}),
        }
        labels = {"app": "web", "deployment": name}
        body = {
            "replicas": replicas,
            "selector": {"matchLabels": {"deployment": name}},
            "template": {"metadata": {"labels": labels, "annotations": _ends(details)}, "spec": spec},
        }
        self._api.create(DEPLOYMENTS, NAMESPACE, {"metadata": {"name": name}, "spec": body})

    def scale(self, name: str, replicas: int) -> None:
        """The Deployment asks for another number of pods."""
        self._change(
            DEPLOYMENTS, (NAMESPACE, name), lambda content: content["spec"].update(replicas=replicas)
        )

    def add_group(self, name: str, size: int, **details: Any) -> None:
        """So many pods that are to be bound all or none."""
        for i in range(size):
            annotations = {"poller/group-size": str(size)}
            self.add_pod(f"{name}-{i}", labels={"poller/group": name}, annotations=annotations, **details)

    def delete_group(self, name: str) -> None:
        """All pods of a group are deleted."""
        for pod in self._store.every(PODS):
            if labels_of(pod).get("poller/group") == name:
                self.delete_pod(pod.key[1])

    def delete_pod(self, name: str, grace: int = 0) -> None:
        """The pod is deleted, at once or after its grace period, and its claims with it."""
        self._api.delete(PODS, (home_of(name), name), {"gracePeriodSeconds": grace})
        for resource in (CLAIMS, RESOURCE_CLAIMS):
            if self._store.get(resource, (home_of(name), name)):
                self._api.delete(resource, (home_of(name), name), {})

    def make_pod_again(self, name: str, **details: Any) -> None:
        """The pod is deleted, and another of the same name is made in the same moment."""
        self.delete_pod(name)
        self.add_pod(name, **details)

    def finish_pod(self, name: str) -> None:
        """The pod has done its work, if it runs."""
        pod = self._api.find(PODS, (home_of(name), name))
        if pod.content["spec"].get("nodeName"):
            self._change(PODS, pod.key, lambda content: content["status"].update(phase="Succeeded"))

    def bind_by_hand(self, name: str, node: str) -> None:
        """Somebody who is no scheduler binds the pod."""
        metadata = {"name": name, "uid": self._api.find(PODS, (home_of(name), name)).metadata["uid"]}
        target = {"kind": "Node", "name": node}
        bind(self._api, home_of(name), name, {"metadata": metadata, "target": target})

    def open_gate(self, name: str) -> None:
        """The pod's scheduling gates are removed."""
        key = home_of(name), name
        self._change(PODS, key, lambda content: content["spec"].pop("schedulingGates", None))

    def relabel_pod(self, name: str, labels: Object) -> None:
        """The pod gets labels, besides those that it has."""
        key = home_of(name), name
        self._change(PODS, key, lambda content: content["metadata"].setdefault("labels", {}).update(labels))

    def resize_pod(self, name: str, cpu: int) -> None:
        """The pod's request changes where it is."""
        requests = {"cpu": f"{cpu}m", "memory": f"{cpu}Mi"}

        def change(content: Object) -> None:
            content["spec"]["containers"][0]["resources"]["requests"] = requests

        self._change(PODS, (home_of(name), name), change)

    # --- namespaces -------------------------------------------------------------------------------------

    def end_namespace(self, name: str) -> None:
        """The namespace ends, and all that is in it goes."""
        self._api.delete(NAMESPACES, ("", name), {})

    def begin_namespace(self, name: str) -> None:
        """The namespace is there again."""
        self._api.create(NAMESPACES, "", {"metadata": {"name": name}})

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

    def delete_volume(self, name: str) -> None:
        """The volume goes; a claim that was bound to it is lost."""
        self._api.delete(VOLUMES, ("", name), {})

    def make_claim_again(self, name: str, kind: str) -> None:
        """The claim of a pod is deleted, and another of the same name is made in the same moment."""
        self._api.delete(CLAIMS, (home_of(name), name), {})
        self.add_claim(name, kind)

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

    def take_lease(self, name: str) -> None:
        """Somebody writes another name into the pollers' lease, and doesn't renew it."""
        key = "kube-system", name
        self._change(LEASES, key, lambda content: content["spec"].update(holderIdentity=OPERATOR))

    def _change(self, resource: Resource, key: tuple[str, str], change: Callable[[Object], object]) -> None:
        content = self._api.find(resource, key).copy()
        change(content)
        self._store.put(resource, content)


def _ends(details: Object) -> dict[str, str]:
    """The annotation that says how long a pod takes to end, if that is told."""
    seconds = details.pop("ends", None)
    return {ENDS: str(seconds)} if seconds else {}
