"""What a pod asks of a node, by resource name: cpu in thousandths of a core, the rest in whole units."""

from collections.abc import Mapping

from lib.kube.objects import Pod
from lib.kube.quantity import Quantity

Resources = dict[str, int]


def amounts(quantities: Mapping[str, int]) -> Resources:
    """Exact quantities (billionths) as the scheduler counts them, rounded up."""
    return {
        name: Quantity(quantity).milli if name == "cpu" else Quantity(quantity).value
        for name, quantity in quantities.items()
    }


def pod_requests(pod: Pod) -> Resources:
    """What a pod requests of its node (component-helpers/resource/helpers.go, PodRequests).

    Containers run side by side, so theirs add up. Init containers run one after the other before them,
    each beside the sidecars (init containers that restart always) started so far: the largest counts,
    where it is larger than the sum. What is requested for the pod as a whole goes before what its
    containers request. The overhead of the pod's sandbox comes on top.
    """
    running: dict[str, int] = {}
    for container in pod.spec.containers:
        _add(running, container.resources.requests)
    sidecars: dict[str, int] = {}
    starting: dict[str, int] = {}
    for container in pod.spec.init_containers:
        if container.restart_policy == "Always":
            _add(running, container.resources.requests)
            _add(sidecars, container.resources.requests)
            _raise_to(starting, sidecars)
        else:
            at_once = dict(sidecars)
            _add(at_once, container.resources.requests)
            _raise_to(starting, at_once)
    _raise_to(running, starting)
    running |= {name: each for name, each in pod.spec.resources.requests.items() if _is_pod_level(name)}
    _add(running, pod.spec.overhead)
    return amounts(running)


def _is_pod_level(name: str) -> bool:
    """Whether a resource can be requested for a pod as a whole."""
    return name in ("cpu", "memory") or name.startswith("hugepages-")


def _add(total: dict[str, int], more: Mapping[str, int]) -> None:
    for name, quantity in more.items():
        total[name] = total.get(name, 0) + quantity


def _raise_to(total: dict[str, int], least: Mapping[str, int]) -> None:
    for name, quantity in least.items():
        total[name] = max(total.get(name, 0), quantity)
