"""`drain`: which pods `kubectl drain` would evict when, where each of them goes, and where the drain sticks.

Sources: staging/src/k8s.io/kubectl/pkg/drain/filters.go; pkg/registry/core/pod/storage/eviction.go
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any

from lib.kube.objects import CORDON_TAINT, Node, Pod, PodDisruptionBudget, Taint, with_parts
from lib.questions.deciding import Decider, Placed, without_node
from lib.questions.leaving import leaving_text
from lib.questions.snapshot import DaemonSet, Snapshot
from lib.questions.verdict import Verdict, verdict
from lib.questions.why import Why, why_nowhere
from lib.scheduling.decision import Decision
from lib.scheduling.text import count, listed, verb
from lib.scheduling.workloads import MIRROR, belongs_to_node, controller_of

EXPLAINED = 3
"""For at most so many pods that fit nowhere, each of another controller, the reason is explained in full."""

OF_JOBS = "batch.kubernetes.io/job-tracking"
"""The finalizer of a Job's pods, which the Job's controller removes by itself."""

MANY_BUDGETS = "it has more than one disruption budget, which the eviction subresource does not support"
"""In the API server's words, why such a pod can't be evicted."""


@dataclass(frozen=True)
class Moved:
    """A pod of a drained node, and what came of placing it again: None if nothing makes it again.

    wave: when it is evicted; None if it never is, because of `budgets`, or for the reason `stuck`. held_by:
    what keeps it from ending, if it is being deleted, or has finalizers.
    displaced_by: the pod that it was preempted for, if that is why it moves. unready: whether its budget lets
    it go because it isn't ready.
    """

    pod: Pod
    from_node: str
    again: Placed | None = None
    budgets: tuple[PodDisruptionBudget, ...] = ()
    stuck: str = ""
    held_by: str = ""
    unready: bool = False
    wave: int | None = None
    displaced_by: str = ""

    @property
    def to_node(self) -> str:
        """Its new node; "" if there is none."""
        return self.again.node_name if self.again else ""

    @property
    def why_held(self) -> dict[str, "WhyHeld"]:
        """By the budgets that don't allow its eviction, why."""
        return {str(budget): WhyHeld.of(budget, self.pod) for budget in self.budgets}


@dataclass(frozen=True)
class WhyHeld:
    """Why a budget allows no disruption of a pod. condition: the disruption controller's words, if it failed.

    always_allow_would_help: whether `unhealthyPodEvictionPolicy: AlwaysAllow` would let the pod go.
    """

    healthy: int
    must_be_healthy: int
    pods: int
    condition: str
    always_allow_would_help: bool

    @classmethod
    def of(cls, budget: PodDisruptionBudget, pod: Pod) -> "WhyHeld":
        """Why this budget holds this pod."""
        status, policy = budget.status, budget.spec.unhealthy_pod_eviction_policy
        said = [
            f"{condition.reason}: {condition.message}"
            for condition in status.conditions
            if condition.type == "DisruptionAllowed" and condition.status == "False" and condition.message
        ]
        helps = pod.status.phase == "Running" and not _is_ready(pod) and policy != "AlwaysAllow"
        return cls(
            status.current_healthy, status.desired_healthy, status.expected_pods, "".join(said[:1]), helps
        )

    @property
    def text(self) -> str:
        """In words."""
        why = [self.condition] if self.condition else []
        if not why and self.pods and self.healthy <= self.must_be_healthy:
            healthy = (
                f"{self.healthy:,} of its {count(self.pods, 'pod')} {verb(self.healthy, 'is', 'are')} healthy"
            )
            why = [f"{healthy}, and {self.must_be_healthy:,} must be"]
        if self.always_allow_would_help:
            why += ["with unhealthyPodEvictionPolicy: AlwaysAllow it would let the pod go, which isn't ready"]
        return "; ".join(why)


