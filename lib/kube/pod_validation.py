"""What is wrong with a pod, or a pod template: what the API server refuses, in its words.

A file, and the embedded API server, have no other server to ask. It covers what decisions depend on: names
and labels, containers with their resources and ports, node selectors, affinity, tolerations, spread
constraints and gates. It doesn't look at volumes, probes, environments and security contexts.

Source: pkg/apis/core/validation/validation.go, ValidatePodSpec; its order, too.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from lib.kube.label_syntax import (
    A_SUBDOMAIN,
    A_VALUE,
    LABEL,
    LONGEST,
    SUBDOMAIN,
    VALUE,
    problems_of,
    problems_of_key,
)
from lib.kube.quantity import Quantity, canonical

Json = Mapping[str, Any]

A_LABEL = (
    "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and"
    " end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is"
    " '[a-z0-9]([-a-z0-9]*[a-z0-9])?')"
)

COMPUTE = ("cpu", "memory")
STANDARD = (*COMPUTE, "ephemeral-storage")
"""A container may have these, huge pages, and resources with a domain in their name."""

WHOLE = (
    "pods",
    "resourcequotas",
    "services",
    "replicationcontrollers",
    "secrets",
    "configmaps",
    "persistentvolumeclaims",
    "services.nodeports",
    "services.loadbalancers",
)
OF_OTHERS = (*WHOLE, "storage", *(f"{kind}.{name}" for kind in ("requests", "limits") for name in STANDARD))
"""Names of resources of something else, such as of a quota. Amounts of WHOLE are whole numbers."""

HUGE_PAGES = "hugepages-"

EFFECTS = ("NoSchedule", "PreferNoSchedule", "NoExecute")


class Problem(NamedTuple):
    """One thing that is wrong. reason: as in a Status' causes. field: such as `spec.containers[0].name`."""

    reason: str
    field: str
    message: str

    def __str__(self) -> str:
        return f"{self.field}: {self.message}"


def invalid(field: str, value: Any, why: str) -> Problem:
    """A value that can't be."""
    shown = f'"{value}"' if isinstance(value, str) else value
    return Problem("FieldValueInvalid", field, f"Invalid value: {shown}: {why}")


def required(field: str, why: str = "") -> Problem:
    """A value that is missing."""
    return Problem("FieldValueRequired", field, "Required value" + (f": {why}" if why else ""))


def unsupported(field: str, value: str, known: Sequence[str]) -> Problem:
    """A value that is none of those that there are."""
    said = ", ".join(f'"{value}"' for value in known)
    return Problem("FieldValueNotSupported", field, f'Unsupported value: "{value}": supported values: {said}')


def forbidden(field: str, why: str) -> Problem:
    """A value where none may be."""
    return Problem("FieldValueForbidden", field, f"Forbidden: {why}")


def duplicate(field: str, value: str) -> Problem:
    """A value that stands there twice."""
    return Problem("FieldValueDuplicate", field, f'Duplicate value: "{value}"')


def problems_of_metadata(metadata: Json, field: str = "metadata") -> Iterator[Problem]:
    """What is wrong with a pod's name and labels."""
    if (name := metadata.get("name")) and (wrong := problems_of(name, SUBDOMAIN, 253, A_SUBDOMAIN)):
        yield from (invalid(f"{field}.name", name, why) for why in wrong)
    yield from problems_of_labels(metadata.get("labels"), f"{field}.labels")


def problems_of_labels(labels: Any, field: str = "metadata.labels") -> Iterator[Problem]:
    """What is wrong with keys and values of labels."""
    for key, value in (labels or {}).items():
        yield from (invalid(field, key, why) for why in problems_of_key(str(key)))
        yield from (invalid(field, value, why) for why in problems_of(str(value), VALUE, LONGEST, A_VALUE))


