"""`try`: where the pods of manifests would go, one after the other, and the victims of preemption."""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from msgspec.structs import replace

from lib.kube.objects import Pod
from lib.questions.admission import NOTHING_SAID, ServerSaid
from lib.questions.deciding import Decider, Placed, node_of
from lib.questions.errors import QuestionError
from lib.questions.manifests import Workload
from lib.questions.new_pods import NewPod, PodMaker
from lib.questions.rollout import RollingOut, Rollout
from lib.questions.snapshot import Snapshot
from lib.questions.usage import Usage, usage_of
from lib.questions.verdict import Verdict, verdict
from lib.questions.why import Why, why_nowhere
from lib.scheduling.decision import Decision, counted
from lib.scheduling.queue import batches
from lib.scheduling.resources import pod_requests
from lib.scheduling.text import count
from lib.scheduling.volumes.claims import claim_names

EXPLAINED = 3
"""For so many workloads that don't fit, `try` explains the reason in full."""

MOST_PODS = 100_000
"""The most pods that are tried, besides DaemonSets': a few bytes of a manifest can ask for any number."""


@dataclass
class Trial:
    """The answer. placed: all pods in order; workloads: those of each workload. why: for some workloads, why
    the first pod without a node has none. said: what the API server said of them.

    before, after: the usage of the nodes that got pods.
    """

    placed: list[Placed] = field(default_factory=list)
    workloads: dict[Workload, list[Placed]] = field(default_factory=dict)
    why: dict[Workload, Why] = field(default_factory=dict)
    said: ServerSaid = NOTHING_SAID
    rollouts: list[Rollout] = field(default_factory=list)
    before: dict[str, Usage] = field(default_factory=dict)
    after: dict[str, Usage] = field(default_factory=dict)

    @property
    def verdict(self) -> Verdict:
        """Whether all are created, and have a node."""
        without = [placed for placed in self.placed if not placed.node_name]
        refused = self.said.refused or any(placed.is_refused for placed in without)
        only_devices = not any(placed.knows_devices for placed in without)
        unknown = self.said.unsure if not without else only_devices
        stuck = any(rollout.stuck for rollout in self.rollouts)
        return verdict(not without and not refused and not stuck, sure=bool(refused) or not unknown)

    @property
    def victims(self) -> list[Pod]:
        """All victims of preemption."""
        return [victim for placed in self.placed for victim in placed.victims]

    def add(self, workload: Workload, placed: Placed) -> Placed:
        """The result for one more pod; returns it."""
        self.placed.append(placed)
        self.workloads.setdefault(workload, []).append(placed)
        return placed

    def as_json(self) -> dict[str, Any]:
        """The whole answer, but for the verdict."""
        return {
            "workloads": [
                {
                    "kind": workload.kind,
                    "namespace": workload.namespace,
                    "name": workload.name,
                    "pods": len(pods),
                    "placed": sum(bool(placed.node_name) for placed in pods),
                    "nodes": dict(Counter(placed.node_name for placed in pods if placed.node_name)),
                }
                for workload, pods in self.workloads.items()
            ],
            "pods": [
                {
                    "pod": str(placed.pod),
                    "node": placed.node_name or None,
                    "message": placed.message,
                    "victims": [str(victim) for victim in placed.victims],
                    **({"unprotected_victims": placed.unprotected} if placed.unprotected else {}),
                }
                for placed in self.placed
            ],
            "nodes": {
                name: {"before": self.before[name].as_json(), "after": usage.as_json()}
                for name, usage in self.after.items()
            },
            "why": [why.as_json() for why in self.why.values()],
            "rollouts": [rollout.as_json() for rollout in self.rollouts],
            "refused": self.said.refused,
            "unknown": self.said.unknown,
        }


def new_pods(
    workloads: Iterable[Workload], snapshot: Snapshot, decider: Decider, said: ServerSaid = NOTHING_SAID
) -> list[NewPod]:
    """All pods of some workloads in the order of placement: if they name a node, then by priority.

    QuestionError when they are too many, or can't be.
    """
    workloads = list(workloads)
    if (asked := sum(workload.replicas or 0 for workload in workloads)) > MOST_PODS:
        raise QuestionError(f"these are {asked:,} pods; try places no more than {MOST_PODS:,}")
    maker = PodMaker(snapshot, decider.cache, said)
    found: list[NewPod] = []
    for workload in workloads:
        if workload.existing and not workload.is_rolled_out:
            pods = count(len(workload.existing), "pod")
            snapshot.note(f"{workload} is there already with {pods}; they stay, and the new ones come on top")
        if workload.replicas is None:
            found += maker.daemon_pods_of(workload, decider.cache.nodes.values())
        else:
            found += maker.pods_of(workload)
    return sorted(found, key=lambda new_pod: (not new_pod.workload.node_name, -new_pod.pod.spec.priority))


def decisions(new: Sequence[NewPod], decider: Decider, *, preempts: bool = True) -> Iterator[Decision]:
    """A decision for each new pod, in order; groups as a whole. Each must be settled before the next.

    preempts: whether others may have to leave.
    """
    by_uid = {new_pod.pod.metadata.uid: new_pod for new_pod in new}
    failed: tuple[NewPod, Decision] | None = None  # the last failure; nothing was placed since
    for batch in batches(new_pod.pod for new_pod in new):
        first = by_uid[batch[0].metadata.uid]
        if len(batch) > 1:
            found = decider.place(batch, preempts=preempts)
        elif first.workload.node_name:
            found = [decider.place_by_kubelet(first.pod, first.node_name)]
        elif first.node_name:
            found = [decider.place_on(first.pod, first.node_name, preempts=preempts)]
        elif failed and _alike(failed[0], first):
            found = [replace(failed[1], pod=first.pod)]
        else:
            found = decider.place(batch) if preempts else [decider.place_alone(first.pod)]
        last = found[-1]
        failed = None if node_of(last) or first.node_name else (first, last)
        yield from found


