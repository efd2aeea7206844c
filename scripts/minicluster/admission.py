"""Admission: what the default plugins refuse or add when an object is created.

https://kubernetes.io/docs/reference/access-authn-authz/admission-controllers/
"""

from typing import Any

from . import errors, limits
from .clock import timestamp
from .resources import CLAIMS, NAMESPACES, NODES, PODS, PRIORITY_CLASSES, STORAGE_CLASSES, Resource
from .store import Store

Object = dict[str, Any]


def admit(store: Store, resource: Resource, content: Object) -> None:
    metadata = content["metadata"]
    name = metadata.get("name") or metadata.get("generateName", "")
    if resource.namespaced:
        _check_namespace(store, resource, name, metadata["namespace"])
    if resource == NODES:
        _taint_as_not_ready(content.setdefault("spec", {}))
    if resource == CLAIMS:
        _set_class(store, content.setdefault("spec", {}))
    if resource == PODS:
        spec = content.setdefault("spec", {})
        _tolerate_lost_nodes(spec)
        _set_priority(store, name, spec)
        limits.set_defaults(store, metadata["namespace"], spec)
        limits.check(store, metadata["namespace"], name, spec)
        if spec.get("schedulingGates"):
            content["status"] = {"conditions": [_gated()]}


def _set_class(store: Store, spec: Object) -> None:
    """DefaultStorageClass: a claim that names no class gets the newest default one."""
    if "storageClassName" in spec:
        return
    marked = "storageclass.kubernetes.io/is-default-class"
    classes = store.every(STORAGE_CLASSES)
    default = [each for each in classes if (each.metadata.get("annotations") or {}).get(marked) == "true"]
    if default:
        spec["storageClassName"] = max(default, key=lambda each: each.metadata["creationTimestamp"]).key[1]


def _check_namespace(store: Store, resource: Resource, name: str, namespace: str) -> None:
    """NamespaceLifecycle."""
    found = store.get(NAMESPACES, ("", namespace))
    if not found:
        raise errors.not_found(NAMESPACES, namespace)
    if found.metadata.get("deletionTimestamp"):
        why = f"unable to create new content in namespace {namespace} because it is being terminated"
        raise errors.forbidden(resource, name, why)


def _taint_as_not_ready(spec: Object) -> None:
    """TaintNodesByCondition: no pod is scheduled onto a new node until its controller removes this taint."""
    taint = {"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"}
    spec["taints"] = [*(spec.get("taints") or []), taint]


def _tolerate_lost_nodes(spec: Object) -> None:
    """DefaultTolerationSeconds: by default, a pod stays five minutes on a node that can't be reached."""
    tolerations = spec.get("tolerations") or []
    for key in ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"):
        if not any(_tolerates(toleration, key) for toleration in tolerations):
            toleration = {"key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300}
            tolerations = [*tolerations, toleration]
    spec["tolerations"] = tolerations


def _tolerates(toleration: Object, key: str) -> bool:
    return toleration.get("key") in (key, None, "") and toleration.get("effect") in ("NoExecute", None, "")


def _set_priority(store: Store, pod: str, spec: Object) -> None:
    """Priority: of the named class, else of the global default, else zero."""
    name = spec.get("priorityClassName")
    classes = [stored.content for stored in store.every(PRIORITY_CLASSES)]
    if name:
        chosen = next((one for one in classes if one["metadata"]["name"] == name), None)
        if not chosen:
            raise errors.forbidden(PODS, pod, f"no PriorityClass with name {name} was found")
    else:
        defaults = [one for one in classes if one.get("globalDefault")]
        chosen = min(defaults, key=lambda one: int(one["value"]), default=None)
    value = chosen["value"] if chosen else 0
    if spec.get("priority", value) != value:
        why = (
            f"the integer value of priority ({spec['priority']}) must not be provided in pod spec; "
            f"priority admission controller computed {value} from the given PriorityClass name"
        )
        raise errors.forbidden(PODS, pod, why)
    spec["priority"] = value
    if chosen:
        spec["priorityClassName"] = chosen["metadata"]["name"]
    spec.setdefault("preemptionPolicy", (chosen or {}).get("preemptionPolicy", "PreemptLowerPriority"))


def _gated() -> Object:
    return {
        "type": "PodScheduled",
        "status": "False",
        "lastProbeTime": None,
        "lastTransitionTime": timestamp(),
        "reason": "SchedulingGated",
        "message": "Scheduling is blocked due to non-empty scheduling gates",
    }
