"""PodTopologySpread: pods that belong together are spread over zones, nodes, or other values of a node label.

A domain is all nodes with the same value of the constraint's topology key. With `DoNotSchedule` a node is
rejected if its domain, with the pod, would have over `maxSkew` more matching pods than the domain with the
fewest. With `ScheduleAnyway`, domains with fewer pods only score better. A pod without constraints of its
own gets default ones of that kind, if it belongs to a service or a controller.

Source: pkg/scheduler/framework/plugins/podtopologyspread/common.go, filtering.go, scoring.go, plugin.go
"""

from collections import Counter
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache, partial
from math import floor, log
from typing import Any, ClassVar

from lib.kube import objects
from lib.kube.changes import AnyChange, Kind
from lib.kube.label_syntax import problem_of_selector
from lib.kube.matcher import Matcher, matcher_of
from lib.kube.objects import HOSTNAME, ZONE, Node, Pod, TopologySpreadConstraint
from lib.kube.resources import CONTROLLERS, OWN_SERVICES, Need
from lib.kube.selectors import untolerated
from lib.scheduling.affinity import with_label_keys
from lib.scheduling.cache import Cache
from lib.scheduling.framework.arguments import Args, no_label_key, not_among
from lib.scheduling.framework.interface import Lines, Rejected, Remedies, Remedy
from lib.scheduling.hints import before_itself, new_node, old_node, placed_pod
from lib.scheduling.node_info import NodeInfo, label_of
from lib.scheduling.node_slice import NodeSlice
from lib.scheduling.plugins.node_affinity import NodeAffinity, wants
from lib.scheduling.plugins.taint_toleration import REPELLING, TaintToleration
from lib.scheduling.spread_counts import Domains, matching_pods
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
class _Constraint:
    """A constraint, with its complete selector, and counts of matching pods by domain.

    fewest_pods: the number in the domain with the fewest. selects_itself: whether the pod itself matches.
    """

    spec: TopologySpreadConstraint
    selector: Matcher | None
    pods: Mapping[str, int] = field(default_factory=dict)
    fewest_pods: int = 0
    selects_itself: bool = False

    @property
    def full_at(self) -> int:
        """With this many matching pods, a domain takes no more."""
        return self.spec.max_skew + self.fewest_pods - self.selects_itself + 1

    @property
    def policies(self) -> tuple[str, str]:
        """What decides whether the pods of a node count."""
        return self.spec.node_affinity_policy, self.spec.node_taints_policy

    def matching(self, pod: Pod, cache: Cache, domains: Domains | None) -> Mapping[str, int]:
        """The numbers of matching pods, by domain, or by node name if there are no domains."""
        if domains and not domains.by_node:
            return {}
        if self.selector is None or self.selector.is_empty:
            return dict.fromkeys(domains.by_node.values(), 0) if domains else {}
        return matching_pods(cache, pod.metadata.namespace, self.selector, domains)

    def not_counted(self, pod: Pod, tried: Iterable[tuple[Pod, str, int]]) -> Iterator[tuple[str, int]]:
        """Of the pods that are tried, those that match and that `matching` doesn't count: node name, sign.

        They are being deleted, or the selector is empty.
        """
        selector, namespace = self.selector, pod.metadata.namespace
        if selector is None:
            return
        for other, node_name, sign in tried:
            metadata = other.metadata
            uncounted = metadata.deletion_timestamp is not None or selector.is_empty
            if uncounted and metadata.namespace == namespace and selector.matches(metadata.labels):
                yield node_name, sign

    def counts(self, pod: Pod, node: NodeInfo) -> bool:
        """Whether the pods of a node count. By default they do if node affinity lets the pod go there."""
        if self.spec.node_affinity_policy == "Honor" and not wants(pod, node):
            return False
        if self.spec.node_taints_policy == "Honor":
            return not untolerated(pod, node.taints, REPELLING)
        return True