@dataclass
class Drain:
    """The answer. stay: pods that belong to the node, such as a DaemonSet's. waves: how many there are.

    with_local_data: pods with an emptyDir.
    """

    nodes: list[str]
    moved: list[Moved] = field(default_factory=list)
    stay: list[Pod] = field(default_factory=list)
    with_local_data: list[Pod] = field(default_factory=list)
    waves: int = 0
    why: list[Why] = field(default_factory=list)

    @property
    def homeless(self) -> list[Moved]:
        """The pods that are made again, and fit nowhere else."""
        return [move for move in self.moved if move.again and not move.to_node]

    @property
    def held(self) -> list[Moved]:
        """The pods that are never evicted."""
        return [move for move in self.moved if move.wave is None and not move.displaced_by]

    @property
    def bare(self) -> list[Moved]:
        """The pods that nothing makes again, without those that have finished."""
        return [move for move in self.moved if not move.again and not move.pod.has_finished]

    @property
    def lingering(self) -> list[Moved]:
        """The pods that are being deleted already: kubectl waits until they are gone."""
        return [move for move in self.moved if move.held_by and move.pod.metadata.deletion_timestamp]

    @property
    def options(self) -> dict[str, list[str]]:
        """The options without which kubectl evicts nobody, each with the pods that need it."""
        owners = ((pod, controller_of(pod)) for pod in self.stay)
        daemons = [str(pod) for pod, owner in owners if owner and owner.kind == "DaemonSet"]
        needed = {
            "--ignore-daemonsets": daemons,
            "--delete-emptydir-data": [str(pod) for pod in self.with_local_data],
            "--force": [str(move.pod) for move in self.bare if not move.displaced_by],
        }
        return {option: pods for option, pods in needed.items() if pods}

    @property
    def verdict(self) -> Verdict:
        """Whether all pods are evicted, and those that are made again have other nodes.

        Unknown if nobody knows when one that is being deleted is gone.
        """
        homeless = [move.again for move in self.homeless if move.again]
        sure = not self.lingering if not homeless else any(move.knows_devices for move in homeless)
        return verdict(not homeless and not self.held, sure=sure or bool(self.held))

    def as_json(self) -> dict[str, Any]:
        """The whole answer, but for the verdict."""
        return {
            "nodes": self.nodes,
            "waves": self.waves,
            "kubectl_options": self.options,
            "pods": [
                {
                    "pod": str(move.pod),
                    "from": move.from_node,
                    "to": move.to_node or None,
                    "message": placed.message,
                    "victims": [str(victim) for victim in placed.victims],
                    "unprotected_victims": placed.unprotected,
                    "budgets": [str(budget) for budget in move.budgets],
                    "why_budgets": move.why_held,
                    "held_by": move.held_by or None,
                    "finished": move.pod.has_finished,
                    "stuck": move.stuck or None,
                    "wave": move.wave,
                    "displaced_by": move.displaced_by or None,
                    "made_again": bool(move.again),
                }
                for move in self.moved
                for placed in [move.again or Placed(move.pod)]
            ],
            "stay": [str(pod) for pod in self.stay],
            "why": [why.as_json() for why in self.why],
        }


