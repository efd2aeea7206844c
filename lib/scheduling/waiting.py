"""Pods whose node is held for them while a Permit plugin says not yet."""

from collections.abc import Collection, Mapping

from lib.scheduling.cluster import Cluster
from lib.scheduling.cycle import Scheduler
from lib.scheduling.decision import Decision, Outcome


class WaitingPods:
    """Holds decisions with outcome `waiting` from tick to tick. `now` is in seconds, and only grows."""

    def __init__(self, schedulers: Mapping[str, Scheduler]) -> None:
        self._schedulers = schedulers
        self._held: dict[str, tuple[Decision, float]] = {}

    def hold(self, decision: Decision, now: float) -> None:
        """Hold a pod's node from now on."""
        self._held.setdefault(decision.pod.metadata.uid, (decision, now))

    def ask_again(self, cluster: Cluster, unplaced: Collection[str], now: float) -> list[Decision]:
        """Count the held pods in a new picture, and ask Permit about each once more.

        unplaced: the uids of the pods that still have no node. A held pod that isn't among them, or whose
        node has gone, is unreserved and no longer held; the decisions on the others are returned, whatever
        their outcome, and those no longer `waiting` are no longer held.
        """
        for uid, (decision, _) in list(self._held.items()):
            if uid not in unplaced or decision.node_name not in cluster.nodes:
                self._scheduler_of(decision).unreserve(decision)
                del self._held[uid]
        for decision, _ in self._held.values():
            cluster.assume(decision.pod, decision.node_name or "")
        asked = []
        for decision, since in self._held.values():
            self._scheduler_of(decision).ask_again(decision, cluster, now - since)
            asked.append(decision)
        self._held = {uid: held for uid, held in self._held.items() if held[0].outcome == Outcome.WAITING}
        return asked

    def _scheduler_of(self, decision: Decision) -> Scheduler:
        return self._schedulers[decision.pod.spec.scheduler_name]
