"""Keeps the victims of preemption on each node, for pods that are alike.

Most pods of a burst are alike. They would have the same victims on a node until something on that node
changes. So after each nomination only one node is tried again.

kube-scheduler has no counterpart: it tries the nodes again for each pod, in parallel.
"""

from collections.abc import Callable, Collection, Hashable, Sequence
from operator import is_

from lib.kube.objects import Pod
from lib.scheduling.affinity import terms_of
from lib.scheduling.cache import Cache
from lib.scheduling.kept import Follower, Kept, NodeChange
from lib.scheduling.node_info import NodeInfo
from lib.scheduling.preemption.victims import Harm, Victims, least_harm_for_room
from lib.scheduling.resources import pod_requests
from lib.scheduling.status import Rejection
from lib.scheduling.volumes.claims import has_volumes

MAX_KINDS = 16
"""Results are kept for this many kinds of pods; the least recently used are dropped."""

Answer = Victims | Rejection
"""The victims with which a pod fits on a node, or why there are none."""


def _are_same(some: Sequence[Pod], others: Sequence[Pod]) -> bool:
    return some is others or (len(some) == len(others) and all(map(is_, some, others)))


class KeptForKind(Follower):
    """The results for one kind of pods."""

    def __init__(self) -> None:
        self._by_node: dict[str, tuple[Sequence[Pod], Answer]] = {}
        """By node name, the pods that were nominated to the node, and the result."""

    def follow(self, changes: Sequence[NodeChange]) -> bool:
        """Drop the results of nodes that have changed."""
        for node, _, _ in changes:
            self._by_node.pop(node.name, None)
        return True

    def answer(self, node_name: str, nominated: Sequence[Pod], find: Callable[[str], Answer]) -> Answer:
        """The result for a node: the one that is kept, if the pods that are nominated there are the same.

        The result isn't kept if a nominated pod has affinity terms or volumes. That pods are alike means that
        no filter can tell them apart beside the pods in the cluster. Beside such a nominated pod, one may.
        """
        before, kept = self._by_node.get(node_name, ((), None))
        if kept is not None and _are_same(nominated, before):
            return kept
        answer = find(node_name)
        if not any(terms_of(pod) or has_volumes(pod) for pod in nominated):
            self._by_node[node_name] = nominated, answer
        return answer


class LeastHarm(Follower):
    """For pods of one priority that want the same room: lower bounds of the harm of preemption, by node."""

    def __init__(self, wanted: Collection[tuple[str, int]], priority: int) -> None:
        self._wanted, self._priority = wanted, priority
        self._by_node: dict[str, tuple[Sequence[Pod], Harm | None]] = {}
        """By node name, the pods that were nominated to the node, and the bound."""

    def follow(self, changes: Sequence[NodeChange]) -> bool:
        """Drop the bounds of nodes that have changed."""
        for node, _, _ in changes:
            self._by_node.pop(node.name, None)
        return True

    def on(self, node: NodeInfo, nominated: Sequence[Pod]) -> Harm | None:
        """The bound for a node; None if no room can be made there. nominated: as in least_harm_for_room."""
        kept = self._by_node.get(node.name)
        if kept is None or not _are_same(nominated, kept[0]):
            bound = least_harm_for_room(node, self._wanted, self._priority, nominated)
            kept = self._by_node[node.name] = nominated, bound
        return kept[1]


class KeptVictims:
    """Results by the kind of pod, then by the node's name.

    All are dropped when the disruption budgets change, or a victim is charged to one.
    """

    def __init__(self) -> None:
        self._by_kind: Kept | None = None
        self._bounds: Kept | None = None
        self._budgets: object = None

    def least_harm(self, pod: Pod, lacks: Collection[str], cache: Cache) -> LeastHarm:
        """Lower bounds of the harm for pods like this one. lacks: the resources that the nodes lack."""
        if self._bounds is None or self._bounds.journal is not cache.journal:
            self._bounds = Kept(cache.journal, MAX_KINDS)
        wanted = tuple((name, amount) for name, amount in pod_requests(pod).items() if name in lacks)
        return self._bounds.get((wanted, pod.spec.priority), LeastHarm, wanted, pod.spec.priority)

    def of_kind(self, alike: Hashable | None, pod: Pod, cache: Cache) -> KeptForKind:
        """The results for pods like this one. alike: as in the CycleState (ALIKE); None keeps nothing."""
        if alike is None:
            return KeptForKind()
        # Budgets are looked up in each tick: only the first comparison after that compares their fields.
        looked_up, before = cache.looked_up, self._budgets
        self._budgets = budgets = (looked_up.budgets, looked_up.budgets_unread, cache.disruptions_left())
        if self._by_kind is None or self._by_kind.journal is not cache.journal or budgets != before:
            self._by_kind = Kept(cache.journal, MAX_KINDS)
        return self._by_kind.get((alike, pod.spec.priority), KeptForKind)
