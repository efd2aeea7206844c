"""The arguments of plugins in `pluginConfig`.

Source: k8s.io/kube-scheduler/config/v1/types_pluginargs.go; in pkg/scheduler/apis/config, v1/defaults.go and
validation/validation_pluginargs.go
"""

from collections.abc import Iterator, Mapping
from itertools import pairwise
from typing import Any

from msgspec import field
from msgspec.structs import asdict

from lib.kube import objects
from lib.scheduling.plugins.pod_topology_spread import SYSTEM_DEFAULTS
from lib.service.config.fields import (
    VERSION,
    ConfigError,
    Duration,
    Strict,
    no_label_key,
    no_label_value,
    not_among,
    not_between,
    read,
    without_repetitions,
    wrong_head,
)


class Args(Strict):
    """Base of all arguments."""

    api_version: str = VERSION
    kind: str = ""

    def problems(self, path: str) -> Iterator[str]:
        """What is wrong with them."""
        raise NotImplementedError

    def for_plugin(self) -> dict[str, Any]:
        """The arguments of the plugin's constructor; by default they have the same names."""
        fields = asdict(self)
        return {name: fields[name] for name in fields if name not in ("api_version", "kind")}


class DefaultPreemptionArgs(Args):
    """Among how many candidate nodes the best is picked."""

    min_candidate_nodes_percentage: int = 10
    min_candidate_nodes_absolute: int = 100

    def problems(self, path: str) -> Iterator[str]:
        """What is wrong with them."""
        percentage, absolute = self.min_candidate_nodes_percentage, self.min_candidate_nodes_absolute
        yield from not_between(f"{path}.minCandidateNodesPercentage", percentage, 0, 100)
        if absolute < 0:
            yield f"{path}.minCandidateNodesAbsolute: {absolute} is less than 0"
        if percentage == absolute == 0:
            yield f"{path}: minCandidateNodesPercentage and minCandidateNodesAbsolute can't both be 0"


class DynamicResourcesArgs(Args):
    """kube-scheduler's time limits for devices; poller allocates none."""

    filter_timeout: Duration | None = None
    binding_timeout: Duration | None = None

    def problems(self, path: str) -> Iterator[str]:
        """What is wrong with them."""
        if self.filter_timeout is not None and self.filter_timeout < 0:
            yield f"{path}.filterTimeout: {self.filter_timeout:g}s is less than 0"
        if self.binding_timeout is not None and self.binding_timeout < 1:
            yield f"{path}.bindingTimeout: {self.binding_timeout:g}s is less than 1s"

    def for_plugin(self) -> dict[str, Any]:
        """None: the plugin rejects pods that need devices."""
        return {}


class InterPodAffinityArgs(Args):
    """The weights of assigned pods' affinity."""

    hard_pod_affinity_weight: int = 1
    ignore_preferred_terms_of_existing_pods: bool = False

    def problems(self, path: str) -> Iterator[str]:
        """What is wrong with them."""
        yield from not_between(f"{path}.hardPodAffinityWeight", self.hard_pod_affinity_weight, 0, 100)


# --- NodeAffinity ---------------------------------------------------------------------------------------


class Requirement(Strict):
    """One expression of a term."""

    key: str = ""
    operator: str = ""
    values: tuple[str, ...] = ()

    def problems(self, path: str) -> Iterator[str]:
        """What is wrong with one about labels (apimachinery/pkg/labels/selector.go, NewRequirement)."""
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
        """What is wrong with one about a node's fields."""
        yield from not_among(f"{path}.operator", self.operator, ("In", "NotIn"))
        if len(self.values) != 1:
            yield f"{path}.values: must be exactly one value"


def _is_integer(text: str) -> bool:
    return text.isascii() and text.isdecimal()


class NodeSelectorTerm(Strict):
    """All of its expressions must hold."""

    match_expressions: tuple[Requirement, ...] = ()
    match_fields: tuple[Requirement, ...] = ()

    def problems(self, path: str) -> Iterator[str]:
        """What is wrong with any of them."""
        for i, each in enumerate(self.match_expressions):
            yield from each.problems(f"{path}.matchExpressions[{i}]")
        for i, each in enumerate(self.match_fields):
            yield from each.problems_of_field(f"{path}.matchFields[{i}]")

    def as_object(self) -> objects.NodeSelectorTerm:
        """The same, as the plugin's type."""
        return objects.NodeSelectorTerm(
            tuple(
                objects.Requirement(each.key, each.operator, each.values) for each in self.match_expressions
            ),
            tuple(objects.Requirement(each.key, each.operator, each.values) for each in self.match_fields),
        )


