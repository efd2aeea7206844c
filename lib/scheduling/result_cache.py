"""Keeps the plugins' results for nodes, for pods that are alike.

Most pods of a burst are alike. A plugin's result for a node and one of them is valid for all of them until
the node changes. So after each placement only one node is evaluated again. Results of plugins that read other
nodes' pods (topology spread, pod affinity) can't be kept: these plugins run for each pod.

Counterpart in kube-scheduler: pkg/scheduler/framework/runtime/batch.go, which reuses the order of nodes;
here, the results of each plugin are kept.
"""

from collections.abc import Collection, Hashable, Iterable, Sequence, Set
from reprlib import repr as short
from typing import NamedTuple

from lib.kube.objects import Pod
from lib.scheduling.cache import Cache
from lib.scheduling.decision import Rejection
from lib.scheduling.framework.interface import (
    MAX_NODE_SCORE,
    SKIP,
    BadAnswerError,
    CycleState,
    DependsOn,
    NormalizeScorePlugin,
    Plugin,
    PreFilterPlugin,
    PreScorePlugin,
    SignPlugin,
    Status,
    checked,
)
from lib.scheduling.framework.runtime import ForNodes, Framework, for_nodes
from lib.scheduling.kept import Follower, Kept, NodeChange, changed_nodes
from lib.scheduling.node_info import NodeInfo
from lib.scheduling.node_slice import NodeSlice

NOT_EVALUATED, NOT_SCORED = Rejection("", SKIP), -1
"""The result for a node that no plugin has been asked about yet."""

MAX_SIGNATURES = 32
"""Results are kept for this many kinds of pods; the least recently used are dropped."""

PreFilterAnswer = Set[str] | Status | None
"""What a PreFilter plugin returns."""


class Filter(NamedTuple):
    """A filter, its index among all filters of the profile (order), and how it is run for some nodes."""

    order: int
    plugin: Plugin
    run: ForNodes


class PluginGroup:
    """The plugins of a profile whose kept results are invalidated by the same changes.

    depends_on: these changes; None for plugins whose results aren't kept.
    """

    def __init__(self, framework: Framework, depends_on: DependsOn | None) -> None:
        self._framework, profile = framework, framework.profile
        self.depends_on = depends_on
        filters = [Filter(i, each, for_nodes(each, "filter")) for i, each in enumerate(profile.filters())]
        names = {each.name for each in profile.plugins if _depends_on(each) == depends_on}
        self.signers = [each for each in profile.with_point(SignPlugin) if each.name in names]
        self.pre_filters = [each for each in profile.with_point(PreFilterPlugin) if each.name in names]
        self.filters = [each for each in filters if each.plugin.name in names]
        pre_scorers = profile.with_point(PreScorePlugin)
        self.pre_scorers = [each for each in pre_scorers if each.name in names & profile.weights.keys()]
        self.scorers = [each for each in profile.scorers() if each.name in names]
        self.normalizers = {each.name for each in self.scorers if isinstance(each, NormalizeScorePlugin)}
        self.weights = profile.weights
        self._filter_order = {each.plugin.name: each.order for each in filters}
        self._scoring = {id(each): for_nodes(each, "score") for each in self.scorers}

    def sign(self, pod: Pod) -> Hashable:
        """The signature of a pod: equal for pods that these plugins can't tell apart."""
        framework, signatures = self._framework, []
        for plugin in self.signers:
            framework.running = plugin
            signatures.append(plugin.sign_pod(pod))
        return tuple(signatures)

    def pre_filter(
        self, plugin: PreFilterPlugin, state: CycleState, pod: Pod, cache: Cache
    ) -> PreFilterAnswer:
        """Run PreFilter. BadAnswerError when it returns something else."""
        self._framework.running = plugin
        answer = plugin.pre_filter(state, pod, cache)
        if answer is None or answer is SKIP:  # the usual case; isinstance of an abstract class is slow
            return answer
        return answer if isinstance(answer, Set) else checked(answer)

    def pre_score(self, state: CycleState, pod: Pod, cache: Cache, nodes: Sequence[NodeInfo]) -> set[str]:
        """Run PreScore; the names of the plugins that skip. BadAnswerError when one rejects."""
        framework, skipped = self._framework, set()
        for plugin in self.pre_scorers:
            framework.running = plugin
            status = checked(plugin.pre_score(state, pod, cache, nodes))
            if status is None:
                continue
            if status is not SKIP and status != SKIP:
                raise BadAnswerError(f"pre_score may skip, but not reject: {', '.join(status.reasons)}")
            skipped.add(plugin.name)
        return skipped

    def first_rejections(
        self,
        filters: Sequence[Filter],
        known: Sequence[Rejection | None],
        state: CycleState,
        pod: Pod,
        nodes: NodeSlice,
    ) -> list[Rejection | None]:
        """For each node, the rejection by the first filter that rejects it. Runs one filter after the other.

        filters: those to run. known: rejections by other filters; one is replaced only if a filter with a
        lower index rejects the node.
        """
        found = list(known)
        order = self._filter_order
        for own_order, plugin, run in filters:
            self._framework.running = plugin
            asked = [i for i, before in enumerate(found) if not before or order[before.plugin] >= own_order]
            statuses = run(state, pod, nodes.some(asked))
            rejections: dict[int, Rejection] = {}  # one for each status object, which many nodes may share
            for i, status in zip(asked, statuses, strict=True):
                if status is not None:
                    rejection = rejections.get(id(status))
                    if rejection is None:
                        checked(status)
                        rejection = rejections[id(status)] = Rejection(plugin.name, status)
                    found[i] = rejection
        return found

    def scores(self, plugin: Plugin, state: CycleState, pod: Pod, nodes: NodeSlice) -> Sequence[int]:
        """Run Score for these nodes."""
        self._framework.running = plugin
        return self._scoring[id(plugin)](state, pod, nodes)


