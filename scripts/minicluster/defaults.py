"""The defaults of each kind, which the API server fills in (pkg/apis/*/v1/defaults.go)."""

from typing import Any

from lib.kube.pod_validation import stored

from .resources import (
    BY_PATH,
    CLAIMS,
    DEPLOYMENTS,
    DISRUPTION_BUDGETS,
    EVENTS,
    NAMESPACES,
    NODES,
    PODS,
    PRIORITY_CLASSES,
    REPLICA_SETS,
    RESOURCE_CLAIM_TEMPLATES,
    RESOURCE_CLAIMS,
    STATEFUL_SETS,
    STORAGE_CLASSES,
    VOLUMES,
    Resource,
)

Object = dict[str, Any]


def fill_in(resource: Resource, content: Object) -> None:
    """Set the defaults in an object that was sent or patched."""
    if resource == PODS:
        _pod_spec(content.setdefault("spec", {}))
        content["spec"].setdefault("enableServiceLinks", True)
        _pod_status(content.setdefault("status", {}), content["spec"])
    elif resource == NODES:
        _node(content)
    elif resource == EVENTS:
        for field, value in EMPTY_EVENT.items():
            content.setdefault(field, value)
    elif resource == NAMESPACES:
        content["metadata"].setdefault("labels", {})["kubernetes.io/metadata.name"] = content["metadata"][
            "name"
        ]
        content.setdefault("spec", {}).setdefault("finalizers", ["kubernetes"])
        content.setdefault("status", {}).setdefault("phase", "Active")
    elif resource in (DEPLOYMENTS, REPLICA_SETS, STATEFUL_SETS):
        _workload(resource, content)
    elif resource == DISRUPTION_BUDGETS:
        status = content.setdefault("status", {})
        for field in ("disruptionsAllowed", "currentHealthy", "desiredHealthy", "expectedPods"):
            status.setdefault(field, 0)
    elif resource == VOLUMES:
        spec = content.setdefault("spec", {})
        spec.setdefault("persistentVolumeReclaimPolicy", "Retain")
        spec.setdefault("volumeMode", "Filesystem")
        content.setdefault("status", {}).setdefault("phase", "Pending")
    elif resource == CLAIMS:
        content.setdefault("spec", {}).setdefault("volumeMode", "Filesystem")
        content.setdefault("status", {}).setdefault("phase", "Pending")
    elif resource == STORAGE_CLASSES:
        content.setdefault("reclaimPolicy", "Delete")
        content.setdefault("volumeBindingMode", "Immediate")
    elif resource == RESOURCE_CLAIMS:
        _device_requests(content)
        content.setdefault("status", {})
    elif resource == RESOURCE_CLAIM_TEMPLATES:
        _device_requests(content.get("spec") or {})
    elif resource == PRIORITY_CLASSES:
        content.setdefault("preemptionPolicy", "PreemptLowerPriority")
    elif resource == BY_PATH["v1", "services"]:
        spec = content.setdefault("spec", {})
        spec.setdefault("type", "ClusterIP")
        spec.setdefault("sessionAffinity", "None")
        for port in spec.get("ports") or ():
            port.setdefault("protocol", "TCP")
            port.setdefault("targetPort", port.get("port"))
        content.setdefault("status", {}).setdefault("loadBalancer", {})


EMPTY_EVENT: Object = {
    "source": {},
    "firstTimestamp": None,
    "lastTimestamp": None,
    "eventTime": None,
    "reportingComponent": "",
    "reportingInstance": "",
}


def blank(resource: Resource) -> Object:
    """The empty object of a bookmark: Go writes an empty struct so."""
    if resource == PODS:
        return {"spec": {"containers": None}, "status": {}}
    if resource == NODES:
        node: Object = {"metadata": {}}
        _node(node)
        return {"spec": node["spec"], "status": node["status"]}
    return {}


def _pod_spec(spec: Object) -> None:
    """Set the defaults that a pod and a pod template have in common."""
    spec.setdefault("restartPolicy", "Always")
    spec.setdefault("terminationGracePeriodSeconds", 30)
    spec.setdefault("dnsPolicy", "ClusterFirst")
    spec.setdefault("securityContext", {})
    spec.setdefault("schedulerName", "default-scheduler")
    for container in (*(spec.get("containers") or ()), *(spec.get("initContainers") or ())):
        _container(container)
    for volume in spec.get("volumes") or ():
        if set(volume) == {"name"}:
            volume["emptyDir"] = {}
        for source in ("configMap", "secret", "projected", "downwardAPI"):
            if isinstance(volume.get(source), dict):
                volume[source].setdefault("defaultMode", 0o644)


