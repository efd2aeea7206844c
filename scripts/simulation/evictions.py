"""Whether evictions help, whether they were needed, and whether there were better ones."""

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass

from scripts.minicluster.resources import DISRUPTION_BUDGETS, NODES, PODS
from scripts.minicluster.selectors import matches_selector
from scripts.minicluster.store import Store, Stored

from .history import History
from .placement import Broken, accepts
from .reach import EVERYWHERE, Reach
from .values import CARD, GPU, allocatable_of, amounts_of, is_over, labels_of, node_of, ports_of, priority_of

LIMITS = (
    "affinity",
    "topologySpreadConstraints",
    "volumes",
    "resourceClaims",
    "schedulingGates",
)
"""Fields of a pod's spec that make it harder to say where it fits."""

HARMLESS = {"app", "deployment", "pod-template-hash"}
"""Labels that don't."""


def helps_nobody(nodes: Sequence[Stored], preemptors: Iterable[Stored], here: Iterable[Stored]) -> bool:
    """Whether no preemptor fits on a node even without all pods that matter less.

    nodes: what the node was. preemptors: the versions of pods that wait. here: what is known to be on it.
    """
    staying = [*here]
    return not any(
        not accepts(node, pod) and has_room(node, [each for each in staying if not is_less(each, pod)], pod)
        for pod in preemptors
        for node in nodes
    )


def is_plain(pod: Stored) -> bool:
    """Whether it is easy to say where a pod fits."""
    if CARD in amounts_of(pod):
        return False
    limits = any(pod.content["spec"].get(each) for each in LIMITS)
    return not (limits or labels_of(pod).keys() - HARMLESS or ports_of(pod))


@dataclass(frozen=True)
class State:
    """A cluster at a moment."""

    nodes: Sequence[Stored]
    pods: Sequence[Stored]
    budgets: Sequence[Stored]
    reach: Reach = EVERYWHERE

    @classmethod
    def of(cls, store: Store, reach: Reach = EVERYWHERE) -> "State":
        """The cluster as it is now, as far as a poller may see it."""
        pods = [each for each in store.every(PODS) if reach.sees(each)]
        return cls(store.every(NODES), pods, store.every(DISRUPTION_BUDGETS), reach)

    def on(self, name: str) -> list[Stored]:
        """The pods on a node."""
        return [each for each in self.pods if node_of(each) == name and not is_over(each)]

    def is_protected(self, pod: Stored, beside: Sequence[Stored] = ()) -> bool:
        """Whether a budget allows no eviction of this pod. beside: others that may have to go with it."""
        for budget in self.budgets:
            selector = budget.content["spec"]["selector"]
            if budget.key[0] == pod.key[0] and matches_selector(selector, labels_of(pod)):
                count = sum(matches_selector(selector, labels_of(each)) for each in beside)
                if budget.content["status"].get("disruptionsAllowed", 0) < max(1, count):
                    return True
        return False


def without_room(state: State, history: History, pod: Stored, since: float) -> Iterator[Stored]:
    """The pods for which a pod that was just bound leaves no room, of those for which room is kept there.

    They have been nominated to its node since a time, and are not less important. Those that leave don't
    count.
    """
    node_name, uid = node_of(pod), pod.metadata["uid"]
    node = next((each for each in state.nodes if each.key[1] == node_name), None)
    staying = [each for each in state.on(node_name) if not each.metadata.get("deletionTimestamp")]
    for other in state.pods:
        same = other.content["spec"]["schedulerName"] == pod.content["spec"]["schedulerName"]
        if (
            node_of(other)
            or not (same and state.reach.serves(other))
            or other.metadata["uid"] == uid
            or is_less(other, pod)
        ):
            continue
        nominated = {nominated_to(each) for each in history.pod(other.metadata["uid"], since)}
        if not node or nominated != {node_name} or has_room(node, staying, other):
            continue
        if has_room(node, [each for each in staying if each.metadata["uid"] != uid], other):
            yield other


def waits_needlessly(store: Store, schedulers: Collection[str], reach: Reach) -> Iterator[Broken]:
    """Plain pods that wait, though they fit on a node, or could preempt others there.

    Those of these schedulers, as far as these serve their namespaces.
    """
    state = State.of(store)
    for pod in state.pods:
        spec, name = pod.content["spec"], pod.key[1]
        waits = not (node_of(pod) or pod.metadata.get("deletionTimestamp"))
        is_served = spec["schedulerName"] in schedulers and reach.serves(pod)
        if not (waits and is_served and is_plain(pod)):
            continue
        for node in state.nodes:
            kept = [each for each in state.pods if nominated_to(each) == node.key[1] and not node_of(each)]
            here = [each for each in kept if each is not pod and not is_less(each, pod)]
            here += state.on(node.key[1])
            if accepts(node, pod):
                continue
            if has_room(node, here, pod):
                yield Broken("liveness", f"pod {name} waits, and there is room on {node.key[1]}", (name,))
            elif has_room(
                node, [each for each in here if not (is_less(each, pod) and reach.serves(each))], pod
            ):
                what = f"pod {name} waits, and could preempt others on {node.key[1]}"
                yield Broken("liveness", what, (name,))


