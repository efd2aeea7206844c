"""Cells of tables for which a path into the object isn't enough; tables.yaml names these functions."""

from typing import Any

from .clock import age
from .selectors import show_selector
from .store import Object

MODES = {
    "ReadWriteOnce": "RWO",
    "ReadOnlyMany": "ROX",
    "ReadWriteMany": "RWX",
    "ReadWriteOncePod": "RWOP",
}
BETA_CLASS = "volume.beta.kubernetes.io/storage-class"
DEFAULT_CLASS = "storageclass.kubernetes.io/is-default-class"


def age_of(content: Object) -> str:
    return age(content["metadata"]["creationTimestamp"])


def pod_ready(content: Object) -> str:
    statuses = content["status"].get("containerStatuses") or []
    ready = sum(bool(status.get("ready")) for status in statuses)
    return f"{ready}/{len(content['spec']['containers'])}"


def pod_status(content: Object) -> str:
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


def pod_restarts(content: Object) -> str:
    return str(sum(one.get("restartCount", 0) for one in content["status"].get("containerStatuses") or ()))


def readiness_gates(content: Object) -> str:
    gates = [gate["conditionType"] for gate in content["spec"].get("readinessGates") or ()]
    true = {c["type"] for c in content["status"].get("conditions") or () if c["status"] == "True"}
    return f"{sum(gate in true for gate in gates)}/{len(gates)}" if gates else "<none>"


def node_status(content: Object) -> str:
    ready = next((c for c in content["status"].get("conditions") or () if c["type"] == "Ready"), None)
    shown = "Unknown" if not ready else "Ready" if ready["status"] == "True" else "NotReady"
    return f"{shown},SchedulingDisabled" if content["spec"].get("unschedulable") else shown


def node_roles(content: Object) -> str:
    prefix = "node-role.kubernetes.io/"
    labels = content["metadata"].get("labels") or {}
    return (
        ",".join(sorted(label.removeprefix(prefix) for label in labels if label.startswith(prefix)))
        or "<none>"
    )


def _node_address(content: Object, kind: str) -> str:
    addresses = content["status"].get("addresses") or []
    return next((one["address"] for one in addresses if one["type"] == kind), "<none>")


def internal_ip(content: Object) -> str:
    return _node_address(content, "InternalIP")


def external_ip(content: Object) -> str:
    return _node_address(content, "ExternalIP")


def node_kernel(content: Object) -> str:
    info = content["status"]["nodeInfo"]
    architecture = f" ({info['architecture']})" if info["architecture"] else ""
    return f"{info['kernelVersion']}{architecture}" if info["kernelVersion"] else "<unknown>"


def event_object(content: Object) -> str:
    about = content["involvedObject"]
    return f"{about.get('kind', '').lower()}/{about.get('name', '')}"


def event_source(content: Object) -> str:
    source = content.get("source") or {}
    component = source.get("component") or content.get("reportingComponent") or ""
    instance = source.get("host") or content.get("reportingInstance") or ""
    return f"{component}, {instance}" if instance else component


def event_first_seen(content: Object) -> str:
    return age(content.get("firstTimestamp") or content.get("eventTime"))


def event_last_seen(content: Object) -> str:
    series = content.get("series") or {}
    last = series.get("lastObservedTime") or content.get("lastTimestamp")
    return age(last) if last else event_first_seen(content)


def event_count(content: Object) -> int:
    return (content.get("series") or {}).get("count") or content.get("count") or 1


def deployment_ready(content: Object) -> str:
    return f"{content['status'].get('readyReplicas', 0)}/{content['spec']['replicas']}"


def _of_containers(content: Object, field: str) -> str:
    return ",".join(one[field] for one in content["spec"]["template"]["spec"].get("containers") or ())


def container_names(content: Object) -> str:
    return _of_containers(content, "name")


def images(content: Object) -> str:
    return _of_containers(content, "image")


def selector(content: Object) -> str:
    return show_selector(content["spec"].get("selector"))


def min_available(content: Object) -> str:
    return str(content["spec"].get("minAvailable", "N/A"))


def max_unavailable(content: Object) -> str:
    return str(content["spec"].get("maxUnavailable", "N/A"))


# --- storage ----------------------------------------------------------------------------------------------


def _modes(modes: list[str] | None) -> str:
    return ",".join(short for mode, short in MODES.items() if mode in (modes or ()))


def phase(content: Object) -> str:
    return "Terminating" if content["metadata"].get("deletionTimestamp") else content["status"]["phase"]


def storage_class(content: Object) -> str:
    annotations = content["metadata"].get("annotations") or {}
    name: str = annotations.get(BETA_CLASS, content["spec"].get("storageClassName", ""))
    return name


def claim_of_volume(content: Object) -> str:
    claim = content["spec"].get("claimRef")
    return f"{claim.get('namespace', '')}/{claim.get('name', '')}" if claim else ""


def _given(claim: Object, field: str) -> Any:
    """The value in the status of a claim that has a volume."""
    return claim["status"].get(field) if claim["spec"].get("volumeName") else None


def claim_capacity(claim: Object) -> str:
    capacity: Object = _given(claim, "capacity") or {}
    return str(capacity.get("storage", ""))


def storage_class_name(content: Object) -> str:
    name: str = content["metadata"]["name"]
    is_default = (content["metadata"].get("annotations") or {}).get(DEFAULT_CLASS) == "true"
    return f"{name} (default)" if is_default else name


def driver_modes(content: Object) -> str:
    return ",".join(content["spec"].get("volumeLifecycleModes") or ["Persistent"])


def volume_modes(volume: Object) -> str:
    return _modes(volume["spec"].get("accessModes"))


def claim_modes(claim: Object) -> str:
    return _modes(_given(claim, "accessModes"))


def allows_expansion(storage_class: Object) -> str:
    return str(bool(storage_class.get("allowVolumeExpansion"))).lower()


def driver_count(csi_node: Object) -> int:
    return len(csi_node["spec"].get("drivers") or ())
