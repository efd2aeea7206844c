"""How many matching pods there are in a node's domain, and where there are the fewest."""

from collections.abc import Iterator, Sequence
from functools import partial

from lib.kube.objects import Pod
from lib.scheduling import edits
from lib.scheduling.cache import Cache
from lib.scheduling.framework.interface import Lines, Rejected, Remedies, Remedy
from lib.scheduling.node_info import NodeInfo
from lib.scheduling.plugins.pod_topology_spread import TOO_SKEWED
from lib.scheduling.plugins.spread_constraints import CountedConstraint
from lib.scheduling.status import CycleState, Status
from lib.scheduling.text import verb
from lib.scheduling.workloads import TEMPLATE_HASH


class PodTopologySpreadExplainer:
    """Explains PodTopologySpread."""

    name = "PodTopologySpread"

    def explain(self, state: CycleState, pod: Pod, cache: Cache, node: NodeInfo, status: Status) -> Lines:
        """How many pods there are here, and where there are the fewest."""
        constraints: Sequence[CountedConstraint] = state.get(f"{self.name}/filter", ())
        for constraint in constraints:
            key, pods, fewest = constraint.key, constraint.pods, constraint.fewest_pods
            domain = node.labels.get(key)
            if domain is None:
                yield f"spreading over {key}: the node has no such label"
                continue
            here = pods.get(domain, 0)
            if here < constraint.full_at:
                continue
            with_fewest = (name for name, count in pods.items() if count == fewest)
            least = f"{next(with_fewest, 'another domain')} has the fewest: {fewest}"
            if constraint.lacks_domains:
                there = verb(len(pods), "is there", "are there")
                least = f"only {len(pods)} of minDomains {constraint.spec.min_domains} {there}"
            yield f"{key}={domain} has {here}, {least}, maxSkew {constraint.spec.max_skew}"

    def remedies(self, state: CycleState, pod: Pod, cache: Cache, rejected: Rejected) -> Remedies:
        """Allow more skew, as much as the domains need on whose nodes nothing else keeps the pod off; don't
        count nodes with taints, or pods of an earlier template; or don't insist.
        """
        required = [
            (i, constraint)
            for i, constraint in enumerate(pod.spec.topology_spread_constraints)
            if constraint.when_unsatisfiable == "DoNotSchedule"
        ]
        counted: Sequence[CountedConstraint | None] = state.get(f"{self.name}/filter", ())
        if len(counted) != len(required):  # they weren't counted, or the pod has default constraints
            counted = [None] * len(required)
        for (which, constraint), with_counts in zip(required, counted, strict=True):
            key, skew = constraint.topology_key, constraint.max_skew
            if with_counts:
                fewest = min(_on_usable(with_counts, cache, rejected), default=0)
                needed = fewest + with_counts.selects_itself - with_counts.fewest_pods
                if needed > skew:
                    words = f"with maxSkew {needed} in place of {skew} for {key}"
                    yield Remedy(words, partial(edits.with_constraint, which=which, max_skew=needed))
            if constraint.node_taints_policy != "Honor" and any(node.taints for node in cache.node_list):
                honor = partial(edits.with_constraint, which=which, node_taints_policy="Honor")
                yield Remedy(f"with nodeTaintsPolicy: Honor for {key}", honor)
            if TEMPLATE_HASH in pod.metadata.labels and TEMPLATE_HASH not in constraint.match_label_keys:
                keys = (*constraint.match_label_keys, TEMPLATE_HASH)
                alone = partial(edits.with_constraint, which=which, match_label_keys=keys)
                yield Remedy(f"with matchLabelKeys: [{', '.join(keys)}] for {key}", alone)
            words = f"with whenUnsatisfiable: ScheduleAnyway for {key}"
            anyway = partial(edits.with_constraint, which=which, when_unsatisfiable="ScheduleAnyway")
            yield Remedy(words, anyway)


def _on_usable(constraint: CountedConstraint, cache: Cache, rejected: Rejected) -> Iterator[int]:
    """The numbers of matching pods in domains with nodes that only the spreading keeps the pod from."""
    for name, status in rejected.items():
        if TOO_SKEWED.reasons[0] in status.reasons:
            domain = cache.nodes[name].labels.get(constraint.key)
            if domain is not None and domain in constraint.pods:
                yield constraint.pods[domain]
