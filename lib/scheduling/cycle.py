"""One pod's scheduling cycle: filter the nodes, score what is left, pick one, hold it for the pod.

Source: pkg/scheduler/schedule_one.go
"""

import inspect
import logging
import traceback
from collections.abc import Iterator, Mapping, Sequence, Set
from contextlib import contextmanager
from pathlib import Path
from random import Random

from lib.kube.objects import Pod
from lib.scheduling.cluster import Cluster, NodeInfo
from lib.scheduling.decision import Decision, Outcome, Rejection
from lib.scheduling.extender import ExtenderError, Extenders
from lib.scheduling.framework import (
    MAX_NODE_SCORE,
    SKIP,
    BadAnswerError,
    BindPlugin,
    Code,
    CycleState,
    FilterPlugin,
    NormalizeScorePlugin,
    PermitPlugin,
    Plugin,
    PostBindPlugin,
    PostFilterPlugin,
    PostFilterResult,
    PreBindPlugin,
    PreFilterPlugin,
    PreScorePlugin,
    Profile,
    ReservePlugin,
    ScorePlugin,
    Status,
    UnreservePlugin,
    unresolvable,
    unschedulable,
)
from lib.scheduling.policy import FilterFunction, ScoreFunction

log = logging.getLogger(__name__)

ENOUGH_NODES = 100
"""So many feasible nodes are sought in any case; in a smaller cluster every node is looked at."""
LEAST_PERCENTAGE = 5

NOT_AMONG = "node(s) didn't satisfy plugin(s) [{}]"
"""Of nodes that PreFilter didn't name."""


