"""What objects say, read without any of poller's own code."""

from collections import Counter

from scripts.minicluster.store import Object, Stored

GPU, CARD = "example.com/gpu", "example.com/card"
"""Extended resources. A DeviceClass serves the second one on nodes that have none of it themselves."""

UNITS = {"Ki": 2**10, "Mi": 2**20, "Gi": 2**30}


def milli(cpu: str) -> int:
    """A quantity of CPUs in thousandths."""
    return int(cpu[:-1]) if cpu.endswith("m") else int(cpu) * 1000


def number_of(resource: str, quantity: str) -> int:
    """A quantity as a number: of CPUs in thousandths, of memory in bytes."""
    if resource == "cpu":
        return milli(quantity)
    return int(quantity[:-2]) * UNITS[quantity[-2:]] if quantity[-2:] in UNITS else int(quantity)


def amounts_of(pod: Stored) -> Counter[str]:
    """What a pod's containers request, and its place on the node."""
    found = Counter({"cpu": 0, "memory": 0, "pods": 1})
    for each in pod.content["spec"]["containers"]:
        for resource, quantity in (each.get("resources", {}).get("requests") or {}).items():
            found[resource] += number_of(resource, quantity)
    return found


def allocatable_of(node: Stored) -> Counter[str]:
    """What a node has for pods."""
    found = node.content["status"]["allocatable"]
    return Counter({resource: number_of(resource, quantity) for resource, quantity in found.items()})


def claim_for_extended(pod: Stored) -> str:
    """The name of the claim that was made for a pod's extended resources; "" if there is none."""
    status = pod.content["status"].get("extendedResourceClaimStatus") or {}
    name: str = status.get("resourceClaimName", "")
    return name


def is_over(pod: Stored) -> bool:
    """Whether a pod has finished."""
    return pod.content["status"].get("phase") in ("Succeeded", "Failed")


def node_of(pod: Stored) -> str:
    """The name of the node that a pod is on; "" if it has none."""
    name: str = pod.content["spec"].get("nodeName", "")
    return name


def priority_of(pod: Stored) -> int:
    """A pod's priority."""
    priority: int = pod.content["spec"].get("priority", 0)
    return priority


def labels_of(stored: Stored) -> dict[str, str]:
    """An object's labels."""
    return stored.metadata.get("labels") or {}


def ports_of(pod: Stored) -> set[int]:
    """The host ports of a pod."""
    containers = pod.content["spec"]["containers"]
    return {
        port["hostPort"] for each in containers for port in each.get("ports") or () if port.get("hostPort")
    }


def tolerates(pod: Stored, taint: Object) -> bool:
    """Whether a pod tolerates a taint."""
    return any(
        each.get("key", taint["key"]) == taint["key"]
        and each.get("effect", taint["effect"]) == taint["effect"]
        and (each.get("operator") == "Exists" or each.get("value", "") == taint.get("value", ""))
        for each in pod.content["spec"].get("tolerations") or ()
    )
