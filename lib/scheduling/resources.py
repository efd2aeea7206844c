"""A pod's requests by resource name: cpu in thousandths of a core, the rest in whole units."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import lru_cache
from typing import TypeVar

from lib.kube.objects import Container, Pod, ResourceRequirements, with_parts
from lib.kube.quantity import Quantity

Resources = dict[str, int]

K = TypeVar("K")

NATIVE = ("cpu", "memory", "ephemeral-storage")
"""The resources that kube-scheduler counts in fields of their own (Resource in framework/types.go)."""

AT_LEAST: Mapping[str, Quantity] = {"cpu": Quantity.parse("100m"), "memory": Quantity.parse("200Mi")}
"""For scoring, a container without a request counts as requesting this (util/pod_resources.go)."""


def amounts(quantities: Mapping[str, int]) -> Resources:
    """Convert exact quantities (billionths) to the scheduler's units, rounded up."""
    return dict(_amounts(tuple(quantities.items())))


@lru_cache(maxsize=4096)  # most nodes, and most containers, have the same amounts
def _amounts(quantities: tuple[tuple[str, int], ...]) -> Resources:
    return {
        name: Quantity(quantity).milli if name == "cpu" else Quantity(quantity).value
        for name, quantity in quantities
    }


@lru_cache(maxsize=2048)
def pod_requests(pod: Pod, defaulted: tuple[str, ...] = ()) -> Mapping[str, int]:
    """What a pod requests of its node (component-helpers/resource/helpers.go, PodRequests).

    Containers run at the same time, so their requests add up. Init containers run one after the other
    before them, each with the sidecars (init containers that restart always) started so far: the largest
    counts, if it is larger than the sum. Pod-level requests take precedence over those of containers. The
    overhead of the pod's sandbox is added.

    defaulted: of these resources, a container without a request counts as requesting AT_LEAST.
    """
    missing = {name: AT_LEAST[name] for name in defaulted}
    spec = pod.spec
    in_effect = _resizing(pod)
    if len(spec.containers) == 1 and not (in_effect or spec.init_containers or spec.resources.requests):
        (only,) = spec.containers  # most pods have one container
        return amounts(total([{**missing, **only.resources.requests}, spec.overhead]))

    def wanted(container: Container) -> dict[str, int]:
        requests = in_effect.get(container.name, container.resources.requests)
        return {**missing, **requests}

    running = _of_containers(pod, wanted)
    running |= _pod_level(pod)
    _add(running, pod.spec.overhead)
    return amounts(running)


def pod_limits(pod: Pod) -> Mapping[str, int]:
    """The limits of a pod on its node, added up like requests (component-helpers/resource/helpers.go).

    The overhead is added to the resources that have a limit.
    """
    limits = _of_containers(pod, lambda container: container.resources.limits)
    limits |= {name: quantity for name, quantity in pod.spec.resources.limits.items() if is_pod_level(name)}
    _add(limits, {name: quantity for name, quantity in pod.spec.overhead.items() if limits.get(name)})
    return amounts(limits)


def _of_containers(pod: Pod, amounts_of: Callable[[Container], Mapping[str, int]]) -> dict[str, int]:
    """What the containers take together, and each init container while it runs, whichever is more."""
    running = total(amounts_of(container) for container in pod.spec.containers)
    sidecars: dict[str, int] = {}
    starting: dict[str, int] = {}
    for container in pod.spec.init_containers:
        more = amounts_of(container)
        # Only what this container takes can be more than before.
        at_once = {name: sidecars.get(name, 0) + quantity for name, quantity in more.items()}
        if container.restart_policy == "Always":
            _add(running, more)
            sidecars |= at_once
        _raise_to(starting, at_once)
    _raise_to(running, starting)
    return running


@lru_cache(maxsize=1024)
def requests_at_least(pod: Pod, *, pod_level: bool) -> Mapping[str, int]:
    """What a pod requests, with AT_LEAST for each container without a request.

    pod_level: whether pod-level requests count.
    """
    if not pod_level:
        pod = with_parts(pod, spec={"resources": ResourceRequirements()})
    containers, status = (*pod.spec.containers, *pod.spec.init_containers), pod.status
    may_resize = status.container_statuses or status.init_container_statuses
    if not may_resize and all(
        AT_LEAST.keys() <= container.resources.requests.keys() for container in containers
    ):
        return pod_requests(pod)
    return pod_requests(pod, (*AT_LEAST,))


