"""The local picture: each node with what its pods use of it."""

from collections import Counter
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cached_property
from typing import Any, TypeVar

from lib.kube.changes import AnyChange, Change, Kind, unassigned_pod
from lib.kube.objects import LabelSelector, Node, Pod, PodDisruptionBudget, Taint
from lib.kube.selectors import selects
from lib.scheduling.affinity import Namespaces, Terms, terms_of
from lib.scheduling.resources import Resources, amounts, non_zero_requests, pod_requests
from lib.scheduling.volumes.storage import Storage
from lib.scheduling.workloads import Workloads

MAX_JOURNAL = 100_000
"""Changes of nodes' pods that are remembered at the most."""

MAX_MEMO = 1000
"""Things that are remembered of nodes at the most."""

T = TypeVar("T")

HostPort = tuple[str, str, int]
"""Address, protocol, port."""


class NodeInfo:
    """A node, what it has (`allocatable`), its pods, and what these request of that (`requested`).

    Amounts are by resource name: cpu in thousandths of a core, the rest in whole units.
    """

    def __init__(self, node: Node, cache: "Cache | None" = None) -> None:
        self.node = node
        self._cache = cache
        self.name = node.metadata.name
        self.labels: Mapping[str, str] = node.metadata.labels
        self.annotations: Mapping[str, str] = node.metadata.annotations
        self.taints: list[Taint] = node.spec.taints
        self.allocatable: Resources = amounts(node.status.allocatable)
        self.requested: Resources = {}
        self.non_zero_requested: Resources = {}
        self.pods: list[Pod] = []
        self.pods_with_affinity: list[tuple[Pod, Terms]] = []
        self.ports: Counter[HostPort] = Counter()

    @cached_property
    def images(self) -> dict[str, int]:
        """The size in bytes of each image, by each of its names."""
        return {name: image.size_bytes for image in self.node.status.images for name in image.names or ()}

    def add(self, pod: Pod) -> None:
        """Count a pod that runs here, or is going to."""
        self.pods.append(pod)
        if terms := terms_of(pod):
            self.pods_with_affinity.append((pod, terms))
        self._count(pod, 1)

    def remove(self, pod: Pod) -> None:
        """Count a pod no longer; it must be one that was added."""
        self.pods = [each for each in self.pods if each is not pod]
        if self.pods_with_affinity:
            self.pods_with_affinity = [each for each in self.pods_with_affinity if each[0] is not pod]
        self._count(pod, -1)

    def _count(self, pod: Pod, sign: int) -> None:
        for total, requests in (
            (self.requested, pod_requests(pod)),
            (self.non_zero_requested, non_zero_requests(pod)),
        ):
            for name, amount in requests.items():
                total[name] = total.get(name, 0) + sign * amount
        for port in host_ports(pod):
            self.ports[port] += sign
        if self._cache:
            self._cache.touch(self)


