"""What plugins answered about nodes, kept for pods that they can't tell apart.

A burst is mostly of pods alike, and what a plugin says of a node and one of them holds for all of them, until
the node changes: after each placement only that node is looked at again. Plugins that look at other nodes'
pods (spreading, pod affinity) say nothing that could be kept; they are asked about each pod.
"""

from collections.abc import Collection, Hashable, Iterable, Mapping, Sequence, Set
from reprlib import repr as short
from typing import cast

from lib.kube.objects import Pod
from lib.scheduling.cache import Cache, ChangedNodes, NodeInfo
from lib.scheduling.columns import NodeSlice
from lib.scheduling.decision import Rejection
from lib.scheduling.framework.interface import (
    MAX_NODE_SCORE,
    SKIP,
    BadAnswerError,
    CycleState,
    DependsOn,
    FilterNodesPlugin,
    FilterPlugin,
    NormalizeScorePlugin,
    Plugin,
    PreFilterPlugin,
    PreScorePlugin,
    Profile,
    ScoreNodesPlugin,
    ScorePlugin,
    SignPlugin,
    Status,
    checked,
)

NOT_EVALUATED, UNSCORED = Rejection("", SKIP), -1
"""Stand where no plugin has been asked yet."""

FEW = 8
"""So many nodes a plugin is asked about one by one; what it takes to look at columns isn't worth it yet."""

PreFiltered = Set[str] | Status | None
"""What a PreFilter plugin answers."""


class Asking:
    """The plugin that is being asked; it is to blame for what goes wrong meanwhile."""

    plugin: Plugin | None = None


def pre_filter(plugin: PreFilterPlugin, state: CycleState, pod: Pod, cache: Cache) -> PreFiltered:
    """Ask PreFilter. BadAnswerError when the answer is none."""
    answer = plugin.pre_filter(state, pod, cache)
    return answer if isinstance(answer, Set) else checked(answer)


def skips_score(
    plugin: PreScorePlugin, state: CycleState, pod: Pod, cache: Cache, nodes: Sequence[NodeInfo]
) -> bool:
    """Ask PreScore; whether `score` is to be left out. BadAnswerError when the answer is another."""
    status = checked(plugin.pre_score(state, pod, cache, nodes))
    if status and status != SKIP:
        raise BadAnswerError(f"pre_score may skip, but not reject: {', '.join(status.reasons)}")
    return status is not None


def check_scores(scores: Collection[int], node_names: Iterable[str]) -> None:
    """BadAnswerError, which names the node, when one of the scores isn't one."""
    if set(map(type, scores)) == {int} and min(scores) >= 0 and max(scores) <= MAX_NODE_SCORE:
        return
    for name, score in zip(node_names, scores, strict=True):
        if not isinstance(score, int) or not 0 <= score <= MAX_NODE_SCORE:
            raise BadAnswerError(f"score {short(score)} of node {name}, not one from 0 to {MAX_NODE_SCORE}")


class PluginGroup:
    """The plugins of a profile whose answers stand equally long; filters with their places among all."""

    def __init__(self, profile: Profile, reads: DependsOn | None) -> None:
        placed = list(enumerate(profile.with_point(FilterPlugin)))
        names = {each.name for each in profile.plugins if _reads(each) == reads}
        self.signers = [each for each in profile.with_point(SignPlugin) if each.name in names]
        self.pre_filters = [each for each in profile.with_point(PreFilterPlugin) if each.name in names]
        self.filters = [(i, each) for i, each in placed if each.name in names]
        self.pre_scorers = [each for each in profile.scoring(PreScorePlugin) if each.name in names]
        self.scorers = [each for each in profile.scoring(ScorePlugin) if each.name in names]
        self.normalizers = {each.name for each in self.scorers if isinstance(each, NormalizeScorePlugin)}
        self.weights = profile.weights
        self.node_index: Mapping[str, int] = {each.name: i for i, each in placed}

    def sign(self, pod: Pod, asking: Asking) -> Hashable:
        """What these plugins can tell pods apart by."""
        signs = []
        for plugin in self.signers:
            asking.plugin = plugin
            signs.append(plugin.sign_pod(pod))
        return tuple(signs)


def _reads(plugin: Plugin) -> DependsOn | None:
    return plugin.reads if isinstance(plugin, SignPlugin) else None


