"""`drain`: where the pods of some nodes would go, which fit nowhere, and which budgets prevent eviction."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec

from lib.kube.objects import Node, Pod, Taint
from lib.questions.deciding import PLACED, Decider, without_node
from lib.questions.why import Why, why_nowhere
from lib.scheduling.decision import Decision
from lib.scheduling.edits import CORDONED
from lib.scheduling.workloads import belongs_to_node, controller_of

EXPLAINED = 3
"""For at most so many pods that fit nowhere, the reason is explained in full."""


@dataclass(frozen=True)
class Moved:
    """A pod of a drained node: its new node ("" if none), why, and the victims.

    budgets: those that don't allow its eviction. made_again: whether a controller would create it again.
    """

    pod: Pod
    from_node: str
    to_node: str = ""
    message: str = ""
    victims: tuple[Pod, ...] = ()
    budgets: tuple[str, ...] = ()
    made_again: bool = True


@dataclass
class Drain:
    """The answer. stay: pods that belong to the node, such as a DaemonSet's."""

    nodes: list[str]
    moved: list[Moved] = field(default_factory=list)
    stay: list[Pod] = field(default_factory=list)
    why: list[Why] = field(default_factory=list)

    @property
    def homeless(self) -> list[Moved]:
        """The pods that fit nowhere else."""
        return [each for each in self.moved if not each.to_node]

    @property
    def held(self) -> list[Moved]:
        """The pods whose eviction a budget prevents."""
        return [each for each in self.moved if each.budgets]

    @property
    def yes(self) -> bool:
        """Whether all pods fit on other nodes, and no budget prevents their eviction."""
        return not self.homeless and not self.held

    def as_json(self) -> dict[str, Any]:
        """The whole answer."""
        return {
            "question": "drain",
            "answer": "yes" if self.yes else "no",
            "nodes": self.nodes,
            "pods": [
                {
                    "pod": str(each.pod),
                    "from": each.from_node,
                    "to": each.to_node or None,
                    "message": each.message,
                    "victims": [str(victim) for victim in each.victims],
                    "budgets": each.budgets,
                    "made_again": each.made_again,
                }
                for each in self.moved
            ],
            "stay": [str(each) for each in self.stay],
            "why": [each.as_json() for each in self.why],
        }


class Draining:
    """Cordons nodes, and places their pods again one after the other, the most important first."""

    def __init__(self, names: Sequence[str], decider: Decider) -> None:
        self.drain = Drain(list(dict.fromkeys(names)))
        self._decider = decider
        nodes = [decider.node(name) for name in self.drain.nodes]
        pods = [pod for node in nodes for pod in node.pods]
        self.drain.stay = [pod for pod in pods if belongs_to_node(pod)]
        self._pods = [pod for pod in pods if not belongs_to_node(pod)]
        self._pods.sort(key=lambda pod: -pod.spec.priority)
        for node in nodes:
            decider.set_node(cordoned(node.node))

    def __len__(self) -> int:
        return len(self._pods)

    def steps(self) -> Iterator[Moved]:
        """Yields the result for each pod; the answer is complete at the end."""
        for pod in self._pods:
            moved = self._move(pod)
            self.drain.moved.append(moved)
            yield moved

    def _move(self, pod: Pod) -> Moved:
        decider, from_node = self._decider, pod.spec.node_name
        budgets = tuple(f"{each.metadata.namespace}/{each.metadata.name}" for each in decider.violated(pod))
        decider.leave([pod])
        again = without_node(pod)
        (decision,) = decider.place([again])
        made_again = controller_of(pod) is not None
        if decision.nominated:
            to_node = decision.nominated
            decider.evict(decision)
        else:
            to_node = (decision.node_name or "") if decision.outcome in PLACED else ""
        if not to_node and len(self.drain.why) < EXPLAINED:
            self.drain.why.append(self._why(again, decision))
        message = "" if to_node else decision.message
        return Moved(pod, from_node, to_node, message, decision.victims, budgets, made_again)

    def _why(self, pod: Pod, decision: Decision) -> Why:
        """Why a pod fits nowhere else, without suggestions to keep it on its node."""
        why = why_nowhere(pod, decision, self._decider)
        why.suggestions = [
            each
            for each in why.suggestions
            if not any(node.metadata.name in self.drain.nodes for fix in each.fixes for node in fix.nodes)
        ]
        return why


def cordoned(node: Node) -> Node:
    """A copy of a node that is cordoned."""
    taints = [each for each in node.spec.taints if each.key != CORDONED]
    taints.append(Taint(CORDONED, "", "NoSchedule"))
    return msgspec.structs.replace(
        node, spec=msgspec.structs.replace(node.spec, unschedulable=True, taints=taints)
    )