class Cache:
    """The nodes by name, and what pods belong to. Kept from tick to tick: changes are applied to it.

    Pods whose node isn't there are kept, too, in case it comes back.
    """

    def __init__(
        self,
        nodes: Iterable[Node] = (),
        assigned: Iterable[Pod] = (),
        namespaces: Namespaces | None = None,
        workloads: Workloads | None = None,
        served: Collection[str] = (),
    ) -> None:
        self._served = served  # namespaces; all, if there are none named
        self.nodes: dict[str, NodeInfo] = {}
        self.with_affinity: dict[str, NodeInfo] = {}  # those with pods that say where others are to be
        self.namespaces: Namespaces = namespaces or {}
        self.workloads = workloads or Workloads()
        self.group_sizes: dict[tuple[str, str], int | str] = {}  # of PodGroups, or why they aren't known
        self.storage = Storage()  # claims, volumes and such
        self.budgets: Sequence[PodDisruptionBudget] | None = ()  # None: they can't be seen
        self.removed: dict[str, Pod] = {}  # by uid: pods that are out of the picture for a try
        self.leaving: set[str] = set()  # uids of pods that are told to leave, and not yet seen to
        self._nominated: dict[str, tuple[Pod, str]] = {}  # by uid: pods that room is made for, and where
        self.assumed: set[str] = set()  # uids of pods that were decided on, and not yet seen on their node
        self._places: dict[str, tuple[Pod, str]] = {}  # by uid
        self._priorities: Counter[int] = Counter()  # of the pods that have a place
        self.version = 0  # grows when a node comes, goes, or is described otherwise
        self.journal: list[str] = []  # since then: nodes whose pods have changed, one after the other
        self._remembered: dict[Hashable, Any] = {}  # since then, too
        for node in nodes:
            self.apply(Change(Kind.ADDED, node))
        for pod in assigned:
            self.apply(Change(Kind.ADDED, pod))

    def apply(self, change: AnyChange) -> None:
        """Make a change part of the picture; of a pod that has no node, the place that is kept for it."""
        if isinstance(change.object, Node):
            self._apply_to_node(change.object, gone=change.kind == Kind.DELETED)
        elif waiting := unassigned_pod(change):
            self._apply_to_waiting(waiting, change)
        elif change.kind == Kind.DELETED:
            self._take_away(change.object)
            self.leaving.discard(_key(change.object))
        else:
            self._put(change.object, change.object.spec.node_name)
            if change.object.metadata.deletion_timestamp:
                self.leaving.discard(_key(change.object))

    def _apply_to_node(self, node: Node, *, gone: bool) -> None:
        name = node.metadata.name
        before = self.nodes.get(name)
        if before and not gone and _described(before.node) == _described(node):
            before.node = node  # a heartbeat, or something else that nobody here looks at
            return
        self._nodes_changed()
        self.with_affinity.pop(name, None)
        if gone:
            self.nodes.pop(name, None)
            return
        info = self.nodes[name] = NodeInfo(node, self)
        for pod in before.pods if before else [pod for pod, place in self._places.values() if place == name]:
            info.add(pod)

    def _nodes_changed(self) -> None:
        self.version += 1
        self.journal = []
        self._remembered = {}
        for known in ("image_spread", "node_list", "node_index"):
            self.__dict__.pop(known, None)

    def _apply_to_waiting(self, pod: Pod, change: AnyChange) -> None:
        now = pod.status.nominated_node_name
        was = change.before.status.nominated_node_name if isinstance(change.before, Pod) else ""
        if change.kind == Kind.DELETED:
            self.nominate(pod, "")
        elif now or was:  # else it may not have heard yet where we nominated it
            self.nominate(pod, now)

    def _put(self, pod: Pod, node_name: str) -> None:
        self._take_away(pod)
        self._nominated.pop(_key(pod), None)
        self._places[_key(pod)] = pod, node_name
        self._priorities[pod.spec.priority] += 1
        if node_name in self.nodes:
            self.nodes[node_name].add(pod)

    def _take_away(self, pod: Pod) -> None:
        self.assumed.discard(_key(pod))
        if _key(pod) not in self._places:
            return
        old, node_name = self._places.pop(_key(pod))
        self._priorities[old.spec.priority] -= 1
        if not self._priorities[old.spec.priority]:
            del self._priorities[old.spec.priority]
        if node_name in self.nodes:
            self.nodes[node_name].remove(old)

    def touch(self, node: NodeInfo) -> None:
        """Hear that a node's pods have changed."""
        if node.pods_with_affinity:
            self.with_affinity[node.name] = node
        else:
            self.with_affinity.pop(node.name, None)
        self.journal.append(node.name)
        if len(self.journal) > MAX_JOURNAL:  # so that it doesn't grow for ever
            self._nodes_changed()

    def remember(self, key: Hashable, find: Callable[[], T]) -> T:
        """What depends on nothing but how the nodes are described: found once, until that changes."""
        if key not in self._remembered:
            if len(self._remembered) > MAX_MEMO:
                self._remembered.clear()
            self._remembered[key] = find()
        found: T = self._remembered[key]
        return found

    def matching(self, namespace: str, selector: LabelSelector) -> Mapping[int, int]:
        """How many pods of a namespace a selector matches that aren't leaving, by their nodes' places."""
        labels = frozenset(selector.match_labels.items())
        key = "matching", namespace, labels, selector.match_expressions
        return self.remember(key, lambda: MatchingPodCounts(self, namespace, selector)).counts()

    def counts(self) -> dict[str, int]:
        """How many nodes, pods with a place, and pods that were only decided on."""
        return {"nodes": len(self.nodes), "pods": len(self._places), "assumed_pods": len(self.assumed)}

    @cached_property
    def node_list(self) -> list[NodeInfo]:
        """The nodes in the order in which they are looked at."""
        return list(self.nodes.values())

    @cached_property
    def node_index(self) -> dict[str, int]:
        """Where each node stands in that order, by its name."""
        return {name: i for i, name in enumerate(self.nodes)}

    @property
    def lowest_priority(self) -> int | None:
        """That of the least important pod that has a place; None if there are no pods."""
        return min(self._priorities, default=None)

    @property
    def looks_at_namespaces(self) -> bool:
        """Whether a term of a pod here selects namespaces by their labels."""
        return any(
            terms.look_at_namespaces
            for node in self.with_affinity.values()
            for _, terms in node.pods_with_affinity
        )

    @cached_property
    def image_spread(self) -> Counter[str]:
        """On how many nodes each image is, by each of its names."""
        return Counter(name for node in self.nodes.values() for name in node.images)

    def assume(self, pod: Pod, node_name: str) -> None:
        """Count a pod on a node before the API server confirms it, so that the next decision knows."""
        self._put(pod, node_name)
        self.assumed.add(_key(pod))

    def nominate(self, pod: Pod, node_name: str) -> None:
        """Keep a place for a pod; "" keeps it no longer."""
        if node_name:
            self._nominated[_key(pod)] = pod, node_name
        else:
            self._nominated.pop(_key(pod), None)

    def nominated_node(self, pod: Pod) -> str | None:
        """Where a place is kept for a pod."""
        return self._nominated.get(_key(pod), (pod, None))[1]

    def nominated_before(self, pod: Pod) -> dict[str, list[Pod]]:
        """By node, the pods for which a place is kept there, unless they are less important than this one."""
        found: dict[str, list[Pod]] = {}
        for other, where in self._nominated.values():
            if other.spec.priority >= pod.spec.priority and _key(other) != _key(pod):
                found.setdefault(where, []).append(other)
        return found

    def may_evict(self, pod: Pod) -> bool:
        """Whether a pod is of a namespace that is served: no other is told to leave."""
        return not self._served or pod.metadata.namespace in self._served

    def is_leaving(self, pod: Pod) -> bool:
        """Whether a pod makes room for a more important one."""
        return _key(pod) in self.leaving or (
            pod.metadata.deletion_timestamp is not None
            and any(
                each.type == "DisruptionTarget" and each.reason == "PreemptionByScheduler"
                for each in pod.status.conditions
            )
        )

    @contextmanager
    def without(self, pods: Iterable[Pod]) -> Iterator["RemovedPods"]:
        """See how the picture would be without some pods of it; they are back when the block ends."""
        away = RemovedPods(self)
        for pod in pods:
            away.take(pod)
        try:
            yield away
        finally:
            for pod in away.taken:
                away.give_back(pod)

    def forget(self, pod: Pod) -> None:
        """Count an assumed pod no longer."""
        if _key(pod) in self.assumed:
            self._take_away(pod)

    def node_of(self, pod: Pod) -> str:
        """The node that a pod of the picture is counted on."""
        return self._places[_key(pod)][1]

    def forget_all(self, uids: Iterable[str]) -> None:
        """Count these assumed pods no longer: they should have been seen, and weren't."""
        for uid in self.assumed.intersection(uids):
            self._take_away(self._places[uid][0])


