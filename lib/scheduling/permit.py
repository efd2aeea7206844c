"""Pods that wait for Permit or PreBind: their nodes stay reserved while a plugin says not yet."""

from collections.abc import Mapping

from lib.scheduling.cache import Cache
from lib.scheduling.decision import Decision, Outcome
from lib.scheduling.pod_life import Phase
from lib.scheduling.scheduling_cycle import Scheduler


def recheck_permit(cache: Cache, schedulers: Mapping[str, Scheduler], now: float) -> list[Decision]:
    """Run Permit, or PreBind, again for each pod that waits; returns the decisions that wait no longer.

    schedulers: by scheduler name. The decision for a pod whose node has been deleted is undone.
    """
    decisions = []
    for life in cache.lives.in_phase(Phase.HELD):
        decision = life.decision
        assert decision
        scheduler = schedulers[decision.pod.spec.scheduler_name]
        decision = scheduler.recheck_permit(decision, cache, now - life.since)
        if decision.outcome != Outcome.WAITING:
            decisions.append(decision)
    return decisions
