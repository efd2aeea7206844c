"""Resource quotas: how many of the pods of a workload a namespace still admits.

Sources: pkg/quota/v1/evaluator/core/pods.go; staging/src/k8s.io/apiserver/pkg/admission/plugin/resourcequota,
checkRequest in controller.go
"""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property

import msgspec

from lib.kube.objects import Json, NamedObject, Object, Pod, Requirement
from lib.kube.quantity import Quantity
from lib.kube.resource_claims import all_containers
from lib.kube.selectors import matches
from lib.scheduling.resources import Resources, amounts, pod_limits, pod_requests
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
    def usage(self) -> Resources:
        """How much the pod uses of all that a quota can limit."""
        requests, limits = pod_requests(self.pod), pod_limits(self.pod)
        of_requests = {f"requests.{name}": amount for name, amount in requests.items()}
        of_limits = {f"limits.{name}": amount for name, amount in limits.items()}
        plain = {name: amount for name, amount in requests.items() if name in COMPUTE}
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
            if unknown := [name for name in quota.spec.hard if name in usage and name not in hard]:
                return f"status unknown for quota: {name}, resources: {','.join(sorted(unknown))}"
            if missing := _missing(new, hard):
                return f"failed quota: {name}: must specify {missing}"
            more = {name: usage[name] for name in sorted(hard) if usage.get(name)}
            if over := [name for name, amount in more.items() if used.get(name, 0) + amount > hard[name]]:
                texts = (
                    ", ".join(f"{name}={_text(name, of[name])}" for name in over) for of in (more, used, hard)
                )
                return "exceeded quota: {}, requested: {}, used: {}, limited: {}".format(name, *texts)
            charges.append((used, more))
        for used, more in charges:
            for name, amount in more.items():
                used[name] = used.get(name, 0) + amount
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


def _text(name: str, amount: int) -> str:
    return exact_amount(_resource(name), amount)


def _missing(new: Charged, hard: Iterable[str]) -> str:
    """What each container has to name, as a quota limits it."""
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
    says_nothing = not any(map(any, new.containers.values()))
    terminates = spec.get("activeDeadlineSeconds") is not None
    named = {"class": name} if (name := spec.get("priorityClassName")) else {}
    meant = Requirement("class", asked.operator, tuple(asked.values))
    return {
        "Terminating": terminates,
        "NotTerminating": not terminates,
        "BestEffort": says_nothing,
        "NotBestEffort": not says_nothing,
        "CrossNamespacePodAffinity": '"namespace' in json.dumps(spec.get("affinity")),  # or namespaceSelector
        "PriorityClass": matches(meant, named),
    }.get(asked.scope_name, True)