class Scheduler:
    """Decides by one profile, and by what extenders say. `random` breaks ties."""

    def __init__(self, profile: Profile, random: Random, extenders: Extenders | None = None) -> None:
        self.profile = profile
        self._random = random
        self._extenders = extenders or Extenders()
        self._next_start = 0  # where the next search begins, so that every node has its turn
        self._asked: Plugin | None = None  # for who is to blame
        self._pre_filters = profile.with_point(PreFilterPlugin)
        self._filters = profile.with_point(FilterPlugin)
        self._post_filters = profile.with_point(PostFilterPlugin)
        self._pre_scorers = profile.scoring(PreScorePlugin)
        self._scorers = profile.scoring(ScorePlugin)
        self._reservers = profile.with_point(ReservePlugin)
        self._unreservers = profile.with_point(UnreservePlugin)
        self._permitters = profile.with_point(PermitPlugin)
        self._pre_binders = profile.with_point(PreBindPlugin)
        self._binders = profile.with_point(BindPlugin)
        self._post_binders = profile.with_point(PostBindPlugin)

    def schedule_one(self, pod: Pod, cluster: Cluster) -> Decision:
        """Decide where a pod goes, and count it there: the next decision must not give its room away.

        A plugin that raises fails this cycle only: outcome `error`, with the place in its source.
        """
        decision = Decision(pod, Outcome.UNSCHEDULABLE, all_nodes=len(cluster.nodes))
        with self._answering_for(decision, cluster):
            self._decide(decision, cluster)
        return decision

    def ask_again(self, decision: Decision, cluster: Cluster, waited: float) -> None:
        """Ask Permit once more about a pod that waits; `waited` is in seconds."""
        with self._answering_for(decision, cluster):
            if decision.node_name in cluster.nodes:
                self._permit(decision, cluster, waited)
            else:
                self._asked = None
                self._reject(decision, cluster, unschedulable(f"node {decision.node_name} has gone"))

    def bind(self, decision: Decision, cluster: Cluster) -> bool:
        """Ask the PreBind plugins, extenders and Bind plugins; whether one of them bound the pod.

        If none did, and the decision's outcome still is `scheduled`, the pod is to be bound as usual.
        """
        assert decision.node_name
        arguments = decision.state, decision.pod, decision.node_name
        with self._answering_for(decision, cluster):
            for plugin in self._pre_binders:
                self._asked = plugin
                if status := _checked(plugin.pre_bind(*arguments)):
                    self._reject(decision, cluster, status)
                    return False
            if self._extenders.bind(decision.pod, decision.node_name):
                return True
            for binder in self._binders:
                self._asked = binder
                status = _checked(binder.bind(*arguments))
                if status is None:
                    return True
                if status != SKIP:
                    self._reject(decision, cluster, status)
                    return False
        return False

    def post_bind(self, decision: Decision) -> None:
        """Tell the plugins that a pod is bound; nothing they do can change that."""
        assert decision.node_name
        for plugin in self._post_binders:
            try:
                plugin.post_bind(decision.state, decision.pod, decision.node_name)
            except Exception:
                log.exception("plugin %s failed after %s was bound", plugin.name, decision.pod)

    @contextmanager
    def _answering_for(self, decision: Decision, cluster: Cluster) -> Iterator[None]:
        """Turn what a plugin raises into the decision's outcome."""
        try:
            yield
        except (Exception, SystemExit) as error:  # a policy that calls sys.exit() ends no one else
            if decision.node_name:
                self.give_up(decision, cluster)
            decision.outcome, decision.reason = Outcome.ERROR, self._blame(error)

    def _decide(self, decision: Decision, cluster: Cluster) -> None:
        pod, state = decision.pod, decision.state
        feasible = self._find_feasible(decision, cluster)
        if not feasible:
            self._post_filter(decision, cluster)
            return
        decision.scores = self._score(state, pod, cluster, feasible)
        totals = decision.totals
        best = max(totals.values())
        decision.node_name = self._random.choice([name for name, total in totals.items() if total == best])
        cluster.assume(pod, decision.node_name)
        decision.outcome = Outcome.SCHEDULED
        if not self._reserve(decision, cluster):
            return
        self._permit(decision, cluster, waited=0)

    # --- which nodes fit --------------------------------------------------------------------------------

    def _find_feasible(self, decision: Decision, cluster: Cluster) -> list[NodeInfo]:
        """The nodes that every filter lets pass, or enough of them."""
        pod, state = decision.pod, decision.state
        answer = self._pre_filter(state, pod, cluster)
        if isinstance(answer, Rejection):
            decision.reason, decision.rejecting = ", ".join(answer.status.reasons), answer.plugin
            decision.rejected = dict.fromkeys(cluster.nodes, answer)
            return []
        filters, among = answer
        nodes = []
        for node in cluster.nodes.values():
            if left_out := _left_out(node, among):
                decision.rejected[node.name] = left_out
            else:
                nodes.append(node)

        nominated = cluster.nominated_node(pod)
        for node in nodes:  # where room was made for the pod, it goes if it can
            if node.name == nominated and not self._rejection(filters, state, pod, cluster, node):
                if room := self._without_refused(decision, [node]):
                    return room
                break

        feasible: list[NodeInfo] = []
        enough = enough_nodes(len(nodes), self.profile.percentage_of_nodes_to_score)
        start = self._next_start % len(nodes) if nodes else 0
        looked_at = 0
        for node in nodes[start:] + nodes[:start]:
            if len(feasible) == enough:
                break
            looked_at += 1
            if rejection := self._rejection(filters, state, pod, cluster, node):
                decision.rejected[node.name] = rejection
            else:
                feasible.append(node)
        self._next_start = start + looked_at
        return self._without_refused(decision, feasible)

    def _without_refused(self, decision: Decision, nodes: Sequence[NodeInfo]) -> list[NodeInfo]:
        """The nodes that extenders don't rule out."""
        for name, (extender, status) in self._extenders.filter(decision.pod, nodes).items():
            decision.rejected[name] = Rejection(extender, status)
        return [node for node in nodes if node.name not in decision.rejected]

    def _pre_filter(
        self, state: CycleState, pod: Pod, cluster: Cluster
    ) -> tuple[list[FilterPlugin], dict[str, Set[str]]] | Rejection:
        """The filters that are to be asked, and by plugin, the names of the nodes that alone are worth it."""
        filters = list(self._filters)
        among: dict[str, Set[str]] = {}
        for plugin in self._pre_filters:
            self._asked = plugin
            answer = plugin.pre_filter(state, pod, cluster)
            if isinstance(answer, Set):
                among[plugin.name] = answer
            elif answer == SKIP:
                filters = [each for each in filters if each.name != plugin.name]
            elif answer := _checked(answer):
                return Rejection(plugin.name, answer)
        return filters, among

    def _first_rejection(
        self, filters: Sequence[FilterPlugin], state: CycleState, pod: Pod, node: NodeInfo
    ) -> Rejection | None:
        """The first filter that rules a node out; the filters behind it aren't asked."""
        for plugin in filters:
            self._asked = plugin
            if status := _checked(plugin.filter(state, pod, node)):
                return Rejection(plugin.name, status)
        return None

    def _post_filter(self, decision: Decision, cluster: Cluster) -> None:
        """Nothing fits: ask the plugins that may change that."""
        rejected = {name: each.status for name, each in decision.rejected.items()}

        def why_not(name: str) -> Status | None:
            rejection = self._rejection_afresh(decision.pod, cluster, cluster.nodes[name])
            return rejection.status if rejection else None

        for plugin in self._post_filters:
            self._asked = plugin
            answer = plugin.post_filter(decision.state, decision.pod, cluster, rejected, why_not)
            if isinstance(answer, PostFilterResult):
                decision.nominated, decision.victims = answer.node_name, answer.victims
                cluster.nominate(decision.pod, answer.node_name)  # from now on, the place is kept
                cluster.leaving.update(victim.metadata.uid for victim in answer.victims)
                return
            status = _checked(answer)
            if status is None:
                return
            decision.afterword = " ".join([decision.afterword, *status.reasons]).strip()

    def _rejection_afresh(self, pod: Pod, cluster: Cluster, node: NodeInfo) -> Rejection | None:
        """Who rules a node out, in the picture as it is now, which isn't how it was when the cycle began.

        Asked with the pods on it for which a place is kept there, and without them.
        """
        nominated = cluster.nominated_before(pod, node.name)
        for other in nominated:
            node.add(other)
        try:
            rejection = self._ask_all(pod, cluster, node)
        finally:
            for other in nominated:
                node.remove(other)
        return self._ask_all(pod, cluster, node) if nominated and not rejection else rejection

    def _ask_all(self, pod: Pod, cluster: Cluster, node: NodeInfo) -> Rejection | None:
        """PreFilter and Filter, for one node alone."""
        state: CycleState = {}
        answer = self._pre_filter(state, pod, cluster)
        if isinstance(answer, Rejection):
            return answer
        filters, among = answer
        return _left_out(node, among) or self._first_rejection(filters, state, pod, node)

    def _rejection(
        self, filters: Sequence[FilterPlugin], state: CycleState, pod: Pod, cluster: Cluster, node: NodeInfo
    ) -> Rejection | None:
        """Who rules a node out; more is asked where a place is kept for another pod."""
        rejection = self._first_rejection(filters, state, pod, node)
        if rejection or not cluster.nominated_before(pod, node.name):
            return rejection
        return self._rejection_afresh(pod, cluster, node)

    # --- which is best ----------------------------------------------------------------------------------

    def _score(
        self, state: CycleState, pod: Pod, cluster: Cluster, nodes: Sequence[NodeInfo]
    ) -> dict[str, dict[str, int]]:
        """Each node's weighted scores by plugin; none if there is only one node to choose from."""
        scores: dict[str, dict[str, int]] = {node.name: {} for node in nodes}
        if len(nodes) == 1:
            return scores
        scorers = list(self._scorers)
        for pre in self._pre_scorers:
            self._asked = pre
            status = _checked(pre.pre_score(state, pod, cluster, nodes))
            if status and status != SKIP:
                raise BadAnswerError(f"pre_score may skip, but not reject: {', '.join(status.reasons)}")
            if status:
                scorers = [each for each in scorers if each.name != pre.name]
        for plugin in scorers:
            self._asked = plugin
            raw = {node.name: plugin.score(state, pod, node) for node in nodes}
            if isinstance(plugin, NormalizeScorePlugin):
                plugin.normalize_score(state, pod, raw)
            weight = self.profile.weights[plugin.name]
            for name, score in raw.items():
                if not isinstance(score, int) or not 0 <= score <= MAX_NODE_SCORE:
                    raise BadAnswerError(
                        f"score {score!r} of node {name}, not one from 0 to {MAX_NODE_SCORE}"
                    )
                scores[name][plugin.name] = score * weight
        for extender, by_node in self._extenders.prioritize(pod, nodes).items():
            for name in scores:
                scores[name][extender] = by_node.get(name, 0)
        return scores

    # --- holding it -------------------------------------------------------------------------------------

    def _reserve(self, decision: Decision, cluster: Cluster) -> bool:
        """Tell the plugins that keep accounts; whether all agree."""
        assert decision.node_name
        for plugin in self._reservers:
            self._asked = plugin
            if status := _checked(plugin.reserve(decision.state, decision.pod, decision.node_name)):
                self._reject(decision, cluster, status)
                return False
        return True

    def _permit(self, decision: Decision, cluster: Cluster, waited: float) -> None:
        """Ask for the last word on a decision."""
        assert decision.node_name
        decision.outcome, decision.reason = Outcome.SCHEDULED, ""
        for plugin in self._permitters:
            self._asked = plugin
            status = _checked(plugin.permit(decision.state, decision.pod, decision.node_name, waited))
            if status and status.code == Code.WAIT and waited >= status.limit:
                late = unschedulable(f"not permitted by {plugin.name} within {status.limit:g} s")
                self._reject(decision, cluster, late)
                return
            if status and status.code == Code.WAIT:
                decision.outcome, decision.reason = Outcome.WAITING, ", ".join(status.reasons)
            elif status:
                self._reject(decision, cluster, status)
                return

    def _reject(self, decision: Decision, cluster: Cluster, status: Status) -> None:
        """A plugin rejected the node that was picked."""
        self.give_up(decision, cluster)
        decision.outcome, decision.reason = Outcome.UNSCHEDULABLE, ", ".join(status.reasons)
        decision.rejecting = self._asked.name if self._asked else ""

    def give_up(self, decision: Decision, cluster: Cluster) -> None:
        """Undo a decision: unreserve, in reverse order, and count the pod in the picture no longer."""
        assert decision.node_name
        for plugin in reversed(self._unreservers):
            try:
                plugin.unreserve(decision.state, decision.pod, decision.node_name)
            except Exception:  # the others must hear of it all the same
                log.exception("plugin %s failed to unreserve %s", plugin.name, decision.pod)
        cluster.forget(decision.pod)

    def _blame(self, error: BaseException) -> str:
        """Who failed, where, and why, in one line."""
        if isinstance(error, ExtenderError):
            return str(error)
        name = self._asked.name if self._asked else "of nobody"
        if isinstance(error, BadAnswerError):
            return f"plugin {name} failed: {error}"
        frames = traceback.extract_tb(error.__traceback__)
        its_own = [frame for frame in frames if self._asked and frame.filename == _source_of(self._asked)]
        last = (its_own or frames)[-1]  # what it calls may be a library's
        what = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
        return f"plugin {name} failed at {Path(last.filename).name}:{last.lineno}: {what}"


