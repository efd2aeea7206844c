"""Pods that wait for Permit, in tests of the scheduling cycle alone."""

from collections.abc import Mapping

from lib.scheduling.cache import Cache
from lib.scheduling.decision import Decision
from lib.scheduling.groups.pod_group_cycle import recheck_pod_group
from lib.scheduling.pod_life import Phase
from lib.scheduling.queue import batches
from lib.scheduling.scheduling_cycle import Scheduler


def recheck_permit(cache: Cache, schedulers: Mapping[str, Scheduler], now: float) -> list[Decision]:
    """Run Permit again for each pod that waits, as the loop does; returns the decisions that don't wait."""
    held = batches(life.pod for life in cache.lives.in_phase(Phase.HELD))
    return [each for pods in held for each in recheck_pod_group(pods, cache, schedulers, now)]
