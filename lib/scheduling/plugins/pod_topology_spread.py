"""PodTopologySpread: pods that belong together are spread over zones, nodes, or other values of a node label.

A domain is all nodes with the same value of the constraint's topology key. With `DoNotSchedule` a node is
rejected if its domain, with the pod, would have over `maxSkew` more matching pods than the domain with the
fewest. With `ScheduleAnyway`, domains with fewer pods only score better. A pod without constraints of its
own gets the default ones, if it belongs to a service or a controller; the system's have `ScheduleAnyway`.

spread_constraints.py counts the pods.

Source: pkg/scheduler/framework/plugins/podtopologyspread/common.go, filtering.go, scoring.go, plugin.go
"""

from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import floor, log
from typing import TYPE_CHECKING, ClassVar

from lib.kube.changes import AnyChange, Kind
from lib.kube.label_syntax import problem_of_selector
from lib.kube.matcher import Matcher, matcher_of
from lib.kube.objects import HOSTNAME, ZONE, Node, Pod, TopologySpreadConstraint
from lib.kube.resources import CONTROLLERS, OWN_SERVICES, Need
from lib.lazily import Lazy
from lib.scheduling.affinity import with_label_keys
from lib.scheduling.cache import Cache
from lib.scheduling.hints import before_itself, new_node, old_node, placed_pod
from lib.scheduling.node_info import NodeInfo, label_of
from lib.scheduling.node_slice import NodeSlice
from lib.scheduling.status import (
    MAX_NODE_SCORE,
    SKIP,
    CycleState,
    PluginError,
    Status,
    unresolvable,
    unschedulable,
)
from lib.scheduling.workloads import controller_of

if TYPE_CHECKING:
    from lib.scheduling.plugins import spread_constraints
    from lib.scheduling.plugins.spread_constraints import CountedConstraint
else:
    spread_constraints = Lazy("lib.scheduling.plugins.spread_constraints")

TOO_SKEWED = unschedulable("node(s) didn't match pod topology spread constraints")
NO_LABEL = unresolvable("node(s) didn't match pod topology spread constraints (missing required label)")

INVALID = {
    "DoNotSchedule": 'running PreFilter plugin "PodTopologySpread": get constraints from pod: obtaining '
    "pod's hard topology spread constraints: {}",
    "ScheduleAnyway": 'running PreScore plugin "PodTopologySpread": calculating preScoreState: obtaining '
    "pod's soft topology spread constraints: {}",
}
"""What a pod fails with if the selector of a constraint is invalid, by `whenUnsatisfiable`."""

SYSTEM_DEFAULTS = (
    TopologySpreadConstraint(HOSTNAME, max_skew=3, when_unsatisfiable="ScheduleAnyway"),
    TopologySpreadConstraint(ZONE, max_skew=5, when_unsatisfiable="ScheduleAnyway"),
)


@dataclass
class _TopologyScore:
    """The scores of the domains of a topology key: the number of pods, times a weight, plus `base`."""

    key: str
    pods: Mapping[str, int]
    weight: float
    base: int

    def of_domain(self, domain: str) -> float:
        """The score of a domain."""
        return self.pods.get(domain, 0) * self.weight + self.base


@dataclass
class _Scoring:
    """PreScore's result."""

    topology_scores: list[_TopologyScore]
    """For each constraint."""
    ignored: set[str]
    """The names of the nodes that lack a label."""


