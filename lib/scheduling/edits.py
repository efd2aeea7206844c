"""Changes of pods and nodes: each function returns a changed copy."""

from collections.abc import Collection, Mapping
from typing import Any, TypeVar, cast

import msgspec

from lib.kube.objects import (
    CORDON_TAINT,
    Container,
    Node,
    NodeSelector,
    Pod,
    PodAffinity,
    PodAffinityTerm,
    PodSpec,
    Requirement,
    Toleration,
    TopologySpreadConstraint,
    decode_hook,
    with_parts,
)
from lib.kube.quantity import Quantity
from lib.scheduling.node_info import HostPort, host_ports
from lib.scheduling.read_only import original
from lib.scheduling.resources import pod_requests

T = TypeVar("T")


def patched(value: T, patch: Mapping[str, Any]) -> T:
    """A copy of an API object with other values of some fields, named as in the API; None removes a value.

    ValueError when there is no such field, or it can't have this value.
    """
    changed: msgspec.Struct = original(value)
    fields = {field.encode_name: field for field in msgspec.structs.fields(changed)}
    for name, new in patch.items():
        if name not in fields:
            raise ValueError(f"{type(changed).__name__} has no field {name}")
        field = fields[name]
        now = _patched_value(getattr(changed, field.name), new, field)
        changed = msgspec.structs.replace(changed, **{field.name: now})
    return cast(T, changed)


def _patched_value(old: Any, new: Any, field: msgspec.structs.FieldInfo) -> Any:
    if isinstance(old, msgspec.Struct) and isinstance(new, Mapping):
        return patched(old, new)
    if isinstance(old, dict) and isinstance(new, Mapping):
        added = {key: value for key, value in new.items() if value is not None}
        kept = {key: value for key, value in old.items() if key not in new}
        return kept | msgspec.convert(added, field.type, dec_hook=decode_hook)
    if new is None and not field.required:
        return field.default if field.default_factory is msgspec.NODEFAULT else field.default_factory()
    return msgspec.convert(new, field.type, dec_hook=decode_hook)


def with_required_nodes(pod: Pod, required: NodeSelector | None) -> Pod:
    """The pod with other required node affinity, or without."""
    affinity = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}}
    return patched(pod, {"spec": {"affinity": affinity}})


def without_expression(pod: Pod, expression: Requirement) -> Pod | None:
    """The pod without an expression in its required node affinity; None if it has none (any more)."""
    affinity = pod.spec.affinity.node_affinity
    required = affinity and affinity.required_during_scheduling_ignored_during_execution
    if not required:
        return None
    terms = []
    for term in required.node_selector_terms:
        kept = tuple(other for other in term.match_expressions if other != expression)
        terms.append(msgspec.structs.replace(term, match_expressions=kept))
    return with_required_nodes(pod, NodeSelector(tuple(terms)))


def tolerating(pod: Pod, toleration: Toleration) -> Pod:
    """The pod with one more toleration."""
    return with_parts(pod, spec={"tolerations": [*pod.spec.tolerations, toleration]})


def without_required_terms(pod: Pod, which: str, terms: Collection[PodAffinityTerm]) -> Pod | None:
    """The pod without some required terms of its `pod_affinity` or `pod_anti_affinity`; None without any."""
    affinity: PodAffinity | None = getattr(pod.spec.affinity, which)
    if affinity is None:
        return None
    has = affinity.required_during_scheduling_ignored_during_execution
    left = msgspec.structs.replace(
        affinity,
        required_during_scheduling_ignored_during_execution=[term for term in has if term not in terms],
    )
    return with_parts(pod, spec={"affinity": msgspec.structs.replace(pod.spec.affinity, **{which: left})})


def with_constraint(pod: Pod, which: int, **fields: object) -> Pod | None:
    """The pod with one topology spread constraint replaced; None if it has none with this index."""
    constraints = list(pod.spec.topology_spread_constraints)
    if which >= len(constraints):
        return None
    changed: TopologySpreadConstraint = msgspec.structs.replace(constraints[which], **fields)
    constraints[which] = changed
    return with_parts(pod, spec={"topology_spread_constraints": constraints})


def without_port(pod: Pod, port: HostPort) -> Pod:
    """The pod without one host port."""

    def freed(container: Container) -> Container:
        alone = Pod(pod.metadata, PodSpec(containers=[container]))
        if port not in host_ports(alone):
            return container
        ports = [used for used in container.ports if (used.protocol, used.host_port) != port[1:]]
        return msgspec.structs.replace(container, ports=ports)

    parts = {
        "containers": [freed(container) for container in pod.spec.containers],
        "init_containers": [freed(container) for container in pod.spec.init_containers],
    }
    return with_parts(pod, spec=parts)


def requesting(pod: Pod, wanted: Mapping[str, int]) -> Pod | None:
    """The pod with requests reduced to these totals; None if that isn't possible in a simple way.

    Amounts are in the scheduler's units. The container with the largest request gets a smaller one.
    """
    for name, most in wanted.items():
        too_much = pod_requests(pod).get(name, 0) - most
        if too_much > 0:
            pod = _requesting_less(pod, name, too_much)
        if pod_requests(pod).get(name, 0) != most:
            return None
    return pod


def _requesting_less(pod: Pod, name: str, too_much: int) -> Pod:
    step = 10**6 if name == "cpu" else 10**9  # billionths in the scheduler's unit
    if name in pod.spec.resources.requests:
        requests = _lessened(pod.spec.resources.requests, name, too_much * step)
        resources = msgspec.structs.replace(pod.spec.resources, requests=requests)
        return with_parts(pod, spec={"resources": resources})
    containers = list(pod.spec.containers)
    at = max(range(len(containers)), key=lambda i: containers[i].resources.requests.get(name, 0))
    requests = _lessened(containers[at].resources.requests, name, too_much * step)
    resources = msgspec.structs.replace(containers[at].resources, requests=requests)
    containers[at] = msgspec.structs.replace(containers[at], resources=resources)
    return with_parts(pod, spec={"containers": containers})


def _lessened(requests: Mapping[str, Quantity], name: str, by: int) -> dict[str, Quantity]:
    less = max(requests.get(name, 0) - by, 0)
    return {**requests, name: Quantity(less)} if less else {k: v for k, v in requests.items() if k != name}


def uncordoned(node: Node) -> Node:
    """A copy of a node that isn't cordoned."""
    taints = [taint for taint in node.spec.taints if taint.key != CORDON_TAINT]
    return with_parts(node, spec={"unschedulable": False, "taints": taints})
