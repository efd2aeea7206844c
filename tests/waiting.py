"""Pods that wait for Permit, in tests of the scheduling cycle alone."""

from collections.abc import Mapping

from lib.scheduling.cache import Cache
from lib.scheduling.decision import Decision, Outcome
from lib.scheduling.pod_life import Phase
from lib.scheduling.scheduling_cycle import Scheduler


def recheck_permit(cache: Cache, schedulers: Mapping[str, Scheduler], now: float) -> list[Decision]:
    """Run Permit again for each pod that waits, as the loop does; returns the decisions that don't wait."""
    lives = cache.lives.in_phase(Phase.HELD)
    decisions = [schedulers[life.pod.spec.scheduler_name].recheck_permit(life, cache, now) for life in lives]
    return [each for each in decisions if each.outcome != Outcome.WAITING]
