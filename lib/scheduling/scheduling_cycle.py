"""One pod's scheduling cycle: filter the nodes, score those that fit, pick one, reserve it for the pod.

Counterpart in kube-scheduler: pkg/scheduler/schedule_one.go
"""

import sys
from collections.abc import Sequence
from random import Random

from lib.kube.objects import Pod
from lib.scheduling.cache import Cache
from lib.scheduling.decision import Decision, Outcome, Rejection, counted
from lib.scheduling.extender import Extenders
from lib.scheduling.feasibility import Feasibility, FeasibleNodes
from lib.scheduling.framework.interface import Code, PostFilterResult, Profile, Status, unschedulable
from lib.scheduling.framework.runtime import SCHEDULING_CYCLE, Clock, Framework, Record, raise_if_interrupted
from lib.scheduling.node_info import NodeInfo
from lib.scheduling.pod_life import ROOM, Phase
from lib.scheduling.pod_limits import TOO_COMPLEX, TooComplexError
from lib.scheduling.result_cache import ResultCache
from lib.scheduling.scoring import Scores, Scoring

UNBOUND = (Phase.HELD, Phase.DOUBTFUL)
"""Pods that have reserved room, and aren't bound as far as is known: as victims they aren't deleted."""

PREEMPTED_IN_PERMIT = "waiting on permit for pod: preempted"
PREEMPTED_IN_PRE_BIND = 'running PreBind plugin "{}": preempted by DefaultPreemption'
"""Why a pod that waited with a node reserved is tried again: a more important pod takes its room."""


