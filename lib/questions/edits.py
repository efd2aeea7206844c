"""Pods that ask for a little less: each function returns a changed copy."""

from collections.abc import Callable, Mapping

import msgspec

from lib.kube.objects import (
    Affinity,
    Container,
    NodeAffinity,
    NodeSelector,
    Pod,
    PodAffinity,
    PodSpec,
    Toleration,
    TopologySpreadConstraint,
)
from lib.kube.quantity import Quantity
from lib.scheduling.node_info import HostPort, host_ports
from lib.scheduling.resources import pod_requests

Edit = Callable[[Pod], Pod]
"""Makes a changed copy of a pod."""


def _with_spec(pod: Pod, **fields: object) -> Pod:
    spec: PodSpec = msgspec.structs.replace(pod.spec, **fields)
    return msgspec.structs.replace(pod, spec=spec)


def _with_affinity(pod: Pod, **fields: object) -> Pod:
    affinity: Affinity = msgspec.structs.replace(pod.spec.affinity, **fields)
    return _with_spec(pod, affinity=affinity)


def without_gates(pod: Pod) -> Pod:
    """A pod that may be scheduled."""
    return _with_spec(pod, scheduling_gates=[])


def without_selector(pod: Pod, key: str) -> Pod:
    """A pod whose nodeSelector says nothing of a label."""
    return _with_spec(pod, node_selector={k: v for k, v in pod.spec.node_selector.items() if k != key})


def without_node_affinity(pod: Pod) -> Pod:
    """A pod without required node affinity."""
    return _with_node_affinity(pod, None)


def without_expression(pod: Pod, term: int, expression: int) -> Pod:
    """A pod whose required node affinity lacks one expression of one term."""
    affinity = pod.spec.affinity.node_affinity
    assert affinity
    assert affinity.required_during_scheduling_ignored_during_execution
    terms = list(affinity.required_during_scheduling_ignored_during_execution.node_selector_terms)
    kept = terms[term].match_expressions
    terms[term] = msgspec.structs.replace(
        terms[term], match_expressions=kept[:expression] + kept[expression + 1 :]
    )
    return _with_node_affinity(pod, NodeSelector(tuple(terms)))


def _with_node_affinity(pod: Pod, required: NodeSelector | None) -> Pod:
    affinity: NodeAffinity = msgspec.structs.replace(
        pod.spec.affinity.node_affinity or NodeAffinity(),
        required_during_scheduling_ignored_during_execution=required,
    )
    return _with_affinity(pod, node_affinity=affinity)


def tolerating(pod: Pod, toleration: Toleration) -> Pod:
    """A pod with one toleration more."""
    return _with_spec(pod, tolerations=[*pod.spec.tolerations, toleration])


def without_required_term(pod: Pod, which: str, term: int) -> Pod:
    """A pod that lacks one required term of its `pod_affinity` or `pod_anti_affinity`."""
    affinity: PodAffinity = getattr(pod.spec.affinity, which)
    terms = list(affinity.required_during_scheduling_ignored_during_execution)
    del terms[term]
    left = msgspec.structs.replace(affinity, required_during_scheduling_ignored_during_execution=terms)
    return _with_affinity(pod, **{which: left})


def with_constraint(pod: Pod, which: int, **fields: object) -> Pod:
    """A pod with a topology spread constraint that is otherwise."""
    constraints = list(pod.spec.topology_spread_constraints)
    changed: TopologySpreadConstraint = msgspec.structs.replace(constraints[which], **fields)
    constraints[which] = changed
    return _with_spec(pod, topology_spread_constraints=constraints)


def without_port(pod: Pod, port: HostPort) -> Pod:
    """A pod that doesn't take a port of its node."""

    def freed(container: Container) -> Container:
        alone = Pod(pod.metadata, PodSpec(containers=[container]))
        if port not in host_ports(alone):
            return container
        ports = [each for each in container.ports if (each.protocol, each.host_port) != port[1:]]
        return msgspec.structs.replace(container, ports=ports)

    return _with_spec(
        pod,
        containers=[freed(each) for each in pod.spec.containers],
        init_containers=[freed(each) for each in pod.spec.init_containers],
    )


def requesting(pod: Pod, wanted: Mapping[str, int]) -> Pod | None:
    """A pod that requests no more than this, in all, of some resources; None if that can't be done simply.

    Amounts are as the scheduler counts them. The container that requests most is the one to request less.
    """
    for name, most in wanted.items():
        too_much = pod_requests(pod).get(name, 0) - most
        if too_much > 0:
            pod = _requesting_less(pod, name, too_much)
        if pod_requests(pod).get(name, 0) != most:
            return None
    return pod


def _requesting_less(pod: Pod, name: str, too_much: int) -> Pod:
    step = 10**6 if name == "cpu" else 10**9  # billionths in what the scheduler counts
    if name in pod.spec.resources.requests:
        requests = _lessened(pod.spec.resources.requests, name, too_much * step)
        return _with_spec(pod, resources=msgspec.structs.replace(pod.spec.resources, requests=requests))
    containers = list(pod.spec.containers)
    at = max(range(len(containers)), key=lambda i: containers[i].resources.requests.get(name, 0))
    requests = _lessened(containers[at].resources.requests, name, too_much * step)
    resources = msgspec.structs.replace(containers[at].resources, requests=requests)
    containers[at] = msgspec.structs.replace(containers[at], resources=resources)
    return _with_spec(pod, containers=containers)


def _lessened(requests: Mapping[str, Quantity], name: str, by: int) -> dict[str, Quantity]:
    less = max(requests.get(name, 0) - by, 0)
    return {**requests, name: Quantity(less)} if less else {k: v for k, v in requests.items() if k != name}
