"""`room`: how many more pods like these fit, and what stops the next one."""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from lib.questions.deciding import PLACED, Decider
from lib.questions.manifests import Workload
from lib.questions.new_pods import PodMaker
from lib.questions.snapshot import Snapshot
from lib.questions.why import Why, why_nowhere


@dataclass
class Room:
    """The answer. fit: by workload and node, how many pods; stopped: why the next one has no node.

    at_least: whether the trial stopped at its limit, so more may fit.
    """

    fit: dict[Workload, Counter[str]] = field(default_factory=dict)
    stopped: dict[Workload, Why] = field(default_factory=dict)
    at_least: bool = False

    @property
    def yes(self) -> bool:
        """Whether one more of each fits."""
        return all(counts.total() for counts in self.fit.values())

    def as_json(self) -> dict[str, Any]:
        """The whole answer."""
        return {
            "question": "room",
            "answer": "yes" if self.yes else "no",
            "at_least": self.at_least,
            "workloads": [
                {
                    "kind": workload.kind,
                    "namespace": workload.namespace,
                    "name": workload.name,
                    "fit": counts.total(),
                    "nodes": dict(counts),
                    "stopped": self.stopped[workload].as_json() if workload in self.stopped else None,
                }
                for workload, counts in self.fit.items()
            ],
        }


class Filling:
    """Places one pod of each workload in turn, until none fits any more, or `most` were placed."""

    def __init__(
        self, workloads: Sequence[Workload], snapshot: Snapshot, decider: Decider, most: int
    ) -> None:
        self.room = Room({each: Counter() for each in workloads})
        self._maker, self._decider, self._most = PodMaker(snapshot, decider.cache.storage), decider, most

    def steps(self) -> Iterator[str]:
        """Yields the node of each pod when it is placed; the answer is complete at the end."""
        bodies = {each: self._maker.body_of(each) for each in self.room.fit}
        going, placed = list(bodies), 0
        while going:
            for workload in list(going):
                if placed >= self._most:
                    self.room.at_least = True
                    return
                name = f"{workload.name}-more-{self.room.fit[workload].total() + 1}"
                pod = self._maker.pod_named(workload, bodies[workload], name)
                decision = self._decider.place_alone(pod)
                if decision.outcome in PLACED and decision.node_name:
                    placed += 1
                    self.room.fit[workload][decision.node_name] += 1
                    yield decision.node_name
                else:
                    going.remove(workload)
                    self.room.stopped[workload] = why_nowhere(pod, decision, self._decider)
