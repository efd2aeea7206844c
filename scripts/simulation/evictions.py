"""Whether an eviction was needed, and whether there was one that no budget forbids."""

from collections.abc import Sequence

from scripts.minicluster.resources import DISRUPTION_BUDGETS, NODES, PODS
from scripts.minicluster.selectors import matches_selector
from scripts.minicluster.store import Store, Stored

LIMITS = ("nodeSelector", "affinity", "topologySpreadConstraints", "volumes", "schedulingGates")
"""Fields of a pod's spec that make it harder to say where it fits."""


def milli(cpu: str) -> int:
    """A quantity of CPUs in thousandths."""
    return int(cpu[:-1]) if cpu.endswith("m") else int(cpu) * 1000


def cpu_of(pod: Stored) -> int:
    """What a pod's containers request, in thousandths of a CPU."""
    containers = pod.content["spec"]["containers"]
    return sum(milli(each.get("resources", {}).get("requests", {}).get("cpu", "0")) for each in containers)


def is_over(pod: Stored) -> bool:
    """Whether a pod has finished."""
    return pod.content["status"].get("phase") in ("Succeeded", "Failed")


def is_protected(store: Store, pod: Stored) -> bool:
    """Whether a budget allows no eviction of this pod now."""
    return any(
        matches_selector(budget.content["spec"]["selector"], pod.metadata["labels"])
        and not budget.content["status"].get("disruptionsAllowed")
        for budget in store.every(DISRUPTION_BUDGETS)
    )


def other_way(store: Store, victim: Stored) -> str:
    """The node where evictions that budgets allow make room for the one pod that waits; "" if none is known.

    Only for a pod that needs nothing but CPUs, and while no other pod has room reserved.
    """
    waiting = [each for each in store.every(PODS) if not each.content["spec"].get("nodeName")]
    preemptors = [each for each in waiting if _priority(each) > _priority(victim)]
    if len(preemptors) != 1 or len(waiting) != 1:
        return ""
    (preemptor,) = preemptors
    spec = preemptor.content["spec"]
    if any(spec.get(each) for each in LIMITS) or preemptor.metadata["labels"].keys() - {"app"}:
        return ""
    if any(each.get("ports") for each in spec["containers"]):
        return ""
    for node in store.every(NODES):
        if node.content["spec"].get("unschedulable") or node.content["spec"].get("taints"):
            continue
        here = [
            each
            for each in store.every(PODS)
            if each.content["spec"].get("nodeName") == node.key[1] and not is_over(each)
        ]
        if _room_beside(store, node, here, preemptor) >= cpu_of(preemptor):
            return node.key[1]
    return ""


def _room_beside(store: Store, node: Stored, here: Sequence[Stored], preemptor: Stored) -> int:
    """The CPUs that are left beside the pods that may not be evicted for this one."""
    stay = [each for each in here if _priority(each) >= _priority(preemptor) or is_protected(store, each)]
    return milli(node.content["status"]["allocatable"]["cpu"]) - sum(map(cpu_of, stay))


def _priority(pod: Stored) -> int:
    priority: int = pod.content["spec"].get("priority", 0)
    return priority
