"""Resource quotas: how many of the pods of a workload a namespace still admits.

Sources: pkg/quota/v1/evaluator/core/pods.go; staging/src/k8s.io/apiserver/pkg/admission/plugin/resourcequota,
checkRequest in controller.go
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property

import msgspec

from lib.kube.objects import Json, NamedObject, Object, Pod, Requirement
from lib.kube.quantity import Quantity
from lib.kube.resource_claims import all_containers
from lib.kube.selectors import matches
from lib.scheduling.affinity import terms_by_field
from lib.scheduling.resources import Resources, amounts, has_resources, pod_limits, pod_requests
from lib.scheduling.text import exact_amount

COMPUTE = ("cpu", "memory", "ephemeral-storage")
"""Resources of which a quota may limit requests and limits."""


class ScopeRequirement(Object):
    """One expression about pods."""

    scope_name: str = ""
    operator: str = ""
    values: list[str] = msgspec.field(default_factory=list)


class ScopeSelector(Object):
    """All must match."""

    match_expressions: list[ScopeRequirement] = msgspec.field(default_factory=list)


class ResourceQuotaSpec(Object):
    """What is limited, and for which pods."""

    hard: dict[str, Quantity] = msgspec.field(default_factory=dict)
    scopes: list[str] = msgspec.field(default_factory=list)
    scope_selector: ScopeSelector = msgspec.field(default_factory=ScopeSelector)


class ResourceQuotaStatus(Object):
    """What is enforced, and how much of it is used."""

    hard: dict[str, Quantity] = msgspec.field(default_factory=dict)
    used: dict[str, Quantity] = msgspec.field(default_factory=dict)


class ResourceQuota(NamedObject):
    """core/v1 ResourceQuota."""

    spec: ResourceQuotaSpec = msgspec.field(default_factory=ResourceQuotaSpec)
    status: ResourceQuotaStatus = msgspec.field(default_factory=ResourceQuotaStatus)


def with_status(quota: ResourceQuota) -> ResourceQuota:
    """A quota of a manifest as it is soon after its creation, in a namespace where nothing is used."""
    status = ResourceQuotaStatus(quota.spec.hard, dict.fromkeys(quota.spec.hard, Quantity(0)))
    return quota if quota.status.hard else msgspec.structs.replace(quota, status=status)


@dataclass(frozen=True)
class Charged:
    """What quotas and limit ranges count of each pod of a workload. spec: the pod's, as in a manifest."""

    spec: Json
    pod: Pod

    @cached_property
    def containers(self) -> dict[str, tuple[Resources, Resources]]:
        """The requests and limits of each container by its name."""
        every = [(container.name, container.resources) for container in all_containers(self.pod)]
        return {
            name: (amounts(of_container.requests), amounts(of_container.limits))
            for name, of_container in every
        }

    @property
    def is_best_effort(self) -> bool:
        """Whether its quality of service is BestEffort: pkg/apis/core/v1/helper/qos/qos.go."""
        of_pod = self.pod.spec.resources
        own = [(amounts(of_pod.requests), amounts(of_pod.limits))] if has_resources(self.pod) else None
        every = own or self.containers.values()
        return not any(said.get(name) for both in every for said in both for name in COMPUTE[:2])

    @property
    def crosses_namespaces(self) -> bool:
        """Whether its affinity or anti-affinity names namespaces, be it the pod's own."""
        return any(
            term.namespaces or term.namespace_selector is not None
            for terms in terms_by_field(self.pod)
            for term, _ in terms
        )

    @property
    def usage(self) -> Resources:
        """How much the pod uses of all that a quota can limit."""
        requests, limits = pod_requests(self.pod), pod_limits(self.pod)
        of_requests = {f"requests.{name}": amount for name, amount in requests.items()}
        of_limits = {f"limits.{name}": amount for name, amount in limits.items()}
        plain = {
            name: amount for name, amount in requests.items() if name.startswith((*COMPUTE, "hugepages-"))
        }
        return {"pods": 1, "count/pods": 1, **plain, **of_requests, **of_limits}


