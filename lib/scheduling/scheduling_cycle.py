"""One pod's scheduling cycle: filter the nodes, score those that fit, pick one, reserve it for the pod.

Counterpart in kube-scheduler: pkg/scheduler/schedule_one.go
"""

from collections.abc import Sequence
from functools import partial
from random import Random

from msgspec.structs import replace

from lib.kube.objects import Pod, with_parts
from lib.kube.resource_claims import UndoClaim
from lib.scheduling.attempt import SchedulingAttempt
from lib.scheduling.cache import Cache
from lib.scheduling.decision import ASSIGNED, PERMIT, PLACED, PRE_BIND, Decision, Outcome, counted
from lib.scheduling.extenders import Extenders
from lib.scheduling.feasibility import Feasibility
from lib.scheduling.framework.interface import Profile
from lib.scheduling.framework.runtime import (
    SCHEDULING_CYCLE,
    SUCCESS,
    Clock,
    Framework,
    Record,
    Scorer,
    raise_if_interrupted,
)
from lib.scheduling.node_slice import NodeSlice
from lib.scheduling.pod_life import ROOM, Phase, PodLife, pod_key
from lib.scheduling.pod_limits import TOO_COMPLEX, TooComplexError
from lib.scheduling.result_cache import PluginGroup, check_scores
from lib.scheduling.scoring import Scores
from lib.scheduling.status import BadAnswerError, Code, Rejection, encodable

PREEMPTED_IN_PERMIT = "waiting on permit for pod: preempted"
PREEMPTED_IN_PRE_BIND = 'running PreBind plugin "{}": preempted by DefaultPreemption'
"""Why a pod that waited with a node reserved is tried again: a more important pod takes its room."""


NEEDS_PRE_FILTER = "DynamicResources"
"""The first PostFilter plugin. It fails if its own PreFilter has not run."""