class NodeSelector(Strict):
    """One of its terms must hold."""

    node_selector_terms: tuple[NodeSelectorTerm, ...] = ()


class PreferredSchedulingTerm(Strict):
    """A node that matches gets this score more."""

    weight: int = 0
    preference: NodeSelectorTerm = field(default_factory=NodeSelectorTerm)


class AddedAffinity(Strict):
    """A core/v1 NodeAffinity."""

    required_during_scheduling_ignored_during_execution: NodeSelector | None = None
    preferred_during_scheduling_ignored_during_execution: tuple[PreferredSchedulingTerm, ...] = ()


class NodeAffinityArgs(Args):
    """Node affinity for every pod of the profile, besides the pod's own."""

    added_affinity: AddedAffinity = field(default_factory=AddedAffinity)

    def problems(self, path: str) -> Iterator[str]:
        """What is wrong with its terms; a preferred term with weight 0 isn't checked."""
        path = f"{path}.addedAffinity"
        required = self.added_affinity.required_during_scheduling_ignored_during_execution or NodeSelector()
        for i, term in enumerate(required.node_selector_terms):
            yield from term.problems(
                f"{path}.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms[{i}]"
            )
        preferred = self.added_affinity.preferred_during_scheduling_ignored_during_execution
        for i, liked in enumerate(preferred):
            if liked.weight:
                yield from liked.preference.problems(
                    f"{path}.preferredDuringSchedulingIgnoredDuringExecution[{i}].preference"
                )

    def for_plugin(self) -> dict[str, Any]:
        """The affinity, as the plugin's type."""
        required = self.added_affinity.required_during_scheduling_ignored_during_execution
        preferred = self.added_affinity.preferred_during_scheduling_ignored_during_execution
        if not required and not preferred:
            return {}
        terms = tuple(term.as_object() for term in required.node_selector_terms) if required else None
        liked = [
            objects.PreferredSchedulingTerm(each.weight, each.preference.as_object())
            for each in preferred
            if each.weight
        ]
        return {
            "added_affinity": objects.NodeAffinity(
                None if terms is None else objects.NodeSelector(terms), liked
            )
        }


# --- resources ------------------------------------------------------------------------------------------


class ResourceSpec(Strict):
    """A resource that is scored, and its weight."""

    name: str
    weight: int = 1

    def __post_init__(self) -> None:
        self.weight = self.weight or 1


CPU_AND_MEMORY = (ResourceSpec(name="cpu"), ResourceSpec(name="memory"))


class NodeResourcesBalancedAllocationArgs(Args):
    """Which resources should be used evenly."""

    resources: tuple[ResourceSpec, ...] = ()

    def problems(self, path: str) -> Iterator[str]:
        """What is wrong with them."""
        seen = set()
        for i, each in enumerate(self.resources):
            if each.name in seen:
                yield f"{path}.resources[{i}].name: {each.name} is given twice"
            seen.add(each.name)
            if each.weight != 1:
                yield f"{path}.resources[{i}].weight: must be 1"

    def for_plugin(self) -> dict[str, Any]:
        """Weights by name."""
        return {"resources": {each.name: each.weight for each in self.resources or CPU_AND_MEMORY}}


class UtilizationShapePoint(Strict):
    """The score (0 to 10) of a resource at a utilization (0 to 100)."""

    utilization: int
    score: int


class RequestedToCapacityRatioParam(Strict):
    """Points of a line."""

    shape: tuple[UtilizationShapePoint, ...] = ()

    def problems(self, path: str) -> Iterator[str]:
        """What is wrong with them."""
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

    def problems(self, path: str) -> Iterator[str]:
        """What is wrong with it."""
        types = ("LeastAllocated", "MostAllocated", "RequestedToCapacityRatio")
        yield from not_among(f"{path}.type", self.type, types)
        for i, each in enumerate(self.resources):
            yield from not_between(f"{path}.resources[{i}].weight", each.weight, 1, 100)
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
        """What is wrong with them."""
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
        for each in strategy.resources or CPU_AND_MEMORY:
            weights[each.name] = weights.get(each.name, 0) + each.weight
        shape = strategy.requested_to_capacity_ratio.shape if strategy.requested_to_capacity_ratio else ()
        line = {"shape": tuple((point.utilization, point.score) for point in shape)} if shape else {}
        return {
            "strategy": strategy.type,
            "resources": weights,
            "ignored_resources": frozenset(self.ignored_resources),
            "ignored_resource_groups": frozenset(self.ignored_resource_groups),
            **line,
        }


# --- PodTopologySpread ----------------------------------------------------------------------------------