class Quotas:
    """The quotas of a cluster, which new pods use up."""

    def __init__(self, quotas: Iterable[ResourceQuota]) -> None:
        self._quotas = list(quotas)
        self._used = [_scaled(quota.status.used) for quota in self._quotas]

    def refusal(self, new: Charged) -> str:
        """Charge a new pod; or, in the API server's words, why it isn't admitted, "" if it is."""
        usage, charges = new.usage, []
        for quota, used in zip(self._quotas, self._used, strict=True):
            if quota.metadata.namespace != new.pod.metadata.namespace or not _covers(quota, new):
                continue
            name, hard = quota.metadata.name, _scaled(quota.status.hard)
            if missing := _missing(new, hard):
                return f"failed quota: {name}: must specify {missing}"
            limited = sorted(filter(_is_of_pods, hard))
            if not used.keys() >= {*limited}:
                return f"status unknown for quota: {name}, resources: {','.join(limited)}"
            more = {name: usage[name] for name in limited if usage.get(name)}
            if over := [name for name, amount in more.items() if used[name] + amount > hard[name]]:
                texts = (
                    ", ".join(f"{name}={_text(name, of[name])}" for name in over) for of in (more, used, hard)
                )
                return "exceeded quota: {}, requested: {}, used: {}, limited: {}".format(name, *texts)
            charges.append((used, more))
        for used, more in charges:
            for name, amount in more.items():
                used[name] += amount
        return ""


def _scaled(quantities: Mapping[str, Quantity]) -> Resources:
    """Quantities in the scheduler's units: cpu in thousandths, the rest in whole ones."""
    return {
        name: quantity.milli if _resource(name) == "cpu" else quantity.value
        for name, quantity in quantities.items()
    }


def _resource(name: str) -> str:
    """The resource that a quota limits the requests or the limits of."""
    return name.removeprefix("requests.").removeprefix("limits.")


def _is_of_pods(name: str) -> bool:
    """Whether a quota limits this for pods: MatchingResources in pods.go."""
    return (
        name in ("pods", "count/pods")
        or _resource(name) in COMPUTE
        or name.startswith(("hugepages-", "requests.hugepages-"))
        or (name.startswith("requests.") and "/" in name)
    )


def _text(name: str, amount: int) -> str:
    return exact_amount(_resource(name), amount)


def _missing(new: Charged, hard: Iterable[str]) -> str:
    """What each container has to name, as a quota limits it: nothing, if the pod has resources itself."""
    if has_resources(new.pod):
        return ""
    missing: dict[str, list[str]] = {}
    for name in sorted(hard):
        resource = _resource(name)
        if resource not in COMPUTE[:2]:
            continue
        for container, (requests, limits) in new.containers.items():
            if resource not in (limits if name.startswith("limits.") else requests):
                missing.setdefault(name, []).append(container)
    return "; ".join(f"{name} for: {','.join(containers)}" for name, containers in missing.items())


def _covers(quota: ResourceQuota, new: Charged) -> bool:
    asked = [ScopeRequirement(scope, "Exists") for scope in quota.spec.scopes]
    return all(_in_scope(scope, new) for scope in [*asked, *quota.spec.scope_selector.match_expressions])


def _in_scope(asked: ScopeRequirement, new: Charged) -> bool:
    spec = new.spec
    terminates = spec.get("activeDeadlineSeconds") is not None
    named = {"class": name} if (name := spec.get("priorityClassName")) else {}
    meant = Requirement("class", asked.operator, tuple(asked.values))
    return {
        "Terminating": terminates,
        "NotTerminating": not terminates,
        "BestEffort": new.is_best_effort,
        "NotBestEffort": not new.is_best_effort,
        "CrossNamespacePodAffinity": new.crosses_namespaces,
        "PriorityClass": matches(meant, named),
    }.get(asked.scope_name, False)  # the other scopes are not for pods
