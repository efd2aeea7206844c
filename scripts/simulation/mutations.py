"""Faults in poller itself, by name: a simulation that doesn't find them is none."""

from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager
from dataclasses import replace
from typing import Any
from unittest.mock import patch

import poller
from lib.kube import pod_writes
from lib.kube.api import Api
from lib.kube.errors import LostAnswerError, ServerError
from lib.kube.freshness import Freshness
from lib.kube.lease import Candidate
from lib.kube.objects import Binding
from lib.kube.write import Request, Write
from lib.scheduling.decision import Decision
from lib.scheduling.groups import pod_group_cycle
from lib.scheduling.nominator import Nominator
from lib.scheduling.pod_life import Phase
from lib.scheduling.preemption import victims
from lib.scheduling.queue import SchedulingQueue
from lib.scheduling.transitions import FREE, NO_NODE, SHOWN
from lib.service.steps import Poller
from lib.service.writes import writes as writes_module
from lib.service.writes.pipeline import Pipeline
from lib.service.writes.results import Completed, Result
from lib.service.writes.writes import Writes

from .changed import changed
from .more_mutations import MORE_MUTATIONS, Mutation
from .process import BEGINNING, Process
from .rare_mutations import RARE_MUTATIONS


def _uid_left_out() -> Iterable[AbstractContextManager[Any]]:
    """A binding doesn't say which pod of that name is meant."""
    real = pod_writes.bind

    def leave_out(request: Request) -> None:
        if isinstance(request.body, Binding):
            request.body.metadata.uid = ""

    def bind(*given: Any) -> Write[Any]:
        return changed(real(*given), leave_out)

    yield patch.object(writes_module, "bind", bind)


def _no_look_after_a_lost_answer() -> Iterable[AbstractContextManager[Any]]:
    """What was sent without an answer counts as not done."""
    yield patch.object(LostAnswerError, "may_be_written", False)
    yield patch.object(ServerError, "may_be_written", False)


def _stale_events_believed() -> Iterable[AbstractContextManager[Any]]:
    """What is seen of a pod from before its binding counts."""
    believed = dict.fromkeys(NO_NODE, FREE)
    yield patch.dict(SHOWN, {each: {**SHOWN[each], **believed} for each in (Phase.BINDING, Phase.BOUND)})


def _lease_not_checked() -> Iterable[AbstractContextManager[Any]]:
    """Who led once writes for ever."""
    yield patch.object(Candidate, "leads", lambda self: self._until is not None)
    yield patch.object(Candidate, "_lose", lambda *_: None)
    yield patch.object(Candidate, "_watch_deadline", lambda *_: None)
    yield patch.object(Process, "end_process_in", lambda *_: None)
    yield patch.object(Api, "check_may_write", lambda *_: None)


def _nomination_kept() -> Iterable[AbstractContextManager[Any]]:
    """Room is kept for a pod that doesn't need it any more."""
    yield patch.object(Nominator, "delete", lambda *_: None)


def _wake_up_left_out() -> Iterable[AbstractContextManager[Any]]:
    """A change doesn't wake the pods that it could help."""
    yield patch.object(SchedulingQueue, "wake", lambda *_: None)


def _event_before_binding() -> Iterable[AbstractContextManager[Any]]:
    """A pod is said to be bound before it is."""
    real = Writes._bind

    def bind(self: Writes, decision: Any, life: Any) -> Write[Any]:
        yield from pod_writes.record(decision.pod, "Scheduled", decision.message, BEGINNING)
        return (yield from real(self, decision, life))

    yield patch.object(Writes, "_bind", bind)


def _retried_eviction_without_precondition() -> Iterable[AbstractContextManager[Any]]:
    """A pod whose deletion is tried again is deleted by its name alone."""
    real = Pipeline._pause

    def pause(self: Pipeline, running: Any, *given: Any) -> bool:
        if running.request and running.request.method == "DELETE":
            running.request.body.pop("preconditions", None)
        return real(self, running, *given)

    yield patch.object(Pipeline, "_pause", pause)


def _assumed_pods_forgotten_early() -> Iterable[AbstractContextManager[Any]]:
    """A pod that was bound doesn't count on its node until it is seen there."""
    real = poller.finish

    def finish(each: Poller, completed: Iterable[Completed]) -> None:
        def noted() -> Iterable[Completed]:
            for one in completed:
                yield one
                if one.result == Result.BOUND:
                    each.cache.forget(one.decision.pod)

        real(each, noted())

    yield patch.object(poller, "finish", finish)


def _groups_one_by_one() -> Iterable[AbstractContextManager[Any]]:
    """Each pod of a group is placed for itself."""

    class OneByOne(pod_group_cycle.GroupAttempt):
        def go_on(self, _: Callable[[], bool]) -> list[Decision]:
            return [
                self._schedulers[each.spec.scheduler_name].schedule_one(each, self._cache)
                for each in self.pods
            ]

    yield patch.object(pod_group_cycle, "GroupAttempt", OneByOne)


def _older_list_taken() -> Iterable[AbstractContextManager[Any]]:
    """A list is believed though it is older than what was seen before."""
    yield patch.object(Freshness, "check", lambda *_: None)


def _budget_ignored() -> Iterable[AbstractContextManager[Any]]:
    """A disruption budget protects nobody."""
    yield patch.object(victims, "by_budget", lambda pods, *_: ([], [*pods]))


def _room_freed_when_in_doubt() -> Iterable[AbstractContextManager[Any]]:
    """A pod that may be bound loses its room."""
    real = poller.finish

    def finish(each: Poller, completed: Iterable[Completed]) -> None:
        def changed() -> Iterable[Completed]:
            for one in completed:
                yield replace(one, result=Result.FAILED) if one.result == Result.DOUBTFUL else one

        real(each, changed())

    yield patch.object(poller, "finish", finish)


def _conflict_means_bound() -> Iterable[AbstractContextManager[Any]]:
    """Whoever bound a pod, it counts as bound by this decision."""
    real = pod_writes.bind

    def bind(*given: Any) -> Write[Any]:
        yield from real(*given)
        return "", None

    yield patch.object(writes_module, "bind", bind)


NAMED: dict[str, Mutation] = {
    each.__name__.strip("_").replace("_", "-"): each
    for each in (
        _uid_left_out,
        _no_look_after_a_lost_answer,
        _stale_events_believed,
        _lease_not_checked,
        _nomination_kept,
        _wake_up_left_out,
        _event_before_binding,
        _retried_eviction_without_precondition,
        _assumed_pods_forgotten_early,
        _groups_one_by_one,
        _budget_ignored,
        _older_list_taken,
        _room_freed_when_in_doubt,
        _conflict_means_bound,
    )
}
"""The first ones."""

MUTATIONS = {**NAMED, **MORE_MUTATIONS, **RARE_MUTATIONS}