@lru_cache(maxsize=1024)
def non_zero_requests(pod: Pod) -> Mapping[str, int]:
    """A pod's requests of cpu and memory for scoring (NodeInfo.NonZeroRequested).

    With pod-level requests, only resources that the pod requests nowhere get defaults.
    """
    of_pod = pod.spec.resources.requests
    if not of_pod or not any(is_pod_level(name) for name in of_pod):
        return requests_at_least(pod, pod_level=True)
    requested = pod_requests(pod)
    return pod_requests(pod, tuple(name for name in AT_LEAST if name not in requested))


def counted_requests(pod: Pod) -> Sequence[Mapping[str, int]]:
    """`pod_requests` and `non_zero_requests`: of each pod on a node, both are counted."""
    spec = pod.spec
    if spec.init_containers or spec.overhead or spec.resources.requests or _resizing(pod):
        return pod_requests(pod), non_zero_requests(pod)
    return _of_containers_alone(
        tuple([tuple(container.resources.requests.items()) for container in spec.containers])
    )


@lru_cache(maxsize=4096)  # most pods request the same as many others
def _of_containers_alone(requests: tuple[tuple[tuple[str, int], ...], ...]) -> Sequence[Mapping[str, int]]:
    return [
        amounts(total({**least, **dict(of_container)} for of_container in requests))
        for least in ({}, AT_LEAST)
    ]


def _resizing(pod: Pod) -> dict[str, dict[str, int]]:
    """The requests of containers in an in-place resize: the largest of requested, allocated and actual.

    A requested resize that the node can never give doesn't count.
    """
    statuses = [*pod.status.container_statuses, *pod.status.init_container_statuses]
    if not statuses or not any(status.resources for status in statuses):
        return {}
    is_infeasible = _resize_is_infeasible(pod)
    by_name = {container.name: container for container in [*pod.spec.containers, *pod.spec.init_containers]}
    init_only = {
        container.name for container in pod.spec.init_containers if container.restart_policy != "Always"
    }
    in_effect: dict[str, dict[str, int]] = {}
    for status in statuses:
        container = by_name.get(status.name)
        if not container or not status.resources or status.name in init_only:
            continue
        counts: dict[str, int] = {} if is_infeasible else dict(container.resources.requests)
        _raise_to(counts, status.resources.requests)
        _raise_to(counts, status.allocated_resources)
        in_effect[status.name] = counts
    return in_effect


def _pod_level(pod: Pod) -> dict[str, int]:
    """Pod-level requests. In a resize, the largest of requested, allocated and actual.

    Only resources that the spec names count.
    """
    requested: dict[str, int] = {
        name: quantity for name, quantity in pod.spec.resources.requests.items() if is_pod_level(name)
    }
    if pod.status.resources is None:
        return requested
    counts: dict[str, int] = {} if _resize_is_infeasible(pod) else dict(requested)
    _raise_to(counts, pod.status.resources.requests)
    _raise_to(counts, pod.status.allocated_resources)
    return {name: counts.get(name, 0) for name in requested}


def _resize_is_infeasible(pod: Pod) -> bool:
    pending = next(
        (condition for condition in pod.status.conditions if condition.type == "PodResizePending"), None
    )
    return pending is not None and pending.reason == "Infeasible"


def nodes_are_compared_by(name: str) -> bool:
    """Whether it counts how much of a resource a node has.

    It doesn't for `storage`, nor for names without a domain. All other names that the API server lets
    containers request do count. Source: IsScalarResourceName in pkg/scheduler/util/utils.go, and Resource.Add
    in pkg/scheduler/framework/types.go
    """
    if name in NATIVE:
        return True
    is_extended = "/" in name and not name.startswith("requests.")
    return is_extended or name.startswith(("hugepages-", "attachable-volumes-"))


def has_resources(pod: Pod) -> bool:
    """Whether a pod has requests or limits itself, beside those of its containers."""
    own = pod.spec.resources
    return any(map(is_pod_level, (*own.requests, *own.limits)))


def is_pod_level(name: str) -> bool:
    """Whether a resource can be requested at pod level."""
    return name in ("cpu", "memory") or name.startswith("hugepages-")


def add(counts: dict[K, int], key: K, amount: int) -> None:
    """Add to a count; a count of 0 is removed."""
    if after := counts.get(key, 0) + amount:
        counts[key] = after
    else:
        counts.pop(key, None)


def total(parts: Iterable[Mapping[str, int]]) -> Resources:
    """The sum of some amounts, by resource."""
    sums: Resources = {}
    for part in parts:
        _add(sums, part)
    return sums


def _add(total: dict[str, int], more: Mapping[str, int]) -> None:
    for name, quantity in more.items():
        total[name] = total.get(name, 0) + quantity


def _raise_to(total: dict[str, int], least: Mapping[str, int]) -> None:
    for name, quantity in least.items():
        total[name] = max(total.get(name, 0), quantity)