class ChangedNodes:
    """Tells where in `Cache.node_list` pods have changed since it was asked last."""

    def __init__(self, cache: Cache) -> None:
        self._cache = cache
        self._heard = len(cache.journal)

    def places(self) -> list[int]:
        """Each place once."""
        journal = self._cache.journal[self._heard :]
        self._heard += len(journal)
        return [self._cache.node_index[name] for name in dict.fromkeys(journal)]


class MatchingPodCounts:
    """How many of each node's pods match; counted again only on nodes whose pods have changed."""

    def __init__(self, cache: Cache, namespace: str, selector: LabelSelector) -> None:
        self._cache, self._namespace, self._selector = cache, namespace, selector
        self._counts: dict[int, int] = {}
        self._touched = ChangedNodes(cache)
        self._count(range(len(cache.node_list)))

    def counts(self) -> Mapping[int, int]:
        """By the node's place in `order`; nodes without any are left out."""
        self._count(self._touched.places())
        return self._counts

    def _count(self, places: Iterable[int]) -> None:
        for i in places:
            if count := sum(map(self._means, self._cache.node_list[i].pods)):
                self._counts[i] = count
            else:
                self._counts.pop(i, None)

    def _means(self, pod: Pod) -> bool:
        return (
            pod.metadata.namespace == self._namespace
            and pod.metadata.deletion_timestamp is None
            and selects(self._selector, pod.metadata.labels)
        )


class RemovedPods:
    """Pods that are taken out of the picture for a while."""

    def __init__(self, cache: Cache) -> None:
        self._cache = cache
        self._nodes: dict[str, NodeInfo] = {}
        self._pods: dict[str, Pod] = {}

    @property
    def taken(self) -> list[Pod]:
        """Those that are out now."""
        return list(self._pods.values())

    def take(self, pod: Pod) -> None:
        """Count a pod no longer."""
        node = self._cache.nodes[self._cache.node_of(pod)]
        node.remove(pod)
        self._nodes[_key(pod)], self._pods[_key(pod)] = node, pod
        self._cache.removed[_key(pod)] = pod

    def give_back(self, pod: Pod) -> None:
        """Count a pod again."""
        self._nodes[_key(pod)].add(self._pods.pop(_key(pod)))
        del self._cache.removed[_key(pod)]


def _described(node: Node) -> tuple[object, ...]:
    """All of a node that anything is decided by."""
    return node.spec, node.status, node.metadata.labels, node.metadata.annotations


def _key(pod: Pod) -> str:
    return pod.metadata.uid or str(pod)


def host_ports(pod: Pod) -> list[HostPort]:
    """The ports of its node that a pod takes; sidecars' too, other init containers' not."""
    sidecars = [each for each in pod.spec.init_containers if each.restart_policy == "Always"]
    return [
        (port.host_ip or ANY_ADDRESS, port.protocol or "TCP", port.host_port)
        for container in [*pod.spec.containers, *sidecars]
        for port in container.ports
        if port.host_port > 0
    ]


ANY_ADDRESS = "0.0.0.0"
"""What a host port listens on that names no address: all of them."""