def _domains(pod: Pod, cache: Cache, constraints: Sequence[_Constraint], *, strict: bool) -> list[Domains]:
    """For each constraint, the domains of the nodes whose pods count.

    strict: a node that lacks a label of any constraint doesn't count.
    """

    def find() -> list[Domains]:
        nodes = [node for node in cache.node_list if not strict or _has_all_labels(node, constraints)]
        counted: dict[tuple[str, str], list[NodeInfo]] = {}
        for each in constraints:
            if each.policies not in counted:
                counted[each.policies] = [node for node in nodes if each.counts(pod, node)]
        by_node = [
            {node.name: node.labels.get(each.spec.topology_key, "") for node in counted[each.policies]}
            for each in constraints
        ]
        return [Domains(each, (key, i)) for i, each in enumerate(by_node)]

    which = [
        (each.spec.topology_key, each.spec.node_affinity_policy, each.spec.node_taints_policy)
        for each in constraints
    ]
    reads = NodeAffinity().sign_pod(pod), TaintToleration().sign_pod(pod)
    key = "PodTopologySpread", strict, *which, *reads
    return cache.remember(key, find)


def _with_tried(
    pods: Mapping[str, int], changed: Iterable[tuple[str, int]], domains: Domains
) -> Mapping[str, int]:
    """The counts, after pods that aren't counted came to nodes (sign 1), or went (-1), for a try.

    kube-scheduler counts in this way (filtering.go, updateWithPod), so that a domain may have fewer than 0:
    which node a pod is nominated to depends on it.
    """
    found = Counter(pods)
    for node_name, sign in changed:
        if (domain := domains.by_node.get(node_name)) is not None:
            found[domain] += sign
    return found


def _lacking(cache: Cache, constraints: Sequence[_Constraint]) -> frozenset[str]:
    """The names of the nodes that lack a label of any constraint."""
    keys = tuple(each.spec.topology_key for each in constraints)
    return cache.remember(
        ("PodTopologySpread", "lacking", *keys),
        lambda: frozenset(each.name for each in cache.node_list if not _has_all_labels(each, constraints)),
    )


@dataclass
class _TopologyScore:
    """The scores of the domains of a topology key: the number of pods, times a weight, plus `base`."""

    key: str
    pods: Mapping[str, int]
    weight: float
    base: int

    def of(self, domain: str) -> float:
        """The score of a domain."""
        return self.pods.get(domain, 0) * self.weight + self.base


@dataclass
class _Scoring:
    """PreScore's result. ignored: the names of nodes that lack a label."""

    topology_scores: list[_TopologyScore]
    ignored: set[str]


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
            else self.default_constraints
        }


