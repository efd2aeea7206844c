"""The tables that `kubectl get` prints: the server picks the columns and fills the cells.

Columns are those of pkg/printers/internalversion; kinds that aren't listed show their name and age.
"""

from collections.abc import Callable, Iterable

from .clock import age
from .columns import AGE, NAME, Column, Object, at
from .resources import (
    DEPLOYMENTS,
    DISRUPTION_BUDGETS,
    EVENTS,
    LEASES,
    NAMESPACES,
    NODES,
    PODS,
    PRIORITY_CLASSES,
    REPLICA_SETS,
    Resource,
)
from .selectors import show_selector
from .storage_tables import STORAGE_COLUMNS
from .store import Stored


def table(
    resource: Resource, items: Iterable[Stored], metadata: Object, include: str, header: bool = True
) -> Object:
    """A table. include: what each row has of its object: None, Metadata or Object."""
    columns = COLUMNS.get(resource, [NAME, AGE])
    return {
        "kind": "Table",
        "apiVersion": "meta.k8s.io/v1",
        "metadata": metadata,
        "columnDefinitions": [column.definition() for column in columns] if header else None,
        "rows": [
            {
                "cells": [column.cell(stored.content) for column in columns],
                "object": _included(stored, include),
            }
            for stored in items
        ],
    }


def only_metadata(metadata: Object) -> Object:
    return {"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": metadata}


def _included(stored: Stored, include: str) -> Object | None:
    if include == "None":
        return None
    if include == "Object":
        kind = {"kind": stored.resource.kind, "apiVersion": stored.resource.group_version}
        return {**kind, **stored.content}
    return only_metadata(stored.metadata)


def _containers(content: Object) -> list[Object]:
    containers: list[Object] = content["spec"]["template"]["spec"].get("containers") or []
    return containers


def _pod_ready(content: Object) -> str:
    statuses = content["status"].get("containerStatuses") or []
    ready = sum(bool(status.get("ready")) for status in statuses)
    return f"{ready}/{len(content['spec']['containers'])}"


def _pod_status(content: Object) -> str:
    """The STATUS of a pod: the reason why it waits or ended, if there is one; else its phase."""
    status = content["status"]
    shown: str = status.get("reason") or status["phase"]
    if any(condition.get("reason") == "SchedulingGated" for condition in status.get("conditions") or ()):
        shown = "SchedulingGated" if content["spec"].get("schedulingGates") else shown
    for container in status.get("containerStatuses") or ():
        state = container.get("state") or {}
        waits, ended = state.get("waiting") or {}, state.get("terminated") or {}
        shown = waits.get("reason") or ended.get("reason") or shown
    if content["metadata"].get("deletionTimestamp") and status["phase"] not in ("Succeeded", "Failed"):
        shown = "Terminating"
    return shown


def _pod_restarts(content: Object) -> str:
    return str(sum(one.get("restartCount", 0) for one in content["status"].get("containerStatuses") or ()))


def _readiness_gates(content: Object) -> str:
    gates = [gate["conditionType"] for gate in content["spec"].get("readinessGates") or ()]
    true = {c["type"] for c in content["status"].get("conditions") or () if c["status"] == "True"}
    return f"{sum(gate in true for gate in gates)}/{len(gates)}" if gates else "<none>"


def _node_status(content: Object) -> str:
    ready = next((c for c in content["status"].get("conditions") or () if c["type"] == "Ready"), None)
    shown = "Unknown" if not ready else "Ready" if ready["status"] == "True" else "NotReady"
    return f"{shown},SchedulingDisabled" if content["spec"].get("unschedulable") else shown


def _node_roles(content: Object) -> str:
    prefix = "node-role.kubernetes.io/"
    labels = content["metadata"].get("labels") or {}
    return (
        ",".join(sorted(label.removeprefix(prefix) for label in labels if label.startswith(prefix)))
        or "<none>"
    )


def _node_address(kind: str) -> Callable[[Object], str]:
    def cell(content: Object) -> str:
        addresses = content["status"].get("addresses") or []
        return next((one["address"] for one in addresses if one["type"] == kind), "<none>")

    return cell


def _node_kernel(content: Object) -> str:
    info = content["status"]["nodeInfo"]
    architecture = f" ({info['architecture']})" if info["architecture"] else ""
    return f"{info['kernelVersion']}{architecture}" if info["kernelVersion"] else "<unknown>"


def _event_object(content: Object) -> str:
    about = content["involvedObject"]
    return f"{about.get('kind', '').lower()}/{about.get('name', '')}"


def _event_source(content: Object) -> str:
    source = content.get("source") or {}
    component = source.get("component") or content.get("reportingComponent") or ""
    instance = source.get("host") or content.get("reportingInstance") or ""
    return f"{component}, {instance}" if instance else component


def _event_first(content: Object) -> str:
    return age(content.get("firstTimestamp") or content.get("eventTime"))


def _event_last(content: Object) -> str:
    series = content.get("series") or {}
    last = series.get("lastObservedTime") or content.get("lastTimestamp")
    return age(last) if last else _event_first(content)


