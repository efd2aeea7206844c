"""Which nodes fit a pod: PreFilter, Filter, and extenders.

Counterpart in kube-scheduler: findNodesThatFitPod in pkg/scheduler/schedule_one.go
"""

from collections.abc import Sequence

from lib.kube.objects import Node, Pod
from lib.scheduling.attempt import SchedulingAttempt
from lib.scheduling.cache import Cache
from lib.scheduling.extenders import Extenders
from lib.scheduling.framework.interface import ALIKE
from lib.scheduling.framework.runtime import Framework
from lib.scheduling.node_info import NodeInfo
from lib.scheduling.node_slice import NodeSlice
from lib.scheduling.result_cache import PluginGroup, ResultCache
from lib.scheduling.status import Rejection

MIN_FEASIBLE_NODES = 100
"""With fewer nodes, all are evaluated; with more, the search looks for at least this many feasible nodes."""
MIN_PERCENTAGE = 5

MOST_KEPT = 100
"""Of a node with nominated pods, at most so many results are kept."""

_OnNode = tuple[Node, list[Pod], list[Pod]]
"""A node, its pods, and the pods that are nominated to it."""


class Feasibility:
    """Finds the nodes that fit a pod, by the plugins of a profile and by extenders."""

    def __init__(self, framework: Framework, not_kept: PluginGroup, extenders: Extenders | None) -> None:
        self._framework, self._not_kept, self._extenders = framework, not_kept, extenders
        self._results = ResultCache(framework)
        self._next_start = 0
        """Where the next search begins, so that all nodes get their turn."""
        self._not_kept_filters = {runner.plugin.name for runner in self._not_kept.filters}
        self._not_kept_plugins = self._not_kept_filters | {
            plugin.name for plugin in self._not_kept.pre_filters
        }

    def find(self, attempt: SchedulingAttempt) -> NodeSlice:
        """The nodes that pass all filters, or enough of these. The attempt gets the other rejections."""
        pod, cache = attempt.pod, attempt.cache
        with self._framework.point("PreFilter") as point:
            results = attempt.results = self._results.results_for(pod, cache)
            attempt.state, attempt.skipped = dict(results.state), {*results.skipped}
            plugins = self._not_kept.pre_filters if results.all_agree else self._framework.pre_filters
            known = results.pre_filtered
            answers = self._framework.run_pre_filter(plugins, known, attempt.state, pod, cache)
            if rejection := attempt.note_pre_filter(answers):
                attempt.rejected = dict.fromkeys(cache.nodes, rejection)
                point.status = rejection.status.code.value
                return NodeSlice(cache, ())
        with self._framework.point("Filter"):
            results.evaluate_again()
            if self._not_kept_plugins <= attempt.skipped:
                attempt.state[ALIKE] = results.of_pods_alike
            attempt.nominated = cache.nominator.nominated_before(pod)
            nominated = self._nominated_node(attempt) if cache.nominator.node_of(pod) else None
            nodes = nominated or self._search(attempt)
        if self._extenders:
            nodes = _filter_by(self._extenders, attempt, nodes)
            if nominated and not nodes:
                with self._framework.point("Filter"):
                    nodes = self._search(attempt)
                nodes = _filter_by(self._extenders, attempt, nodes)
        return nodes

    def _nominated_node(self, attempt: SchedulingAttempt) -> NodeSlice | None:
        """The pod's nominated node, if it fits there now. It is tried before all others."""
        cache = attempt.cache
        name = cache.nominator.node_of(attempt.pod)
        if name not in cache.nodes or attempt.not_allowed_on(name):
            return None
        node = NodeSlice(cache, [cache.node_index[name]])
        return None if self._rejections(attempt, node)[0] else node

    def _search(self, attempt: SchedulingAttempt) -> NodeSlice:
        """Run the filters until enough nodes are found. The search begins where the last one ended.

        If a pod that is alike fits nowhere, and nothing has changed since, this pod has its rejections.
        """
        cache, results = attempt.cache, attempt.results
        as_alike = ALIKE in attempt.state and not (attempt.allowed_nodes or attempt.nominated)
        if as_alike and results.nowhere is not None:
            attempt.rejected = results.nowhere
            return NodeSlice(cache, ())
        indexes: Sequence[int] = range(len(cache.node_list))
        if attempt.allowed_nodes:
            indexes = attempt.reject_not_allowed()
        enough = feasible_nodes_to_find(len(indexes), self._framework.profile.percentage_of_nodes_to_score)
        start = self._next_start % len(indexes) if indexes else 0
        if not (
            attempt.allowed_nodes or self._not_kept_filters - attempt.skipped or attempt.nominated
        ):  # only results that are kept count
            run = NodeSlice(cache, range(start, start + enough))
            if results.rejections(run).count(None) == enough:
                self._next_start = start + enough
                return run

        feasible: list[int] = []
        looked_at = 0
        in_turn: Sequence[int] = range(start, start + len(indexes))  # those after the last come first
        if attempt.allowed_nodes:
            in_turn = [*indexes[start:], *indexes[:start]]
        while looked_at < len(in_turn) and len(feasible) < enough:
            some = NodeSlice(cache, in_turn[looked_at : looked_at + enough - len(feasible)])
            looked_at += len(some)
            rejections = self._rejections(attempt, some)
            feasible += [i for i, why in zip(some.indexes, rejections, strict=True) if not why]
            by_name = zip(some.pick(cache.node_names), rejections, strict=True)
            attempt.rejected.update({name: why for name, why in by_name if why})
        self._next_start = start + looked_at
        if as_alike and not feasible:
            results.nowhere = attempt.rejected
        return NodeSlice(cache, feasible)

    def _rejections(self, attempt: SchedulingAttempt, nodes: NodeSlice) -> list[Rejection | None]:
        """For each of these nodes, the first rejection; None if the node fits."""
        pod, skipped = attempt.pod, attempt.skipped
        rejections = attempt.results.rejections(nodes)
        if filters := [runner for runner in self._not_kept.filters if runner.plugin.name not in skipped]:
            rejections = self._framework.run_filters(filters, rejections, attempt.state, pod, nodes)
        for i, node in enumerate(nodes if attempt.nominated else ()):
            if others := attempt.nominated.get(node.name):
                rejections[i] = self._kept_with_nominated_pods(attempt, node, others) or rejections[i]
        return rejections

    def _kept_with_nominated_pods(
        self, attempt: SchedulingAttempt, node: NodeInfo, nominated: list[Pod]
    ) -> Rejection | None:
        """What `_with_nominated_pods` returns. For pods that are alike, it is kept until the node changes."""
        alike = attempt.state.get(ALIKE)
        if alike is None:
            return self._with_nominated_pods(attempt.pod, attempt.cache, node)
        of_node = attempt.cache.lives.kept_with_nominated.setdefault(node.name, {})
        on_node: _OnNode = node.node, [*node.pods], nominated
        kept = of_node.get((self, alike))
        if kept and kept[0] == on_node:
            rejection: Rejection | None = kept[1]
            return rejection
        if len(of_node) >= MOST_KEPT:
            of_node.clear()
        rejection = self._with_nominated_pods(attempt.pod, attempt.cache, node)
        of_node[self, alike] = on_node, rejection
        return rejection

    def filter_with_nominated_pods(self, pod: Pod, cache: Cache, node: NodeInfo) -> Rejection | None:
        """Run PreFilter and Filter for one node, with the cache as it is now, not as at the cycle's start.

        They run with the pods that are nominated to the node, and then without them: the pod must fit
        in both cases (framework/runtime/framework.go, RunFilterPluginsWithNominatedPods).
        """
        return self._with_nominated_pods(pod, cache, node) or self._filter_one(pod, cache, node)

    def _with_nominated_pods(self, pod: Pod, cache: Cache, node: NodeInfo) -> Rejection | None:
        """Why a node doesn't fit with the pods that are nominated to it. None if it fits, or none are.

        If the node doesn't fit without them either, this is the reason all the same.
        """
        nominated = cache.nominator.nominated_before_on(node.name, pod)
        if not nominated:
            return None
        with cache.with_nominated(nominated, node):
            return self._filter_one(pod, cache, node)

    def _filter_one(self, pod: Pod, cache: Cache, node: NodeInfo) -> Rejection | None:
        framework, attempt = self._framework, SchedulingAttempt(pod, cache)
        answers = framework.run_pre_filter(framework.pre_filters, {}, attempt.state, pod, cache)
        if rejection := attempt.note_pre_filter(answers) or attempt.not_allowed_on(node.name):
            return rejection
        filters = [runner for runner in framework.filters if runner.plugin.name not in attempt.skipped]
        alone = NodeSlice(cache, [cache.node_index[node.name]])
        return framework.run_filters(filters, [None], attempt.state, pod, alone)[0]


def _filter_by(extenders: Extenders, attempt: SchedulingAttempt, nodes: NodeSlice) -> NodeSlice:
    """The nodes that no extender rejects."""
    rejected = extenders.filter(attempt.pod, [*nodes]) if nodes else {}
    attempt.rejected.update({name: Rejection(*why) for name, why in rejected.items()})
    index = attempt.cache.node_index
    return NodeSlice(attempt.cache, [index[node.name] for node in nodes if node.name not in rejected])


def feasible_nodes_to_find(nodes: int, percentage: int = 0) -> int:
    """How many feasible nodes to look for (schedule_one.go, numFeasibleNodesToFind).

    percentage: of all nodes; 0 means 50 % less 1 % for each 125 nodes, at least 5 %. Never under 100 nodes.
    """
    if nodes < MIN_FEASIBLE_NODES:
        return nodes
    percentage = percentage or max(50 - nodes // 125, MIN_PERCENTAGE)
    return max(nodes * percentage // 100, MIN_FEASIBLE_NODES)
