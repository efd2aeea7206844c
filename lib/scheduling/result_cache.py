"""Keeps the plugins' results for nodes, for pods that are alike.

Most pods of a burst are alike. A plugin's result for a node and one of them is valid for all of them until
the node changes. So after each placement only one node is evaluated again. Results of plugins that read other
nodes' pods (topology spread, pod affinity) can't be kept: these plugins run for each pod.

Counterpart in kube-scheduler: pkg/scheduler/framework/runtime/batch.go, which reuses the order of nodes;
here, the results of each plugin are kept.
"""

from collections.abc import Collection, Hashable, Iterable, Sequence
from reprlib import repr as short

from lib.kube.objects import Pod
from lib.kube.resource_claims import may_be_of_device_class
from lib.scheduling.cache import Cache
from lib.scheduling.framework.interface import (
    DependsOn,
    NormalizeScorePlugin,
    Plugin,
    ScoresResourcesPlugin,
    SignPlugin,
)
from lib.scheduling.framework.runtime import Framework, PreFilterAnswer, Scorer
from lib.scheduling.kept import Follower, Kept, NodeChange, changed_nodes
from lib.scheduling.node_info import NodeInfo
from lib.scheduling.node_slice import NodeSlice
from lib.scheduling.resources import pod_requests
from lib.scheduling.status import MAX_NODE_SCORE, SKIP, BadAnswerError, CycleState, Rejection

NOT_EVALUATED, NOT_SCORED = Rejection("", SKIP), -1
"""The result for a node that no plugin has been asked about yet."""

MIN_SIGNATURES, MAX_RESULTS = 32, 500_000
"""Results are kept for so many kinds of pods; for more, up to so many nodes of all kinds together. The least
recently used are dropped."""

MAX_SIGNATURES = 1000
"""No more kinds than this, however few nodes there are."""


