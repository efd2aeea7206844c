"""Scores the nodes that fit a pod: PreScore, Score, NormalizeScore, and extenders.

Counterpart in kube-scheduler: prioritizeNodes in pkg/scheduler/schedule_one.go
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from lib.scheduling.cache import Cache
from lib.scheduling.decision import Decision
from lib.scheduling.extender import Extenders
from lib.scheduling.feasibility import FeasibleNodes
from lib.scheduling.framework.interface import NormalizeScorePlugin, Plugin, SignPlugin
from lib.scheduling.framework.runtime import Framework
from lib.scheduling.node_info import NodeInfo
from lib.scheduling.node_slice import NodeSlice
from lib.scheduling.result_cache import NOT_SCORED, PluginGroup, PluginResults, check_scores


@dataclass
class Scores:
    """The scores of feasible nodes, by their index among these.

    totals: to compare nodes; a score that is equal for all nodes may be missing. by_plugin: functions that
    return a node's weighted score.
    """

    totals: list[int]
    by_plugin: dict[str, Callable[[int], int]] = field(default_factory=dict)

    def add(self, name: str, scores: Sequence[int], weight: int = 1) -> None:
        """Add the scores of a plugin or an extender."""
        self.totals = [total + score * weight for total, score in zip(self.totals, scores, strict=True)]
        self.by_plugin[name] = lambda i: scores[i] * weight

    def add_alike(self, name: str, score: int) -> None:
        """Add a weighted score that is equal for all nodes."""
        self.by_plugin[name] = lambda _: score

    def note(self, name: str, feasible: FeasibleNodes, scores: list[int], weight: int) -> None:
        """Add scores that are part of the totals already. scores: one for each node of the cluster."""
        self.by_plugin[name] = lambda i: feasible.value_at(scores, i) * weight

    def of(self, i: int) -> dict[str, int]:
        """A node's weighted scores, by plugin."""
        return {name: score(i) for name, score in self.by_plugin.items()}


class Scoring:
    """Scores nodes by the plugins of a profile, and by extenders."""

    def __init__(self, framework: Framework, extenders: Extenders) -> None:
        self._framework, self._extenders = framework, extenders
        self._not_kept = PluginGroup(framework, None)
        profile = framework.profile
        self._scorers: list[tuple[Plugin, int, bool, NormalizeScorePlugin | None]] = [
            (
                each,
                profile.weights[each.name],
                isinstance(each, SignPlugin),
                each if isinstance(each, NormalizeScorePlugin) else None,
            )
            for each in profile.scorers()
        ]

    def score(
        self, decision: Decision, cache: Cache, feasible: FeasibleNodes, results: PluginResults
    ) -> Scores:
        """Score the nodes that fit. A single node isn't scored."""
        if len(feasible) == 1:
            return Scores([0])
        nodes = feasible.of(cache.node_list)
        with self._framework.point("PreScore"):
            results.pre_score(nodes)
            decision.state = {**results.state, **decision.state}
            skipped = self._not_kept.pre_score(decision.state, decision.pod, cache, nodes)
        with self._framework.point("Score"):
            scores = self._run_plugins(decision, cache, feasible, nodes, results, skipped)
        for extender, by_node in self._extenders.prioritize(decision.pod, nodes).items():
            scores.add(extender, [by_node.get(node.name, 0) for node in nodes])
        return scores

    def _run_plugins(
        self,
        decision: Decision,
        cache: Cache,
        feasible: FeasibleNodes,
        nodes: list[NodeInfo],
        results: PluginResults,
        skipped: set[str],
    ) -> Scores:
        state, pod = decision.state, decision.pod
        totals = feasible.of(results.totals)
        if NOT_SCORED in totals:
            results.find_totals(feasible.indexes(len(cache.node_list)))
            totals = feasible.of(results.totals)
        scores = Scores(totals)
        for plugin, weight, is_kept, normalizer in self._scorers:
            kept = results.scores.get(plugin.name)
            if plugin.name in skipped or (is_kept and kept is None):
                continue
            self._framework.running = plugin
            if kept is None:
                some = NodeSlice(cache, feasible.indexes(len(cache.node_list)))
                fresh = self._not_kept.scores(plugin, state, pod, some)
                raw = {node.name: score for node, score in zip(nodes, fresh, strict=True)}
            elif not normalizer:
                scores.note(plugin.name, feasible, kept, weight)
                continue
            elif len(results.seen_scores[plugin.name]) == 1 or len(set(own := feasible.of(kept))) == 1:
                raw = {"": feasible.value_at(kept, 0)}  # all are equal: normalize one of them, for all nodes
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
        return scores
