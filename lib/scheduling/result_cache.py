"""Keeps the plugins' results for nodes, for pods that are alike.

Most pods of a burst are alike. A plugin's result for a node and one of them is valid for all of them until
the node changes. So after each placement only one node is evaluated again. Results of plugins that read other
nodes' pods (topology spread, pod affinity) can't be kept: these plugins run for each pod.

Counterpart in kube-scheduler: pkg/scheduler/framework/runtime/batch.go, which reuses the order of nodes;
here, the results of each plugin are kept.
"""

from collections.abc import Collection, Hashable, Iterable, MutableMapping, Sequence
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
    implements,
)
from lib.scheduling.framework.runtime import Framework, PreFilterAnswer, Scorer
from lib.scheduling.kept import Follower, Kept, NodeChange, changed_nodes
from lib.scheduling.node_info import NodeInfo
from lib.scheduling.node_slice import NodeSlice
from lib.scheduling.resources import pod_requests
from lib.scheduling.status import MAX_NODE_SCORE, SKIP, BadAnswerError, CycleState, Rejection

NOT_EVALUATED, NOT_SCORED = Rejection("", SKIP), -1
"""The results for a node that no plugin has been asked about yet: of the filters, and of the scorers."""

MIN_SIGNATURES, MAX_RESULTS = 32, 500_000
"""Results are kept for so many kinds of pods. If there are few nodes, they are kept for more kinds: there is
one result for each kind and node. The least recently used are dropped."""

MAX_SIGNATURES = 1000
"""No more kinds than this, however few nodes there are."""


class PluginGroup:
    """The plugins of a profile whose kept results are invalidated by the same changes.

    depends_on: these changes; None for plugins whose results aren't kept.
    """

    def __init__(self, framework: Framework, depends_on: DependsOn | None) -> None:
        self.framework, self.depends_on = framework, depends_on
        profile = framework.profile
        names = {plugin.name for plugin in profile.plugins if _depends_on(plugin) == depends_on}
        self.pre_filters = [plugin for plugin in framework.pre_filters if plugin.name in names]
        self.filters = [runner for runner in framework.filters if runner.plugin.name in names]
        self.pre_scorers = [plugin for plugin in framework.pre_scorers if plugin.name in names]
        self.scorers = [scorer for scorer in framework.scorers if scorer.plugin.name in names]
        plugins: list[Plugin] = [*self.pre_filters, *self.pre_scorers]
        asked = {plugin.name for plugin in plugins}
        asked |= {runner.plugin.name for runner in self.filters}
        asked |= {scorer.plugin.name for scorer in self.scorers}
        self.signers = [plugin for plugin in profile.with_point(SignPlugin) if plugin.name in asked]
        self.scored_resources = {
            resource
            for scorer in self.scorers
            if implements(scorer.plugin, ScoresResourcesPlugin)
            for resource in scorer.plugin.resources
            if may_be_of_device_class(resource)
        }
        """The resources that nodes are scored by and that devices may serve."""

    def device_version(self, pod: Pod, cache: Cache) -> Hashable:
        """Changes with the devices that the pod's nodes are scored by; None if there are none."""
        served = self.scored_resources & cache.classes_by_resource.keys()
        return None if served.isdisjoint(pod_requests(pod)) else cache.devices.version


def _depends_on(plugin: Plugin) -> DependsOn | None:
    return plugin.reads if implements(plugin, SignPlugin) else None


def check_scores(scores: Collection[int], node_names: Iterable[str]) -> None:
    """BadAnswerError, which names the node, when a score is not a whole number from 0 to 100."""
    if set(map(type, scores)) == {int} and min(scores) >= 0 and max(scores) <= MAX_NODE_SCORE:
        return
    for name, score in zip(node_names, scores, strict=True):
        if not isinstance(score, int) or not 0 <= score <= MAX_NODE_SCORE:
            raise BadAnswerError(f"score {short(score)} of node {name}, not one from 0 to {MAX_NODE_SCORE}")


