"""`room`: how many more pods like these fit, and what stops the next one."""

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec

from lib.kube.objects import Pod
from lib.questions.admission import NOTHING_SAID, ServerSaid
from lib.questions.deciding import Decider
from lib.questions.device_claims import knows_devices
from lib.questions.manifests import Json, Workload
from lib.questions.new_pods import PodMaker
from lib.questions.snapshot import Snapshot
from lib.questions.verdict import Verdict, verdict
from lib.questions.why import Why, why_nowhere
from lib.scheduling.decision import PLACED, Decision

MORE = "-more-"
"""Between a workload's name and a number in the names of its pods."""


@dataclass
class Room:
    """The answer. fit: by workload and node, how many pods; stopped: why the next one has no node.

    refused: why the next one isn't even created. said: what the API server said.
    at_least: whether the trial stopped at its limit, so more may fit.
    """

    fit: dict[Workload, Counter[str]] = field(default_factory=dict)
    stopped: dict[Workload, Why] = field(default_factory=dict)
    refused: dict[Workload, str] = field(default_factory=dict)
    said: ServerSaid = NOTHING_SAID
    at_least: bool = False

    @property
    def verdict(self) -> Verdict:
        """Whether one more of each is created, and fits."""
        fits = all(counts.total() for counts in self.fit.values())
        only_devices = not self.refused and not any(
            knows_devices(each.decision) for workload, each in self.stopped.items() if not self.fit[workload]
        )
        return verdict(fits, sure=not self.said.unsure if fits else not only_devices)

    def as_json(self) -> dict[str, Any]:
        """The whole answer."""
        return {
            "question": "room",
            "answer": self.verdict.word,
            "at_least": self.at_least,
            "workloads": [
                {
                    "kind": workload.kind,
                    "namespace": workload.namespace,
                    "name": workload.name,
                    "fit": counts.total(),
                    "nodes": dict(counts),
                    "stopped": self.stopped[workload].as_json() if workload in self.stopped else None,
                    "refused": self.refused.get(workload),
                }
                for workload, counts in self.fit.items()
            ],
            "unknown": self.said.unknown,
        }


class Filling:
    """Places one pod of each workload in turn, until none fits any more, or `most` were placed."""

    def __init__(
        self,
        workloads: Sequence[Workload],
        snapshot: Snapshot,
        decider: Decider,
        most: int,
        said: ServerSaid = NOTHING_SAID,
    ) -> None:
        self.room = Room({each: Counter() for each in workloads}, said=said)
        self._maker = PodMaker(snapshot, decider.cache, said)
        self._decider, self._most = decider, most

    def steps(self) -> Iterator[str]:
        """Yields the node of each pod when it is placed; the answer is complete at the end."""
        bodies = {each: self._maker.body_of(each) for each in self.room.fit}
        if len(bodies) == 1:
            ((workload, body),) = bodies.items()
            pod = self._maker.pod_named(workload, body, workload.name)
            if self._decider.fits_by_node(pod):
                yield from self._by_node(workload, body, pod)
                return
        going, placed = list(bodies), 0
        while going:
            for workload in list(going):
                if placed >= self._most:
                    self.room.at_least = True
                    return
                if refused := self._maker.refusal(workload, bodies[workload]):
                    going.remove(workload)
                    self.room.refused[workload] = refused
                    continue
                name = f"{workload.name}{MORE}{self.room.fit[workload].total() + 1}"
                pod = self._maker.pod_named(workload, bodies[workload], name)
                decision = self._decider.place_alone(pod)
                if decision.outcome in PLACED and decision.node_name:
                    placed += 1
                    self.room.fit[workload][decision.node_name] += 1
                    yield decision.node_name
                else:
                    going.remove(workload)
                    self.room.stopped[workload] = self._why(pod, decision)

    def _by_node(self, workload: Workload, body: Json, pod: Pod) -> Iterator[str]:
        """Fill the nodes in turn with one pod each, where no pod depends on where the others are."""
        counts, placed = self.room.fit[workload], 0
        going = [*self._decider.cache.nodes]
        while going:
            left = []
            for name in going:
                if placed >= self._most:
                    self.room.at_least = True
                    return
                new = _copy(pod, f"{workload.name}{MORE}{placed + 1}")
                if self._decider.rejection(new, name):
                    continue
                if refused := self._maker.refusal(workload, body):
                    self.room.refused[workload] = refused
                    return
                self._decider.cache.assume(new, name)
                placed += 1
                counts[name] += 1
                left.append(name)
                yield name
            going = left
        last = _copy(pod, f"{workload.name}{MORE}{placed + 1}")
        self.room.stopped[workload] = self._why(last, self._decider.place_alone(last))

    def _why(self, pod: Pod, decision: Decision) -> Why:
        """Why a pod has no node. Those that were placed before it have names that nobody knows."""
        found = why_nowhere(pod, decision, self._decider)
        prefixes = "|".join(re.escape(f"{each.namespace}/{each.name}{MORE}") for each in self.room.fit)
        made_up = re.compile(rf"\b({prefixes})\d+\b")
        found.details = {
            node: [made_up.sub("one of these", line) for line in lines]
            for node, lines in found.details.items()
        }
        return found


def _copy(pod: Pod, name: str) -> Pod:
    """A pod alike, of another name."""
    metadata = msgspec.structs.replace(pod.metadata, name=name, uid=f"{pod.metadata.uid}-{name}")
    return msgspec.structs.replace(pod, metadata=metadata)