class PluginResults:
    """What the plugins of a tier say of each node and one sort of pods, and those of the tier `below`.

    Nodes are meant by their place in `Cache.node_list`. state: what the plugins keep of such a pod.
    pre_filtered: what PreFilter answered, by plugin. rejections: who is the first to rule a node out; None
    where nobody is. totals: sums of weighted scores that need no normalizing; columns: by plugin, a score for
    each node that has a total, unweighted; seen_scores: all that were ever in a column to be normalized.
    """

    def __init__(
        self, tier: PluginGroup, pod: Pod, cache: Cache, asking: Asking, below: "PluginResults | None"
    ) -> None:
        self._tier, self._pod, self._cache, self._asking, self._below = tier, pod, cache, asking, below
        self.state: CycleState = dict(below.state) if below else {}
        self.pre_filtered: dict[str, PreFiltered] = dict(below.pre_filtered) if below else {}
        for plugin in tier.pre_filters:
            asking.plugin = plugin
            self.pre_filtered[plugin.name] = pre_filter(plugin, self.state, pod, cache)
        self._filters = [each for each in tier.filters if self.pre_filtered.get(each[1].name) != SKIP]
        everyone = len(cache.node_list)
        self.rejections: list[Rejection | None] = [NOT_EVALUATED] * everyone
        self.totals = [UNSCORED] * everyone
        self.columns: dict[str, list[int]] = {}
        self.seen_scores: dict[str, set[int]] = {}
        self._scorers: list[ScorePlugin] | None = None
        self._touched = ChangedNodes(cache)

    def find_rejections(self, places: Sequence[int]) -> None:
        """Find who is the first to rule these nodes out, where that isn't known."""
        new = [i for i in places if self.rejections[i] is NOT_EVALUATED]
        if not new:
            return
        known: list[Rejection | None] = [None] * len(new)
        if self._below:
            self._below.find_rejections(new)
            known = [self._below.rejections[i] for i in new]
        nodes = NodeSlice(self._cache, new)
        found = first_rejections(
            self._filters, known, self._tier.node_index, self.state, self._pod, nodes, self._asking
        )
        for i, rejection in zip(new, found, strict=True):
            self.rejections[i] = rejection

    def prepare_scores(self, nodes: Sequence[NodeInfo]) -> None:
        """Ask PreScore, unless that has been done."""
        if self._below:
            self._below.prepare_scores(nodes)
        if self._scorers is None:
            skipped = set()
            for plugin in self._tier.pre_scorers:
                self._asking.plugin = plugin
                if skips_score(plugin, self.state, self._pod, self._cache, nodes):
                    skipped.add(plugin.name)
            self.columns = dict(self._below.columns) if self._below else {}
            self._scorers = [each for each in self._tier.scorers if each.name not in skipped]
            self.columns |= {each.name: [UNSCORED] * len(self.totals) for each in self._scorers}
            self.seen_scores = {name: set() for name in self._tier.normalizers}
            if self._below:
                self.seen_scores |= self._below.seen_scores
                self.state = {**self._below.state, **self.state}

    def find_totals(self, places: Sequence[int]) -> None:
        """Score these nodes, where that isn't done."""
        new = [i for i in places if self.totals[i] == UNSCORED]
        if not new:
            return
        totals = [0] * len(new)
        if self._below:
            self._below.find_totals(new)
            totals = [self._below.totals[i] for i in new]
        nodes = NodeSlice(self._cache, new)
        for plugin in self._scorers or ():
            self._asking.plugin = plugin
            scores = _scores(plugin, self.state, self._pod, nodes)
            if plugin.name in self._tier.normalizers:
                self.seen_scores[plugin.name].update(scores)
            else:
                check_scores(scores, (node.name for node in nodes))
                weight = self._tier.weights[plugin.name]
                totals = [total + score * weight for total, score in zip(totals, scores, strict=True)]
            column = self.columns[plugin.name]
            for i, score in zip(new, scores, strict=True):
                column[i] = score
        for i, total in zip(new, totals, strict=True):
            self.totals[i] = total

    def catch_up(self) -> None:
        """Ask again about nodes whose pods have changed since, where anything was asked."""
        places = self._touched.places()
        asked = [i for i in places if self.rejections[i] is not NOT_EVALUATED]
        scored = [i for i in places if self.totals[i] != UNSCORED]
        for i in places:  # all of them first: a plugin may fail on one
            self.rejections[i], self.totals[i] = NOT_EVALUATED, UNSCORED
        self.find_rejections(asked)
        self.find_totals([i for i in scored if not self.rejections[i]])


def first_rejections(
    filters: Sequence[tuple[int, FilterPlugin]],
    known: Sequence[Rejection | None],
    place: Mapping[str, int],
    state: CycleState,
    pod: Pod,
    nodes: NodeSlice,
    asking: Asking,
) -> list[Rejection | None]:
    """For each node the first filter that rules it out; what is known stands where none comes before.

    filters: each with its place among all. One is asked about all nodes before the next is.
    """
    found = list(known)
    for its_place, plugin in filters:
        asking.plugin = plugin
        asked = [i for i, before in enumerate(found) if not before or place[before.plugin] >= its_place]
        results = _statuses(plugin, state, pod, nodes.some(asked))
        for i, status in zip(asked, results, strict=True):
            if status is not None:
                checked(status)
                found[i] = Rejection(plugin.name, status)
    return found


def _statuses(plugin: FilterPlugin, state: CycleState, pod: Pod, nodes: NodeSlice) -> Sequence[Status | None]:
    if len(nodes) > FEW and hasattr(plugin, "filter_nodes"):  # to ask isinstance of a protocol takes long
        return cast(FilterNodesPlugin, plugin).filter_nodes(state, pod, nodes)
    ask = plugin.filter
    return [ask(state, pod, node) for node in nodes]


def _scores(plugin: ScorePlugin, state: CycleState, pod: Pod, nodes: NodeSlice) -> Sequence[int]:
    if len(nodes) > FEW and hasattr(plugin, "score_nodes"):
        return cast(ScoreNodesPlugin, plugin).score_nodes(state, pod, nodes)
    ask = plugin.score
    return [ask(state, pod, node) for node in nodes]
