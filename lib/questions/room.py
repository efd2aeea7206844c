"""`room`: how many more pods like these fit, and what stops the next one."""

import re
from collections import Counter, deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from lib.kube.objects import Json, Pod, with_parts
from lib.questions.admission import NOTHING_SAID, ServerSaid
from lib.questions.deciding import Decider, node_of
from lib.questions.device_claims import knows_devices
from lib.questions.manifests import Workload
from lib.questions.new_pods import PodMaker
from lib.questions.snapshot import Snapshot
from lib.questions.verdict import Verdict, verdict
from lib.questions.why import Why, why_nowhere
from lib.scheduling.decision import Decision

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
            knows_devices(stopped.decision)
            for workload, stopped in self.stopped.items()
            if not self.fit[workload]
        )
        return verdict(fits, sure=not self.said.unsure if fits else not only_devices)

    def as_json(self) -> dict[str, Any]:
        """The whole answer, but for the verdict."""
        return {
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
        self.answer = Room({workload: Counter() for workload in workloads}, said=said)
        self._maker = PodMaker(snapshot, decider.cache, said)
        self._decider, self._most = decider, most
        self._bodies: dict[Workload, Json] = {}
        self._rings: dict[Workload, deque[str]] = {}

    def __len__(self) -> int:
        return self._most

    def steps(self) -> Iterator[str]:
        """Yields the node of each pod when it is placed; the answer is complete at the end."""
        bodies = self._bodies = {workload: self._maker.body_of(workload) for workload in self.answer.fit}
        pods = {
            workload: self._maker.pod_named(workload, body, workload.name)
            for workload, body in bodies.items()
        }
        place = self._place
        named = any(pod.node_name for pod in pods)
        if not named and all(map(self._decider.fits_by_node, pods.values())):
            nodes = [*self._decider.cache.nodes]
            self._rings = {pod: deque(nodes) for pod in pods}
            place = self._place_on_next
        going, placed = list(bodies), 0
        while going:
            for workload in list(going):
                if placed >= self._most:
                    self.answer.at_least = True
                    return
                if refused := self._maker.refusal(workload, bodies[workload]):
                    going.remove(workload)
                    self.answer.refused[workload] = refused
                    continue
                pod = self._one_more(workload, pods[workload])
                node_name = place(workload, pod)
                if node_name is None:
                    going.remove(workload)
                else:
                    placed += 1
                    self.answer.fit[workload][node_name] += 1
                    yield node_name

    def _place(self, workload: Workload, pod: Pod) -> str | None:
        """Place a pod as a scheduler would; None if it fits nowhere."""
        named = workload.node_name
        decision = self._decider.place_by_kubelet(pod, named) if named else self._decider.place_alone(pod)
        if node_name := node_of(decision):
            return node_name
        self.answer.stopped[workload] = self._why(pod, decision, suggestions=not named)
        return None

    def _place_on_next(self, workload: Workload, pod: Pod) -> str | None:
        """The same for a pod that fits a node or not, wherever others like it are: the nodes take turns."""
        ring = self._rings[workload]
        while ring:
            if self._decider.rejection(pod, ring[0]):
                ring.popleft()  # nobody leaves, so no further one fits there, either
                continue
            ring.rotate(-1)
            self._decider.cache.assume(pod, ring[-1])
            return ring[-1]
        self.answer.stopped[workload] = self._why(pod, self._decider.place_alone(pod))
        return None

    def _one_more(self, workload: Workload, model: Pod) -> Pod:
        """One more pod of a workload, with claims of its own if it has any."""
        name = f"{workload.name}{MORE}{self.answer.fit[workload].total() + 1}"
        if self._rings:  # these have no claims
            return with_parts(model, metadata={"name": name, "uid": f"{model.metadata.uid}-{name}"})
        return self._maker.pod_named(workload, self._bodies[workload], name)

    def _why(self, pod: Pod, decision: Decision, *, suggestions: bool = True) -> Why:
        """Why a pod has no node. Those that were placed before it have names that nobody knows."""
        found = why_nowhere(pod, decision, self._decider, suggestions=suggestions)
        prefixes = "|".join(
            re.escape(f"{workload.namespace}/{workload.name}{MORE}") for workload in self.answer.fit
        )
        made_up = re.compile(rf"\b({prefixes})\d+\b")
        found.details = {
            node: [made_up.sub("one of these", line) for line in lines]
            for node, lines in found.details.items()
        }
        return found