def _container(container: Object) -> None:
    container.setdefault("terminationMessagePath", "/dev/termination-log")
    container.setdefault("terminationMessagePolicy", "File")
    container.setdefault("imagePullPolicy", _pull_policy(container.get("image", "")))
    resources = container.setdefault("resources", {})
    if limits := resources.get("limits"):
        resources["requests"] = {**limits, **(resources.get("requests") or {})}
    for kind in ("limits", "requests"):
        if resources.get(kind):
            resources[kind] = {name: _stored(amount) for name, amount in resources[kind].items()}
    for port in container.get("ports") or ():
        port.setdefault("protocol", "TCP")
    for probe in ("livenessProbe", "readinessProbe", "startupProbe"):
        if probe in container:
            seconds = {"timeoutSeconds": 1, "periodSeconds": 10, "successThreshold": 1, "failureThreshold": 3}
            container[probe] = {**container[probe], **(seconds | container[probe])}
    for variable in container.get("env") or ():
        if reference := (variable.get("valueFrom") or {}).get("fieldRef"):
            reference.setdefault("apiVersion", "v1")


def _stored(amount: object) -> object:
    """An amount as it is stored; one of thousands of digits as it is."""
    try:
        return stored(str(amount))
    except ValueError:
        return amount


def _pull_policy(image: str) -> str:
    """An image without a tag is `:latest`, which is pulled each time."""
    name = image.rpartition("/")[2]
    tag = name.partition("@")[0].partition(":")[2]
    return "Always" if "@" not in name and tag in ("", "latest") else "IfNotPresent"


def _pod_status(status: Object, spec: Object) -> None:
    status.setdefault("phase", "Pending")
    status.setdefault("qosClass", quality_of_service(spec))
    for condition in status.get("conditions") or ():
        condition.setdefault("lastProbeTime", None)
        condition.setdefault("lastTransitionTime", None)
    for container in status.get("containerStatuses") or ():
        container.setdefault("lastState", {})


def quality_of_service(spec: Object) -> str:
    """https://kubernetes.io/docs/concepts/workloads/pods/pod-qos/"""
    containers = [*(spec.get("containers") or ()), *(spec.get("initContainers") or ())]
    resources = [container.get("resources") or {} for container in containers]
    if not any(one.get("requests") or one.get("limits") for one in resources):
        return "BestEffort"
    for one in resources:
        limits, requests = one.get("limits") or {}, one.get("requests") or {}
        if any(name not in limits or requests.get(name) != limits[name] for name in ("cpu", "memory")):
            return "Burstable"
    return "Guaranteed"


def _node(content: Object) -> None:
    content.setdefault("spec", {})
    status = content.setdefault("status", {})
    if "capacity" in status:
        status.setdefault("allocatable", status["capacity"])
    for condition in status.get("conditions") or ():
        condition.setdefault("lastHeartbeatTime", None)
        condition.setdefault("lastTransitionTime", None)
    status.setdefault("daemonEndpoints", {"kubeletEndpoint": {"Port": 0}})
    info = status.setdefault("nodeInfo", {})
    for field in (
        "machineID",
        "systemUUID",
        "bootID",
        "kernelVersion",
        "osImage",
        "containerRuntimeVersion",
        "kubeletVersion",
        "kubeProxyVersion",
        "operatingSystem",
        "architecture",
    ):
        info.setdefault(field, "")


def _workload(resource: Resource, content: Object) -> None:
    spec = content.setdefault("spec", {})
    spec.setdefault("replicas", 1)
    template = spec.setdefault("template", {})
    template.setdefault("metadata", {})
    _pod_spec(template.setdefault("spec", {}))
    if resource == DEPLOYMENTS:
        strategy = spec.setdefault("strategy", {})
        if strategy.setdefault("type", "RollingUpdate") == "RollingUpdate":
            rolling = strategy.setdefault("rollingUpdate", {})
            rolling.setdefault("maxUnavailable", "25%")
            rolling.setdefault("maxSurge", "25%")
        spec.setdefault("revisionHistoryLimit", 10)
        spec.setdefault("progressDeadlineSeconds", 600)
    status = content.setdefault("status", {})
    if resource != DEPLOYMENTS:
        status.setdefault("replicas", 0)


def _device_requests(claim: Object) -> None:
    """Of a claim, or of a template's claim (pkg/apis/resource/v1/defaults.go)."""
    for request in ((claim.get("spec") or {}).get("devices") or {}).get("requests") or ():
        for each in (request.get("exactly"), *(request.get("firstAvailable") or ())):
            if each is not None:
                each.setdefault("allocationMode", "ExactCount")
                if each["allocationMode"] == "ExactCount":
                    each.setdefault("count", 1)
