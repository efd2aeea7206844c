"""Pods whose node is held for them while a Permit plugin says not yet."""

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
        """Hold a pod's node from now on."""
        self._held.setdefault(decision.pod.metadata.uid, (decision, now))

    def recheck_permit(self, cache: Cache, waiting: Collection[str], now: float) -> list[Decision]:
        """Ask Permit once more about each pod; the decisions that are no longer `waiting`.

        waiting: the uids of the pods that still have no node. A pod that isn't among them, or whose node
        has gone, is given up.
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