class Scheduler:
    """Schedules the pods of one profile.

    random: picks one of the nodes with the same score. extenders: called besides the profile's plugins.
    in_full: a decision holds the scores of all feasible nodes, not only those of the best two.
    clock: returns the time in seconds. record: called with the time of each extension point.
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
        self._extenders = extenders or Extenders()
        self._framework = Framework(profile, clock, record)
        self._results = ResultCache(self._framework)
        self._feasibility = Feasibility(self._framework, self._results, self._extenders)
        self._scoring = Scoring(self._framework, self._extenders)

    # --- the scheduling cycle ---------------------------------------------------------------------------

    def schedule_one(self, pod: Pod, cache: Cache) -> Decision:
        """Pick a node for a pod, and assume the pod there: the next decision must not use the same room.

        A plugin that raises an error fails this cycle only: the decision's outcome is `error`, and its reason
        names the place in the plugin's source. A failed lookup of something that the pod needs is an `error`,
        too. A pod whose conditions take too many comparisons is unschedulable.
        """
        decision = Decision(pod, Outcome.UNSCHEDULABLE, all_nodes=len(cache.nodes))
        try:
            with self._framework.point(SCHEDULING_CYCLE) as cycle:
                decision.began = cycle.began
                if why_not := cache.lookup_errors.get(pod.metadata.uid):
                    decision.outcome, decision.reason = Outcome.ERROR, why_not
                else:
                    self._try_to_schedule(decision, cache)
        except Exception:  # of the function that records the time
            self.undo(decision, cache)
            raise
        self._end_nomination(decision, cache)
        decision.ended = self._framework.clock()
        return decision

    def _try_to_schedule(self, decision: Decision, cache: Cache) -> None:
        try:
            self._schedule(decision, cache)
        except TooComplexError as error:
            decision.rejected = {}
            decision.reason, decision.rejecting_plugin = str(error), TOO_COMPLEX
        except BaseException as error:
            raise_if_interrupted(error)
            self._fail(decision, cache, error)

    def _schedule(self, decision: Decision, cache: Cache) -> None:
        """Run all extension points up to Permit, in order."""
        feasible, results = self._feasibility.find(decision, cache)  # PreFilter, Filter
        if not feasible:
            self._post_filter(decision, cache)
            return
        scores = self._scoring.score(decision, cache, feasible, results)  # PreScore, Score, NormalizeScore
        pick = self._pick(scores.totals)
        decision.node_name = feasible.value_at(cache.node_list, pick).name
        self._note_scores(decision, feasible, cache.node_list, scores, pick)
        cache.assume(decision.pod, decision.node_name)
        cache.lives.of(decision.pod).decision = decision
        decision.outcome = Outcome.SCHEDULED
        if rejection := self._framework.run_reserve(decision):
            self._reject(decision, cache, rejection)
        else:
            self._permit(decision, cache, waited=0)

    def _post_filter(self, decision: Decision, cache: Cache) -> None:
        """No node fits: run PostFilter, such as preemption, which can make a node fit.

        It doesn't run if a PreFilter plugin has rejected the pod as unresolvable: nor does it in
        kube-scheduler 1.36.
        """
        if _is_rejected_for_good(decision):
            return

        def filter_node(name: str) -> Status | None:
            rejection = self.filter_node(decision.pod, cache, name)
            return rejection.status if rejection else None

        result = self._framework.run_post_filter(decision, cache, filter_node)
        decision.keeps_nomination = result is None and bool(cache.nodes)
        if result and result.node_name:
            self._nominate(decision, cache, result)

    def _nominate(self, decision: Decision, cache: Cache, result: PostFilterResult) -> None:
        """Nominate the pod to the node that its victims leave (preemption.go, prepareCandidate).

        A victim that is held isn't bound, so its binding is given up; only bound pods are evicted. Pods of
        lower priority lose their nomination to the node, unless all victims are leaving already, so that
        nothing is done for the pod (executor.go, prepareCandidateAsync).
        """
        victims, phase_of = result.victims, cache.lives.phase_of
        decision.nominated = result.node_name
        decision.victims = tuple(each for each in victims if phase_of(each) not in UNBOUND)
        decision.preempted_held = tuple(each for each in victims if phase_of(each) in UNBOUND)
        if any(not each.metadata.deletion_timestamp for each in victims):
            others = cache.nominator.less_important(decision.pod, result.node_name)
            decision.cleared_nominations = tuple(others)
        for other in decision.cleared_nominations:
            cache.nominator.delete(other)
        cache.nominator.add(decision.pod, result.node_name)
        cache.lives.preempt(victims)

    def _end_nomination(self, decision: Decision, cache: Cache) -> None:
        """An attempt that ends without a node ends an earlier nomination, too: its room is free for others.

        Not if PostFilter didn't look for another node, such as while victims are leaving the nominated one.
        Source: clearNominatedNode in pkg/scheduler/schedule_one.go
        """
        ended = decision.outcome in (Outcome.UNSCHEDULABLE, Outcome.ERROR)
        if ended and not decision.nominated and not decision.keeps_nomination:
            self.clear_nomination(decision, cache)

    def clear_nomination(self, decision: Decision, cache: Cache) -> None:
        """A pod that doesn't get its node loses its nomination, also in the API."""
        pod = decision.pod
        was_nominated = cache.nominator.node_of(pod) or pod.status.nominated_node_name or decision.was_held
        decision.clears_nomination = bool(was_nominated)
        cache.nominator.delete(pod)

    def undo_preemption(self, decision: Decision, cache: Cache) -> None:
        """Undo a decision's nomination, and evict no pods for it: not all pods of its group have room."""
        if decision.nominated:
            cache.nominator.delete(decision.pod)
            cache.lives.spare((*decision.victims, *decision.preempted_held))
            for other in decision.cleared_nominations:
                cache.nominator.add(other, decision.nominated)
        decision.nominated, decision.victims = "", ()
        decision.preempted_held, decision.cleared_nominations = (), ()

    def filter_node(self, pod: Pod, cache: Cache, node_name: str) -> Rejection | None:
        """The filters' first rejection of one node, with the cache as it is now; None if the node fits."""
        return self._feasibility.filter_with_nominated_pods(pod, cache, cache.nodes[node_name])

    def _pick(self, totals: Sequence[int]) -> int:
        """The index of the highest total; one of them at random if there are several."""
        best, pick = max(totals), -1
        for _ in range(self._random.randrange(totals.count(best)) + 1):
            pick = totals.index(best, pick + 1)
        return pick

    def _permit(self, decision: Decision, cache: Cache, waited: float) -> None:
        rejection = self._framework.run_permit(decision, waited)
        decision.outcome, decision.reason = Outcome.SCHEDULED, ""
        if rejection and rejection.status.code == Code.WAIT:
            decision.outcome, decision.reason = Outcome.WAITING, ", ".join(rejection.status.reasons)
            decision.was_held = True
            _lead(decision, cache, Phase.HELD)
        elif rejection:
            self._reject(decision, cache, rejection)
        else:
            _lead(decision, cache, Phase.ASSUMED)

    def recheck_permit(self, decision: Decision, cache: Cache, waited: float) -> None:
        """Run Permit again for a pod that waits for it. waited: for how many seconds.

        A pod that was preempted meanwhile is tried again after a backoff (waiting_pods_map.go, Preempt;
        pods_in_prebind_map.go, CancelPod).
        """
        try:
            if cache.lives.of(decision.pod).leaving:
                self._give_up_to_preemptor(decision, cache)
            elif decision.node_name in cache.nodes and decision.waits_for_pre_bind:
                self._recheck_pre_bind(decision, cache, waited)
            elif decision.node_name in cache.nodes:
                self._permit(decision, cache, waited)
            else:
                gone = unschedulable(f"node {decision.node_name} has gone")
                self._reject_binding(decision, cache, Rejection("", gone))
        except BaseException as error:
            raise_if_interrupted(error)
            self._fail(decision, cache, error)
        self._end_nomination(decision, cache)
        decision.ended = self._framework.clock()

    def _give_up_to_preemptor(self, decision: Decision, cache: Cache) -> None:
        self.unreserve_and_forget(decision, cache)
        decision.outcome, decision.reason = Outcome.ERROR, PREEMPTED_IN_PERMIT
        if decision.waits_for_pre_bind:
            decision.reason = PREEMPTED_IN_PRE_BIND.format(self._framework.waits_in_pre_bind(decision))

    def _recheck_pre_bind(self, decision: Decision, cache: Cache, waited: float) -> None:
        rejection = self._framework.run_pre_bind(decision, waited)
        if rejection is None:
            decision.outcome, decision.reason = Outcome.SCHEDULED, ""
            _lead(decision, cache, Phase.ASSUMED)
        elif rejection.status.code != Code.WAIT:
            self._reject_binding(decision, cache, rejection)

    # --- the binding cycle ------------------------------------------------------------------------------

    def bind(self, decision: Decision, cache: Cache) -> bool:
        """Run PreBind, the extenders and Bind; returns whether one of them bound the pod.

        If none did, and the decision's outcome still is `scheduled`, poller must POST the binding. If it is
        `waiting`, a PreBind plugin waits, and the decision's `writes` must be written first.
        """
        assert decision.node_name
        try:
            bound: bool | Rejection | None = self._framework.run_pre_bind(decision)
            if bound is None:
                by_extender = self._extenders.bind(decision.pod, decision.node_name)
                bound = by_extender or self._framework.run_bind(decision)
        except BaseException as error:
            raise_if_interrupted(error)
            self._fail(decision, cache, error)
            self._end_nomination(decision, cache)
            return False
        if isinstance(bound, Rejection) and bound.status.code == Code.WAIT:
            decision.outcome, decision.reason = Outcome.WAITING, ", ".join(bound.status.reasons)
            decision.waits_for_pre_bind, decision.writes = True, bound.status.writes
            decision.was_held = True
            return False
        if isinstance(bound, Rejection):
            self._reject_binding(decision, cache, bound)
            self._end_nomination(decision, cache)
            return False
        return bound

    def post_bind(self, decision: Decision) -> None:
        """Run PostBind. Its failures don't change the result."""
        self._framework.run_post_bind(decision)

    # --- undo and failures ------------------------------------------------------------------------------

    def unreserve_and_forget(self, decision: Decision, cache: Cache) -> None:
        """Undo a decision: run Unreserve, and remove the assumed pod from the cache.

        A pod that was nominated before keeps that room, which may have been made for it. A nomination that
        it got while it waited ends.
        """
        self._framework.run_unreserve(decision)
        cache.forget(decision.pod)
        decision.clears_nomination = decision.was_held and not cache.nominator.node_of(decision.pod)

    def undo(self, decision: Decision, cache: Cache) -> None:
        """Undo all of a decision: the reservation, and the preemption."""
        if cache.lives.phase_of(decision.pod) in ROOM:
            self.unreserve_and_forget(decision, cache)
        self.undo_preemption(decision, cache)

    def _reject(self, decision: Decision, cache: Cache, rejection: Rejection) -> None:
        """A plugin rejected the node that was picked: as kube-scheduler says it, one node of one."""
        self.unreserve_and_forget(decision, cache)
        decision.outcome, decision.reason = Outcome.UNSCHEDULABLE, counted(1, rejection.status.reasons)
        decision.rejecting_plugin = rejection.plugin

    def _reject_binding(self, decision: Decision, cache: Cache, rejection: Rejection) -> None:
        """A plugin of the binding cycle rejected the node: in its own words."""
        self._reject(decision, cache, rejection)
        decision.reason = ", ".join(rejection.status.reasons)

    def _fail(self, decision: Decision, cache: Cache, error: BaseException) -> None:
        """Make an error of a plugin the outcome of the decision."""
        decision.outcome, decision.reason = Outcome.ERROR, self._framework.blame(error)
        if decision.node_name:
            self.unreserve_and_forget(decision, cache)

    def _note_scores(
        self, decision: Decision, feasible: FeasibleNodes, nodes: list[NodeInfo], scores: Scores, pick: int
    ) -> None:
        shown = range(len(feasible)) if self._in_full else [pick, *_runner_up(scores.totals, pick)]
        decision.feasible = len(feasible)
        decision.scores = {feasible.value_at(nodes, i).name: scores.of(i) for i in shown}


def _lead(decision: Decision, cache: Cache, phase: Phase) -> None:
    """Lead a pod with reserved room to a phase, if it isn't there."""
    life = cache.lives.of(decision.pod)
    if life.phase != phase:
        cache.lives.move(life, phase)


def _is_rejected_for_good(decision: Decision) -> bool:
    """Whether a PreFilter plugin rejected the pod as unresolvable."""
    why = next(iter(decision.rejected.values())).status if decision.rejecting_plugin else None
    return why is not None and why.code == Code.UNSCHEDULABLE_AND_UNRESOLVABLE


def _runner_up(totals: list[int], pick: int) -> list[int]:
    """The index of the best node after the pick; None if there is no other. `totals` stays as it was."""
    if len(totals) < 2:
        return []
    picked, totals[pick] = totals[pick], -sys.maxsize
    runner_up = totals.index(max(totals))
    totals[pick] = picked
    return [runner_up]