def problems_of_taints(taints: Sequence[Json], field: str = "metadata.taints") -> Iterator[Problem]:
    """What is wrong with a node's taints. field: where the API server says that they are."""
    seen = set()
    for i, taint in enumerate(taints):
        place, key, effect = f"{field}[{i}]", taint.get("key") or "", taint.get("effect") or ""
        yield from _key(key, f"{place}.key")
        value = taint.get("value") or ""
        if wrong := problems_of(value, VALUE, LONGEST, A_VALUE):
            yield invalid(f"{place}.value", value, ";".join(wrong))
        if not effect:
            yield required(f"{place}.effect")
        elif effect not in EFFECTS:
            yield unsupported(f"{place}.effect", effect, EFFECTS)
        if (key, effect) in seen:
            said = f'{{"Key":"{key}","Value":"{value}","Effect":"{effect}","TimeAdded":null}}'
            why = "taints must be unique by key and effect pair"
            yield Problem("FieldValueDuplicate", place, f"Duplicate value: {said}: {why}")
        seen.add((key, effect))


def problems_of_pod(spec: Json, field: str = "spec") -> Iterator[Problem]:
    """What is wrong with a pod's spec, or a template's. field: where it is."""
    yield from _containers(spec, field)
    if spec.get("restartPolicy", "Always") not in ("Always", "OnFailure", "Never"):
        known = ("Always", "OnFailure", "Never")
        yield unsupported(f"{field}.restartPolicy", spec["restartPolicy"], known)
    yield from problems_of_labels(spec.get("nodeSelector"), f"{field}.nodeSelector")
    affinity = spec.get("affinity") or {}
    yield from _node_affinity(affinity.get("nodeAffinity") or {}, f"{field}.affinity.nodeAffinity")
    for kind in ("podAffinity", "podAntiAffinity"):
        yield from _pod_affinity(affinity.get(kind) or {}, f"{field}.affinity.{kind}")
    yield from _gates(spec, f"{field}.schedulingGates")
    yield from _spread(spec.get("topologySpreadConstraints") or (), f"{field}.topologySpreadConstraints")
    for i, toleration in enumerate(spec.get("tolerations") or ()):
        yield from _toleration(toleration, f"{field}.tolerations[{i}]")


# --- containers -------------------------------------------------------------------------------------------


def _containers(spec: Json, field: str) -> Iterator[Problem]:
    if not spec.get("containers"):
        yield required(f"{field}.containers")
    on_host, seen = bool(spec.get("hostNetwork")), set[str]()
    for kind in ("containers", "initContainers"):
        containers = spec.get(kind) or ()
        for i, container in enumerate(containers):
            place, name = f"{field}.{kind}[{i}]", container.get("name") or ""
            yield from _container(container, place, on_host=on_host)
            if name in seen:
                yield duplicate(f"{place}.name", name)
            seen.add(name)
        yield from _same_host_ports(containers, f"{field}.{kind}", on_host=on_host)
    for i, container in enumerate(spec.get("containers") or () if on_host else ()):
        for j, port in enumerate(container.get("ports") or ()):
            if (number := _host_port(port, on_host=True)) != port.get("containerPort"):
                why = "must match `containerPort` when `hostNetwork` is true"
                yield invalid(f"{field}.containers[{i}].ports[{j}].hostPort", number, why)


def _host_port(port: Json, *, on_host: bool) -> int:
    """A port of the node; 0 for none. In the node's network it is by default that of the container."""
    return int(port.get("hostPort") or (port.get("containerPort") or 0 if on_host else 0))


def _container(container: Json, field: str, *, on_host: bool) -> Iterator[Problem]:
    name = container.get("name") or ""
    if not name:
        yield required(f"{field}.name")
    yield from (invalid(f"{field}.name", name, why) for why in _problems_of_label(name) if name)
    if not container.get("image"):
        yield required(f"{field}.image")
    for i, port in enumerate(container.get("ports") or ()):
        place = f"{field}.ports[{i}]"
        if not port.get("containerPort"):
            yield required(f"{place}.containerPort")
        numbers = {"containerPort": port.get("containerPort"), "hostPort": _host_port(port, on_host=on_host)}
        for key, number in numbers.items():
            if (number or 1) not in range(1, 65536):
                yield invalid(f"{place}.{key}", number, "must be between 1 and 65535, inclusive")
        if port.get("protocol", "TCP") not in ("TCP", "UDP", "SCTP"):
            yield unsupported(f"{place}.protocol", port["protocol"], ("SCTP", "TCP", "UDP"))
    yield from _resources(container.get("resources") or {}, f"{field}.resources")