@dataclass(frozen=True)
class PodTopologySpread:
    """Filters out nodes whose domain has too many matching pods, and prefers domains with few."""

    default_constraints: tuple[TopologySpreadConstraint, ...] = SYSTEM_DEFAULTS
    """For pods without constraints of their own. They have no selector: it comes from the pod's service or
    controller. With the system defaults, a node may lack a label."""
    name: str = "PodTopologySpread"
    needs: ClassVar = (OWN_SERVICES, CONTROLLERS)

    def needed_for(self, pod: Pod, cache: Cache, scores: bool) -> Iterator[tuple[Need, Hashable]]:
        """The pod's services and controller, if it is spread by default."""
        defaults = () if pod.spec.topology_spread_constraints else self.default_constraints
        if any(scores or constraint.when_unsatisfiable == "DoNotSchedule" for constraint in defaults):
            yield OWN_SERVICES, pod.metadata.namespace
            if controller := controller_of(pod):
                yield CONTROLLERS, controller

    events_to_register = (
        "NodeAdd",
        "NodeUpdate",
        "NodeDelete",
        "AssignedPodAdd",
        "AssignedPodUpdate",
        "AssignedPodDelete",
    )

    def sign_for_hint(self, pod: Pod) -> Hashable:
        """The pod's namespace and constraints, and whether it selects nodes."""
        own = _own_constraints(pod, "DoNotSchedule")
        constraints = tuple([(constraint.topology_key, selector) for constraint, selector in own])
        has_own = bool(pod.spec.topology_spread_constraints)
        return pod.metadata.namespace, has_own, constraints, _selects_nodes(pod)

    def queueing_hint(self, pod: Pod, change: AnyChange) -> bool:
        """A matching pod that came, went, ends or has new labels; a node that came, went or has new labels or
        taints; new labels or tolerations of the pod itself.
        """
        if before := before_itself(pod, change):
            return self._helps_itself(pod, before)
        if placed := placed_pod(change):
            return _may_be_helped_by_pod(pod, placed, change)
        return isinstance(change.object, Node) and self._may_be_helped_by_node(pod, change)

    def _helps_itself(self, pod: Pod, before: Pod) -> bool:
        """Whether a pod has new labels or tolerations by which it may fit."""
        own = pod.spec.topology_spread_constraints
        honors_taints = any(
            constraint.node_taints_policy == "Honor" for constraint in own or self.default_constraints
        )
        if honors_taints and before.spec.tolerations != pod.spec.tolerations:
            return True
        if not own:  # another service may select it now, or none
            return before.metadata.labels != pod.metadata.labels
        return _matches_otherwise(_required_selectors(pod), before, pod)

    def _may_be_helped_by_node(self, pod: Pod, change: AnyChange) -> bool:
        """Whether other nodes count than before a change of a node, or are in other domains."""
        constraints = pod.spec.topology_spread_constraints or self.default_constraints
        keys = {
            constraint.topology_key
            for constraint in constraints
            if constraint.when_unsatisfiable == "DoNotSchedule"
        }
        old, new = old_node(change), new_node(change)
        was_counted = old is not None and keys <= old.labels.keys()
        is_counted = new is not None and keys <= new.labels.keys()
        if not (old and new and was_counted and is_counted):
            return was_counted != is_counted
        if old.taints != new.taints or any(old.labels[key] != new.labels[key] for key in keys):
            return True
        return _selects_nodes(pod) and old.labels != new.labels

    def pre_filter(self, state: CycleState, pod: Pod, cache: Cache) -> Status | None:
        """Count the matching pods of each domain, for `DoNotSchedule`."""
        constraints = self._constraints(pod, cache, "DoNotSchedule")
        state[f"{self.name}/filter"] = constraints
        if not constraints:
            return SKIP
        of_each = spread_constraints.domains_of(pod, cache, constraints, strict=True)
        for constraint, domains in zip(constraints, of_each, strict=True):
            selector = constraint.selector
            constraint.pods = constraint.matching_in_trial(pod, cache, domains)
            constraint.selects_itself = selector is not None and selector.matches(pod.metadata.labels)
            if not constraint.lacks_domains:
                constraint.fewest_pods = min(constraint.pods.values(), default=0)
        return None

    def filter_nodes(self, state: CycleState, pod: Pod, nodes: NodeSlice) -> Sequence[Status | None]:
        """Reject nodes if the skew of their domain would be too large."""
        constraints: list[CountedConstraint] = state[f"{self.name}/filter"]
        statuses: list[Status | None] = [None] * len(nodes)
        for constraint in constraints:
            if None not in statuses:
                break
            domains = nodes.values(label_of, constraint.key)
            pods, full_at = constraint.pods, constraint.full_at
            by_domain: dict[str | None, Status | None] = {
                domain: TOO_SKEWED if domain is not None and pods.get(domain, 0) >= full_at else None
                for domain in set(domains)
            }
            by_domain[None] = NO_LABEL
            statuses = [status or by_domain[domain] for status, domain in zip(statuses, domains, strict=True)]
        return statuses

    def pre_score(
        self, state: CycleState, pod: Pod, cache: Cache, nodes: Sequence[NodeInfo]
    ) -> Status | None:
        """Count the matching pods of the feasible nodes' domains, for `ScheduleAnyway`."""
        constraints = self._constraints(pod, cache, "ScheduleAnyway")
        if not constraints:
            return SKIP
        # Nodes without a zone are ignored for the pod's own constraints, not for the defaults.
        strict = bool(pod.spec.topology_spread_constraints) or self.default_constraints is not SYSTEM_DEFAULTS
        lacking = spread_constraints.nodes_without_label(cache, constraints) if strict else frozenset()
        ignored = {node.name for node in nodes if node.name in lacking} if lacking else set()
        candidates = [node for node in nodes if node.name not in ignored] if ignored else nodes
        topology_scores: list[_TopologyScore] = []
        of_each = spread_constraints.domains_of(pod, cache, constraints, strict=strict)
        for constraint, domains in zip(constraints, of_each, strict=True) if candidates else ():
            key = constraint.key
            if key == HOSTNAME:  # each node is its own domain
                pods, size = constraint.matching(pod, cache, None), len(candidates)
            else:
                pods = constraint.matching(pod, cache, domains)
                size = len({node.labels.get(key, "") for node in candidates})
            # A few large domains differ by more pods than many small ones, so the difference counts less.
            topology_scores.append(_TopologyScore(key, pods, log(size + 2), constraint.spec.max_skew - 1))
        state[f"{self.name}/score"] = _Scoring(topology_scores, ignored)
        return None

    def score_nodes(self, state: CycleState, pod: Pod, nodes: NodeSlice) -> Sequence[int]:
        """A sum of the matching pods in a node's domains: the fewer, the better."""
        scoring: _Scoring = state[f"{self.name}/score"]
        totals = [0.0] * len(nodes)
        for scores in scoring.topology_scores:
            domains = nodes.values(_host if scores.key == HOSTNAME else label_of, scores.key)
            by_domain = {
                domain: 0.0 if domain is None else scores.of_domain(domain) for domain in set(domains)
            }
            totals = [total + by_domain[domain] for total, domain in zip(totals, domains, strict=True)]
        rounded = {total: _rounded(total) for total in set(totals)}
        if not scoring.ignored:
            return [rounded[total] for total in totals]
        return [
            0 if node.name in scoring.ignored else rounded[total]
            for node, total in zip(nodes, totals, strict=True)
        ]

    def normalize_score(self, state: CycleState, pod: Pod, scores: dict[str, int]) -> None:
        """The lowest sum becomes 100. Nodes that lack a label get 0."""
        ignored = state[f"{self.name}/score"].ignored
        counted = {score for node, score in scores.items() if node not in ignored}
        most, fewest = max(counted, default=0), min(counted, default=0)
        normalized = {
            score: MAX_NODE_SCORE * (most + fewest - score) // most if most else MAX_NODE_SCORE
            for score in counted
        }
        for node, score in scores.items():
            scores[node] = 0 if node in ignored else normalized[score]

    def _constraints(self, pod: Pod, cache: Cache, action: str) -> "list[CountedConstraint]":
        """The pod's constraints, or else the defaults, with one `whenUnsatisfiable`.

        PluginError if the selector of one is invalid.
        """
        own = pod.spec.topology_spread_constraints
        constraints = [
            constraint
            for constraint in own or self.default_constraints
            if constraint.when_unsatisfiable == action
        ]
        if not constraints:
            return []
        if own:
            for constraint in constraints:
                if problem := problem_of_selector(constraint.label_selector):
                    raise PluginError(INVALID[action].format(problem))
            return [
                spread_constraints.CountedConstraint(*with_selector)
                for with_selector in _own_constraints(pod, action)
            ]
        selector = matcher_of(cache.looked_up.workloads.selector_for(pod))
        if not selector:
            return []
        return [spread_constraints.CountedConstraint(constraint, selector) for constraint in constraints]