@dataclass(frozen=True)
class PodTopologySpread:
    """Filters out nodes whose domain has too many matching pods, and prefers domains with few.

    default_constraints: for pods without constraints of their own. They have no selector: it comes from the
    pod's service or controller. With the system defaults, a node may lack a label.
    """

    default_constraints: tuple[TopologySpreadConstraint, ...] = SYSTEM_DEFAULTS
    name: str = "PodTopologySpread"
    args: ClassVar = PodTopologySpreadArgs
    needs: ClassVar = (OWN_SERVICES, CONTROLLERS)

    def needed_for(self, pod: Pod, cache: Cache, scores: bool) -> Iterator[tuple[Need, Hashable]]:
        """The pod's services and controller, if it is spread by default."""
        by_default = () if pod.spec.topology_spread_constraints else self.default_constraints
        if any(scores or each.when_unsatisfiable == "DoNotSchedule" for each in by_default):
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
        own, spec = _own_constraints(pod, "DoNotSchedule"), pod.spec
        constraints = tuple([(each.topology_key, selector) for each, selector in own])
        selects = bool(spec.node_selector or spec.affinity.node_affinity)
        return pod.metadata.namespace, bool(spec.topology_spread_constraints), constraints, selects

    def queueing_hint(self, pod: Pod, change: AnyChange) -> bool:
        """A matching pod that came, went, ends or has new labels; a node that came, went or has new labels or
        taints; new labels or tolerations of the pod itself.
        """
        selectors = [selector for _, selector in _own_constraints(pod, "DoNotSchedule")]
        own, before = pod.spec.topology_spread_constraints, change.before
        if was := before_itself(pod, change):
            honors = any(each.node_taints_policy == "Honor" for each in own)
            if honors and was.spec.tolerations != pod.spec.tolerations:
                return True
            return _matches_otherwise(selectors, was, pod)
        if placed := placed_pod(change):
            if placed.metadata.namespace != pod.metadata.namespace:
                return False
            if change.kind == Kind.MODIFIED and isinstance(before, Pod) and _begins_to_end(before, placed):
                before = None  # it isn't counted any more
            if not own:  # whether a service selects the pod isn't known here
                return not isinstance(before, Pod) or before.metadata.labels != placed.metadata.labels
            if change.kind == Kind.MODIFIED and isinstance(before, Pod):
                return _matches_otherwise(selectors, before, placed)
            return any(each is not None and each.matches(placed.metadata.labels) for each in selectors)
        if not isinstance(change.object, Node):
            return False
        keys = {
            each.topology_key
            for each in own or self.default_constraints
            if each.when_unsatisfiable == "DoNotSchedule"
        }
        old, new = old_node(change), new_node(change)
        was_counted = old is not None and keys <= old.labels.keys()
        is_counted = new is not None and keys <= new.labels.keys()
        if not (old and new and was_counted and is_counted):
            return was_counted != is_counted
        moved = any(old.labels[key] != new.labels[key] for key in keys)
        selects = pod.spec.node_selector or pod.spec.affinity.node_affinity  # only these nodes count
        return moved or old.taints != new.taints or bool(selects and old.labels != new.labels)

    def pre_filter(self, state: CycleState, pod: Pod, cache: Cache) -> Status | None:
        """Count the matching pods of each domain, for `DoNotSchedule`."""
        constraints = self._constraints(pod, cache, "DoNotSchedule")
        state[f"{self.name}/filter"] = constraints
        if not constraints:
            return SKIP
        for each, domains in zip(constraints, _domains(pod, cache, constraints, strict=True), strict=True):
            each.pods = each.matching(pod, cache, domains)
            if changed := [*each.not_counted(pod, cache.tried())]:
                each.pods = _with_tried(each.pods, changed, domains)
            each.selects_itself = each.selector is not None and each.selector.matches(pod.metadata.labels)
            if len(each.pods) >= (each.spec.min_domains or 1):  # else one is missing, and has 0 pods
                each.fewest_pods = min(each.pods.values(), default=0)
        return None

    def filter_nodes(self, state: CycleState, pod: Pod, nodes: NodeSlice) -> Sequence[Status | None]:
        """Reject nodes if the skew of their domain would be too large."""
        constraints: list[_Constraint] = state[f"{self.name}/filter"]
        found: list[Status | None] = [None] * len(nodes)
        for each in constraints:
            if None not in found:
                break
            values = nodes.values(label_of, each.spec.topology_key)
            full_at = each.full_at
            said: dict[str | None, Status | None] = {
                value: TOO_SKEWED if value is not None and each.pods.get(value, 0) >= full_at else None
                for value in set(values)
            }
            said[None] = NO_LABEL
            found = [before or said[value] for before, value in zip(found, values, strict=True)]
        return found

    def explain(self, state: CycleState, pod: Pod, cache: Cache, node: NodeInfo, status: Status) -> Lines:
        """How many pods there are here, and where there are the fewest."""
        for each in state.get(f"{self.name}/filter", ()):
            key, skew = each.spec.topology_key, each.spec.max_skew
            domain = node.labels.get(key)
            if domain is None:
                yield f"spreading over {key}: the node has no such label"
                continue
            here = each.pods.get(domain, 0)
            if here + each.selects_itself - each.fewest_pods <= skew:
                continue
            fewest = (name for name, many in each.pods.items() if many == each.fewest_pods)
            least = f"{next(fewest, 'another domain')} has the fewest: {each.fewest_pods}"
            if len(each.pods) < (each.spec.min_domains or 1):
                least = f"only {len(each.pods)} of minDomains {each.spec.min_domains} are there"
            yield f"{key}={domain} has {here}, {least}, maxSkew {skew}"

    def remedies(self, state: CycleState, pod: Pod, cache: Cache, rejected: Rejected) -> Remedies:
        """Allow more skew."""
        from lib.scheduling import edits  # here, as few runs explain

        hard = [
            i
            for i, each in enumerate(pod.spec.topology_spread_constraints)
            if each.when_unsatisfiable == "DoNotSchedule"
        ]
        counted: Sequence[_Constraint] = state.get(f"{self.name}/filter", ())
        for which, known in zip(
            hard, counted if len(counted) == len(hard) else [None] * len(hard), strict=True
        ):
            constraint = pod.spec.topology_spread_constraints[which]
            key, skew = constraint.topology_key, constraint.max_skew
            if known:
                fewest = min(known.pods.values(), default=0)
                needed = fewest + known.selects_itself - known.fewest_pods
                if needed > skew:
                    words = f"with maxSkew {needed} in place of {skew} for {key}"
                    yield Remedy(words, partial(edits.with_constraint, which=which, max_skew=needed))
            words = f"with whenUnsatisfiable: ScheduleAnyway for {key}"
            anyway = partial(edits.with_constraint, which=which, when_unsatisfiable="ScheduleAnyway")
            yield Remedy(words, anyway)

    def pre_score(
        self, state: CycleState, pod: Pod, cache: Cache, nodes: Sequence[NodeInfo]
    ) -> Status | None:
        """Count the matching pods of the feasible nodes' domains, for `ScheduleAnyway`."""
        constraints = self._constraints(pod, cache, "ScheduleAnyway")
        if not constraints:
            return SKIP
        # Nodes without a zone are ignored for the pod's own constraints, not for the defaults.
        strict = bool(pod.spec.topology_spread_constraints) or self.default_constraints is not SYSTEM_DEFAULTS
        lacking = _lacking(cache, constraints) if strict else frozenset()
        ignored = {node.name for node in nodes if node.name in lacking} if lacking else set()
        candidates = [node for node in nodes if node.name not in ignored] if ignored else nodes
        topology_scores: list[_TopologyScore] = []
        counted = _domains(pod, cache, constraints, strict=strict)
        for each, domains in zip(constraints, counted, strict=True) if candidates else ():
            key = each.spec.topology_key
            if key == HOSTNAME:  # each node is its own domain
                pods, size = each.matching(pod, cache, None), len(candidates)
            else:
                pods = each.matching(pod, cache, domains)
                size = len({node.labels.get(key, "") for node in candidates})
            # A few large domains differ by more pods than many small ones, so the difference counts less.
            topology_scores.append(_TopologyScore(key, pods, log(size + 2), each.spec.max_skew - 1))
        state[f"{self.name}/score"] = _Scoring(topology_scores, ignored)
        return None

    def score_nodes(self, state: CycleState, pod: Pod, nodes: NodeSlice) -> Sequence[int]:
        """A sum of the matching pods in a node's domains: the fewer, the better."""
        scoring: _Scoring = state[f"{self.name}/score"]
        totals = [0.0] * len(nodes)
        for each in scoring.topology_scores:
            values = nodes.values(_host if each.key == HOSTNAME else label_of, each.key)
            by_value = {value: 0.0 if value is None else each.of(value) for value in set(values)}
            totals = [total + by_value[value] for total, value in zip(totals, values, strict=True)]
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

    def _constraints(self, pod: Pod, cache: Cache, action: str) -> list[_Constraint]:
        """The pod's constraints, or else the defaults, with one `whenUnsatisfiable`.

        PluginError if the selector of one is invalid.
        """
        own = pod.spec.topology_spread_constraints
        wanted = [each for each in own or self.default_constraints if each.when_unsatisfiable == action]
        if not wanted:
            return []
        if own:
            for each in wanted:
                if wrong := problem_of_selector(each.label_selector):
                    raise PluginError(INVALID[action].format(wrong))
            return [_Constraint(each, selector) for each, selector in _own_constraints(pod, action)]
        selector = matcher_of(cache.looked_up.workloads.selector_for(pod))
        return [_Constraint(each, selector) for each in wanted] if selector else []