def _same_host_ports(containers: Sequence[Json], field: str, *, on_host: bool) -> Iterator[Problem]:
    seen = set()
    for i, container in enumerate(containers):
        for j, port in enumerate(container.get("ports") or ()):
            if number := _host_port(port, on_host=on_host):
                text = f"{port.get('protocol', 'TCP')}/{port.get('hostIP', '')}/{number}"
                if text in seen:
                    yield duplicate(f"{field}[{i}].ports[{j}].hostPort", text)
                seen.add(text)


def _resources(resources: Json, field: str) -> Iterator[Problem]:
    """validateResourceRequirements. An amount that is no quantity is an error before this one."""
    limits = resources.get("limits") or {}
    requests = {**limits, **(resources.get("requests") or {})}  # a default of the API
    for kind, amounts in (("limits", limits), ("requests", requests)):
        for name, amount in amounts.items():
            yield from _amount(name, str(amount), f"{field}.{kind}[{name}]")
            if kind == "limits":
                continue
            most = limits.get(name)
            if most is None:
                if not _may_be_overcommitted(name):
                    yield required(f"{field}.limits", "Limit must be set for non overcommitable resources")
            elif (asked := Quantity.parse(str(amount))) != (limit := Quantity.parse(str(most))):
                if not _may_be_overcommitted(name):
                    why = f"must be equal to {name} limit of {stored(str(most))}"
                    yield invalid(f"{field}.requests", stored(str(amount)), why)
                elif asked > limit:
                    why = f"must be less than or equal to {name} limit of {stored(str(most))}"
                    yield invalid(f"{field}.requests", stored(str(amount)), why)
    names = {*limits, *requests}
    if any(name.startswith(HUGE_PAGES) for name in names) and not names & {*COMPUTE}:
        yield forbidden(field, "HugePages require cpu or memory")


def _is_native(name: str) -> bool:
    """Whether a resource is Kubernetes' own: it has no domain, or kubernetes.io."""
    return "/" not in name or "kubernetes.io/" in name


def _may_be_overcommitted(name: str) -> bool:
    """Whether limits may be higher than requests: not those of huge pages, and of resources with a domain."""
    return not name.startswith(HUGE_PAGES) and _is_native(name)


def _amount(name: str, amount: str, field: str) -> Iterator[Problem]:
    wrong, is_native = problems_of_key(name), _is_native(name)
    is_huge = name.startswith(HUGE_PAGES)
    is_extended = (
        not is_native and not name.startswith("requests.") and not problems_of_key(f"requests.{name}")
    )
    yield from (invalid(field, name, why) for why in wrong)
    if "/" not in name:
        if not wrong and not is_huge and name not in (*STANDARD, *OF_OTHERS):
            yield invalid(field, name, "must be a standard resource type or fully qualified")
        if not is_huge and name not in STANDARD:
            yield invalid(field, name, "must be a standard resource for containers")
    elif not is_native and not is_extended:
        yield invalid(field, name, "doesn't follow extended resource name standard")
    quantity = Quantity.parse(amount)
    if quantity < 0:
        yield invalid(field, stored(amount), "must be greater than or equal to 0")
    if (is_extended or name in WHOLE) and quantity.milli % 1000:
        yield invalid(field, stored(amount), "must be an integer")
    if is_huge and not _is_multiple(quantity, name.removeprefix(HUGE_PAGES)):
        said = stored(amount)
        yield invalid(field, said, f"{said} is not positive integer multiple of {name}")


def stored(amount: str) -> str:
    """An amount as the API server stores it: 0.5 is 500m, and 1u is 1m. ValueError for what is none."""
    quantity = Quantity.parse(amount)
    return canonical(f"{quantity.milli}m" if quantity % 10**6 else amount)


def _is_multiple(quantity: Quantity, size: str) -> bool:
    """Whether an amount is made of pages of a size, such as 2Mi."""
    try:
        page = Quantity.parse(size)
    except ValueError:
        return False
    return page > 0 and page.milli % 1000 == 0 and quantity.value % page.value == 0


def _problems_of_label(name: str) -> list[str]:
    """IsDNS1123Label."""
    found = ["must be no more than 63 characters"] if len(name.encode()) > LONGEST else []
    if LABEL.fullmatch(name):
        return found
    return [*found, "must not contain dots" if SUBDOMAIN.fullmatch(name) else A_LABEL]


