"""One pod's scheduling cycle: filter the nodes, score what is left, pick one, hold it for the pod.

Source: pkg/scheduler/schedule_one.go
"""

import inspect
import logging
import sys
import traceback
from collections.abc import Sequence
from pathlib import Path
from random import Random

from lib.kube.objects import Pod
from lib.scheduling.cache import Cache
from lib.scheduling.cycle_observer import ERROR, CycleObserver
from lib.scheduling.decision import Decision, Outcome
from lib.scheduling.extender import ExtenderError, Extenders
from lib.scheduling.feasibility import Evaluator
from lib.scheduling.framework.interface import (
    DEFAULT_BIND,
    SKIP,
    BadAnswerError,
    BindPlugin,
    Code,
    PermitPlugin,
    Plugin,
    PluginError,
    PostBindPlugin,
    PostFilterPlugin,
    PostFilterResult,
    PreBindPlugin,
    Profile,
    ReservePlugin,
    Status,
    UnreservePlugin,
    checked,
    unschedulable,
)
from lib.scheduling.function_plugins import FilterFunction, ScoreFunction
from lib.scheduling.result_cache import Asking

log = logging.getLogger(__name__)

FAILURES = (Exception, SystemExit)
"""What a plugin may raise and end its pod's cycle only: a policy that calls sys.exit() ends no one else."""

NOT_BOUND = unschedulable("every bind plugin left the pod to another")