def _left_out(node: NodeInfo, among: Mapping[str, Set[str]]) -> Rejection | None:
    """The PreFilter plugin that named other nodes only."""
    for plugin, names in among.items():
        if node.name not in names:
            return Rejection(plugin, unresolvable(NOT_AMONG.format(plugin)))
    return None


def _checked(answer: Status | None) -> Status | None:
    """A plugin's answer, if it is one."""
    if answer is None or isinstance(answer, Status):
        return answer
    raise BadAnswerError(f"{answer!r} is neither None nor a Status")


def _source_of(plugin: Plugin) -> str:
    """The file in which a plugin is written."""
    if isinstance(plugin, FilterFunction | ScoreFunction):
        return plugin.file
    try:
        return inspect.getfile(type(plugin))
    except (TypeError, OSError):
        return ""


def enough_nodes(nodes: int, percentage: int = 0) -> int:
    """How many feasible nodes to look for (schedule_one.go, numFeasibleNodesToFind).

    percentage: of all nodes; 0 takes 50 % less 1 % for each 125 nodes, at least 5 %. At least 100 anyway.
    """
    if nodes < ENOUGH_NODES:
        return nodes
    percentage = percentage or max(50 - nodes // 125, LEAST_PERCENTAGE)
    return max(nodes * percentage // 100, ENOUGH_NODES)