@dataclass(frozen=True)
class Preemption:
    """A plain pod for which pods of a node were evicted, and the cluster before and after that.

    failed: pods that may have had a node when this was decided. charged: victims of pods that were decided on
    just before, of which no budget tells yet. may_be_charged: the same, if these pods may have been.
    """

    pod: Stored
    victims: Sequence[Stored]
    before: State
    after: State
    failed: Sequence[Stored] = ()
    charged: Sequence[Stored] = ()
    may_be_charged: Sequence[Stored] = ()

    def broken(self) -> Iterator[Broken]:
        """What is wrong with these evictions."""
        node_name, who = node_of(self.victims[0]), self.pod.key[1]
        names = ", ".join(sorted(each.key[1] for each in self.victims))
        together = [*self.charged, *self.victims]
        violates = any(self.before.is_protected(each, together) for each in self.victims)
        highest = max(map(priority_of, self.victims))
        for node in self.before.nodes:
            if accepts(node, self.pod):
                continue
            name, here = node.key[1], self._room_taken(node.key[1])
            if name != node_name and has_room(node, here.values(), self.pod):
                what = f"{names} are evicted for {who}, which fits on {name} without that"
                yield Broken("needless eviction", what, (who,))
            elif name != node_name and violates and self._does(node, here, priority_of(self.pod)):
                what = f"{names} are evicted for {who} against a budget; evictions on {name} would have done"
                yield Broken("budget", what, (who,))
            elif name != node_name and self._does(node, here, highest):
                what = f"{names} are evicted for {who}; less important pods on {name} would have done"
                yield Broken("least important victims", what, (who,))
            elif name == node_name:
                yield from self._too_many(node, here)

    def _too_many(self, node: Stored, here: dict[str, Stored]) -> Iterator[Broken]:
        """Those of the victims that could have stayed."""
        gone = {each.metadata["uid"] for each in self.victims}
        staying = [each for uid, each in here.items() if uid not in gone]
        for victim in self.victims:
            if has_room(node, [*staying, victim], self.pod):
                what = f"{victim.key[1]}, which was evicted for {self.pod.key[1]}, could have stayed"
                yield Broken("no more evictions than needed", what, (victim.key[1], self.pod.key[1]))

    def _room_taken(self, name: str) -> dict[str, Stored]:
        """By uid, the pods on a node, those for which its room is kept or may be, and those that came."""
        kept = [
            each
            for state in (self.before, self.after)
            for each in state.pods
            if not node_of(each)
            and each.content["status"].get("nominatedNodeName") == name
            and each.metadata["uid"] != self.pod.metadata["uid"]
        ]
        here = [*self.before.on(name), *self.after.on(name), *kept, *self.failed]
        return {
            each.metadata["uid"]: each for each in here if each.metadata["uid"] != self.pod.metadata["uid"]
        }

    def _does(self, node: Stored, here: dict[str, Stored], below: int) -> bool:
        """Whether evictions of pods below a priority make room on a node, and no budget forbids them.

        What a budget allows goes to the more important of all that may be victims, as in kube-scheduler.
        """
        on_node = self.before.on(node.key[1])
        potential = [each for each in on_node if is_less(each, self.pod)]
        less = [each for each in on_node if priority_of(each) < below and self.before.reach.serves(each)]
        beside = [*self.may_be_charged, *potential]
        may_go = {each.metadata["uid"] for each in less if not self.before.is_protected(each, beside)}
        return has_room(node, [each for uid, each in here.items() if uid not in may_go], self.pod)


def nominated_to(pod: Stored) -> str:
    """The node to which a pod is nominated; "" if there is none."""
    name: str = pod.content["status"].get("nominatedNodeName") or ""
    return name


def is_less(pod: Stored, than: Stored) -> bool:
    """Whether a pod matters less than another."""
    return priority_of(pod) < priority_of(than)


def has_room(node: Stored, staying: Iterable[Stored], pod: Stored) -> bool:
    """Whether a pod fits on a node beside others, as far as the node has what it requests itself."""
    amounts = [amounts_of(each) for each in [*staying, pod]]
    has = allocatable_of(node)
    resources = ["cpu", "memory", "pods", *({GPU} & amounts[-1].keys())]
    return all(sum(each[resource] for each in amounts) <= has[resource] for resource in resources)