# --- labels and selectors -----------------------------------------------------------------------------------


def _selector(selector: Json | None, field: str) -> Iterator[Problem]:
    """ValidateLabelSelector."""
    if not selector:
        return
    yield from problems_of_labels(selector.get("matchLabels"), f"{field}.matchLabels")
    yield from _expressions(selector.get("matchExpressions") or (), f"{field}.matchExpressions")


def _expressions(
    expressions: Sequence[Json], field: str, *, of_node: bool = False, checks_values: bool = True
) -> Iterator[Problem]:
    """Expressions of a label selector, or of a node's, which can compare numbers, too."""
    for i, one in enumerate(expressions):
        place, operator, values = f"{field}[{i}]", one.get("operator"), one.get("values") or ()
        if operator in ("In", "NotIn"):
            if not values:
                yield required(f"{place}.values", "must be specified when `operator` is 'In' or 'NotIn'")
        elif operator in ("Exists", "DoesNotExist"):
            if values:
                why = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'"
                yield forbidden(f"{place}.values", why)
        elif of_node and operator in ("Gt", "Lt"):
            if len(values) != 1:
                why = "must be specified single value when `operator` is 'Lt' or 'Gt'"
                yield required(f"{place}.values", why)
        else:
            yield invalid(f"{place}.operator", operator or "", "not a valid selector operator")
        yield from _key(one.get("key") or "", f"{place}.key")
        for j, value in enumerate(values if checks_values else ()):
            for why in problems_of(value, VALUE, LONGEST, A_VALUE):
                yield invalid(f"{place}.values[{j}]", value, why)


def _key(key: str, field: str) -> Iterator[Problem]:
    yield from (invalid(field, key, why) for why in problems_of_key(key))


# --- affinity -----------------------------------------------------------------------------------------------


def _node_affinity(affinity: Json, field: str) -> Iterator[Problem]:
    place = f"{field}.requiredDuringSchedulingIgnoredDuringExecution"
    if (selector := affinity.get("requiredDuringSchedulingIgnoredDuringExecution")) is not None:
        terms = selector.get("nodeSelectorTerms") or ()
        if not terms:
            yield required(f"{place}.nodeSelectorTerms", "must have at least one node selector term")
        for i, term in enumerate(terms):
            yield from _node_term(term, f"{place}.nodeSelectorTerms[{i}]", checks_values=True)
    for i, one in enumerate(affinity.get("preferredDuringSchedulingIgnoredDuringExecution") or ()):
        place = f"{field}.preferredDuringSchedulingIgnoredDuringExecution[{i}]"
        yield from _weight(one, place)
        yield from _node_term(one.get("preference") or {}, f"{place}.preference", checks_values=False)


def _weight(term: Json, field: str) -> Iterator[Problem]:
    if (weight := term.get("weight") or 0) not in range(1, 101):
        yield invalid(f"{field}.weight", weight, "must be in the range 1-100")


def _node_term(term: Json, field: str, *, checks_values: bool) -> Iterator[Problem]:
    expressions = term.get("matchExpressions") or ()
    yield from _expressions(
        expressions, f"{field}.matchExpressions", of_node=True, checks_values=checks_values
    )
    for i, one in enumerate(term.get("matchFields") or ()):
        place, operator, values = f"{field}.matchFields[{i}]", one.get("operator"), one.get("values") or ()
        if operator not in ("In", "NotIn"):
            yield invalid(f"{place}.operator", operator or "", "not a valid selector operator")
        elif len(values) != 1:
            why = "must be only one value when `operator` is 'In' or 'NotIn' for node field selector"
            yield required(f"{place}.values", why)
        if (key := one.get("key") or "") != "metadata.name":
            yield invalid(f"{place}.key", key, "not a valid field selector key")


def _pod_affinity(affinity: Json, field: str) -> Iterator[Problem]:
    for i, term in enumerate(affinity.get("requiredDuringSchedulingIgnoredDuringExecution") or ()):
        yield from _pod_term(term, f"{field}.requiredDuringSchedulingIgnoredDuringExecution[{i}]")
    for i, one in enumerate(affinity.get("preferredDuringSchedulingIgnoredDuringExecution") or ()):
        place = f"{field}.preferredDuringSchedulingIgnoredDuringExecution[{i}]"
        yield from _weight(one, place)
        yield from _pod_term(one.get("podAffinityTerm") or {}, f"{place}.podAffinityTerm")


