"""The arguments of plugins, as a configuration file has them.

Source: k8s.io/kube-scheduler/config/v1/types_pluginargs.go; in pkg/scheduler/apis/config, v1/defaults.go and
validation/validation_pluginargs.go
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import pairwise
from typing import Any

from msgspec import field
from msgspec.structs import asdict

from lib.kube import objects
from lib.scheduling.plugins.actual_load import MAX_AGE
from lib.scheduling.plugins.dynamic_resources import BINDING_TIMEOUT, FILTER_TIMEOUT
from lib.scheduling.plugins.pod_topology_spread import SYSTEM_DEFAULTS
from lib.service.config.strict import (
    VERSION,
    Duration,
    Strict,
    no_label_key,
    no_label_value,
    not_among,
    not_between,
)


class Args(Strict):
    """The arguments of a plugin: what all of them have in common."""

    api_version: str = VERSION
    kind: str = ""

    def problems(self, path: str) -> Iterator[str]:
        """A line for each invalid field: `PATH: why`."""
        raise NotImplementedError

    def for_plugin(self) -> dict[str, Any]:
        """The arguments of the plugin's constructor; by default they have the same names."""
        fields = asdict(self)
        return {name: fields[name] for name in fields if name not in ("api_version", "kind")}


class ResourceSpec(Strict):
    """A resource that is scored, and its weight."""

    name: str
    weight: int = 1

    def __post_init__(self) -> None:
        self.weight = self.weight or 1


CPU_AND_MEMORY = (ResourceSpec(name="cpu"), ResourceSpec(name="memory"))


class UtilizationShapePoint(Strict):
    """The score (0 to 10) of a resource at a utilization (0 to 100)."""

    utilization: int = 0
    score: int = 0


class DefaultPreemptionArgs(Args):
    """Among how many candidate nodes the best is picked."""

    min_candidate_nodes_percentage: int = 10
    min_candidate_nodes_absolute: int = 100

    def problems(self, path: str) -> Iterator[str]:
        """A line for each invalid field: `PATH: why`."""
        percentage, absolute = self.min_candidate_nodes_percentage, self.min_candidate_nodes_absolute
        yield from not_between(f"{path}.minCandidateNodesPercentage", percentage, 0, 100)
        if absolute < 0:
            yield f"{path}.minCandidateNodesAbsolute: {absolute} is less than 0"
        if percentage == absolute == 0:
            yield f"{path}: minCandidateNodesPercentage and minCandidateNodesAbsolute can't both be 0"


class InterPodAffinityArgs(Args):
    """The weights of assigned pods' affinity."""

    hard_pod_affinity_weight: int = 1
    ignore_preferred_terms_of_existing_pods: bool = False

    def problems(self, path: str) -> Iterator[str]:
        """A line for each invalid field: `PATH: why`."""
        yield from not_between(f"{path}.hardPodAffinityWeight", self.hard_pod_affinity_weight, 0, 100)


def _is_integer(text: str) -> bool:
    return text.isascii() and text.isdecimal()


class _Requirement(objects.Requirement, frozen=True, forbid_unknown_fields=True):
    """One expression of a term in a configuration."""

    key: str = ""
    operator: str = ""

    def problems(self, path: str) -> Iterator[str]:
        """A line for each invalid field: `PATH: why`; this is for labels.

        Source: apimachinery/pkg/labels/selector.go, NewRequirement
        """
        yield from no_label_key(f"{path}.key", self.key)
        yield from not_among(
            f"{path}.operator", self.operator, ("In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt")
        )
        if self.operator in ("In", "NotIn") and not self.values:
            yield f"{path}.values: {self.operator} needs at least one value"
        if self.operator in ("Exists", "DoesNotExist") and self.values:
            yield f"{path}.values: {self.operator} takes no values"
        if self.operator in ("Gt", "Lt") and not (len(self.values) == 1 and _is_integer(self.values[0])):
            yield f"{path}.values: {self.operator} needs one whole number"
        for i, value in enumerate(self.values):
            yield from no_label_value(f"{path}.values[{i}]", value)

    def problems_of_field(self, path: str) -> Iterator[str]:
        """A line for each invalid field: `PATH: why`; this is for a node's fields."""
        yield from not_among(f"{path}.operator", self.operator, ("In", "NotIn"))
        if len(self.values) != 1:
            yield f"{path}.values: must be exactly one value"