class Draining:
    """Cordons nodes, and drains one after the other: each wave evicts all pods that their budgets allow.

    A pod that is evicted is made again, placed, and taken to become ready; so its budget allows the next one.
    """

    def __init__(self, names: Sequence[str], decider: Decider, snapshot: Snapshot) -> None:
        self.answer = Drain([*names])
        self._decider = decider
        known = snapshot.objects.get(DaemonSet)
        self._daemon_sets = None if known is None else {*map(str, known)}
        self._by_node: list[list[Pod]] = []
        for node in [decider.cache.nodes[name] for name in names]:
            pods = sorted(node.pods, key=lambda pod: -pod.spec.priority)
            pods += [pod for pod in snapshot.finished if pod.spec.node_name == node.name]
            self.answer.stay += [pod for pod in pods if self._stays(pod)]
            self._by_node.append([pod for pod in pods if not self._stays(pod)])
            decider.set_node(cordoned(node.node))
        self.answer.with_local_data = [
            pod
            for pods in self._by_node
            for pod in pods
            if any(volume.empty_dir is not None for volume in pod.spec.volumes) and not pod.has_finished
        ]

    def __len__(self) -> int:
        return sum(map(len, self._by_node))

    def _stays(self, pod: Pod) -> bool:
        """Whether kubectl leaves a pod alone: a static one, or one of a DaemonSet that is there."""
        if pod.has_finished or self._is_orphan(pod):
            return MIRROR in pod.metadata.annotations
        return belongs_to_node(pod)

    def _is_orphan(self, pod: Pod) -> bool:
        """Whether the DaemonSet of a pod is gone."""
        owner = controller_of(pod)
        if self._daemon_sets is None or owner is None or owner.kind != "DaemonSet":
            return False
        return f"{owner.namespace}/{owner.name}" not in self._daemon_sets

    def steps(self) -> Iterator[Moved]:
        """Yields the result for each pod; the answer is complete at the end."""
        for i, pods in enumerate(self._by_node):
            left = pods
            while left and (now := self._may_go(left)):
                self.answer.waves += 1
                yield from self._wave(now)
                left = [pod for pod in left if pod not in now]
            if left:  # kubectl waits here: it goes on to no other node
                yield from self._held([*left, *(pod for rest in self._by_node[i + 1 :] for pod in rest)])
                return

    def _may_go(self, pods: Sequence[Pod]) -> list[Pod]:
        """The pods whose eviction is allowed now, together."""
        spent, now = Counter[str](), []
        for pod in pods:
            found = self._budgets_of(pod)
            if len(found) > 1:  # the API server refuses that, whatever they allow
                continue
            if all(spent[str(budget)] < budget.status.disruptions_allowed for budget in found):
                now.append(pod)
                spent.update(map(str, found))
        return now

    def _budgets_of(self, pod: Pod) -> list[PodDisruptionBudget]:
        """The budgets that count for a pod; none for one that doesn't run yet, or that is leaving anyway.

        Nor does the budget of a pod that isn't ready count, if there are enough others that are.
        """
        found = self._guards_of(pod)
        if len(found) == 1 and not _is_ready(pod) and _lets_unready_go(found[0]):
            return []
        return found

    def _guards_of(self, pod: Pod) -> list[PodDisruptionBudget]:
        if pod.status.phase == "Pending" or pod.has_finished or pod.metadata.deletion_timestamp:
            return []
        return self._decider.guards_of(pod)

    def _wave(self, pods: Sequence[Pod]) -> Iterator[Moved]:
        """Evict these pods, and place those that are made again."""
        charged = [pod for pod in pods if self._budgets_of(pod)]
        unready = [pod for pod in pods if pod not in charged and self._is_to_become_ready(pod)]
        self._decider.leave(charged)
        for pod in pods:
            if pod not in charged and not pod.has_finished:
                self._decider.remove(pod)
        again = set[str]()
        for pod in pods:
            wave = Moved(pod, pod.spec.node_name, wave=self.answer.waves, unready=pod in unready)
            for moved in self._placed(wave):
                if moved.to_node and moved.pod in (*charged, *unready):
                    again.add(str(moved.pod))
                yield moved
        self._decider.recover([pod for pod in (*charged, *unready) if str(pod) in again])

    def _is_to_become_ready(self, pod: Pod) -> bool:
        """Whether a pod is let go because it isn't ready, so that its budget allows one more afterwards."""
        found = self._guards_of(pod)
        return len(found) == 1 and _has_enough(found[0])

    def _held(self, pods: Sequence[Pod]) -> Iterator[Moved]:
        """What would become of the pods that are never evicted; the first ones' budgets are why."""
        for pod in pods:
            found = self._budgets_of(pod)
            stuck = MANY_BUDGETS if len(found) > 1 else ""
            full = tuple(budget for budget in found if budget.status.disruptions_allowed < 1)
            moved = Moved(pod, pod.spec.node_name, budgets=() if stuck else full, stuck=stuck)
            self._decider.remove(pod)
            yield from self._placed(moved)

    def _placed(self, moved: Moved) -> Iterator[Moved]:
        """A pod with its new node, and then those that it preempts with theirs."""
        controller = controller_of(moved.pod)
        if not moved.displaced_by:
            moved = replace(moved, held_by=_held_by(moved.pod, self._decider.now))
        if controller is None or moved.pod.has_finished or self._is_orphan(moved.pod):
            self.answer.moved.append(moved)
            yield moved
            return
        (decision,) = self._decider.place([without_node(moved.pod)])
        placed = self._decider.settle(decision)
        alike = any(controller_of(why.pod) == controller for why in self.answer.why)
        if not placed.node_name and not alike and len(self.answer.why) < EXPLAINED:
            self.answer.why.append(self._why(placed.pod, decision))
        moved = replace(moved, again=placed)
        self.answer.moved.append(moved)
        if moved.displaced_by and placed.node_name:
            self._decider.recover([moved.pod])
        yield moved
        for victim in placed.victims:
            from_node = victim.spec.node_name or placed.node_name
            yield from self._placed(Moved(victim, from_node, displaced_by=str(moved.pod)))

    def _why(self, pod: Pod, decision: Decision) -> Why:
        """Why a pod fits nowhere else, without suggestions to keep it on its node."""
        why = why_nowhere(pod, decision, self._decider)
        why.suggestions = [
            suggestion
            for suggestion in why.suggestions
            if not any(
                node.metadata.name in self.answer.nodes for fix in suggestion.fixes for node in fix.nodes
            )
        ]
        return why


def _held_by(pod: Pod, now: datetime) -> str:
    """What keeps a pod from ending."""
    if pod.metadata.deletion_timestamp:
        return leaving_text(pod, now)
    finalizers = [finalizer for finalizer in pod.metadata.finalizers if finalizer != OF_JOBS]
    what = verb(len(finalizers), "finalizer", "finalizers")
    return f"{what} {listed(finalizers)} must be removed before it is gone" if finalizers else ""


def _is_ready(pod: Pod) -> bool:
    return any(
        condition.type == "Ready" and condition.status == "True" for condition in pod.status.conditions
    )


def _lets_unready_go(budget: PodDisruptionBudget) -> bool:
    """Whether a budget allows the eviction of each pod that isn't ready."""
    return _has_enough(budget) or budget.spec.unhealthy_pod_eviction_policy == "AlwaysAllow"


def _has_enough(budget: PodDisruptionBudget) -> bool:
    """Whether as many pods are healthy as a budget wants."""
    return budget.status.current_healthy >= budget.status.desired_healthy > 0


def cordoned(node: Node) -> Node:
    """A copy of a node that is cordoned."""
    taints = [taint for taint in node.spec.taints if taint.key != CORDON_TAINT]
    taints.append(Taint(CORDON_TAINT, "", "NoSchedule"))
    return with_parts(node, spec={"unschedulable": True, "taints": taints})
