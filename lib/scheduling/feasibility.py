"""Which nodes fit a pod: PreFilter, Filter, and extenders.

Counterpart in kube-scheduler: findNodesThatFitPod in pkg/scheduler/schedule_one.go
"""

from collections import ChainMap
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, field
from typing import TypeVar

from lib.kube.objects import Pod
from lib.scheduling.cache import Cache
from lib.scheduling.common_rejection import CommonRejection
from lib.scheduling.decision import Decision, Rejection
from lib.scheduling.extender import Extenders
from lib.scheduling.framework.interface import ALIKE, SKIP, CycleState, PreFilterPlugin, unresolvable
from lib.scheduling.framework.runtime import Framework
from lib.scheduling.node_info import NodeInfo
from lib.scheduling.node_slice import NodeSlice
from lib.scheduling.result_cache import PluginResults, PreFilterAnswer, ResultCache

T = TypeVar("T")

MIN_FEASIBLE_NODES = 100
"""With fewer nodes, all are evaluated; with more, the search looks for at least this many feasible nodes."""
MIN_PERCENTAGE = 5

NOT_ALLOWED = "node(s) didn't satisfy plugin(s) [{}]"
"""The reason for nodes that a PreFilter plugin didn't name."""


class FeasibleNodes:
    """Nodes that fit a pod, by their index in `Cache.node_list`: `count` nodes from `start`, or `indexes`.

    A run that reaches the end of the list continues at its beginning.
    """

    def __init__(self, start: int = 0, count: int = 0, indexes: Sequence[int] | None = None) -> None:
        self._start, self._count, self._indexes = start, count, indexes

    def __len__(self) -> int:
        return self._count if self._indexes is None else len(self._indexes)

    def of(self, values: list[T]) -> list[T]:
        """The values of these nodes. values: one for each node of the cluster."""
        if self._indexes is not None:
            return [values[i] for i in self._indexes]
        end = self._start + self._count
        run = values[self._start : end]
        return run + values[: end - len(values)] if end > len(values) else run

    def indexes(self, count: int) -> Sequence[int]:
        """The indexes, in a cluster of `count` nodes."""
        if self._indexes is not None:
            return self._indexes
        end = self._start + self._count
        return [*range(self._start, min(end, count)), *range(end - count)]

    def value_at(self, values: list[T], i: int) -> T:
        """The value of the i-th of these nodes. values: one for each node of the cluster."""
        return values[(self._start + i) % len(values) if self._indexes is None else self._indexes[i]]


@dataclass
class PreFilterResult:
    """The merged result of all PreFilter plugins.

    skipped: the plugins whose Filter isn't run. allowed_nodes: by plugin, the names of the only nodes that it
    allows.
    """

    skipped: set[str] = field(default_factory=set)
    allowed_nodes: dict[str, Set[str]] = field(default_factory=dict)

    def rejection(self, node_name: str) -> Rejection | None:
        """The rejection by the first plugin that doesn't allow a node; None if all do."""
        for plugin, names in self.allowed_nodes.items():
            if node_name not in names:
                return _not_allowed_by(plugin)
        return None

    def allowed_indexes(self, cache: Cache) -> list[int]:
        """The indexes in `Cache.node_list` of the nodes that all plugins allow; it visits no other nodes."""
        fewest = min(self.allowed_nodes.values(), key=len)
        return sorted(cache.node_index[name] for name in fewest if self._allows(name, cache))

    def not_allowed(self, cache: Cache) -> ChainMap[str, Rejection]:
        """The rejections of the nodes that a plugin doesn't allow."""
        (plugin, names), *more = self.allowed_nodes.items()
        rejected: dict[str, Rejection] = {}
        if more:
            known = (name for name in names if name in cache.node_index)
            rejected = {name: why for name in known if (why := self.rejection(name))}
        common = CommonRejection(_not_allowed_by(plugin), cache.node_index, names)
        return ChainMap(rejected, common)  # type: ignore[arg-type]  # writes go to the first map only

    def _allows(self, node_name: str, cache: Cache) -> bool:
        return node_name in cache.node_index and not self.rejection(node_name)


def _not_allowed_by(plugin: str) -> Rejection:
    return Rejection(plugin, unresolvable(NOT_ALLOWED.format(plugin)))