class _Term(objects.NodeSelectorTerm, frozen=True, forbid_unknown_fields=True):
    """All of its expressions must hold."""

    match_expressions: tuple[_Requirement, ...] = ()
    match_fields: tuple[_Requirement, ...] = ()

    def problems(self, path: str) -> Iterator[str]:
        """A line for each invalid field: `PATH: why`."""
        for i, expression in enumerate(self.match_expressions):
            yield from expression.problems(f"{path}.matchExpressions[{i}]")
        for i, expression in enumerate(self.match_fields):
            yield from expression.problems_of_field(f"{path}.matchFields[{i}]")


class _Selector(objects.NodeSelector, frozen=True, forbid_unknown_fields=True):
    """One of its terms must hold."""

    node_selector_terms: tuple[_Term, ...] = ()


class _Preferred(objects.PreferredSchedulingTerm, frozen=True, forbid_unknown_fields=True):
    """A term that adds its weight to the score of a node that it matches."""

    weight: int = 0
    preference: _Term = _Term()


class AddedAffinity(Strict):
    """A core/v1 NodeAffinity."""

    required_during_scheduling_ignored_during_execution: _Selector | None = None
    preferred_during_scheduling_ignored_during_execution: tuple[_Preferred, ...] = ()


class NodeAffinityArgs(Args):
    """Node affinity for every pod of the profile, besides the pod's own."""

    added_affinity: AddedAffinity = field(default_factory=AddedAffinity)

    def problems(self, path: str) -> Iterator[str]:
        """A line for each invalid field: `PATH: why`; a preferred term with weight 0 isn't checked."""
        path = f"{path}.addedAffinity"
        required = self.added_affinity.required_during_scheduling_ignored_during_execution or _Selector()
        for i, term in enumerate(required.node_selector_terms):
            yield from term.problems(
                f"{path}.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms[{i}]"
            )
        preferred = self.added_affinity.preferred_during_scheduling_ignored_during_execution
        for i, weighted in enumerate(preferred):
            if weighted.weight:
                yield from weighted.preference.problems(
                    f"{path}.preferredDuringSchedulingIgnoredDuringExecution[{i}].preference"
                )

    def for_plugin(self) -> dict[str, Any]:
        """The affinity, as the plugin's type."""
        required = self.added_affinity.required_during_scheduling_ignored_during_execution
        preferred = self.added_affinity.preferred_during_scheduling_ignored_during_execution
        if not required and not preferred:
            return {}
        with_weight = [term for term in preferred if term.weight]
        return {"added_affinity": objects.NodeAffinity(required, [*with_weight])}


class NodeResourcesBalancedAllocationArgs(Args):
    """Which resources should be used evenly."""

    resources: tuple[ResourceSpec, ...] = ()

    def __post_init__(self) -> None:
        self.resources = self.resources or CPU_AND_MEMORY

    def problems(self, path: str) -> Iterator[str]:
        """A line for each invalid field: `PATH: why`."""
        seen = set()
        for i, resource in enumerate(self.resources):
            if resource.name in seen:
                yield f"{path}.resources[{i}].name: {resource.name} is given twice"
            seen.add(resource.name)
            if resource.weight != 1:
                yield f"{path}.resources[{i}].weight: must be 1"

    def for_plugin(self) -> dict[str, Any]:
        """Weights by name."""
        return {"resources": {resource.name: resource.weight for resource in self.resources}}