class PluginGroup:
    """The plugins of a profile whose kept results are invalidated by the same changes.

    depends_on: these changes; None for plugins whose results aren't kept.
    """

    def __init__(self, framework: Framework, depends_on: DependsOn | None) -> None:
        self.framework, self.depends_on = framework, depends_on
        names = {each.name for each in framework.profile.plugins if _depends_on(each) == depends_on}
        self.signers = [each for each in framework.profile.with_point(SignPlugin) if each.name in names]
        self.pre_filters = [each for each in framework.pre_filters if each.name in names]
        self.filters = [each for each in framework.filters if each.plugin.name in names]
        self.pre_scorers = [each for each in framework.pre_scorers if each.name in names]
        self.scorers = [each for each in framework.scorers if each.plugin.name in names]
        self.scored = {  # what devices may serve
            name
            for each in self.scorers
            if isinstance(each.plugin, ScoresResourcesPlugin)
            for name in each.plugin.resources
            if may_be_of_device_class(name)
        }

    def device_version(self, pod: Pod, cache: Cache) -> Hashable:
        """Changes with the devices that the pod's nodes are scored by; None if there are none."""
        scored = self.scored & cache.classes_by_resource.keys()
        return None if scored.isdisjoint(pod_requests(pod)) else cache.devices.version


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
        self._framework = group.framework
        self.of_pods_alike: Hashable = object()
        """A key for these results; a reference to the results themselves would keep their memory."""
        self.state: CycleState = dict(base.state) if base else {}
        """The plugins' CycleState."""
        known = base.pre_filtered if base else {}
        fresh = self._framework.run_pre_filter(group.pre_filters, known, self.state, pod, cache)
        self.pre_filtered: dict[str, PreFilterAnswer] = {**known, **fresh}
        """By plugin, PreFilter's answer."""
        self.skipped = {name for name, answer in self.pre_filtered.items() if answer == SKIP}
        """The plugins that answered SKIP."""
        self.all_agree = all(answer is None or answer == SKIP for answer in self.pre_filtered.values())
        """Whether none of them rejected the pod or named the only nodes that it allows."""
        self._filters = [each for each in group.filters if each.plugin.name not in self.skipped]
        """The filters to run."""
        self._rejections: list[Rejection | None] = [NOT_EVALUATED] * len(cache.node_list)
        """For each node, by the first filter that rejects it; None if all let it pass."""
        self._totals = [NOT_SCORED] * len(cache.node_list)
        """For each node, the sum of weighted scores that need no normalizing."""
        self.scores: dict[str, list[int]] = {}
        """By plugin, an unweighted score for each node that has a total. Empty until PreScore was run."""
        self.seen_scores: dict[str, set[int]] = {}
        """All scores so far of a plugin that normalizes."""
        self._normalized: dict[tuple[str, int], int] = {}
        """By plugin and score, what that becomes if all nodes have it."""
        self._scorers: Sequence[Scorer] | None = None
        """The plugins that score these pods. None until PreScore was run."""
        self._again: list[tuple[int, bool]] = []
        """The nodes whose result was dropped, and whether they had a total."""

    def rejections(self, nodes: NodeSlice) -> list[Rejection | None]:
        """Of these nodes. Runs the filters for those whose result isn't known."""
        found = nodes.pick(self._rejections)
        if not any(found):  # the usual case
            return found
        new = [i for i in nodes.indexes if self._rejections[i] is NOT_EVALUATED]
        if not new:
            return found
        some = nodes if len(new) == len(nodes) else NodeSlice(self._cache, new)
        known = self._base.rejections(some) if self._base else [None] * len(new)
        fresh = self._framework.run_filters(self._filters, known, self.state, self._pod, some)
        for i, rejection in zip(new, fresh, strict=True):
            self._rejections[i] = rejection
        return fresh if len(new) == len(nodes) else nodes.pick(self._rejections)

    def run_pre_score(self, nodes: Sequence[NodeInfo]) -> None:
        """Run PreScore, if it hasn't been run."""
        base, group = self._base, self._group
        if base:
            base.run_pre_score(nodes)
        if self._scorers is None:
            skipped = self._framework.run_pre_score(
                group.pre_scorers, self.state, self._pod, self._cache, nodes
            )
            self._scorers = [each for each in group.scorers if each.plugin.name not in skipped]
            names = [each.plugin.name for each in self._scorers]
            self.scores = {name: [NOT_SCORED] * len(self._totals) for name in names}
            self.seen_scores = {name: set() for name in names}
            if base:
                self.scores |= base.scores
                self.seen_scores |= base.seen_scores
                self.state = {**base.state, **self.state}

    def totals(self, nodes: NodeSlice) -> list[int]:
        """Of these nodes. Runs the scorers for those that aren't scored yet."""
        found = nodes.pick(self._totals)
        if NOT_SCORED not in found:
            return found
        new = [i for i in nodes.indexes if self._totals[i] == NOT_SCORED]
        some = nodes if len(new) == len(nodes) else NodeSlice(self._cache, new)
        totals = self._base.totals(some) if self._base else [0] * len(new)
        evaluations = self._framework.evaluations["Score"]
        for plugin, run, weight, normalizer in self._scorers or ():
            self._framework.running = plugin
            evaluations[plugin.name] += len(new)
            fresh = run(self.state, self._pod, some)
            if normalizer:
                self.seen_scores[plugin.name].update(fresh)
            else:
                check_scores(fresh, (node.name for node in some))
                totals = [total + score * weight for total, score in zip(totals, fresh, strict=True)]
            scores = self.scores[plugin.name]
            for i, score in zip(new, fresh, strict=True):
                scores[i] = score
        for i, total in zip(new, totals, strict=True):
            self._totals[i] = total
        return totals if len(new) == len(nodes) else nodes.pick(self._totals)

    def equal_score(self, name: str, normalizer: NormalizeScorePlugin, nodes: NodeSlice) -> int | None:
        """A plugin's normalized score, if it is sure to be equal for all of these nodes; else None."""
        if not getattr(normalizer, "equal_stay_equal", False):
            return None
        found = self.seen_scores[name]
        if len(found) > 1:
            found = {*nodes.pick(self.scores[name])}
            if len(found) > 1:
                return None
        (score,) = found
        if (name, score) not in self._normalized:
            alone = {"": score}  # one of them, for all nodes
            normalizer.normalize_score(self.state, self._pod, alone)
            check_scores(alone.values(), alone)
            self._normalized[name, score] = alone[""]
        return self._normalized[name, score]

    def follow(self, changes: Sequence[NodeChange]) -> bool:
        """Drop the results of nodes that have changed; those that depend on the pods, if these have."""
        if self._group.depends_on == DependsOn.NODES:
            changes = [each for each in changes if each[1] is None]
            if not changes:
                return True  # as nearly always
        for i in changed_nodes(changes, self._cache):
            if self._rejections[i] is not NOT_EVALUATED:
                self._again.append((i, self._totals[i] != NOT_SCORED))
            self._rejections[i], self._totals[i] = NOT_EVALUATED, NOT_SCORED
        return True

    def evaluate_again(self) -> None:
        """Run the plugins for the nodes whose results were dropped since the last call."""
        if self._base:
            self._base.evaluate_again()
        if again := self._again:
            self._again = []
            nodes = NodeSlice(self._cache, [i for i, _ in again])
            rejections = self.rejections(nodes)
            asked = zip(again, rejections, strict=True)
            scored = [at for at, ((_, scored), why) in enumerate(asked) if scored and not why]
            if scored:
                self.totals(nodes.some(scored))


class ResultCache:
    """The results of a profile's plugins, by the pods' signatures."""

    def __init__(self, framework: Framework) -> None:
        self._framework = framework
        self._groups = [PluginGroup(framework, each) for each in (DependsOn.NODES, DependsOn.PODS)]
        self._results: Kept | None = None

    def results_for(self, pod: Pod, cache: Cache) -> PluginResults:
        """The results for pods like this one. Call `evaluate_again` before you use them."""
        kinds = MAX_RESULTS // max(1, len(cache.nodes))
        limit = max(MIN_SIGNATURES, min(kinds, MAX_SIGNATURES))
        if self._results is None or self._results.journal is not cache.journal:
            self._results = Kept(cache.journal, limit)
        self._results.limit = limit  # nodes may have come
        framework = self._framework
        results: PluginResults | None = None
        for group in self._groups:
            signature = [group.device_version(pod, cache)] if group.scored else []
            for plugin in group.signers:
                framework.running = plugin
                signature.append(plugin.sign_pod(pod))
            results = self._results.get((results, *signature), PluginResults, group, pod, cache, results)
        assert results
        return results
