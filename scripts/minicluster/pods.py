"""The subresources of pods: a binding sets the node, an eviction deletes the pod if its budget allows it."""

from . import errors
from .api import Api
from .clock import timestamp
from .resources import DISRUPTION_BUDGETS, PODS
from .selectors import matches_selector
from .status import set_condition
from .store import Object, Stored


def bind(api: Api, namespace: str, name: str, binding: Object, dry_run: bool = False) -> None:
    """As in the real server, the node needn't exist (pkg/registry/core/pod/storage, BindingREST)."""
    metadata, target = binding.get("metadata") or {}, binding.get("target") or {}
    if metadata.get("name") != name:
        raise errors.bad_request("name in URL does not match name in Binding object")
    if target.get("kind") not in ("Node", "", None):
        kinds = errors.unsupported("target.kind", target["kind"], ["Node", "<empty>"])
        raise errors.internal(f"{kinds.field}: {kinds.message}")
    if not target.get("name"):
        raise errors.internal("target.name: Required value")
    pod = api.find(PODS, (namespace, name))
    _check_bindable(pod, metadata.get("uid"))
    content = pod.copy()
    content["spec"]["nodeName"] = target["name"]
    if annotations := metadata.get("annotations"):
        content["metadata"].setdefault("annotations", {}).update(annotations)
    set_condition(content["status"], {"type": "PodScheduled", "status": "True", "lastProbeTime": None})
    if not dry_run:
        api.store.put(PODS, content)


def _check_bindable(pod: Stored, uid: str | None) -> None:
    (namespace, name), spec = pod.key, pod.content["spec"]
    if uid and uid != pod.metadata["uid"]:
        why = (
            f"StorageError: invalid object, Code: 4, Key: /registry/pods/{namespace}/{name}, "
            f"ResourceVersion: 0, AdditionalErrorMsg: Precondition failed: UID in precondition: {uid}, "
            f"UID in object meta: {pod.metadata['uid']}"
        )
        raise errors.conflict("pods", name, why)
    if pod.metadata.get("deletionTimestamp"):
        why = f"pod {name} is being deleted, cannot be assigned to a host"
        raise errors.conflict("pods/binding", name, why)
    if node := spec.get("nodeName"):
        raise errors.conflict("pods/binding", name, f'pod {name} is already assigned to node "{node}"')
    if spec.get("schedulingGates"):
        raise errors.conflict("pods/binding", name, f"pod {name} has non-empty .spec.schedulingGates")


def evict(api: Api, namespace: str, name: str, eviction: Object, dry_run: bool = False) -> None:
    """Delete a pod unless a disruption budget says no.

    https://kubernetes.io/docs/concepts/scheduling-eviction/api-eviction/
    """
    pod = api.find(PODS, (namespace, name))
    if pod.content["status"]["phase"] == "Running" and not pod.metadata.get("deletionTimestamp"):
        labels = pod.metadata.get("labels") or {}
        budgets = [
            budget
            for budget in api.store.every(DISRUPTION_BUDGETS, namespace)
            if matches_selector(budget.content["spec"].get("selector"), labels)
        ]
        if len(budgets) > 1:
            many = "This pod has more than one PodDisruptionBudget"
            why = f"{many}, which the eviction subresource does not support."
            raise errors.ApiError(500, "InternalError", why)
        for budget in budgets:
            spent = _spend(budget, name)
            if not dry_run:
                api.store.put(DISRUPTION_BUDGETS, spent)
    api.delete(PODS, pod.key, eviction.get("deleteOptions") or {}, dry_run)


def _spend(budget: Stored, pod: str) -> Object:
    """The budget with one allowed disruption less."""
    content = budget.copy()
    status, name = content["status"], budget.key[1]
    if status.get("observedGeneration", 0) < content["metadata"]["generation"]:
        raise _over_budget(f"The disruption budget {name} is still being processed by the server.", 10)
    if status["disruptionsAllowed"] < 1:
        needs, has = status["desiredHealthy"], status["currentHealthy"]
        raise _over_budget(f"The disruption budget {name} needs {needs} healthy pods and has {has} currently")
    status["disruptionsAllowed"] -= 1
    status.setdefault("disruptedPods", {})[pod] = timestamp()
    return content


def _over_budget(why: str, retry_after: int = 0) -> errors.ApiError:
    return errors.ApiError(
        429,
        "TooManyRequests",
        "Cannot evict pod as it would violate the pod's disruption budget.",
        {"causes": [{"reason": "DisruptionBudget", "message": why}]},
        retry_after,
    )