class Scheduler:
    """Decides by one profile, and by what extenders say. `random` breaks ties.

    in_full: note in each decision what was said of every node, also where a node was picked. observer: is
    told how far a cycle has come, and has the clock.
    """

    def __init__(
        self,
        profile: Profile,
        random: Random,
        extenders: Extenders | None = None,
        *,
        in_full: bool = True,
        observer: CycleObserver | None = None,
    ) -> None:
        self.profile = profile
        self._random = random
        self._in_full = in_full
        self._extenders = extenders or Extenders()
        self._asking = Asking()
        self._observer = observer or CycleObserver()
        self._evaluator = Evaluator(profile, self._extenders, self._asking, self._observer)
        self._post_filters = profile.with_point(PostFilterPlugin)
        self._reservers = profile.with_point(ReservePlugin)
        self._unreservers = profile.with_point(UnreservePlugin)
        self._permitters = profile.with_point(PermitPlugin)
        self._pre_binders = profile.with_point(PreBindPlugin)
        self._binders = profile.with_point(BindPlugin)
        self._post_binders = profile.with_point(PostBindPlugin)

    def schedule_one(self, pod: Pod, cache: Cache) -> Decision:
        """Decide where a pod goes, and count it there: the next decision must not give its room away.

        A plugin that raises fails this cycle only: outcome `error`, with the place in its source.
        """
        decision = Decision(
            pod, Outcome.UNSCHEDULABLE, all_nodes=len(cache.nodes), began=self._observer.began()
        )
        try:
            self._decide(decision, cache)
        except FAILURES as error:
            self._fail(decision, cache, error)
        decision.ended = self._observer.ended()
        return decision

    def recheck_permit(self, decision: Decision, cache: Cache, waited: float) -> None:
        """Ask Permit once more about a pod that waits; `waited` is in seconds."""
        try:
            if decision.node_name in cache.nodes:
                self._permit(decision, cache, waited)
            else:
                self._asking.plugin = None
                self._reject(decision, cache, unschedulable(f"node {decision.node_name} has gone"))
        except FAILURES as error:
            self._fail(decision, cache, error)
        decision.ended = self._observer.ended()

    def bind(self, decision: Decision, cache: Cache) -> bool:
        """Ask the PreBind plugins, extenders and Bind plugins; whether one of them bound the pod.

        If none did, and the decision's outcome still is `scheduled`, poller is to POST the binding.
        """
        try:
            return self._bind(decision, cache)
        except FAILURES as error:
            self._fail(decision, cache, error)
            return False

    def post_bind(self, decision: Decision) -> None:
        """Tell the plugins that a pod is bound; nothing they do can change that."""
        assert decision.node_name
        self._observer.entering("PostBind")
        for plugin in self._post_binders:
            try:
                plugin.post_bind(decision.state, decision.pod, decision.node_name)
            except FAILURES:
                about = {"pod": str(decision.pod), "node": decision.node_name}
                log.exception("plugin %s failed after %s was bound", plugin.name, decision.pod, extra=about)
        self._observer.left()

    def _fail(self, decision: Decision, cache: Cache, error: BaseException) -> None:
        """Turn what a plugin raised into the decision's outcome."""
        self._observer.left(ERROR)
        if decision.node_name:
            self.unreserve_and_forget(decision, cache)
        decision.outcome, decision.reason = Outcome.ERROR, self._blame(error)

    def _decide(self, decision: Decision, cache: Cache) -> None:
        results = self._evaluator.answers_for(decision.pod, cache)
        feasible = self._evaluator.find_feasible(decision, cache, results)
        if not feasible:
            self._post_filter(decision, cache)
            return
        scores = self._evaluator.score(decision, cache, feasible, results)
        pick = self._pick(scores.totals)
        shown = range(len(feasible)) if self._in_full else [pick, *_runner_up(scores.totals, pick)]
        decision.feasible = len(feasible)
        decision.scores = {feasible.one_of(cache.node_list, i).name: scores.of(i) for i in shown}
        decision.node_name = feasible.one_of(cache.node_list, pick).name
        cache.assume(decision.pod, decision.node_name)
        decision.outcome = Outcome.SCHEDULED
        if not self._reserve(decision, cache):
            return
        self._permit(decision, cache, waited=0)

    def _pick(self, totals: Sequence[int]) -> int:
        """The place of the best; of one of them by chance, if they are several."""
        best, pick = max(totals), -1
        for _ in range(self._random.randrange(totals.count(best)) + 1):
            pick = totals.index(best, pick + 1)
        return pick

    def _post_filter(self, decision: Decision, cache: Cache) -> None:
        """Nothing fits: ask the plugins that may change that.

        No pod's leaving would help one that PreFilter has rejected for good: kube-scheduler 1.36 then tries
        no preemption either.
        """
        if not self._post_filters or not cache.nodes or _is_rejected_for_good(decision):
            return
        rejected = {name: each.status for name, each in decision.rejected.items()}

        def why_not(name: str) -> Status | None:
            rejection = self._evaluator.filter_with_nominated_pods(decision.pod, cache, cache.nodes[name])
            return rejection.status if rejection else None

        self._observer.entering("PostFilter")
        for plugin in self._post_filters:
            self._asking.plugin = plugin
            answer = plugin.post_filter(decision.state, decision.pod, cache, rejected, why_not)
            if isinstance(answer, PostFilterResult):
                decision.nominated, decision.victims = answer.node_name, answer.victims
                cache.nominate(decision.pod, answer.node_name)  # from now on, the place is kept
                cache.leaving.update(victim.metadata.uid for victim in answer.victims)
                return
            status = checked(answer)
            if status is None:
                return
            decision.post_filter_message = " ".join([decision.post_filter_message, *status.reasons]).strip()
        self._observer.left(Code.UNSCHEDULABLE.value)

    # --- holding it -------------------------------------------------------------------------------------

    def _reserve(self, decision: Decision, cache: Cache) -> bool:
        """Tell the plugins that keep accounts; whether all agree."""
        assert decision.node_name
        self._observer.entering("Reserve")
        for plugin in self._reservers:
            self._asking.plugin = plugin
            if status := checked(plugin.reserve(decision.state, decision.pod, decision.node_name)):
                self._reject(decision, cache, status)
                return False
        return True

    def _permit(self, decision: Decision, cache: Cache, waited: float) -> None:
        """Ask for the last word on a decision."""
        assert decision.node_name
        decision.outcome, decision.reason = Outcome.SCHEDULED, ""
        if not waited:  # once a cycle, as kube-scheduler counts
            self._observer.entering("Permit")
        for plugin in self._permitters:
            self._asking.plugin = plugin
            status = checked(plugin.permit(decision.state, decision.pod, decision.node_name, waited))
            if status and status.code == Code.WAIT and waited >= status.limit:
                late = unschedulable(f"not permitted by {plugin.name} within {status.limit:g} s")
                self._reject(decision, cache, late)
                return
            if status and status.code == Code.WAIT:
                decision.outcome, decision.reason = Outcome.WAITING, ", ".join(status.reasons)
            elif status:
                self._reject(decision, cache, status)
                return
        if decision.outcome == Outcome.WAITING:
            self._observer.left(Code.WAIT.value)

    def _bind(self, decision: Decision, cache: Cache) -> bool:
        """Ask the plugins before the binding, and those that may make it; whether one did."""
        assert decision.node_name
        arguments = decision.state, decision.pod, decision.node_name
        self._observer.entering("PreBind")
        for plugin in self._pre_binders:
            self._asking.plugin = plugin
            if status := checked(plugin.pre_bind(*arguments)):
                self._reject(decision, cache, status)
                return False
        self._observer.left()
        if self._extenders.bind(decision.pod, decision.node_name):
            return True
        for binder in self._binders:
            self._observer.entering("Bind")
            self._asking.plugin = binder
            status = checked(binder.bind(*arguments))
            if status is None:
                self._observer.left()
                return True
            if status == DEFAULT_BIND:
                self._observer.passed_on()
                return False
            if status != SKIP:
                self._reject(decision, cache, status)
                return False
            self._observer.left(SKIP.code.value)
        self._reject(decision, cache, NOT_BOUND)
        return False

    def _reject(self, decision: Decision, cache: Cache, status: Status) -> None:
        """A plugin rejected the node that was picked."""
        self._observer.left(status.code.value)
        self.unreserve_and_forget(decision, cache)
        decision.outcome, decision.reason = Outcome.UNSCHEDULABLE, ", ".join(status.reasons)
        decision.rejecting_plugin = self._asking.plugin.name if self._asking.plugin else ""

    def unreserve_and_forget(self, decision: Decision, cache: Cache) -> None:
        """Undo a decision: unreserve, in reverse order, and count the pod in the picture no longer."""
        assert decision.node_name
        self._observer.entering("Unreserve")
        for plugin in reversed(self._unreservers):
            try:
                plugin.unreserve(decision.state, decision.pod, decision.node_name)
            except FAILURES:  # the others must hear of it all the same
                about = {"pod": str(decision.pod), "node": decision.node_name}
                log.exception("plugin %s failed to unreserve %s", plugin.name, decision.pod, extra=about)
        self._observer.left()
        cache.forget(decision.pod)

    def _blame(self, error: BaseException) -> str:
        """Who failed, where, and why, in one line."""
        if isinstance(error, ExtenderError | PluginError):
            return str(error)
        asked = self._asking.plugin
        name = asked.name if asked else "of nobody"
        if isinstance(error, BadAnswerError):
            return f"plugin {name} failed: {error}"
        frames = traceback.extract_tb(error.__traceback__)
        its_own = [frame for frame in frames if asked and frame.filename == _source_of(asked)]
        last = (its_own or frames)[-1]  # what it calls may be a library's
        what = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
        return f"plugin {name} failed at {Path(last.filename).name}:{last.lineno}: {what}"


def _is_rejected_for_good(decision: Decision) -> bool:
    """Whether a PreFilter plugin says that a pod can't be placed, whoever else leaves."""
    why = next(iter(decision.rejected.values())).status if decision.rejecting_plugin else None
    return why is not None and why.code == Code.UNSCHEDULABLE_AND_UNRESOLVABLE


def _runner_up(totals: list[int], pick: int) -> list[int]:
    """The place of the best but the pick, if there is another; `totals` is as before in the end."""
    if len(totals) < 2:
        return []
    picked, totals[pick] = totals[pick], -sys.maxsize
    place = totals.index(max(totals))
    totals[pick] = picked
    return [place]


def _source_of(plugin: Plugin) -> str:
    """The file in which a plugin is written."""
    if isinstance(plugin, FilterFunction | ScoreFunction):
        return plugin.file
    try:
        return inspect.getfile(type(plugin))
    except (TypeError, OSError):
        return ""