class RequestedToCapacityRatioParam(Strict):
    """Points of a line."""

    shape: tuple[UtilizationShapePoint, ...] = ()

    def problems(self, path: str) -> Iterator[str]:
        """A line for each invalid field: `PATH: why`."""
        if not self.shape:
            yield f"{path}.shape: needs at least one point"
        for i, (before, point) in enumerate(pairwise(self.shape), start=1):
            if before.utilization >= point.utilization:
                yield f"{path}.shape[{i}].utilization: must be more than that of the point before"
        for i, point in enumerate(self.shape):
            yield from not_between(f"{path}.shape[{i}].utilization", point.utilization, 0, 100)
            yield from not_between(f"{path}.shape[{i}].score", point.score, 0, 10)


class ScoringStrategy(Strict):
    """How a node's resources are scored."""

    type: str = ""
    resources: tuple[ResourceSpec, ...] = ()
    requested_to_capacity_ratio: RequestedToCapacityRatioParam | None = None

    def __post_init__(self) -> None:
        self.resources = self.resources or CPU_AND_MEMORY

    def problems(self, path: str) -> Iterator[str]:
        """A line for each invalid field: `PATH: why`."""
        types = ("LeastAllocated", "MostAllocated", "RequestedToCapacityRatio")
        yield from not_among(f"{path}.type", self.type, types)
        for i, resource in enumerate(self.resources):
            yield from not_between(f"{path}.resources[{i}].weight", resource.weight, 1, 100)
        ratio, place = self.requested_to_capacity_ratio, f"{path}.requestedToCapacityRatio"
        if self.type == "RequestedToCapacityRatio":
            yield from ratio.problems(place) if ratio else [f"{place}: is missing"]
        elif ratio:
            yield f"{place}: belongs to the type RequestedToCapacityRatio only"


class NodeResourcesFitArgs(Args):
    """Which resources are ignored, and how resources are scored."""

    ignored_resources: tuple[str, ...] = ()
    ignored_resource_groups: tuple[str, ...] = ()
    scoring_strategy: ScoringStrategy = field(default_factory=lambda: ScoringStrategy(type="LeastAllocated"))

    def problems(self, path: str) -> Iterator[str]:
        """A line for each invalid field: `PATH: why`."""
        for i, name in enumerate(self.ignored_resources):
            yield from no_label_key(f"{path}.ignoredResources[{i}]", name)
        for i, name in enumerate(self.ignored_resource_groups):
            place = f"{path}.ignoredResourceGroups[{i}]"
            yield from (
                [f"{place}: {name!r} must not have a slash"] if "/" in name else no_label_key(place, name)
            )
        yield from self.scoring_strategy.problems(f"{path}.scoringStrategy")

    def for_plugin(self) -> dict[str, Any]:
        """Weights by name; the weights of a resource that is given twice add up."""
        strategy = self.scoring_strategy
        weights: dict[str, int] = {}
        for resource in strategy.resources:
            weights[resource.name] = weights.get(resource.name, 0) + resource.weight
        shape = strategy.requested_to_capacity_ratio.shape if strategy.requested_to_capacity_ratio else ()
        line = {"shape": tuple((point.utilization, point.score) for point in shape)} if shape else {}
        return {
            "strategy": strategy.type,
            "resources": weights,
            "ignored_resources": frozenset(self.ignored_resources),
            "ignored_resource_groups": frozenset(self.ignored_resource_groups),
            **line,
        }


class _StrictConstraint(objects.TopologySpreadConstraint, forbid_unknown_fields=True, kw_only=True):
    """A constraint in a configuration, with the defaults of that."""

    topology_key: str = ""
    max_skew: int = 0
    when_unsatisfiable: str = ""
    label_selector: Any = None

    def problems(self, path: str) -> Iterator[str]:
        """A line for each invalid field: `PATH: why`."""
        if self.max_skew <= 0:
            yield f"{path}.maxSkew: {self.max_skew} is not more than 0"
        yield from no_label_key(f"{path}.topologyKey", self.topology_key)
        actions = ("DoNotSchedule", "ScheduleAnyway")
        yield from not_among(f"{path}.whenUnsatisfiable", self.when_unsatisfiable, actions)
        if self.label_selector is not None:
            yield f"{path}.labelSelector: is taken from the pod's service or controller; leave it out"