class Placing:
    """Places new pods one after the other in a decider's cluster.

    said: what the API server said of them. explained: for so many workloads that don't fit, the reason is
    explained in full. emptied: workloads that are there and are to have no pods; theirs leave first.
    """

    def __init__(
        self,
        new: Sequence[NewPod],
        decider: Decider,
        said: ServerSaid = NOTHING_SAID,
        explained: int = EXPLAINED,
        emptied: Sequence[Workload] = (),
    ) -> None:
        self.answer, self._emptied = Trial(said=said), emptied
        self._new, self._decider, self._explained = new, decider, explained
        self._by_uid = {new_pod.pod.metadata.uid: new_pod for new_pod in new}

    def __len__(self) -> int:
        return len(self._new)

    def steps(self) -> Iterator[Placed]:
        """Yields the result for each pod; the trial is complete at the end."""
        for new in self._new:
            if new.refused:
                yield self.answer.add(new.workload, Placed(new.pod, message=new.refused, is_refused=True))
        yield from self._rollouts()
        left = [
            new_pod for new_pod in self._new if not new_pod.refused and not new_pod.workload.is_rolled_out
        ]
        for decision in decisions(left, self._decider):
            yield self._settle(decision)
        for name, before in self.answer.before.items():
            self.answer.after[name] = usage_of(self._decider.cache.nodes[name], before.resources)

    def _rollouts(self) -> Iterator[Placed]:
        """Replace the pods of workloads that are there already."""
        trial = self.answer
        workloads = dict.fromkeys((*self._emptied, *(new_pod.workload for new_pod in self._new)))
        for workload in [workload for workload in workloads if workload.is_rolled_out]:
            new = [new_pod for new_pod in self._new if new_pod.workload is workload and not new_pod.refused]
            if not new and workload.replicas:
                continue
            changed = str(workload) not in trial.said.unchanged and not workload.paused
            rolling = RollingOut(workload, new, self._place_now, self._decider.remove, changed=changed)
            first = len(trial.placed)
            trial.rollouts.append(rolling.run())
            with self._decider.trying() as (place, remove):
                trial.rollouts[-1].max_unavailable = rolling.would_end(lambda new: place(new.pod), remove)
            for waiting in rolling.waiting:
                self._settle(*decisions([waiting], self._decider))
            yield from trial.placed[first:]

    def _place_now(self, new: NewPod) -> str:
        """The node of a pod that fits now; one that doesn't is tried again in the next step."""
        (decision,) = decisions([new], self._decider)
        return self._settle(decision).node_name if node_of(decision) else ""

    def _settle(self, decision: Decision) -> Placed:
        new, trial, node_name = self._by_uid[decision.pod.metadata.uid], self.answer, node_of(decision)
        if node_name and node_name not in trial.before:
            trial.before[node_name] = _before(self._decider, node_name, decision)
        placed = self._decider.settle(decision)
        if not node_name and new.workload not in trial.why and len(trial.why) < self._explained:
            trial.why[new.workload] = _why(new, decision, self._decider)
        added = trial.add(new.workload, placed)
        for victim in placed.victims:
            if preempted := self._by_uid.get(victim.metadata.uid):
                self._place_again(preempted)
        return added

    def _place_again(self, new: NewPod) -> None:
        """A new pod lost its node to a more important one: where does it go now?"""
        for placed in (self.answer.placed, self.answer.workloads[new.workload]):
            placed[:] = [each for each in placed if each.pod.metadata.uid != new.pod.metadata.uid]
        self._settle(*decisions([new], self._decider))


def _alike(one: NewPod, other: NewPod) -> bool:
    """Whether two pods have the same requirements: pods of a StatefulSet may have claims of their own."""
    claims = [[name.name for name in claim_names(new.pod)] for new in (one, other)]
    return one.workload is other.workload and claims[0] == claims[1]


def _before(decider: Decider, name: str, decision: Decision) -> Usage:
    """A node's usage before its first new pod, which is counted there already if there are no victims."""
    own = pod_requests(decision.pod)
    usage = usage_of(decider.cache.nodes[name], ["cpu", "memory", *own])
    if decision.nominated:
        return usage
    less = {name: used - own.get(name, 0) for name, used in usage.requested.items()}
    return Usage({**less, "pods": usage.requested["pods"] - 1}, usage.capacity)


def _why(new: NewPod, decision: Decision, decider: Decider) -> Why:
    """Why a pod has no node now; if it has an only possible node, why not this one."""
    if new.workload.node_name:
        return why_nowhere(new.pod, decision, decider, suggestions=False)
    decision = decider.ask(new.pod)
    if new.node_name:
        rejection = decision.rejected[new.node_name]
        rejected = {new.node_name: rejection}
        message = counted(decision.all_nodes, rejected)
        decision = replace(decision, rejected=rejected, message=message)
    return why_nowhere(new.pod, decision, decider)