@lru_cache(maxsize=1024)
def _own_constraints(pod: Pod, action: str) -> list[tuple[TopologySpreadConstraint, Matcher | None]]:
    """A pod's own constraints with one `whenUnsatisfiable`, each with its complete selector."""
    labels = pod.metadata.labels
    return [
        (each, matcher_of(with_label_keys(each.label_selector, labels, each.match_label_keys)))
        for each in pod.spec.topology_spread_constraints
        if each.when_unsatisfiable == action
    ]


def _begins_to_end(before: Pod, now: Pod) -> bool:
    """Whether a pod is being deleted from now on."""
    return now.metadata.deletion_timestamp is not None and before.metadata.deletion_timestamp is None


def _matches_otherwise(selectors: Sequence[Matcher | None], before: Pod, now: Pod) -> bool:
    """Whether a selector matches a pod before or after a change, but not both."""
    return any(
        each is not None and each.matches(before.metadata.labels) != each.matches(now.metadata.labels)
        for each in selectors
    )


def _has_all_labels(node: NodeInfo, constraints: Sequence[_Constraint]) -> bool:
    return all(each.spec.topology_key in node.labels for each in constraints)


def _rounded(total: float) -> int:
    below = floor(total)
    return below + (total - below >= 0.5)


def _host(node: NodeInfo, key: str) -> str | None:
    return node.name if key in node.labels else None
