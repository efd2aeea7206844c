"""Which nodes fit a pod, and which is best: filters and scores, shared by pods alike.

Source: pkg/scheduler/schedule_one.go, findNodesThatFitPod and prioritizeNodes
"""

from collections import OrderedDict, deque
from collections.abc import Callable, Hashable, Mapping, Sequence, Set
from dataclasses import dataclass, field
from itertools import chain
from typing import TypeVar

from lib.kube.objects import Pod
from lib.scheduling.cache import Cache, NodeInfo
from lib.scheduling.columns import NodeSlice
from lib.scheduling.cycle_observer import CycleObserver
from lib.scheduling.decision import Decision, Rejection
from lib.scheduling.extender import Extenders
from lib.scheduling.framework.interface import (
    SKIP,
    CycleState,
    DependsOn,
    FilterPlugin,
    NormalizeScorePlugin,
    PreFilterPlugin,
    Profile,
    ScorePlugin,
    SignPlugin,
    unresolvable,
)
from lib.scheduling.result_cache import (
    UNSCORED,
    Asking,
    PluginGroup,
    PluginResults,
    PreFiltered,
    check_scores,
    first_rejections,
    pre_filter,
    skips_score,
)

T = TypeVar("T")

ENOUGH_NODES = 100
"""So many feasible nodes are sought in any case; in a smaller cluster every node is looked at."""
LEAST_PERCENTAGE = 5

NOT_AMONG = "node(s) didn't satisfy plugin(s) [{}]"
"""Of nodes that PreFilter didn't name."""

MAX_SIGNATURES = 32
"""Of so many sorts of pods answers are kept at a time."""


class Feasible:
    """Nodes that fit a pod, by their places in `Cache.node_list`: a run of so many from `start`, or these.

    A run that comes to the end of the order goes on at its beginning.
    """

    def __init__(self, start: int = 0, count: int = 0, places: Sequence[int] | None = None) -> None:
        self._start, self._count, self._places = start, count, places

    def __len__(self) -> int:
        return self._count if self._places is None else len(self._places)

    def of(self, column: list[T]) -> list[T]:
        """What stands in a column at these places."""
        if self._places is not None:
            return [column[i] for i in self._places]
        end = self._start + self._count
        run = column[self._start : end]
        return run + column[: end - len(column)] if end > len(column) else run

    def places(self, everyone: int) -> Sequence[int]:
        """The places, in a cluster of so many nodes."""
        if self._places is not None:
            return self._places
        end = self._start + self._count
        return [*range(self._start, min(end, everyone)), *range(end - everyone)]

    def one_of(self, column: list[T], i: int) -> T:
        """What stands at the i-th of these places."""
        return column[(self._start + i) % len(column) if self._places is None else self._places[i]]


@dataclass
class Scores:
    """What feasible nodes scored, by their places among these.

    totals: to compare them by; what all have alike may be missing. by_plugin: finds a node's weighted score.
    """

    totals: list[int]
    by_plugin: dict[str, Callable[[int], int]] = field(default_factory=dict)

    def add(self, name: str, column: Sequence[int], weight: int = 1) -> None:
        """Add a plugin's or an extender's scores."""
        self.totals = [total + score * weight for total, score in zip(self.totals, column, strict=True)]
        self.by_plugin[name] = lambda i: column[i] * weight

    def add_alike(self, name: str, score: int) -> None:
        """Note a weighted score that all nodes have."""
        self.by_plugin[name] = lambda _: score

    def note(self, name: str, feasible: Feasible, column: list[int], weight: int) -> None:
        """Note scores that the totals have in them already; they stand in a column of all nodes."""
        self.by_plugin[name] = lambda i: feasible.one_of(column, i) * weight

    def of(self, i: int) -> dict[str, int]:
        """A node's weighted scores."""
        return {name: score(i) for name, score in self.by_plugin.items()}