def _pod_term(term: Json, field: str) -> Iterator[Problem]:
    yield from _selector(term.get("labelSelector"), f"{field}.labelSelector")
    yield from _selector(term.get("namespaceSelector"), f"{field}.namespaceSelector")
    for name in term.get("namespaces") or ():
        yield from (invalid(f"{field}.namespace", name, why) for why in _problems_of_label(name))
    if not term.get("topologyKey"):
        yield required(f"{field}.topologyKey", "can not be empty")
    yield from _key(term.get("topologyKey") or "", f"{field}.topologyKey")


# --- tolerations, spread constraints, gates -----------------------------------------------------------------


def _toleration(toleration: Json, field: str) -> Iterator[Problem]:
    key, operator = toleration.get("key") or "", toleration.get("operator") or ""
    value, effect = toleration.get("value") or "", toleration.get("effect") or ""
    if key:
        yield from _key(key, f"{field}.key")
    elif operator != "Exists":
        why = 'operator must be Exists when `key` is empty, which means "match all values and all keys"'
        yield invalid(f"{field}.operator", operator, why)
    if toleration.get("tolerationSeconds") is not None and effect != "NoExecute":
        yield invalid(f"{field}.effect", effect, "effect must be 'NoExecute' when `tolerationSeconds` is set")
    if operator in ("", "Equal"):
        if wrong := problems_of(value, VALUE, LONGEST, A_VALUE):
            yield invalid(f"{field}.operator", value, ";".join(wrong))
    elif operator == "Exists":
        if value:
            yield invalid(f"{field}.operator", value, "value must be empty when `operator` is 'Exists'")
    else:  # Lt and Gt need the feature TaintTolerationComparisonOperators, which is off
        both = ("Equal", "Exists", "Lt", "Gt") if operator in ("Lt", "Gt") else ("Equal", "Exists")
        yield unsupported(f"{field}.operator", operator, both)
    if effect and effect not in EFFECTS:
        yield unsupported(f"{field}.effect", effect, EFFECTS)


def _spread(constraints: Sequence[Json], field: str) -> Iterator[Problem]:
    left = Counter(map(_kind_of_spread, constraints))
    for i, one in enumerate(constraints):
        place, (key, when) = f"{field}[{i}]", _kind_of_spread(one)
        left[key, when] -= 1
        if (skew := one.get("maxSkew") or 0) < 1:
            yield invalid(f"{place}.maxSkew", skew, "must be greater than zero")
        if not key:
            yield required(f"{place}.topologyKey", "can not be empty")
        if when not in ("DoNotSchedule", "ScheduleAnyway"):
            yield unsupported(f"{place}.whenUnsatisfiable", when, ("DoNotSchedule", "ScheduleAnyway"))
        if left[key, when]:
            yield duplicate(f"{place}.{{topologyKey, whenUnsatisfiable}}", f"{{{key}, {when}}}")
        if (domains := one.get("minDomains")) is not None:
            if domains < 1:
                yield invalid(f"{place}.minDomains", domains, "must be greater than zero")
            if when != "DoNotSchedule":
                why = f"can only use minDomains if whenUnsatisfiable=DoNotSchedule, not {when}"
                yield invalid(f"{place}.minDomains", domains, why)
        for policy in ("nodeAffinityPolicy", "nodeTaintsPolicy"):
            if (said := one.get(policy)) is not None and said not in ("Honor", "Ignore"):
                yield unsupported(f"{place}.{policy}", said, ("Honor", "Ignore"))
        yield from _selector(one.get("labelSelector"), f"{place}.labelSelector")


def _kind_of_spread(constraint: Json) -> tuple[str, str]:
    """No two constraints of a pod may have the same."""
    return constraint.get("topologyKey") or "", constraint.get("whenUnsatisfiable") or ""


def _gates(spec: Json, field: str) -> Iterator[Problem]:
    seen = set()
    for i, gate in enumerate(spec.get("schedulingGates") or ()):
        name = gate.get("name") or ""
        yield from _key(name, f"{field}[{i}]")
        if name in seen:
            yield duplicate(f"{field}[{i}]", name)
        seen.add(name)