class PodTopologySpreadArgs(Args):
    """How pods without constraints of their own are spread."""

    default_constraints: tuple[_StrictConstraint, ...] = ()
    defaulting_type: str = ""

    def __post_init__(self) -> None:
        self.defaulting_type = self.defaulting_type or "System"

    def problems(self, path: str) -> Iterator[str]:
        """A line for each invalid field: `PATH: why`."""
        yield from not_among(f"{path}.defaultingType", self.defaulting_type, ("System", "List"))
        if self.defaulting_type == "System" and self.default_constraints:
            yield f"{path}.defaultingType: must be List, as there are defaultConstraints"
        seen = set()
        for i, constraint in enumerate(self.default_constraints):
            place = f"{path}.defaultConstraints[{i}]"
            yield from constraint.problems(place)
            key = constraint.topology_key, constraint.when_unsatisfiable
            if key in seen:
                yield f"{place}: there is one for {' and '.join(key)} already"
            seen.add(key)

    def for_plugin(self) -> dict[str, Any]:
        """The constraints, as the plugin's type."""
        by_system = self.defaulting_type == "System"
        return {"default_constraints": SYSTEM_DEFAULTS if by_system else self.default_constraints}


class VolumeBindingArgs(Args):
    """How long a pod waits for its volumes after a node was picked."""

    bind_timeout_seconds: int = 600
    shape: tuple[UtilizationShapePoint, ...] = ()

    def problems(self, path: str) -> Iterator[str]:
        """A line for each invalid field: `PATH: why`."""
        if self.bind_timeout_seconds < 0:
            yield f"{path}.bindTimeoutSeconds: {self.bind_timeout_seconds} is less than 0"
        if self.shape:
            yield f"{path}.shape: poller doesn't score storage capacity; leave it out"

    def for_plugin(self) -> dict[str, Any]:
        """The time limit."""
        return {"bind_timeout_seconds": self.bind_timeout_seconds}


class DynamicResourcesArgs(Args):
    """Time limits, in seconds: to find devices on a node, and until those of a picked node are ready."""

    filter_timeout: Duration | None = None
    binding_timeout: Duration | None = None

    def problems(self, path: str) -> Iterator[str]:
        """A line for each invalid field: `PATH: why`."""
        if self.filter_timeout is not None and self.filter_timeout < 0:
            yield f"{path}.filterTimeout: {self.filter_timeout:g}s is less than 0"
        if self.binding_timeout is not None and self.binding_timeout < 1:
            yield f"{path}.bindingTimeout: {self.binding_timeout:g}s is less than 1s"

    def for_plugin(self) -> dict[str, Any]:
        """The time limits."""
        filtering = FILTER_TIMEOUT if self.filter_timeout is None else self.filter_timeout
        binding = BINDING_TIMEOUT if self.binding_timeout is None else self.binding_timeout
        return {"filter_timeout": float(filtering), "binding_timeout": float(binding)}


class ActualLoadArgs(Args):
    """How full nodes should be, in percent of what is allocatable, and how old metrics may be."""

    target_utilization: int = 0
    max_age: Duration = Duration(MAX_AGE)

    def problems(self, path: str) -> Iterator[str]:
        """A line for each invalid field: `PATH: why`."""
        yield from not_between(f"{path}.targetUtilization", self.target_utilization, 0, 99)
        if self.max_age <= 0:
            yield f"{path}.maxAge: must be more than {self.max_age:g} s"


ARGUMENTS: Mapping[str, type[Args]] = {
    "DefaultPreemption": DefaultPreemptionArgs,
    "InterPodAffinity": InterPodAffinityArgs,
    "NodeAffinity": NodeAffinityArgs,
    "NodeResourcesBalancedAllocation": NodeResourcesBalancedAllocationArgs,
    "NodeResourcesFit": NodeResourcesFitArgs,
    "PodTopologySpread": PodTopologySpreadArgs,
    "VolumeBinding": VolumeBindingArgs,
    "DynamicResources": DynamicResourcesArgs,
    "ActualLoad": ActualLoadArgs,
}
"""By plugin. Those that aren't here take no arguments."""