class PluginResults(Follower):
    """The results of a group's plugins for each node and one kind of pods, together with those of `base`.

    base: the results of another group for the same pods. In all lists of results, a node is at its index in
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
        """Whether each of them lets the pod go on, and names no nodes as the only ones that it allows."""
        self._filters = [runner for runner in group.filters if runner.plugin.name not in self.skipped]
        """The filters to run."""
        self._rejections: list[Rejection | None] = [NOT_EVALUATED] * len(cache.node_list)
        """For each node, the rejection by the first filter that rejects it; None if all let it pass."""
        self._totals = [NOT_SCORED] * len(cache.node_list)
        """For each node, the sum of weighted scores that need no normalizing."""
        self.scores: dict[str, list[int]] = {}
        """By plugin, an unweighted score for each node that has a total. Empty until PreScore was run."""
        self.seen_scores: dict[str, set[int]] = {}
        """All scores so far of each plugin that normalizes."""
        self._normalized: dict[tuple[str, int], int] = {}
        """By plugin and score, what that score becomes if all nodes have it."""
        self._scorers: Sequence[Scorer] | None = None
        """The plugins that score these pods. None until PreScore was run."""
        self._again: list[tuple[int, bool]] = []
        """The nodes whose results were dropped, each with whether it had a total."""
        self.nowhere: MutableMapping[str, Rejection] | None = None
        """By node, why such a pod doesn't fit there, if one was found to fit nowhere; None after a change."""

    def rejections(self, nodes: NodeSlice) -> list[Rejection | None]:
        """The rejections of these nodes. Runs the filters for the nodes whose result isn't known."""
        known = nodes.pick(self._rejections)
        if not any(known):  # the usual case
            return known
        new = [i for i in nodes.indexes if self._rejections[i] is NOT_EVALUATED]
        if not new:
            return known
        new_nodes = nodes if len(new) == len(nodes) else NodeSlice(self._cache, new)
        by_base = self._base.rejections(new_nodes) if self._base else [None] * len(new)
        fresh = self._framework.run_filters(self._filters, by_base, self.state, self._pod, new_nodes)
        for i, rejection in zip(new, fresh, strict=True):
            self._rejections[i] = rejection
        return fresh if len(new) == len(nodes) else nodes.pick(self._rejections)

    def run_pre_score(self, nodes: Sequence[NodeInfo]) -> None:
        """Run PreScore, if it hasn't been run."""
        base, group = self._base, self._group
        if base:
            base.run_pre_score(nodes)
        if self._scorers is not None:
            return
        skipped = self._framework.run_pre_score(group.pre_scorers, self.state, self._pod, self._cache, nodes)
        self._scorers = [scorer for scorer in group.scorers if scorer.plugin.name not in skipped]
        names = [scorer.plugin.name for scorer in self._scorers]
        self.scores = {name: [NOT_SCORED] * len(self._totals) for name in names}
        self.seen_scores = {name: set() for name in names}
        if base:
            self.scores |= base.scores
            self.seen_scores |= base.seen_scores
            self.state = {**base.state, **self.state}

    def totals(self, nodes: NodeSlice) -> list[int]:
        """The totals of these nodes. Runs the scorers for the nodes that aren't scored yet."""
        known = nodes.pick(self._totals)
        if NOT_SCORED not in known:
            return known
        new = [i for i in nodes.indexes if self._totals[i] == NOT_SCORED]
        new_nodes = nodes if len(new) == len(nodes) else NodeSlice(self._cache, new)
        totals = self._base.totals(new_nodes) if self._base else [0] * len(new)
        evaluations = self._framework.evaluations["Score"]
        for plugin, run, weight, normalizer in self._scorers or ():
            self._framework.running = plugin
            evaluations[plugin.name] += len(new)
            fresh = run(self.state, self._pod, new_nodes)
            if normalizer:
                self.seen_scores[plugin.name].update(fresh)
            else:
                check_scores(fresh, (node.name for node in new_nodes))
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
        scores = self.seen_scores[name]
        if len(scores) > 1:
            scores = {*nodes.pick(self.scores[name])}
            if len(scores) > 1:
                return None
        (score,) = scores
        if (name, score) not in self._normalized:
            of_one = {"": score}  # one node stands for all of them
            normalizer.normalize_score(self.state, self._pod, of_one)
            check_scores(of_one.values(), of_one)
            self._normalized[name, score] = of_one[""]
        return self._normalized[name, score]

    def follow(self, changes: Sequence[NodeChange]) -> bool:
        """Drop the results of nodes that have changed; by their pods, only if the results depend on these."""
        self.nowhere = None
        if self._group.depends_on == DependsOn.NODES:
            changes = [change for change in changes if change[1] is None]  # no pod came or went
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
        if not self._again:
            return
        again, self._again = self._again, []
        nodes = NodeSlice(self._cache, [i for i, _ in again])
        results = zip(again, self.rejections(nodes), strict=True)
        to_score = [
            at for at, ((_, had_total), rejection) in enumerate(results) if had_total and not rejection
        ]
        if to_score:
            self.totals(nodes.some(to_score))


class ResultCache:
    """The results of a profile's plugins, by the pods' signatures."""

    def __init__(self, framework: Framework) -> None:
        self._framework = framework
        self._groups = [PluginGroup(framework, changes) for changes in (DependsOn.NODES, DependsOn.PODS)]
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
            signature = [group.device_version(pod, cache)] if group.scored_resources else []
            for plugin in group.signers:
                framework.running = plugin
                signature.append(plugin.sign_pod(pod))
            results = self._results.get((results, *signature), PluginResults, group, pod, cache, results)
        assert results
        return results