class TopologySpreadConstraint(Strict):
    """A core/v1 TopologySpreadConstraint."""

    max_skew: int = 0
    topology_key: str = ""
    when_unsatisfiable: str = ""
    label_selector: dict[str, Any] | None = None
    min_domains: int | None = None
    node_affinity_policy: str = "Honor"
    node_taints_policy: str = "Ignore"
    match_label_keys: tuple[str, ...] = ()

    def problems(self, path: str) -> Iterator[str]:
        """What is wrong with it."""
        if self.max_skew <= 0:
            yield f"{path}.maxSkew: {self.max_skew} is not more than 0"
        yield from no_label_key(f"{path}.topologyKey", self.topology_key)
        actions = ("DoNotSchedule", "ScheduleAnyway")
        yield from not_among(f"{path}.whenUnsatisfiable", self.when_unsatisfiable, actions)
        if self.label_selector is not None:
            yield f"{path}.labelSelector: is taken from the pod's service or controller; leave it out"


class PodTopologySpreadArgs(Args):
    """How pods without constraints of their own are spread."""

    default_constraints: tuple[TopologySpreadConstraint, ...] = ()
    defaulting_type: str = ""

    def __post_init__(self) -> None:
        self.defaulting_type = self.defaulting_type or "System"

    def problems(self, path: str) -> Iterator[str]:
        """What is wrong with them."""
        yield from not_among(f"{path}.defaultingType", self.defaulting_type, ("System", "List"))
        if self.defaulting_type == "System" and self.default_constraints:
            yield f"{path}.defaultingType: must be List, as there are defaultConstraints"
        seen = set()
        for i, each in enumerate(self.default_constraints):
            place = f"{path}.defaultConstraints[{i}]"
            yield from each.problems(place)
            sort = each.topology_key, each.when_unsatisfiable
            if sort in seen:
                yield f"{place}: there is one for {' and '.join(sort)} already"
            seen.add(sort)

    def for_plugin(self) -> dict[str, Any]:
        """The constraints, as the plugin's type."""
        return {
            "default_constraints": SYSTEM_DEFAULTS
            if self.defaulting_type == "System"
            else tuple(_as_object(each) for each in self.default_constraints)
        }


def _as_object(constraint: TopologySpreadConstraint) -> objects.TopologySpreadConstraint:
    return objects.TopologySpreadConstraint(
        constraint.topology_key,
        max_skew=constraint.max_skew,
        when_unsatisfiable=constraint.when_unsatisfiable,
        min_domains=constraint.min_domains,
        node_affinity_policy=constraint.node_affinity_policy,
        node_taints_policy=constraint.node_taints_policy,
    )


class VolumeBindingArgs(Args):
    """How long a pod waits for its volumes after a node was picked."""

    bind_timeout_seconds: int = 600
    shape: tuple[UtilizationShapePoint, ...] = ()

    def problems(self, path: str) -> Iterator[str]:
        """What is wrong with them."""
        if self.bind_timeout_seconds < 0:
            yield f"{path}.bindTimeoutSeconds: {self.bind_timeout_seconds} is less than 0"
        if self.shape:
            yield f"{path}.shape: poller doesn't score storage capacity; leave it out"

    def for_plugin(self) -> dict[str, Any]:
        """The time limit."""
        return {"bind_timeout_seconds": self.bind_timeout_seconds}


ARGS: Mapping[str, type[Args]] = {
    "DefaultPreemption": DefaultPreemptionArgs,
    "DynamicResources": DynamicResourcesArgs,
    "InterPodAffinity": InterPodAffinityArgs,
    "NodeAffinity": NodeAffinityArgs,
    "NodeResourcesBalancedAllocation": NodeResourcesBalancedAllocationArgs,
    "NodeResourcesFit": NodeResourcesFitArgs,
    "PodTopologySpread": PodTopologySpreadArgs,
    "VolumeBinding": VolumeBindingArgs,
}
"""The type of each plugin's arguments; other plugins have none."""


def arguments_for(plugin: str, raw: dict[str, Any], path: str) -> dict[str, Any]:
    """The arguments of a plugin's constructor. ConfigError when something is wrong."""
    if plugin not in ARGS:
        if raw:
            raise ConfigError([f"{path}: {plugin} takes none; leave them out"])
        return {}
    if wrong := [*wrong_head(raw, f"{plugin}Args", f"{path}.")]:
        raise ConfigError(wrong)
    args, wrong = read(raw, ARGS[plugin], path)
    if wrong := without_repetitions([*wrong, *args.problems(path)]):
        raise ConfigError(wrong)
    return args.for_plugin()