class Scheduler:
    """Schedules the pods of one profile.

    random: picks one of the nodes with the same score.
    extenders: called besides the profile's plugins.
    in_full: a decision holds the scores of all feasible nodes, not only those of the best two.
    clock: returns the time in seconds.
    record: called with the time of each extension point.
    """

    def __init__(
        self,
        profile: Profile,
        random: Random,
        extenders: Extenders | None = None,
        *,
        in_full: bool = True,
        clock: Clock = lambda: 0.0,
        record: Record = lambda _point, _status, _seconds: None,
    ) -> None:
        self.profile = profile
        self._random = random
        self._in_full = in_full
        self._extenders = extenders or None
        self._framework = Framework(profile, clock, record)
        self.post_bind = self._framework.run_post_bind  # its failures don't change the result
        self.waits_in_pre_bind = self._framework.waits_in_pre_bind
        self.evaluations = self._framework.evaluations
        self._not_kept = PluginGroup(self._framework, None)
        self._not_kept_scorers = {scorer.plugin.name for scorer in self._not_kept.scorers}
        self._feasibility = Feasibility(self._framework, self._not_kept, self._extenders)

    # --- the scheduling cycle ---------------------------------------------------------------------------

    def schedule_one(self, pod: Pod, cache: Cache) -> Decision:
        """Pick a node for a pod, and assume the pod there: the next decision must not use the same room.

        A plugin that raises an error fails this cycle only: the decision's outcome is `error`, and its
        message names the place in the plugin's source. A failed lookup of something that the pod needs is an
        `error`, too. A pod whose conditions take too many comparisons is unschedulable.
        """
        attempt = SchedulingAttempt(pod, cache, self._framework.clock())
        try:
            decision = self._schedule_pod(attempt)
        except TooComplexError as error:
            attempt.rejected = {}
            decision = attempt.decide(Outcome.UNSCHEDULABLE, str(error), rejecting_plugin=TOO_COMPLEX)
            decision = cache.nominator.end_nomination(decision)
        except BaseException as error:
            decision = self._fail(attempt.decision or attempt.decide(Outcome.ERROR, ""), cache, error)
        decision = self._ended(decision, cache)
        try:
            self._framework.record(SCHEDULING_CYCLE, SUCCESS, decision.seconds)
        except Exception:
            self.undo(decision, cache)
            raise
        return decision

    def _schedule_pod(self, attempt: SchedulingAttempt) -> Decision:
        """Run all extension points up to Permit, in order."""
        pod, cache = attempt.pod, attempt.cache
        if why_not := cache.looked_up.errors.get(pod.metadata.uid):
            return cache.nominator.end_nomination(attempt.decide(Outcome.ERROR, why_not))
        nodes = self._feasibility.find(attempt)  # PreFilter, Filter
        if not nodes:
            return self._post_filter(attempt)
        scores = self._score(attempt, nodes) if len(nodes) > 1 else Scores(nodes, [0])
        best_two = scores.best_two(self._random)
        shown = range(len(nodes)) if self._in_full else best_two
        names = cache.node_names
        node_name = names[nodes.index_at(best_two[0])]
        annotations = {}
        if self._framework.annotators:
            annotations = self._framework.run_annotate(attempt.state, pod, cache.nodes[node_name])
            pod = with_parts(pod, metadata={"annotations": {**pod.metadata.annotations, **annotations}})
            attempt.pod = pod
        decision = attempt.decision = attempt.decide(
            Outcome.SCHEDULED,
            ASSIGNED.format(pod, node_name),
            node_name=node_name,
            node_uid=cache.nodes[node_name].node.metadata.uid,
            annotations=annotations,
            feasible=len(nodes),
            scores={names[nodes.index_at(i)]: scores.of(i) for i in shown},
        )
        cache.assume(pod, node_name)
        if rejection := self._framework.run_reserve(decision):
            return self._follow_answer(decision, cache, rejection, PERMIT)
        return self._follow_answer(decision, cache, self._framework.run_permit(decision, waited=0), PERMIT)

    def _score(self, attempt: SchedulingAttempt, nodes: NodeSlice) -> Scores:
        """Score the nodes that fit: PreScore, Score, NormalizeScore, and extenders (prioritizeNodes)."""
        framework, pod, results = self._framework, attempt.pod, attempt.results
        infos = nodes.pick(attempt.cache.node_list)
        with framework.point("PreScore"):
            results.run_pre_score(infos)
            state = attempt.state = {**results.state, **attempt.state}
            skipped = framework.run_pre_score(self._not_kept.pre_scorers, state, pod, attempt.cache, infos)
        with framework.point("Score"):
            scores = Scores(nodes, results.totals(nodes))
            for scorer in framework.scorers:
                name = scorer.plugin.name
                kept = results.scores.get(name)
                if kept is not None and scorer.normalizer:
                    framework.running = scorer.plugin
                    equal = results.equal_score(name, scorer.normalizer, nodes)
                    if equal is not None:
                        scores.add_equal(name, equal, scorer.weight)
                    else:
                        _add_normalized(attempt, nodes, scorer, nodes.pick(kept), scores)
                elif kept is not None:
                    scores.note(name, kept, scorer.weight)  # the totals have them already
                elif name in self._not_kept_scorers and name not in skipped:
                    framework.running = scorer.plugin
                    framework.evaluations["Score"][name] += len(infos)
                    raw = scorer.run(state, pod, nodes)
                    _add_normalized(attempt, nodes, scorer, raw, scores)
        if self._extenders:
            for extender, by_node in self._extenders.prioritize(pod, infos).items():
                scores.add(extender, [by_node.get(node.name, 0) for node in infos])
        return scores

    def _post_filter(self, attempt: SchedulingAttempt) -> Decision:
        """No node fits: run PostFilter, such as preemption, which can make a node fit.

        PostFilter doesn't run if a PreFilter plugin other than NEEDS_PRE_FILTER has rejected the pod as
        unresolvable. In kube-scheduler 1.36, the plugin NEEDS_PRE_FILTER fails then, and no other one runs.
        If PostFilter didn't look for another node, for example because victims are leaving the nominated
        one, the pod keeps its nomination.
        """
        pod, cache, rejection = attempt.pod, attempt.cache, attempt.rejection
        result, added, runs = None, "", bool(cache.nodes)
        undo: tuple[UndoClaim, ...] = ()
        if rejection and rejection.status.code == Code.UNSCHEDULABLE_AND_UNRESOLVABLE:
            runs = rejection.plugin == NEEDS_PRE_FILTER
        if runs:
            result, added, undo = self._framework.run_post_filter(
                attempt.state, pod, cache, attempt.rejected, partial(self.filter_node, pod, cache)
            )
        decision = attempt.decide(
            Outcome.UNSCHEDULABLE,
            f"{_why_none_fits(attempt)} {added}".strip(),
            rejecting_plugin=rejection.plugin if rejection else "",
            post_filter_message=added,
            rejected_after_preemption=result.rejected_by if result else frozenset(),
            undo=undo,
        )
        if result and result.node_name:
            return cache.nominator.nominate(decision, result.node_name, result.victims)
        keeps_nomination = runs and (result is None or result.node_name is None)
        return decision if keeps_nomination else cache.nominator.end_nomination(decision)

    def filter_node(self, pod: Pod, cache: Cache, node_name: str) -> Rejection | None:
        """The filters' first rejection of one node, with the cache as it is now; None if the node fits."""
        return self._feasibility.filter_with_nominated_pods(pod, cache, cache.nodes[node_name])

    def recheck_permit(self, life: PodLife, cache: Cache, now: float) -> Decision:
        """Run Permit, or PreBind, again for a pod that waits for it. now: in seconds.

        A pod that was preempted meanwhile, or whose node has gone, is tried again after a backoff.
        """
        decision: Decision = life.decision
        waited = now - life.since
        try:
            if why := self._why_given_up(decision, life, cache):
                decision = self._give_up(decision, cache, Outcome.ERROR, why)
            elif decision.waits_in == PRE_BIND:
                rejection, done = self._framework.run_pre_bind(decision, waited)
                decision = self._follow_answer(replace(decision, pre_bound=done), cache, rejection, PRE_BIND)
            else:
                rejection = self._framework.run_permit(decision, waited)
                decision = self._follow_answer(decision, cache, rejection, PERMIT)
        except BaseException as error:
            decision = self._fail(decision, cache, error)
        return self._ended(decision, cache)

    def _why_given_up(self, decision: Decision, life: PodLife | None, cache: Cache) -> str:
        """Why a pod is not to be bound to its node any more; "" if it is.

        Source: Preempt in pkg/scheduler/framework/runtime/waiting_pods_map.go; CancelPod in
        pods_in_prebind_map.go. That the node has gone isn't checked in kube-scheduler.
        """
        if life and life.leaving and decision.waits_in == PERMIT:
            return PREEMPTED_IN_PERMIT
        if life and life.leaving:
            return PREEMPTED_IN_PRE_BIND.format(self.waits_in_pre_bind(decision))
        node = cache.nodes.get(decision.node_name)
        is_there = node and node.node.metadata.uid == decision.node_uid
        return "" if is_there else f"node {decision.node_name} has gone"

    def _follow_answer(
        self, decision: Decision, cache: Cache, rejection: Rejection | None, point: str
    ) -> Decision:
        """What follows from a plugin's answer: the pod is to be bound, must wait, or doesn't get the node.

        point: PERMIT in the scheduling cycle, PRE_BIND in the binding cycle.
        """
        if rejection is None and decision.outcome == Outcome.SCHEDULED:
            return decision
        if rejection is None:
            message = ASSIGNED.format(decision.pod, decision.node_name)
            return replace(decision, outcome=Outcome.SCHEDULED, message=message)
        if rejection.status.code == Code.WAIT:
            return replace(
                decision,
                outcome=Outcome.WAITING,
                message=rejection.reason,
                waits_in=point,
                writes=rejection.status.writes,
            )
        message = rejection.reason or f"plugin {rejection.plugin} gives no reason"
        if point == PERMIT:
            message = counted(1, {decision.node_name: rejection})
        return self._give_up(decision, cache, Outcome.UNSCHEDULABLE, message, rejection.plugin)

    # --- the binding cycle ------------------------------------------------------------------------------

    def bind(self, decision: Decision, cache: Cache) -> Decision:
        """Run PreBind, the extenders and Bind. The outcome says what follows:

        - `bound`: an extender or a Bind plugin has bound the pod.
        - `scheduled`: poller must POST the binding.
        - `waiting`: a PreBind plugin waits, and the decision's `writes` must be written.
        - `error`, if the pod's node has gone, or the pod is preempted.
        """
        pod, node_name = decision.pod, decision.node_name
        try:
            if why := self._why_given_up(decision, cache.lives.get(pod_key(pod)), cache):
                return self._ended(self._give_up(decision, cache, Outcome.ERROR, why), cache)
            rejection, done = self._framework.run_pre_bind(decision, waited=0)
            decision = self._follow_answer(replace(decision, pre_bound=done), cache, rejection, PRE_BIND)
            if decision.outcome == Outcome.SCHEDULED:
                by_extender = self._extenders and self._extenders.bind(pod, node_name)
                bound = by_extender or self._framework.run_bind(decision)
                if isinstance(bound, Rejection):
                    decision = self._follow_answer(decision, cache, bound, PRE_BIND)
                elif bound:
                    decision = replace(decision, outcome=Outcome.BOUND)
        except BaseException as error:
            decision = self._fail(decision, cache, error)
        return self._ended(decision, cache)

    # --- how a cycle ends, and undo ---------------------------------------------------------------------

    def _fail(self, decision: Decision, cache: Cache, error: BaseException) -> Decision:
        """A plugin failed: that is the outcome of the decision."""
        raise_if_interrupted(error)
        return self._give_up(decision, cache, Outcome.ERROR, self._framework.blame(error))

    def _give_up(
        self, decision: Decision, cache: Cache, outcome: Outcome, message: str, plugin: str = ""
    ) -> Decision:
        """The pod gets no node. It loses the one that was picked, and its nomination, also in the API."""
        if decision.node_name:
            decision = self.unreserve_and_forget(decision, cache)
        decision = replace(decision, outcome=outcome, message=message, rejecting_plugin=plugin)
        return cache.nominator.end_nomination(decision)

    def _ended(self, decision: Decision, cache: Cache) -> Decision:
        """The decision with the time of its end, and with a message that can be encoded.

        The record of a pod with room gets the decision. A pod that only waits is held from now on. A pod for
        whose PreBind something must be written is held when that is done (poller.py, finish).
        """
        message = encodable(decision.message)
        decision = replace(decision, message=message, ended=self._framework.clock())
        life = cache.lives.get(pod_key(decision.pod))
        if life and life.has_room and decision.outcome in PLACED:
            life.decision = decision
            if life.phase == Phase.ASSUMED and decision.only_waits:
                cache.lives.move(life, Phase.HELD)
            elif life.phase == Phase.HELD and not decision.only_waits:
                cache.lives.move(life, Phase.ASSUMED)
        return decision

    def unreserve_and_forget(self, decision: Decision, cache: Cache) -> Decision:
        """Undo a decision: run Unreserve, and remove the assumed pod from the cache.

        A pod that was nominated before keeps its nomination: that room may have been made for it. A
        nomination that it got while it waited ends.
        """
        undo = self._framework.run_unreserve(decision)
        cache.forget(decision.pod)
        ends = bool(decision.waits_in) and not cache.nominator.node_of(decision.pod)
        return replace(decision, clears_nomination=ends, undo=(*decision.undo, *undo))

    def undo(self, decision: Decision, cache: Cache) -> Decision:
        """Undo all of a decision: the reservation, and the preemption."""
        if cache.lives.phase_of(decision.pod) in ROOM:
            decision = self.unreserve_and_forget(decision, cache)
        return cache.nominator.undo_preemption(decision)


def _add_normalized(
    attempt: SchedulingAttempt, nodes: NodeSlice, scorer: Scorer, raw: Sequence[int], scores: Scores
) -> None:
    """Run a plugin's NormalizeScore, if it has one, and add the scores that come of it."""
    names = nodes.pick(attempt.cache.node_names)
    by_node = dict(zip(names, raw, strict=True))
    if scorer.normalizer:
        scorer.normalizer.normalize_score(attempt.state, attempt.pod, by_node)
        if [*by_node] != names:
            raise BadAnswerError("what normalizes its scores may change them, but add or remove no node")
    final = [*by_node.values()]
    check_scores(final, by_node)
    scores.add(scorer.plugin.name, final, scorer.weight)


def _why_none_fits(attempt: SchedulingAttempt) -> str:
    """Why no node fits a pod, in the words of kube-scheduler's events."""
    cache, rejection = attempt.cache, attempt.rejection
    if not cache.nodes:
        return rejection.reason if rejection else "no nodes available to schedule pods"
    if rejection:
        return f"0/{len(cache.nodes)} nodes are available: {rejection.reason}."
    return counted(len(cache.nodes), attempt.rejected)