class Feasibility:
    """Finds the nodes that fit a pod, by the plugins of a profile and by extenders."""

    def __init__(self, framework: Framework, results: ResultCache, extenders: Extenders) -> None:
        self._framework, self._results, self._extenders = framework, results, extenders
        self._next_start = 0  # where the next search begins, so that all nodes get their turn
        self._pre_filters = framework.profile.with_point(PreFilterPlugin)
        self._all_filters = results.all_filters()
        self._not_kept = results.not_kept
        self._not_kept_filters = {each.plugin.name for each in results.not_kept.filters}
        self._not_kept_plugins = self._not_kept_filters | {each.name for each in results.not_kept.pre_filters}

    def find(self, decision: Decision, cache: Cache) -> tuple[FeasibleNodes, PluginResults]:
        """The nodes that pass all filters, or enough of them; and the kept results for such pods.

        The decision's `rejected` gets the rejections of the other nodes.
        """
        with self._framework.point("PreFilter") as point:
            results = self._results.results_for(decision.pod, cache)
            decision.state = dict(results.state)
            pre_filtered = self._pre_filter(decision.state, decision.pod, cache, results)
            if isinstance(pre_filtered, Rejection):
                status = pre_filtered.status
                decision.reason, decision.rejecting_plugin = ", ".join(status.reasons), pre_filtered.plugin
                decision.rejected = dict.fromkeys(cache.nodes, pre_filtered)
                point.status = status.code.value
                return FeasibleNodes(), results
        with self._framework.point("Filter"):
            results.evaluate_again()
            if self._not_kept_plugins <= pre_filtered.skipped:
                decision.state[ALIKE] = results.of_pods_alike
            nominated = self._nominated_node(decision, cache, results, pre_filtered)
            feasible = nominated or self._search(decision, cache, results, pre_filtered)
        feasible = self._filter_by_extenders(decision, feasible, cache)
        if nominated and not feasible:
            with self._framework.point("Filter"):
                feasible = self._search(decision, cache, results, pre_filtered)
            feasible = self._filter_by_extenders(decision, feasible, cache)
        return feasible, results

    def _nominated_node(
        self, decision: Decision, cache: Cache, results: PluginResults, pre_filtered: PreFilterResult
    ) -> FeasibleNodes | None:
        """The pod's nominated node, if it fits there now. It is tried before all others."""
        name = cache.nominator.node_of(decision.pod) or ""
        if name not in cache.nodes or pre_filtered.rejection(name):
            return None
        index = cache.node_index[name]
        if self._rejections([index], decision, cache, results, pre_filtered)[0]:
            return None
        return FeasibleNodes(index, 1)

    def _search(
        self, decision: Decision, cache: Cache, results: PluginResults, pre_filtered: PreFilterResult
    ) -> FeasibleNodes:
        """Run the filters until enough nodes are found. The search begins where the last one ended."""
        indexes: Sequence[int] = range(len(cache.node_list))
        if pre_filtered.allowed_nodes:
            decision.rejected = pre_filtered.not_allowed(cache) | decision.rejected
            indexes = pre_filtered.allowed_indexes(cache)
        enough = feasible_nodes_to_find(len(indexes), self._framework.profile.percentage_of_nodes_to_score)
        start = self._next_start % len(indexes) if indexes else 0
        run = FeasibleNodes(start, enough)
        if self._needs_kept_results_only(decision.pod, cache, pre_filtered) and _all_fit(run, results):
            self._next_start = start + enough
            return run

        feasible: list[int] = []
        in_turn, looked_at = [*indexes[start:], *indexes[:start]], 0
        node_list = cache.node_list
        while looked_at < len(in_turn) and len(feasible) < enough:
            some = in_turn[looked_at : looked_at + enough - len(feasible)]
            looked_at += len(some)
            found = self._rejections(some, decision, cache, results, pre_filtered)
            feasible += [i for i, rejection in zip(some, found, strict=True) if not rejection]
            decision.rejected.update(
                {node_list[i].name: rejection for i, rejection in zip(some, found, strict=True) if rejection}
            )
        self._next_start = start + looked_at
        return FeasibleNodes(indexes=feasible)

    def _needs_kept_results_only(self, pod: Pod, cache: Cache, pre_filtered: PreFilterResult) -> bool:
        filters = self._not_kept_filters - pre_filtered.skipped
        return not (filters or pre_filtered.allowed_nodes or cache.nominator.nominated_before(pod))

    def _rejections(
        self,
        indexes: Sequence[int],
        decision: Decision,
        cache: Cache,
        results: PluginResults,
        pre_filtered: PreFilterResult,
    ) -> list[Rejection | None]:
        """For each of these nodes the first rejection; None where it fits."""
        results.find_rejections(indexes)
        found = [results.rejections[i] for i in indexes]
        nodes, pod = NodeSlice(cache, indexes), decision.pod
        filters = [each for each in self._not_kept.filters if each.plugin.name not in pre_filtered.skipped]
        if filters:
            found = self._not_kept.first_rejections(filters, found, decision.state, pod, nodes)
        nominated = cache.nominator.nominated_before(pod)
        for i, node in enumerate(nodes if nominated else ()):
            if not found[i] and node.name in nominated:
                found[i] = self.filter_with_nominated_pods(pod, cache, node)
        return found

    def filter_with_nominated_pods(self, pod: Pod, cache: Cache, node: NodeInfo) -> Rejection | None:
        """Run PreFilter and Filter for one node, with the cache as it is now, not as at the cycle's start.

        They run with the pods that are nominated to the node, and then without them: the pod must fit
        in both cases (framework/runtime/framework.go, RunFilterPluginsWithNominatedPods).
        """
        nominated = cache.nominator.nominated_before_on(node.name, pod)
        if not nominated:
            return self._filter_one(pod, cache, node)
        with node.trial():
            for other in nominated:
                node.add(other)
            rejection = self._filter_one(pod, cache, node)
        return rejection or self._filter_one(pod, cache, node)

    def _filter_one(self, pod: Pod, cache: Cache, node: NodeInfo) -> Rejection | None:
        state: CycleState = {}
        result = self._pre_filter(state, pod, cache, None)
        if isinstance(result, Rejection):
            return result
        filters = [each for each in self._all_filters if each.plugin.name not in result.skipped]
        alone = NodeSlice(cache, [cache.node_index[node.name]])
        return (
            result.rejection(node.name)
            or self._not_kept.first_rejections(filters, [None], state, pod, alone)[0]
        )

    def _pre_filter(
        self, state: CycleState, pod: Pod, cache: Cache, results: PluginResults | None
    ) -> PreFilterResult | Rejection:
        """Run PreFilter of the plugins whose answers aren't kept in `results`; returns all answers merged."""
        result, plugins = PreFilterResult(), self._pre_filters
        kept: Mapping[str, PreFilterAnswer] = results.pre_filtered if results else {}
        if results and results.all_agree:
            result.skipped.update(results.skipped)
            plugins = self._not_kept.pre_filters
        for plugin in plugins:
            name = plugin.name
            answer = kept[name] if name in kept else self._not_kept.pre_filter(plugin, state, pod, cache)
            if answer is None:
                continue
            if answer is SKIP or answer == SKIP:
                result.skipped.add(name)
            elif isinstance(answer, Set):
                result.allowed_nodes[name] = answer
            else:
                return Rejection(name, answer)
        return result

    def _filter_by_extenders(
        self, decision: Decision, feasible: FeasibleNodes, cache: Cache
    ) -> FeasibleNodes:
        """The nodes that no extender rejects."""
        if not feasible or not self._extenders:
            return feasible
        nodes = feasible.of(cache.node_list)
        rejected = self._extenders.filter(decision.pod, nodes)
        if not rejected:
            return feasible
        decision.rejected.update(
            {name: Rejection(extender, why) for name, (extender, why) in rejected.items()}
        )
        return FeasibleNodes(
            indexes=[cache.node_index[node.name] for node in nodes if node.name not in rejected]
        )


def _all_fit(run: FeasibleNodes, results: PluginResults) -> bool:
    """Whether all nodes of a run pass the filters whose results are kept. Runs the missing ones."""
    known = run.of(results.rejections)
    if any(known):  # a rejection, or NOT_EVALUATED
        results.find_rejections(run.indexes(len(results.rejections)))
        known = run.of(results.rejections)
        return not any(known)
    return True


def feasible_nodes_to_find(nodes: int, percentage: int = 0) -> int:
    """How many feasible nodes to look for (schedule_one.go, numFeasibleNodesToFind).

    percentage: of all nodes; 0 means 50 % less 1 % for each 125 nodes, at least 5 %. Never under 100 nodes.
    """
    if nodes < MIN_FEASIBLE_NODES:
        return nodes
    percentage = percentage or max(50 - nodes // 125, MIN_PERCENTAGE)
    return max(nodes * percentage // 100, MIN_FEASIBLE_NODES)