@lru_cache(maxsize=1024)
def _own_constraints(pod: Pod, action: str) -> list[tuple[TopologySpreadConstraint, Matcher | None]]:
    """A pod's own constraints with one `whenUnsatisfiable`, each with its complete selector."""
    labels = pod.metadata.labels
    return [
        (
            constraint,
            matcher_of(with_label_keys(constraint.label_selector, labels, constraint.match_label_keys)),
        )
        for constraint in pod.spec.topology_spread_constraints
        if constraint.when_unsatisfiable == action
    ]


def _selects_nodes(pod: Pod) -> bool:
    """Whether only some nodes count, because the pod can't go to the others."""
    return bool(pod.spec.node_selector or pod.spec.affinity.node_affinity)


def _may_be_helped_by_pod(pod: Pod, placed: Pod, change: AnyChange) -> bool:
    """Whether other pods count than before a change of a pod that has a node."""
    if placed.metadata.namespace != pod.metadata.namespace:
        return False
    before = change.before if isinstance(change.before, Pod) else None
    if change.kind == Kind.MODIFIED and before and _begins_to_end(before, placed):
        before = None  # it isn't counted any more
    if not pod.spec.topology_spread_constraints:  # whether a service selects the pod isn't known here
        return before is None or before.metadata.labels != placed.metadata.labels
    selectors = _required_selectors(pod)
    if change.kind == Kind.MODIFIED and before:
        return _matches_otherwise(selectors, before, placed)
    return any(selector is not None and selector.matches(placed.metadata.labels) for selector in selectors)


def _required_selectors(pod: Pod) -> list[Matcher | None]:
    return [selector for _, selector in _own_constraints(pod, "DoNotSchedule")]


def _begins_to_end(before: Pod, now: Pod) -> bool:
    """Whether a pod is being deleted from now on."""
    return now.metadata.deletion_timestamp is not None and before.metadata.deletion_timestamp is None


def _matches_otherwise(selectors: Sequence[Matcher | None], before: Pod, now: Pod) -> bool:
    """Whether a selector matches a pod before or after a change, but not both."""
    old, new = before.metadata.labels, now.metadata.labels
    return any(
        selector is not None and selector.matches(old) != selector.matches(new) for selector in selectors
    )


def _rounded(total: float) -> int:
    below = floor(total)
    return below + (total - below >= 0.5)


def _host(node: NodeInfo, key: str) -> str | None:
    return node.name if key in node.labels else None