class Evaluator:
    """Asks the plugins of a profile, and extenders, about nodes; what was answered is kept for pods alike."""

    def __init__(
        self, profile: Profile, extenders: Extenders, asking: Asking, observer: CycleObserver
    ) -> None:
        self._profile = profile
        self._extenders = extenders
        self._asking = asking
        self._observer = observer
        self._next_start = 0  # where the next search begins, so that every node has its turn
        self._pre_filters = profile.with_point(PreFilterPlugin)
        self._scorers = [
            (
                each,
                profile.weights[each.name],
                isinstance(each, SignPlugin),
                each if isinstance(each, NormalizeScorePlugin) else None,
            )
            for each in profile.scoring(ScorePlugin)
        ]
        self._of_nodes, self._of_pods = (
            PluginGroup(profile, DependsOn.NODES),
            PluginGroup(profile, DependsOn.PODS),
        )
        self._fresh = PluginGroup(profile, None)
        self._all_filters = sorted(
            chain(self._of_nodes.filters, self._of_pods.filters, self._fresh.filters),
            key=lambda placed: placed[0],
        )
        self._kept: OrderedDict[Hashable, PluginResults] = OrderedDict()
        self._of: tuple[Cache, int] | None = None  # the cluster that answers are kept of, and its version

    # --- which nodes fit --------------------------------------------------------------------------------

    def find_feasible(self, decision: Decision, cache: Cache, results: PluginResults) -> Feasible:
        """The nodes that every filter lets pass, or enough of them.

        What rules nodes out is noted in the decision.
        """
        pod = decision.pod
        decision.state = dict(results.state)
        known = self._pre_filter(decision.state, pod, cache, results.pre_filtered)
        if isinstance(known, Rejection):
            decision.reason, decision.rejecting_plugin = ", ".join(known.status.reasons), known.plugin
            decision.rejected = dict.fromkeys(cache.nodes, known)
            self._observer.left(known.status.code.value)
            return Feasible()
        self._observer.entering("Filter")
        results.catch_up()
        skipped, among = known
        places: Sequence[int] = range(len(cache.node_list))
        if among:
            left_out = {name: why for name in cache.nodes if (why := _left_out(name, among))}
            decision.rejected |= left_out
            places = [cache.node_index[name] for name in cache.nodes if name not in left_out]
        filters = [each for each in self._fresh.filters if each[1].name not in skipped]
        kept_for_others = cache.nominated_before(pod)

        def rejections(places: Sequence[int]) -> list[Rejection | None]:
            results.find_rejections(places)
            found = [results.rejections[i] for i in places]
            nodes = NodeSlice(cache, places)
            if filters:
                found = self._first_rejections(filters, found, decision.state, pod, nodes)
            for i, node in enumerate(nodes if kept_for_others else ()):
                if not found[i] and node.name in kept_for_others:
                    found[i] = self.filter_with_nominated_pods(pod, cache, node)
            return found

        own = cache.node_index.get(cache.nominated_node(pod) or "", -1)
        if own in places and not rejections([own])[0]:  # where room was made for it, a pod goes if it can
            room = self._without_refused(decision, Feasible(own, 1), cache)
            if room:
                return room

        enough = enough_nodes(len(places), self._profile.percentage_of_nodes_to_score)
        start = self._next_start % len(places) if places else 0
        run = Feasible(start, enough)
        if not (filters or kept_for_others or among) and _all_fit(run, results):
            self._next_start = start + enough
            return self._without_refused(decision, run, cache)

        feasible: list[int] = []
        in_turn = deque(chain(places[start:], places[:start]))
        while in_turn and len(feasible) < enough:
            some = [in_turn.popleft() for _ in range(min(len(in_turn), enough - len(feasible)))]
            for i, found in zip(some, rejections(some), strict=True):
                if found:
                    decision.rejected[cache.node_list[i].name] = found
                else:
                    feasible.append(i)
        self._next_start = start + len(places) - len(in_turn)
        return self._without_refused(decision, Feasible(places=feasible), cache)

    def filter_with_nominated_pods(self, pod: Pod, cache: Cache, node: NodeInfo) -> Rejection | None:
        """Who rules a node out, in the picture as it is now, which isn't how it was when the cycle began.

        Asked with the pods on it for which a place is kept there, and without them.
        """
        nominated = cache.nominated_before(pod).get(node.name, [])
        for other in nominated:
            node.add(other)
        try:
            rejection = self._ask_all(pod, cache, node)
        finally:
            for other in nominated:
                node.remove(other)
        return self._ask_all(pod, cache, node) if nominated and not rejection else rejection

    def _ask_all(self, pod: Pod, cache: Cache, node: NodeInfo) -> Rejection | None:
        """PreFilter and Filter, for one node alone."""
        state: CycleState = {}
        known = self._pre_filter(state, pod, cache, {})
        if isinstance(known, Rejection):
            return known
        skipped, among = known
        filters = [each for each in self._all_filters if each[1].name not in skipped]
        alone = NodeSlice(cache, [cache.node_index[node.name]])
        return _left_out(node.name, among) or self._first_rejections(filters, [None], state, pod, alone)[0]

    def _pre_filter(
        self, state: CycleState, pod: Pod, cache: Cache, known: Mapping[str, PreFiltered]
    ) -> tuple[set[str], dict[str, Set[str]]] | Rejection:
        """The plugins that skip, and by plugin, the names of the nodes that alone are worth it.

        known: what plugins have answered already.
        """
        skipped: set[str] = set()
        among: dict[str, Set[str]] = {}
        for plugin in self._pre_filters:
            name = plugin.name
            if name in known:
                answer = known[name]
            else:
                self._asking.plugin = plugin
                answer = pre_filter(plugin, state, pod, cache)
            if answer is None:
                continue
            if isinstance(answer, Set):
                among[name] = answer
            elif answer == SKIP:
                skipped.add(name)
            else:
                return Rejection(name, answer)
        return skipped, among

    def _first_rejections(
        self,
        filters: Sequence[tuple[int, FilterPlugin]],
        known: Sequence[Rejection | None],
        state: CycleState,
        pod: Pod,
        nodes: NodeSlice,
    ) -> list[Rejection | None]:
        return first_rejections(filters, known, self._fresh.node_index, state, pod, nodes, self._asking)

    def _without_refused(self, decision: Decision, feasible: Feasible, cache: Cache) -> Feasible:
        """The nodes that extenders don't rule out."""
        if not feasible or not self._extenders:
            return feasible
        self._observer.left()
        nodes = feasible.of(cache.node_list)
        refused = self._extenders.filter(decision.pod, nodes)
        if not refused:
            return feasible
        decision.rejected |= {name: Rejection(extender, why) for name, (extender, why) in refused.items()}
        return Feasible(places=[cache.node_index[node.name] for node in nodes if node.name not in refused])

    # --- which is best ----------------------------------------------------------------------------------

    def score(self, decision: Decision, cache: Cache, feasible: Feasible, results: PluginResults) -> Scores:
        """Score the nodes that fit; there is nothing to score if that is only one."""
        if len(feasible) == 1:
            return Scores([0])
        pod, nodes = decision.pod, feasible.of(cache.node_list)
        self._observer.entering("PreScore")
        results.prepare_scores(nodes)
        decision.state = state = {**results.state, **decision.state}
        skipped = set()
        for pre in self._fresh.pre_scorers:
            self._asking.plugin = pre
            if skips_score(pre, state, pod, cache, nodes):
                skipped.add(pre.name)
        self._observer.entering("Score")
        totals = feasible.of(results.totals)
        if UNSCORED in totals:
            results.find_totals(feasible.places(len(cache.node_list)))
            totals = feasible.of(results.totals)
        scores = Scores(totals)
        for plugin, weight, kept, normalizer in self._scorers:
            column = results.columns.get(plugin.name)
            if plugin.name in skipped or (kept and column is None):
                continue
            self._asking.plugin = plugin
            if column is None:
                raw = {node.name: plugin.score(state, pod, node) for node in nodes}
            elif not normalizer:
                scores.note(plugin.name, feasible, column, weight)
                continue
            elif len(results.seen_scores[plugin.name]) == 1 or len(set(own := feasible.of(column))) == 1:
                raw = {"": feasible.one_of(column, 0)}  # what is alike stays alike: one stands for all
            else:
                raw = {node.name: score for node, score in zip(nodes, own, strict=True)}
            if normalizer:
                normalizer.normalize_score(state, pod, raw)
            found = list(raw.values())
            check_scores(found, raw)
            if len(found) < len(nodes):
                scores.add_alike(plugin.name, found[0] * weight)
            else:
                scores.add(plugin.name, found, weight)
        if self._extenders:
            self._observer.left()
        for extender, by_node in self._extenders.prioritize(pod, nodes).items():
            scores.add(extender, [by_node.get(node.name, 0) for node in nodes])
        return scores

    # --- what is kept -----------------------------------------------------------------------------------

    def answers_for(self, pod: Pod, cache: Cache) -> PluginResults:
        """What is known of pods like this one; it is to catch up with the picture yet."""
        self._observer.entering("PreFilter")
        if self._of != (cache, cache.version):
            self._of = cache, cache.version
            self._kept.clear()
        of_nodes = self._of_nodes.sign(pod, self._asking)
        below = self._keep(of_nodes, self._of_nodes, pod, cache, None)
        return self._keep((of_nodes, self._of_pods.sign(pod, self._asking)), self._of_pods, pod, cache, below)

    def _keep(
        self, sort: Hashable, tier: PluginGroup, pod: Pod, cache: Cache, below: PluginResults | None
    ) -> PluginResults:
        """The answers of a tier for a sort of pods; those for sorts not seen for long are dropped."""
        results = self._kept.get(sort)
        if results is None:
            results = PluginResults(tier, pod, cache, self._asking, below)
            self._kept[sort] = results
            if len(self._kept) > MAX_SIGNATURES:
                self._kept.popitem(last=False)
        self._kept.move_to_end(sort)
        return results


def _all_fit(run: Feasible, results: PluginResults) -> bool:
    """Whether nobody rules out any node of a run; asks where that isn't known."""
    known = run.of(results.rejections)
    if any(known):  # a rejection, or that nobody was asked yet
        results.find_rejections(run.places(len(results.rejections)))
        known = run.of(results.rejections)
        return not any(known)
    return True


def _left_out(node_name: str, among: Mapping[str, Set[str]]) -> Rejection | None:
    """The PreFilter plugin that named other nodes only."""
    for plugin, names in among.items():
        if node_name not in names:
            return Rejection(plugin, unresolvable(NOT_AMONG.format(plugin)))
    return None


def enough_nodes(nodes: int, percentage: int = 0) -> int:
    """How many feasible nodes to look for (schedule_one.go, numFeasibleNodesToFind).

    percentage: of all nodes; 0 takes 50 % less 1 % for each 125 nodes, at least 5 %. At least 100 anyway.
    """
    if nodes < ENOUGH_NODES:
        return nodes
    percentage = percentage or max(50 - nodes // 125, LEAST_PERCENTAGE)
    return max(nodes * percentage // 100, ENOUGH_NODES)
