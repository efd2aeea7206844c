"""The cache: what is known of the cluster, each node with its pods, assumed pods included.

Counterpart in kube-scheduler: pkg/scheduler/backend/cache/cache.go
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from functools import cached_property
from itertools import chain, zip_longest
from typing import TYPE_CHECKING, TypeVar

from lib.kube.changes import AnyChange, Change, Kind
from lib.kube.objects import DISRUPTED, Node, Pod, PodGroupRef
from lib.kube.storage import StorageObject
from lib.scheduling.affinity import terms_of
from lib.scheduling.kept import Journal, Kept, NodeChange, OfAllNodes
from lib.scheduling.looked_up import LookedUp
from lib.scheduling.node_info import NodeInfo, described
from lib.scheduling.nominator import Nominator
from lib.scheduling.pod_groups import group_of
from lib.scheduling.pod_life import ROOM, Phase, PodLives, pod_key
from lib.scheduling.resources import add

if TYPE_CHECKING:
    from lib.kube.devices import DeviceObject, ResourceClaim
    from lib.scheduling.devices.cluster_devices import ClusterDevices
    from lib.scheduling.disruption_budgets import DisruptionsLeft
    from lib.scheduling.storage import Storage

LEAST_CHANGES = 2_000
"""The journal starts over when it has more changes than this, and more than there are nodes and pods on them:
to follow them would take longer than to find a value anew, and they hold pods that have gone."""

MAX_KEPT = 1000
"""At most so many values are kept; the least recently used are dropped."""

T = TypeVar("T")


class Cache:
    """The nodes with their pods. There is one cache for as long as poller runs; changes are applied to it.

    Pods whose node isn't known are kept, too: the node may come back.

    served: pods of these namespaces may be evicted; empty for all. lives: the pods' records; without them,
    the cache has its own.
    """

    def __init__(
        self,
        nodes: Iterable[Node] = (),
        assigned: Iterable[Pod] = (),
        looked_up: LookedUp | None = None,
        served: Collection[str] = (),
        lives: PodLives | None = None,
    ) -> None:
        self.lives = lives or PodLives()
        self._served = served
        self.nodes: dict[str, NodeInfo] = {}
        """The nodes, by name."""
        self.image_sizes: dict[str, dict[str, int]] = {}
        """By an image's name, its size in bytes on each node that has it."""
        self._assigned: dict[str, tuple[Pod, str]] = {}
        """By uid, the pods that have a node, also if they are only assumed, each with the node's name."""
        self._without_node: dict[str, dict[str, Pod]] = {}
        """The assigned pods whose node isn't known, by the node's name and the pod's uid."""
        self._members: Counter[PodGroupRef] = Counter()
        """How many pods of each group are assigned and aren't being deleted."""
        self._priorities: Counter[int] = Counter()
        """How many assigned pods have each priority."""
        self.nominator = Nominator(self.lives)

        self.journal = Journal[NodeChange](LEAST_CHANGES)
        """The changes of nodes and of their pods. It starts over when a node comes or goes."""
        self.kept = Kept(self.journal, MAX_KEPT)
        self.knows_claims = False
        """Whether all resource claims and devices were read."""
        self.unlisted_claims: dict[str, ResourceClaim] = {}
        """See ClusterDevices."""
        self._looked_up = looked_up or LookedUp()

        self.pods_with_terms = 0
        """How many assigned pods have affinity terms, at most: all that are nominated for a try count."""
        self.removed: dict[str, Pod] = {}
        """By uid, the pods that are removed for a try."""
        self._added: tuple[Collection[Pod], str] = (), ""
        """The nominated pods that are added for a try, and their node's name."""
        for node in nodes:
            self.apply(Change(Kind.ADDED, node))
        for pod in assigned:
            self.apply(Change(Kind.ADDED, pod))

    def apply(self, change: AnyChange) -> None:
        """Apply a change. A pod without a node isn't in the cache: it waits in the queue."""
        changed, gone = change.object, change.kind == Kind.DELETED
        if isinstance(changed, Node):
            self._apply_to_node(changed, gone=gone)
        elif isinstance(changed, StorageObject):
            (self.storage.delete if gone else self.storage.put)(changed)
        elif not isinstance(changed, Pod):
            self._apply_to_devices(changed, gone=gone)
        elif changed.spec.node_name:
            self.nominator.delete(changed)
            self.lives.end(changed)
            if gone or changed.metadata.deletion_timestamp:
                self.lives.spare([changed])
            if gone:
                self._take_away(changed)
            else:
                self._put(changed, changed.spec.node_name)

    def _apply_to_devices(self, device_object: DeviceObject, *, gone: bool) -> None:
        if (self.devices.delete if gone else self.devices.put)(device_object):
            self._start_over()  # other resources are served by a DeviceClass: any node may fit

    def with_own_writes(self, change: AnyChange) -> AnyChange:
        """The change of a resource claim, as it is after what poller wrote since it last read the claim.

        A claim that got devices and lost them in between has changed, though it looks as before.
        """
        if change.kind == Kind.ADDED or isinstance(change.object, Pod | Node | StorageObject):
            return change
        return self.devices.with_own_writes(change)

    @cached_property
    def storage(self) -> Storage:
        """Volume claims, volumes, and what these depend on. Their module is imported when they come."""
        from lib.scheduling.storage import Storage

        return Storage()

    @cached_property
    def devices(self) -> ClusterDevices:
        """Resource claims and devices. The modules for them are imported when this is first asked for."""
        from lib.scheduling.devices.cluster_devices import ClusterDevices

        devices = ClusterDevices()
        devices.unlisted = self.unlisted_claims
        return devices

    @property
    def classes_by_resource(self) -> Mapping[str, str]:
        """The extended resources that DeviceClasses serve, each with the name of its class."""
        return self.devices.served if "devices" in self.__dict__ else {}

    def _apply_to_node(self, node: Node, *, gone: bool) -> None:
        name = node.metadata.name
        before = self.nodes.get(name)
        if gone:
            self._delete_node(name, before)
            return
        if before and described(before.node) == described(node):
            before.node = node  # a heartbeat, or something else that decisions don't depend on
            return
        info = NodeInfo(node, self.journal)
        moved = before is not None and before.zone != info.zone
        if before and before.node.status.images == node.status.images and not moved:
            self._replace_node(before, info)
        else:
            self._start_over()
            if moved:
                del self.nodes[name]  # it becomes the last of its zone
            self.nodes[name] = info
            self._note_images(name, before, info)
        for pod in before.pods if before else self._without_node.pop(name, {}).values():
            info.add(pod)

    def _delete_node(self, name: str, before: NodeInfo | None) -> None:
        self._start_over()
        self.nodes.pop(name, None)
        if before and before.pods:
            self._without_node[name] = {pod_key(pod): pod for pod in before.pods}
        self._note_images(name, before, None)

    def _replace_node(self, before: NodeInfo, now: NodeInfo) -> None:
        """Replace an updated node. Kept values can follow that.

        They can't follow a change of images, on which the scores of other nodes depend, or of the zone. In
        the journal the old node's pods are removed, so that counts of pods are right.
        """
        self.nodes[now.name] = now
        if "node_list" in self.__dict__:
            self.node_list[self.node_index[now.name]] = now
        for pod in before.pods:
            self.journal.add((before, pod, -1))
        self.journal.add((now, None, 0))

    def _note_images(self, name: str, before: NodeInfo | None, now: NodeInfo | None) -> None:
        """The node of this name has other images, has come, or has gone."""
        for image in before.images if before else ():
            del self.image_sizes[image][name]
            if not self.image_sizes[image]:
                del self.image_sizes[image]
        for image, size in now.images.items() if now else ():
            self.image_sizes.setdefault(image, {})[name] = size

    def pods(self) -> list[tuple[Pod, str]]:
        """All pods with their node's name, which is "" for those in the queue. Any thread may ask."""
        waiting = {life.key: (life.pod, "") for life in self.lives.all() if life.phase != Phase.OUT}
        return [*{**waiting, **self._assigned}.values()]

    def _start_over(self) -> None:
        """Have all kept values found anew: a node comes or goes, or has other images."""
        self.journal.start_over()
        for name in ("node_list", "node_index", "node_names"):
            self.__dict__.pop(name, None)

    def _put(self, pod: Pod, node_name: str) -> None:
        key = pod_key(pod)
        if key in self._assigned:
            self._take_away(pod)
        self._assigned[key] = pod, node_name
        self.journal.limit = max(LEAST_CHANGES, len(self.nodes) + len(self._assigned))
        self._priorities[pod.spec.priority] += 1
        self.pods_with_terms += bool(terms_of(pod))
        self._count_member(pod, 1)
        if node_name in self.nodes:
            self.nodes[node_name].add(pod)
        else:
            self._without_node.setdefault(node_name, {})[key] = pod

    def _take_away(self, pod: Pod) -> None:
        key = pod_key(pod)
        if key not in self._assigned:
            return
        old, node_name = self._assigned.pop(key)
        add(self._priorities, old.spec.priority, -1)
        self.pods_with_terms -= bool(terms_of(old))
        self._count_member(old, -1)
        if node_name in self.nodes:
            self.nodes[node_name].remove(old)
        elif pods := self._without_node.get(node_name):
            pods.pop(key, None)
            if not pods:
                del self._without_node[node_name]

    def _count_member(self, pod: Pod, sign: int) -> None:
        """A pod comes (sign 1) or goes (-1). One that is being deleted doesn't count in its group."""
        if (group := group_of(pod)) and not pod.metadata.deletion_timestamp:
            add(self._members, group, sign)

    @property
    def looked_up(self) -> LookedUp:
        """What was looked up for the pods that are tried now."""
        return self._looked_up

    @looked_up.setter
    def looked_up(self, now: LookedUp) -> None:
        if now.namespaces != self._looked_up.namespaces:
            self.kept.clear()  # it may have counts of pods by their namespace's labels
        self._looked_up = now

    def remember(self, key: Hashable, find: Callable[[], T]) -> T:
        """The result of `find`, kept until a node is added, changed or deleted."""
        return self.kept.get(key, lambda: OfAllNodes(find())).value

    def counts(self) -> dict[str, int]:
        """The numbers of nodes, assigned pods, and assumed pods."""
        assumed = self.lives.count(ROOM)
        return {"nodes": len(self.nodes), "pods": len(self._assigned), "assumed_pods": assumed}

    @cached_property
    def node_list(self) -> list[NodeInfo]:
        """The nodes in the order in which they are filtered: zone by zone in turn.

        So a sample of them is of all zones. Source: pkg/scheduler/backend/cache/node_tree.go
        """
        zones: dict[tuple[str, str], list[NodeInfo]] = {}
        for node in self.nodes.values():
            zones.setdefault(node.zone, []).append(node)
        return [node for node in chain.from_iterable(zip_longest(*zones.values())) if node]

    @cached_property
    def node_index(self) -> dict[str, int]:
        """Each node's index in `node_list`, by its name."""
        return {node.name: i for i, node in enumerate(self.node_list)}

    @cached_property
    def node_names(self) -> list[str]:
        """The names of the nodes in `node_list`."""
        return [*self.node_index]

    @property
    def lowest_priority(self) -> int | None:
        """The lowest priority of an assigned pod; None if there is no such pod."""
        return min(self._priorities, default=None)

    def assume(self, pod: Pod, node_name: str) -> None:
        """Add a pod to a node before the API server confirms it, so that the next decision counts it."""
        self.lives.move(self.lives.of(pod), Phase.ASSUMED)
        self._put(pod, node_name)

    def may_evict(self, pod: Pod) -> bool:
        """Whether poller may evict a pod: only in the namespaces that it serves.

        False if the pod's namespace has a budget that can't be decoded: it may protect the pod.
        """
        namespace = pod.metadata.namespace
        return namespace not in self._looked_up.budgets_unread and (
            not self._served or namespace in self._served
        )

    @cached_property
    def _disruptions_left(self) -> DisruptionsLeft:
        from lib.scheduling.disruption_budgets import DisruptionsLeft  # here, as few runs need it

        return DisruptionsLeft()

    def disruptions_left(self) -> tuple[int, ...]:
        """For each disruption budget, how many more pods may be evicted after those that are leaving."""
        if not self._looked_up.budgets:
            return ()
        return self._disruptions_left.of(self._looked_up.budgets, self._preempted())

    def count_members(self, group: PodGroupRef) -> int:
        """How many pods of a group are assigned; those that are being deleted or preempted don't count."""
        return self._members[group] - sum(group_of(pod) == group for pod in self._preempted().values())

    def _preempted(self) -> dict[str, Pod]:
        """By uid, the assigned pods that are being preempted, and aren't being deleted yet."""
        leaving = {uid: self._assigned[uid][0] for uid in self.lives.leaving if uid in self._assigned}
        return {uid: pod for uid, pod in leaving.items() if not pod.metadata.deletion_timestamp}

    def is_leaving(self, pod: Pod) -> bool:
        """Whether a pod is being preempted: it has been evicted, or will be."""
        if pod_key(pod) in self.lives.leaving:
            return True
        return pod.metadata.deletion_timestamp is not None and any(
            (condition.type, condition.status, condition.reason) == DISRUPTED
            for condition in pod.status.conditions
        )

    @contextmanager
    def without(self, pods: Iterable[Pod]) -> Iterator[RemovedPods]:
        """A block in which the cache lacks some pods, for a try. They are back when the block ends."""
        with RemovedPods(self) as away:
            for pod in pods:
                away.take(pod)
            yield away

    @contextmanager
    def with_nominated(self, pods: Collection[Pod], node: NodeInfo) -> Iterator[None]:
        """A block in which pods that are nominated to a node are on it, for a try."""
        with node.trial():
            for pod in pods:
                node.add(pod)
            self._added = pods, node.name
            self.pods_with_terms += len(pods)
            try:
                yield
            finally:
                self._added = (), ""
                self.pods_with_terms -= len(pods)

    def tried(self) -> Iterator[tuple[Pod, str, int]]:
        """Each pod that is removed for a try (-1), or added (1), with the name of its node."""
        for pod in self.removed.values():
            yield pod, self.node_of(pod), -1
        added, node_name = self._added
        for pod in added:
            yield pod, node_name, 1

    def forget(self, pod: Pod) -> None:
        """Remove an assumed pod. If it was nominated to a node before, its nomination is restored."""
        if (life := self.lives.get(pod_key(pod))) and life.has_room:
            self._take_away(pod)
            self.lives.forget(life)

    def node_of(self, pod: Pod) -> str:
        """The name of the node that a pod is on, or where it is assumed; "" if there is none."""
        return self._assigned.get(pod_key(pod), (pod, ""))[1]


class RemovedPods(ExitStack):
    """Pods that are removed from the cache for a try. They are back when the block ends.

    Counterpart in kube-scheduler: the NodeInfo that preemption copies (framework/preemption/preemption.go)
    """

    def __init__(self, cache: Cache) -> None:
        super().__init__()
        self._cache = cache
        self._tried: set[str] = set()  # names of nodes

    def take(self, pod: Pod) -> None:
        """Remove a pod."""
        node, removed = self._cache.nodes[self._cache.node_of(pod)], self._cache.removed
        if node.name not in self._tried:
            self._tried.add(node.name)
            self.enter_context(node.trial())
        self.callback(removed.pop, pod_key(pod), None)
        node.remove(pod)
        removed[pod_key(pod)] = pod

    def give_back(self, pod: Pod) -> None:
        """Put a pod back."""
        self._cache.nodes[self._cache.node_of(pod)].add(pod)
        del self._cache.removed[pod_key(pod)]