def _depends_on(plugin: Plugin) -> DependsOn | None:
    return plugin.reads if isinstance(plugin, SignPlugin) else None


def check_scores(scores: Collection[int], node_names: Iterable[str]) -> None:
    """BadAnswerError, which names the node, when a score is not a whole number from 0 to 100."""
    if set(map(type, scores)) == {int} and min(scores) >= 0 and max(scores) <= MAX_NODE_SCORE:
        return
    for name, score in zip(node_names, scores, strict=True):
        if not isinstance(score, int) or not 0 <= score <= MAX_NODE_SCORE:
            raise BadAnswerError(f"score {short(score)} of node {name}, not one from 0 to {MAX_NODE_SCORE}")


class PluginResults(Follower):
    """The results of a group's plugins for each node and one kind of pods, together with those of `base`.

    base: the results of another group for the same pods; they are included. Nodes are known by their index in
    `Cache.node_list`.
    """

    def __init__(self, group: PluginGroup, pod: Pod, cache: Cache, base: "PluginResults | None") -> None:
        self._group, self._pod, self._cache, self._base = group, pod, cache, base
        self.of_pods_alike: Hashable = object()
        """A key for these results; a reference to the results themselves would keep their memory."""
        self.state: CycleState = dict(base.state) if base else {}
        """The plugins' CycleState."""
        self.pre_filtered: dict[str, PreFilterAnswer] = dict(base.pre_filtered) if base else {}
        """By plugin, PreFilter's answer."""
        for plugin in group.pre_filters:
            self.pre_filtered[plugin.name] = group.pre_filter(plugin, self.state, pod, cache)
        self.skipped = {name for name, answer in self.pre_filtered.items() if answer == SKIP}
        """The plugins that answered SKIP."""
        self.all_agree = all(answer is None or answer == SKIP for answer in self.pre_filtered.values())
        """Whether none of them rejected the pod or named the only nodes that it allows."""
        self._filters = [each for each in group.filters if self.pre_filtered.get(each.plugin.name) != SKIP]
        count = len(cache.node_list)
        self.rejections: list[Rejection | None] = [NOT_EVALUATED] * count
        """For each node, by the first filter that rejects it; None if all let it pass."""
        self.totals = [NOT_SCORED] * count
        """For each node, the sum of weighted scores that need no normalizing."""
        self.scores: dict[str, list[int]] = {}
        """By plugin, an unweighted score for each node that has a total."""
        self.seen_scores: dict[str, set[int]] = {}
        """All scores so far of a plugin that normalizes."""
        self._scorers: Sequence[Plugin] | None = None
        self._again: list[tuple[int, bool]] = []
        """The nodes whose result was dropped, and whether they had a total."""

    def find_rejections(self, indexes: Sequence[int]) -> None:
        """Run the filters for those of these nodes whose result isn't known."""
        new = [i for i in indexes if self.rejections[i] is NOT_EVALUATED]
        if not new:
            return
        known: list[Rejection | None] = [None] * len(new)
        if self._base:
            self._base.find_rejections(new)
            known = [self._base.rejections[i] for i in new]
        nodes = NodeSlice(self._cache, new)
        found = self._group.first_rejections(self._filters, known, self.state, self._pod, nodes)
        for i, rejection in zip(new, found, strict=True):
            self.rejections[i] = rejection

    def pre_score(self, nodes: Sequence[NodeInfo]) -> None:
        """Run PreScore, if it hasn't been run."""
        if self._base:
            self._base.pre_score(nodes)
        if self._scorers is None:
            skipped = self._group.pre_score(self.state, self._pod, self._cache, nodes)
            self.scores = dict(self._base.scores) if self._base else {}
            self._scorers = [each for each in self._group.scorers if each.name not in skipped]
            self.scores |= {each.name: [NOT_SCORED] * len(self.totals) for each in self._scorers}
            self.seen_scores = {name: set() for name in self._group.normalizers}
            if self._base:
                self.seen_scores |= self._base.seen_scores
                self.state = {**self._base.state, **self.state}

    def find_totals(self, indexes: Sequence[int]) -> None:
        """Score those of these nodes that aren't scored yet."""
        new = [i for i in indexes if self.totals[i] == NOT_SCORED]
        if not new:
            return
        totals = [0] * len(new)
        if self._base:
            self._base.find_totals(new)
            totals = [self._base.totals[i] for i in new]
        nodes = NodeSlice(self._cache, new)
        for plugin in self._scorers or ():
            found = self._group.scores(plugin, self.state, self._pod, nodes)
            if plugin.name in self._group.normalizers:
                self.seen_scores[plugin.name].update(found)
            else:
                check_scores(found, (node.name for node in nodes))
                weight = self._group.weights[plugin.name]
                totals = [total + score * weight for total, score in zip(totals, found, strict=True)]
            scores = self.scores[plugin.name]
            for i, score in zip(new, found, strict=True):
                scores[i] = score
        for i, total in zip(new, totals, strict=True):
            self.totals[i] = total

    def follow(self, changes: Sequence[NodeChange]) -> bool:
        """Drop the results of nodes that have changed; those that depend on the pods, if these have."""
        if self._group.depends_on == DependsOn.NODES:
            changes = [each for each in changes if each[1] is None]
        for i in changed_nodes(changes, self._cache):
            if self.rejections[i] is not NOT_EVALUATED:
                self._again.append((i, self.totals[i] != NOT_SCORED))
            self.rejections[i], self.totals[i] = NOT_EVALUATED, NOT_SCORED
        return True

    def evaluate_again(self) -> None:
        """Run the plugins for the nodes whose results were dropped since the last call."""
        if self._base:
            self._base.evaluate_again()
        if again := self._again:
            self._again = []
            self.find_rejections([i for i, _ in again])
            self.find_totals([i for i, scored in again if scored and not self.rejections[i]])


class ResultCache:
    """The results of a profile's plugins, by the pods' signature."""

    def __init__(self, framework: Framework) -> None:
        self._of_nodes = PluginGroup(framework, DependsOn.NODES)
        self._of_pods = PluginGroup(framework, DependsOn.PODS)
        self.not_kept = PluginGroup(framework, None)
        self._results: Kept | None = None

    def all_filters(self) -> list[Filter]:
        """The filters of the profile in order."""
        filters = [*self._of_nodes.filters, *self._of_pods.filters, *self.not_kept.filters]
        return sorted(filters, key=lambda each: each.order)

    def results_for(self, pod: Pod, cache: Cache) -> PluginResults:
        """The results for pods like this one. Call `evaluate_again` before you use them."""
        if self._results is None or self._results.journal is not cache.journal:
            self._results = Kept(cache.journal, MAX_SIGNATURES)
        of_nodes, of_pods = self._of_nodes, self._of_pods
        base = self._results.get(of_nodes.sign(pod), lambda: PluginResults(of_nodes, pod, cache, None))
        return self._results.get((base, of_pods.sign(pod)), lambda: PluginResults(of_pods, pod, cache, base))
