"""A topology spread constraint with its domains, and how many matching pods there are in each.

Source: pkg/scheduler/framework/plugins/podtopologyspread/common.go, filtering.go
"""

from collections import Counter
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from lib.kube.matcher import Matcher
from lib.kube.objects import Pod, TopologySpreadConstraint
from lib.kube.selectors import untolerated
from lib.scheduling.cache import Cache
from lib.scheduling.kept import CountOfPods, NodeChange
from lib.scheduling.node_info import NodeInfo
from lib.scheduling.plugins.node_affinity import NodeAffinity, wants
from lib.scheduling.plugins.taint_toleration import REPELLING, TaintToleration
from lib.scheduling.pods_by_label import pods_with


@dataclass(frozen=True)
class Domains:
    """Which nodes belong together, for example because they have the same value of a label."""

    by_node: Mapping[str, str]
    """By node name, the domain of each node whose pods count."""
    key: Hashable
    """Equal for domains that were found in the same way."""


@dataclass
class CountedConstraint:
    """A constraint, with counts of matching pods."""

    spec: TopologySpreadConstraint
    selector: Matcher | None
    """The complete selector, with `matchLabelKeys`."""
    pods: Mapping[str, int] = field(default_factory=dict)
    """By domain, the number of matching pods."""
    fewest_pods: int = 0
    """The number in the domain with the fewest."""
    selects_itself: bool = False
    """Whether the pod that has the constraint matches, too."""

    @property
    def key(self) -> str:
        """The label whose values are the domains."""
        return self.spec.topology_key

    @property
    def full_at(self) -> int:
        """With this many matching pods, a domain takes no more."""
        return self.spec.max_skew + self.fewest_pods - self.selects_itself + 1

    @property
    def lacks_domains(self) -> bool:
        """Whether there are fewer domains than `minDomains`. The missing ones have no pods."""
        return len(self.pods) < (self.spec.min_domains or 1)

    @property
    def policies(self) -> tuple[str, str]:
        """What decides whether the pods of a node count."""
        return self.spec.node_affinity_policy, self.spec.node_taints_policy

    def counts(self, pod: Pod, node: NodeInfo) -> bool:
        """Whether the pods of a node count. By default they do if node affinity lets the pod go there."""
        if self.spec.node_affinity_policy == "Honor" and not wants(pod, node):
            return False
        if self.spec.node_taints_policy == "Honor":
            return not untolerated(pod, node.taints, REPELLING)
        return True

    def matching(self, pod: Pod, cache: Cache, domains: Domains | None) -> Mapping[str, int]:
        """The numbers of matching pods, by domain, or by node name if there are no domains."""
        if domains and not domains.by_node:
            return {}
        if self.selector is None or self.selector.is_empty:
            return dict.fromkeys(domains.by_node.values(), 0) if domains else {}
        return matching_pods(cache, pod.metadata.namespace, self.selector, domains)

    def matching_in_trial(self, pod: Pod, cache: Cache, domains: Domains) -> Mapping[str, int]:
        """The numbers of matching pods, by domain, with the pods that came or went for a try.

        kube-scheduler counts those also if they are being deleted, or the selector is empty (filtering.go,
        updateWithPod), so a domain may have fewer than 0 pods: which node a pod is nominated to depends on
        that.
        """
        pods = self.matching(pod, cache, domains)
        changes = [*self._not_counted(pod, cache.tried())]
        if not changes:
            return pods
        counts = Counter(pods)
        for node_name, sign in changes:
            if (domain := domains.by_node.get(node_name)) is not None:
                counts[domain] += sign
        return counts

    def _not_counted(self, pod: Pod, tried: Iterable[tuple[Pod, str, int]]) -> Iterator[tuple[str, int]]:
        """Of the pods that are tried, those that match and that `matching` doesn't count: node name, sign."""
        selector, namespace = self.selector, pod.metadata.namespace
        if selector is None:
            return
        for other, node_name, sign in tried:
            metadata = other.metadata
            uncounted = metadata.deletion_timestamp is not None or selector.is_empty
            if uncounted and metadata.namespace == namespace and selector.matches(metadata.labels):
                yield node_name, sign


def domains_of(
    pod: Pod, cache: Cache, constraints: Sequence[CountedConstraint], *, strict: bool
) -> list[Domains]:
    """For each constraint, the domains of the nodes whose pods count.

    strict: a node that lacks a label of any constraint doesn't count.
    """

    def find() -> list[Domains]:
        nodes = [node for node in cache.node_list if not strict or _has_all_labels(node, constraints)]
        counted: dict[tuple[str, str], list[NodeInfo]] = {}
        for constraint in constraints:
            if constraint.policies not in counted:
                counted[constraint.policies] = [node for node in nodes if constraint.counts(pod, node)]
        by_node = [
            {node.name: node.labels.get(constraint.key, "") for node in counted[constraint.policies]}
            for constraint in constraints
        ]
        return [Domains(domains, (key, i)) for i, domains in enumerate(by_node)]

    read_of_constraints = [(constraint.key, *constraint.policies) for constraint in constraints]
    read_of_pod = NodeAffinity().sign_pod(pod), TaintToleration().sign_pod(pod)
    key = "PodTopologySpread", strict, *read_of_constraints, *read_of_pod
    return cache.remember(key, find)


def nodes_without_label(cache: Cache, constraints: Sequence[CountedConstraint]) -> frozenset[str]:
    """The names of the nodes that lack a label of any constraint."""
    return cache.remember(
        ("PodTopologySpread", "lacking", *(constraint.key for constraint in constraints)),
        lambda: frozenset(node.name for node in cache.node_list if not _has_all_labels(node, constraints)),
    )


def _has_all_labels(node: NodeInfo, constraints: Sequence[CountedConstraint]) -> bool:
    return all(constraint.key in node.labels for constraint in constraints)


# --- counts that are kept -------------------------------------------------------------------------------


class _MatchingPods(CountOfPods):
    """The pods of a namespace that match a selector, without those being deleted, by domain."""

    def __init__(self, cache: Cache, namespace: str, selector: Matcher, domains: Domains | None) -> None:
        self._namespace, self._selector = namespace, selector
        self._domains = domains.by_node if domains else None
        self.counts = {} if self._domains is None else dict.fromkeys(self._domains.values(), 0)
        for node, pod in pods_with(cache, [*selector.clues]):
            self._count(node, pod, 1)

    def follow(self, changes: Sequence[NodeChange]) -> bool:
        """With domains, an updated node ends the counts, because it may be in another domain."""
        if self._domains is not None and any(pod is None for _, pod, _ in changes):
            return False
        return super().follow(changes)

    def _count(self, node: NodeInfo, pod: Pod, sign: int) -> None:
        domain = node.name if self._domains is None else self._domains.get(node.name)
        if domain is None or not self._matches(pod):
            return
        self.counts[domain] = self.counts.get(domain, 0) + sign
        if self._domains is None and not self.counts[domain]:
            del self.counts[domain]

    def _matches(self, pod: Pod) -> bool:
        return (
            pod.metadata.namespace == self._namespace
            and pod.metadata.deletion_timestamp is None
            and self._selector.matches(pod.metadata.labels)
        )


def matching_pods(
    cache: Cache, namespace: str, selector: Matcher, domains: Domains | None
) -> Mapping[str, int]:
    """By domain, how many pods of a namespace match a selector; without those being deleted.

    Don't keep the result: it changes. domains: None makes each node its own domain, and leaves out nodes
    without such pods.
    """
    key = "matching pods", namespace, selector, domains and domains.key
    return cache.kept.get(key, _MatchingPods, cache, namespace, selector, domains).counts
