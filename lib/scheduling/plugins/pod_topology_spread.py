"""PodTopologySpread: pods that belong together are spread over zones, nodes, or whatever a label tells apart.

A domain is all nodes with the same value of the constraint's topology key. With `DoNotSchedule` a node is
out if, with the pod, its domain would have over `maxSkew` more matching pods than the emptiest domain. With
`ScheduleAnyway` emptier domains only score better. A pod without constraints of its own, which belongs to a
service or a controller, is spread a little by default.

Source: pkg/scheduler/framework/plugins/podtopologyspread/common.go, filtering.go, scoring.go, plugin.go
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import floor, log

from lib.kube.changes import AnyChange, Kind
from lib.kube.objects import LabelSelector, Node, Pod, TopologySpreadConstraint
from lib.kube.selectors import selects, untolerated
from lib.scheduling.affinity import with_label_keys
from lib.scheduling.cache import Cache
from lib.scheduling.framework.interface import (
    MAX_NODE_SCORE,
    SKIP,
    CycleState,
    Status,
    unresolvable,
    unschedulable,
)
from lib.scheduling.hints import new_node, old_node, placed_pod
from lib.scheduling.node_info import NodeInfo
from lib.scheduling.plugins.node_affinity import NodeAffinity, wants
from lib.scheduling.plugins.taint_toleration import REPELLING, TaintToleration

TOO_SKEWED = unschedulable("node(s) didn't match pod topology spread constraints")
NO_LABEL = unresolvable("node(s) didn't match pod topology spread constraints (missing required label)")

HOSTNAME = "kubernetes.io/hostname"
ZONE = "topology.kubernetes.io/zone"

SYSTEM_DEFAULTS = (
    TopologySpreadConstraint(HOSTNAME, max_skew=3, when_unsatisfiable="ScheduleAnyway"),
    TopologySpreadConstraint(ZONE, max_skew=5, when_unsatisfiable="ScheduleAnyway"),
)


@dataclass
class _Constraint:
    """A constraint, with its selector made complete, and matching pods counted by domain.

    emptiest: how many the emptiest domain has. itself: whether the pod matches, too.
    """

    spec: TopologySpreadConstraint
    selector: LabelSelector | None
    pods: dict[str, int] = field(default_factory=dict)
    emptiest: int = 0
    itself: bool = False

    def matching(self, pod: Pod, cache: Cache) -> Mapping[int, int]:
        """How many pods match, by the places of the nodes that have any."""
        if self.selector in (None, LabelSelector()):
            return {}
        return cache.matching(pod.metadata.namespace, self.selector)

    def counts(self, pod: Pod, node: NodeInfo) -> bool:
        """Whether the pods of a node count, which by default they do where the pod itself might go."""
        if self.spec.node_affinity_policy == "Honor" and not wants(pod, node):
            return False
        if self.spec.node_taints_policy == "Honor":
            return not untolerated(node.taints, pod.spec.tolerations, REPELLING)
        return True


def _domains(
    pod: Pod, cache: Cache, constraints: Sequence[_Constraint], *, strict: bool
) -> list[dict[int, str]]:
    """For each constraint, the domains of the nodes whose pods count, by place.

    strict: a node that misses a label of any of the constraints doesn't count.
    """

    def find() -> list[dict[int, str]]:
        nodes = [
            (i, node)
            for i, node in enumerate(cache.node_list)
            if not strict or _has_all_labels(node, constraints)
        ]
        return [
            {i: node.labels.get(each.spec.topology_key, "") for i, node in nodes if each.counts(pod, node)}
            for each in constraints
        ]

    which = [
        (each.spec.topology_key, each.spec.node_affinity_policy, each.spec.node_taints_policy)
        for each in constraints
    ]
    reads = NodeAffinity().sign_pod(pod), TaintToleration().sign_pod(pod)
    return cache.remember(("PodTopologySpread", strict, *which, *reads), find)


@dataclass
class _Scoring:
    """What is known when nodes are scored: by topology key, what each domain is worth, or each node."""

    worth: list[tuple[str, Mapping[str, float]]]
    ignored: set[str]


@dataclass(frozen=True)
class PodTopologySpread:
    """Filters out nodes whose domain has too many pods alike, and prefers domains with few.

    default_constraints: for pods without constraints of their own; without a selector, as the pod's service
    or controller gives that. Those of the system ask less of a node than any others: it may miss a label.
    """

    default_constraints: tuple[TopologySpreadConstraint, ...] = SYSTEM_DEFAULTS
    name: str = "PodTopologySpread"

    def queueing_hint(self, pod: Pod, change: AnyChange) -> bool:
        """A pod alike that came, went or has other labels; a node that came, went or has another place."""
        if placed := placed_pod(change):
            if placed.metadata.namespace != pod.metadata.namespace:
                return False
            if change.kind == Kind.MODIFIED and isinstance(change.before, Pod):
                return placed.metadata.labels != change.before.metadata.labels
            return True
        node, before = new_node(change), old_node(change)
        if node is None or before is None:
            return isinstance(change.object, Node)
        keys = [each.topology_key for each in pod.spec.topology_spread_constraints]
        return any(node.labels.get(key) != before.labels.get(key) for key in keys)

    def pre_filter(self, state: CycleState, pod: Pod, cache: Cache) -> Status | None:
        """Count the matching pods of each domain, for the constraints that must hold."""
        constraints = self._constraints(pod, cache, "DoNotSchedule")
        state[f"{self.name}/filter"] = constraints
        if not constraints:
            return SKIP
        for each, domains in zip(constraints, _domains(pod, cache, constraints, strict=True), strict=True):
            each.pods = dict.fromkeys(domains.values(), 0)
            _add_up(each.pods, domains, each.matching(pod, cache))
            each.itself = selects(each.selector, pod.metadata.labels)
            if len(each.pods) >= (each.spec.min_domains or 1):  # else one isn't there yet, and so is empty
                each.emptiest = min(each.pods.values(), default=0)
        return None

    def filter(self, state: CycleState, pod: Pod, node: NodeInfo) -> Status | None:
        """Reject a node whose domain would get too far ahead of the emptiest."""
        constraints: list[_Constraint] = state[f"{self.name}/filter"]
        for constraint in constraints:
            domain = node.labels.get(constraint.spec.topology_key)
            if domain is None:
                return NO_LABEL
            after = constraint.pods.get(domain, 0) + constraint.itself
            if after - constraint.emptiest > constraint.spec.max_skew:
                return TOO_SKEWED
        return None

    def pre_score(
        self, state: CycleState, pod: Pod, cache: Cache, nodes: Sequence[NodeInfo]
    ) -> Status | None:
        """Count the matching pods of the feasible nodes' domains, for the constraints that are wishes."""
        constraints = self._constraints(pod, cache, "ScheduleAnyway")
        if not constraints:
            return SKIP
        # A default is no reason to leave out nodes without a zone; a constraint of the pod's own is.
        strict = bool(pod.spec.topology_spread_constraints) or self.default_constraints is not SYSTEM_DEFAULTS
        ignored = {node.name for node in nodes if strict and not _has_all_labels(node, constraints)}
        candidates = [node for node in nodes if node.name not in ignored]
        worth: list[tuple[str, Mapping[str, float]]] = []
        counted = _domains(pod, cache, constraints, strict=strict)
        for each, domains in zip(constraints, counted, strict=True):
            key, matching = each.spec.topology_key, each.matching(pod, cache)
            if key == HOSTNAME:  # there every node is a domain of its own
                each.pods = {node.name: matching.get(cache.node_index[node.name], 0) for node in candidates}
            else:
                each.pods = {node.labels.get(key, ""): 0 for node in candidates}
                _add_up(each.pods, domains, matching)
            # Few large domains differ by more pods than many small ones do: their difference counts less.
            weight = log((len(candidates) if key == HOSTNAME else len(each.pods)) + 2)
            skew = each.spec.max_skew - 1
            worth.append((key, {name: count * weight + skew for name, count in each.pods.items()}))
        state[f"{self.name}/score"] = _Scoring(worth, ignored)
        return None

    def score(self, state: CycleState, pod: Pod, node: NodeInfo) -> int:
        """The matching pods in the node's domains: the fewer, the better."""
        scoring: _Scoring = state[f"{self.name}/score"]
        if node.name in scoring.ignored:
            return 0
        total = 0.0
        for key, worth in scoring.worth:
            if key in node.labels:
                total += worth[node.name if key == HOSTNAME else node.labels[key]]
        below = floor(total)
        return below + (total - below >= 0.5)

    def normalize_score(self, state: CycleState, pod: Pod, scores: dict[str, int]) -> None:
        """The fewest become 100; nodes that miss a label 0."""
        ignored = state[f"{self.name}/score"].ignored
        counted = [score for node, score in scores.items() if node not in ignored]
        most, fewest = max(counted, default=0), min(counted, default=0)
        for node, score in scores.items():
            if node in ignored:
                scores[node] = 0
            else:
                scores[node] = MAX_NODE_SCORE * (most + fewest - score) // most if most else MAX_NODE_SCORE

    def _constraints(self, pod: Pod, cache: Cache, action: str) -> list[_Constraint]:
        """The pod's constraints, or the default ones, of one sort."""
        own = pod.spec.topology_spread_constraints
        wanted = [each for each in own or self.default_constraints if each.when_unsatisfiable == action]
        if not wanted:
            return []
        if own:
            labels = pod.metadata.labels
            return [
                _Constraint(each, with_label_keys(each.label_selector, labels, each.match_label_keys))
                for each in wanted
            ]
        selector = cache.workloads.selector_for(pod)
        return [_Constraint(each, selector) for each in wanted] if selector else []


def _has_all_labels(node: NodeInfo, constraints: Sequence[_Constraint]) -> bool:
    return all(each.spec.topology_key in node.labels for each in constraints)


def _add_up(pods: dict[str, int], domains: Mapping[int, str], matching: Mapping[int, int]) -> None:
    """Count matching pods, known by node, by those of the domains that are looked at."""
    for i, count in matching.items():
        if (domain := domains.get(i)) in pods:
            pods[domain] += count
