"""Pods that wait for Permit: their nodes stay reserved while a Permit plugin says not yet."""

from collections.abc import Collection, Mapping

from lib.scheduling.cache import Cache
from lib.scheduling.decision import Decision, Outcome
from lib.scheduling.scheduling_cycle import Scheduler


class WaitingPods:
    """Holds decisions with outcome `waiting` from tick to tick. `now` is in seconds, and only grows."""

    def __init__(self, schedulers: Mapping[str, Scheduler]) -> None:
        self._schedulers = schedulers
        self._held: dict[str, tuple[Decision, float]] = {}

    def __contains__(self, uid: str) -> bool:
        return uid in self._held

    def hold(self, decision: Decision, now: float) -> None:
        """Keep a pod's node reserved from now on."""
        self._held.setdefault(decision.pod.metadata.uid, (decision, now))

    def recheck_permit(self, cache: Cache, waiting: Collection[str], now: float) -> list[Decision]:
        """Run Permit again for each pod; returns the decisions that are no longer `waiting`.

        waiting: the uids of the pods that still have no node. The decision for any other pod, or for a pod
        whose node has been deleted, is undone.
        """
        settled = []
        for uid, (decision, since) in list(self._held.items()):
            scheduler = self._schedulers[decision.pod.spec.scheduler_name]
            if uid not in waiting:
                scheduler.unreserve_and_forget(decision, cache)
                del self._held[uid]
                continue
            scheduler.recheck_permit(decision, cache, now - since)
            if decision.outcome != Outcome.WAITING:
                settled.append(decision)
                del self._held[uid]
        return settled
