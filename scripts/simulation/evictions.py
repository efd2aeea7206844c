"""Whether an eviction helps, whether it was needed, and whether there was one that no budget forbids."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from scripts.minicluster.resources import DISRUPTION_BUDGETS, NODES, PODS
from scripts.minicluster.selectors import matches_selector
from scripts.minicluster.store import Store, Stored

from .placement import Broken, accepts
from .values import allocatable_of, amounts_of, is_over, labels_of, node_of, ports_of, priority_of

LIMITS = (
    "nodeSelector",
    "affinity",
    "topologySpreadConstraints",
    "volumes",
    "resourceClaims",
    "schedulingGates",
)
"""Fields of a pod's spec that make it harder to say where it fits."""


def is_protected(store: Store, pod: Stored, beside: Sequence[Stored] = ()) -> bool:
    """Whether a budget allows no eviction of this pod now. beside: others that may have to go with it."""
    for budget in store.every(DISRUPTION_BUDGETS, pod.key[0]):
        selector = budget.content["spec"]["selector"]
        if matches_selector(selector, labels_of(pod)):
            count = sum(matches_selector(selector, labels_of(each)) for each in beside)
            if budget.content["status"].get("disruptionsAllowed", 0) < max(1, count):
                return True
    return False


def helps_nobody(nodes: Sequence[Stored], preemptors: Iterable[Stored], here: Iterable[Stored]) -> bool:
    """Whether no preemptor fits on a node even without all pods that matter less.

    nodes: what the node was. preemptors: the versions of pods that wait. here: what is known to be on it.
    """
    staying = [*here]
    return not any(
        not accepts(node, pod) and _has_room(node, [each for each in staying if not _is_less(each, pod)], pod)
        for pod in preemptors
        for node in nodes
    )


@dataclass(frozen=True)
class Preemption:
    """A plain pod for which pods of a node are evicted, and what was on that node before."""

    pod: Stored
    node: Stored
    here: Sequence[Stored]

    def broken(self, store: Store, victims: Sequence[Stored]) -> Iterator[Broken]:
        """What is wrong with these victims, when all have been evicted: who could have stayed?"""
        yield from self._too_many(victims)
        yield from self._too_important(store, victims)

    def _too_important(self, store: Store, victims: Sequence[Stored]) -> Iterator[Broken]:
        """On no other node would less important victims have done, unless a budget protects one."""
        highest = max(map(priority_of, victims))
        for node in store.every(NODES):
            if node.key == self.node.key or accepts(node, self.pod):
                continue
            here = _on(store, node)
            less = [each for each in here if priority_of(each) < highest]
            staying = [each for each in here if each not in less or is_protected(store, each, less)]
            if _has_room(node, staying, self.pod):
                names = ", ".join(sorted(each.key[1] for each in victims))
                others = f"less important pods on {node.key[1]} would do"
                what = f"{names} are evicted for {self.pod.key[1]}; {others}"
                yield Broken("least important victims", what, (self.pod.key[1],))

    def _too_many(self, victims: Sequence[Stored]) -> Iterator[Broken]:
        evicted = {each.metadata["uid"] for each in victims}
        for victim in victims:
            staying = [
                each
                for each in self.here
                if each.metadata["uid"] not in evicted or each.metadata["uid"] == victim.metadata["uid"]
            ]
            if _has_room(self.node, staying, self.pod):
                name, others = victim.key[1], ", ".join(sorted(each.key[1] for each in victims))
                what = f"of {others}, which are evicted for {self.pod.key[1]}, {name} could have stayed"
                yield Broken("no more evictions than needed", what, (name, self.pod.key[1]))


def preemption_of(store: Store, victim: Stored) -> Preemption | None:
    """What a victim is evicted for, if that is one plain pod, and no other may have room reserved."""
    waiting = [
        each
        for each in store.every(PODS)
        if not node_of(each) and not each.content["spec"].get("schedulingGates")
    ]
    preemptors = [each for each in waiting if priority_of(each) > priority_of(victim)]
    if len(preemptors) != 1 or any(_may_have_room(each) for each in waiting if each not in preemptors):
        return None
    (pod,) = preemptors
    if any(pod.content["spec"].get(each) for each in LIMITS) or labels_of(pod).keys() - {"app", "deployment"}:
        return None
    node = store.get(NODES, ("", node_of(victim)))
    if ports_of(pod) or not node:
        return None
    return Preemption(pod, node, _on(store, node))


def broken_by_preemption(store: Store, victim: Stored, preemption: Preemption) -> Iterator[Broken]:
    """What is wrong with an eviction, at the moment of the first one."""
    pod, name = preemption.pod, victim.key[1]
    before = store.get(NODES, ("", pod.content["status"].get("nominatedNodeName", "")))
    elsewhere = before and before.key[1] != node_of(victim) and not accepts(before, pod)
    leaving = [each for each in _on(store, before) if _is_leaving(each, pod)] if before and elsewhere else []
    if leaving:
        what = f"pod {name} is evicted for {pod.key[1]}, for which others leave {node_of(leaving[0])}"
        yield Broken("needless eviction", what, (name, pod.key[1]))
    for node in store.every(NODES):
        if accepts(node, pod):
            continue
        here = _on(store, node)
        if _has_room(node, here, pod):
            what = f"pod {name} is evicted for {pod.key[1]}, which fits on {node.key[1]} without that"
            yield Broken("needless eviction", what, (name, pod.key[1]))
        elif is_protected(store, victim):
            less = [each for each in here if _is_less(each, pod)]
            staying = [each for each in here if each not in less or is_protected(store, each, less)]
            if _has_room(node, staying, pod):
                what = f"pod {name} is evicted against its budget; evictions on {node.key[1]} would have done"
                yield Broken("budget", what, (name,))


def _on(store: Store, node: Stored) -> list[Stored]:
    return [each for each in store.every(PODS) if node_of(each) == node.key[1] and not is_over(each)]


def _is_less(pod: Stored, than: Stored) -> bool:
    return priority_of(pod) < priority_of(than)


def _is_leaving(pod: Stored, preemptor: Stored) -> bool:
    return bool(pod.metadata.get("deletionTimestamp")) and _is_less(pod, preemptor)


def _may_have_room(pod: Stored) -> bool:
    """Whether room may be reserved for a pod that waits."""
    return bool(
        pod.content["status"].get("nominatedNodeName")
        or pod.content["spec"].get("volumes")
        or pod.content["spec"].get("resourceClaims")
        or "hold" in labels_of(pod)
    )


def _has_room(node: Stored, staying: Iterable[Stored], pod: Stored) -> bool:
    """Whether a pod fits on a node beside others."""
    amounts = [amounts_of(each) for each in [*staying, pod]]
    has = allocatable_of(node)
    return all(
        sum(each[resource] for each in amounts) <= has[resource] for resource in ("cpu", "memory", "pods")
    )