def _event_count(content: Object) -> int:
    return (content.get("series") or {}).get("count") or content.get("count") or 1


def _deployment_ready(content: Object) -> str:
    return f"{content['status'].get('readyReplicas', 0)}/{content['spec']['replicas']}"


TEMPLATE = [
    Column(
        "Containers",
        lambda content: ",".join(one["name"] for one in _containers(content)),
        "Names of the containers in the template.",
        wide=True,
    ),
    Column(
        "Images",
        lambda content: ",".join(one["image"] for one in _containers(content)),
        "Images of the containers in the template.",
        wide=True,
    ),
    Column(
        "Selector", lambda content: show_selector(content["spec"].get("selector")), "Its pods.", wide=True
    ),
]

COLUMNS: dict[Resource, list[Column]] = {
    PODS: [
        NAME,
        Column("Ready", _pod_ready, "How many of its containers are ready."),
        Column("Status", _pod_status, "Where it stands, in a word."),
        Column("Restarts", _pod_restarts, "How often its containers were started again."),
        AGE,
        Column("IP", at("status", "podIP", default="<none>"), "Its address.", wide=True),
        Column("Node", at("spec", "nodeName", default="<none>"), "Where it runs.", wide=True),
        Column(
            "Nominated Node",
            at("status", "nominatedNodeName", default="<none>"),
            "Where room is being made for it.",
            wide=True,
        ),
        Column("Readiness Gates", _readiness_gates, "Conditions that its readiness waits for.", wide=True),
    ],
    NODES: [
        NAME,
        Column("Status", _node_status, "Whether it is ready, and whether pods may be scheduled onto it."),
        Column("Roles", _node_roles, "What its role labels say."),
        AGE,
        Column("Version", at("status", "nodeInfo", "kubeletVersion"), "Version of its kubelet."),
        Column("Internal-IP", _node_address("InternalIP"), "Its address within the cluster.", wide=True),
        Column("External-IP", _node_address("ExternalIP"), "Its address from outside.", wide=True),
        Column(
            "OS-Image", at("status", "nodeInfo", "osImage", default="<unknown>"), "Its system.", wide=True
        ),
        Column("Kernel-Version", _node_kernel, "Its kernel.", wide=True),
        Column(
            "Container-Runtime",
            at("status", "nodeInfo", "containerRuntimeVersion", default="<unknown>"),
            "What runs its containers.",
            wide=True,
        ),
    ],
    EVENTS: [
        Column("Last Seen", _event_last, "Time since it happened last."),
        Column("Type", at("type"), "Normal or Warning."),
        Column("Reason", at("reason"), "Why it happened, in a word."),
        Column("Object", _event_object, "What it is about."),
        Column("Subobject", at("involvedObject", "fieldPath"), "The part of that.", wide=True),
        Column("Source", _event_source, "Who tells of it.", wide=True),
        Column("Message", at("message"), "What happened."),
        Column("First Seen", _event_first, "Time since it happened first.", wide=True),
        Column("Count", _event_count, "How often it happened.", wide=True),
        Column("Name", at("metadata", "name"), "Its name.", wide=True),
    ],
    NAMESPACES: [NAME, Column("Status", at("status", "phase"), "Active or Terminating."), AGE],
    DEPLOYMENTS: [
        NAME,
        Column("Ready", _deployment_ready, "How many of its pods are ready, of how many wanted."),
        Column("Up-to-date", at("status", "updatedReplicas", default=0), "Pods of the newest template."),
        Column("Available", at("status", "availableReplicas", default=0), "Pods that are available."),
        AGE,
        *TEMPLATE,
    ],
    REPLICA_SETS: [
        NAME,
        Column("Desired", at("spec", "replicas", default=0), "How many pods it wants.", type="integer"),
        Column("Current", at("status", "replicas", default=0), "How many it has.", type="integer"),
        Column("Ready", at("status", "readyReplicas", default=0), "How many are ready.", type="integer"),
        AGE,
        *TEMPLATE,
    ],
    DISRUPTION_BUDGETS: [
        NAME,
        Column("Min Available", lambda c: str(c["spec"].get("minAvailable", "N/A")), "Pods that must stay."),
        Column("Max Unavailable", lambda c: str(c["spec"].get("maxUnavailable", "N/A")), "Pods that may go."),
        Column(
            "Allowed Disruptions",
            at("status", "disruptionsAllowed", default=0),
            "How many may go now.",
            type="integer",
        ),
        AGE,
    ],
    PRIORITY_CLASSES: [
        NAME,
        Column("Value", at("value", default=0), "The priority of its pods.", type="integer"),
        Column(
            "Global-Default",
            at("globalDefault", default=False),
            "Whether it is that of pods that name none.",
            type="boolean",
        ),
        AGE,
        Column("PreemptionPolicy", at("preemptionPolicy"), "Whether its pods may take others' place."),
    ],
    **STORAGE_COLUMNS,
    LEASES: [NAME, Column("Holder", at("spec", "holderIdentity"), "Who holds it."), AGE],
}
