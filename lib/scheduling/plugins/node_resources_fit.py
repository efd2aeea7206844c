"""NodeResourcesFit: a node must have enough free resources for the pod's requests.

Requests count, not use: a node is full when its pods' requests reach its allocatable, even if it is idle.
Scores compare the requests, including the pod's, with the allocatable, by one of three strategies
(resource_scores.py).

Source: pkg/scheduler/framework/plugins/noderesources/fit.go
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, field
from functools import cached_property, lru_cache, partial
from operator import and_
from typing import ClassVar

from lib.kube.changes import AnyChange, Kind
from lib.kube.objects import Node, Pod
from lib.kube.resource_claims import served_by
from lib.scheduling.cache import Cache
from lib.scheduling.framework.interface import DependsOn
from lib.scheduling.handle import Handle
from lib.scheduling.hints import before_itself, new_node, old_node, placed_pod
from lib.scheduling.node_info import (
    NodeInfo,
    amount_for_scores,
    amount_left,
    amount_requested,
    capacity,
    pods_left,
)
from lib.scheduling.node_slice import NodeSlice
from lib.scheduling.pod_limits import Comparisons
from lib.scheduling.resource_scores import (
    LACKS,
    Shape,
    Uses,
    is_scored,
    least_allocated,
    most_allocated,
    requested_to_capacity_ratio,
    with_devices,
)
from lib.scheduling.resources import AT_LEAST, NATIVE, nodes_are_compared_by, pod_requests, requests_at_least
from lib.scheduling.status import Code, CycleState, Status, unresolvable

TOO_MANY_PODS = "Too many pods"
INSUFFICIENT = "Insufficient {}"

TO_SCORE = "NodeResourcesFit/score"
"""A key in the CycleState: the resources to score by, each with name, the pod's amount, weight, and devices.

The devices are those that serve the resource on nodes that have none of it; None if no DeviceClass does.
"""

BY_DEVICES = "NodeResourcesFit/devices"
"""A key in the CycleState: the resources that a DeviceClass serves, on nodes that have none of them."""

MANY = 16
"""With more resources than this, a pod is compared with each node by itself."""

PER_RESOURCE = 5
"""What is left of a resource on a node takes as long to find out as so many comparisons."""

BY_SHAPE = "RequestedToCapacityRatio"


@dataclass(frozen=True)
class NodeResourcesFit:
    """Filters out nodes without room for the pod's requests or for one more pod; scores the others."""

    strategy: str = "LeastAllocated"
    """Or "MostAllocated", or "RequestedToCapacityRatio", which uses `shape`."""
    resources: Mapping[str, int] = field(default_factory=lambda: {"cpu": 1, "memory": 1})
    """The resources that are scored, with weights."""
    shape: Shape = ((0, 0), (100, 10))
    ignored_resources: frozenset[str] = frozenset()
    """The names of extended resources that are not filtered."""
    ignored_resource_groups: frozenset[str] = frozenset()
    """The same, by the part of the name before the slash."""
    name: str = "NodeResourcesFit"
    handle: Handle = field(default_factory=Handle, repr=False, compare=False)
    reads: ClassVar = DependsOn.PODS

    def __post_init__(self) -> None:
        if self.strategy not in ("LeastAllocated", "MostAllocated", BY_SHAPE):
            raise ValueError(f"NodeResourcesFit has no strategy {self.strategy!r}")

    @cached_property
    def ignored(self) -> frozenset[str]:
        """The extended resources that are ignored by name: also those that extenders manage."""
        return self.ignored_resources | self.handle.extenders.ignored_resources

    def sign_pod(self, pod: Pod) -> Hashable:
        """The pod's requests, and the amounts that it is scored with."""
        to_score = requests_at_least(pod, pod_level=not pod.spec.resources.requests)
        return tuple(pod_requests(pod).items()), tuple(to_score.items())

    events_to_register = (
        "NodeAdd",
        "NodeUpdate",
        "AssignedPodUpdate",
        "AssignedPodDelete",
        "DeviceClassAdd",
        "DeviceClassUpdate",
    )

    def queueing_hint(self, pod: Pod, change: AnyChange) -> bool:
        """A node that came or grew, and could take the pod if empty; a pod that went or requests less.

        A node could also take it that has lost a resource which devices serve there from now on. A node may
        lack resources that are ignored, unlike in kube-scheduler's hint, which counts them.
        """
        wanted = self._counted_requests(pod)
        if not isinstance(change.object, Node | Pod):
            return change.kind != Kind.DELETED and _serves(change, wanted)
        if node := new_node(change):
            return self._has_new_room(node, old_node(change), wanted)
        if before := before_itself(pod, change):
            return _requests_less(pod, before, pod_requests(before))
        placed = placed_pod(change)
        if placed is None or change.kind == Kind.DELETED:
            return placed is not None
        return isinstance(change.before, Pod) and _requests_less(placed, change.before, wanted)

    def _has_new_room(self, node: NodeInfo, before: NodeInfo | None, wanted: Mapping[str, int]) -> bool:
        """Whether a node is new or has grown, and could take these requests if it had no pods."""
        of_node = wanted
        if served := self.handle.cache and self.handle.cache.classes_by_resource:
            of_node = _without_devices(wanted, served.keys(), node)
        if pods_left(node) <= 0 or any(amount > capacity(node, name) for name, amount in of_node.items()):
            return False
        return (
            before is None
            or any(capacity(node, name) > capacity(before, name) for name in ("pods", *of_node))
            or any(capacity(before, name) for name in wanted.keys() - of_node.keys())
        )

    def pre_filter(self, state: CycleState, pod: Pod, cache: Cache) -> None:
        """Sum up the pod's requests."""
        state[self.name] = wanted = self._counted_requests(pod)
        if (served := cache.classes_by_resource) and not served.keys().isdisjoint(wanted):
            state[BY_DEVICES] = served.keys() & wanted.keys()

    def _counted_requests(self, pod: Pod) -> Mapping[str, int]:
        """What a pod requests of the resources that nodes are filtered by."""
        return {
            name: amount
            for name, amount in positive_requests(pod).items()
            if "/" not in name or not self._ignores(name)
        }

    def _ignores(self, name: str) -> bool:
        """Whether an extended resource is ignored; Kubernetes' own resources never are."""
        if "kubernetes.io/" in name:
            return False
        return name in self.ignored or name.split("/")[0] in self.ignored_resource_groups

    def filter_nodes(self, state: CycleState, pod: Pod, nodes: NodeSlice) -> Sequence[Status | None]:
        """Reject nodes that lack a resource; one reason for each."""
        wanted: Mapping[str, int] = state[self.name]
        if BY_DEVICES in state:
            return [_rejection(node, _without_devices(wanted, state[BY_DEVICES], node)) for node in nodes]
        if len(nodes) == 1:
            return [_rejection(node, wanted) for node in nodes]
        if len(wanted) > MANY:  # too many to keep a list of all nodes for each
            Comparisons().add(PER_RESOURCE * len(wanted) * len(nodes))
            return [_rejection(node, wanted) for node in nodes]
        are_full = [room <= 0 for room in nodes.values(pods_left)]
        lack_now = [
            [room < needed for room in nodes.values(amount_left, name)] for name, needed in wanted.items()
        ]
        if not any(True in lacking for lacking in (are_full, *lack_now)):
            return [None] * len(nodes)
        if not wanted:
            return [_rejected((), is_full, (), ()) for is_full in are_full]
        lack_empty = [
            [room < needed for room in nodes.values(capacity, name)] for name, needed in wanted.items()
        ]
        by_node = [*zip(are_full, zip(*lack_now, strict=True), zip(*lack_empty, strict=True), strict=True)]
        alike = {answers: _rejected([*wanted], *answers) for answers in {*by_node}}  # most lack the same
        return [alike[answers] for answers in by_node]

    def pre_score(self, state: CycleState, pod: Pod, cache: Cache, nodes: Sequence[NodeInfo]) -> None:
        """Sum up the pod's requests for scoring, with defaults for containers that request nothing.

        As in kube-scheduler 1.36, pod-level requests don't count: its NewFit doesn't say so to the scorer.
        """
        wanted = requests_at_least(pod, pod_level=not pod.spec.resources.requests)
        served = cache.classes_by_resource
        state[TO_SCORE] = [
            (name, wanted.get(name, 0), weight, cache.devices if name in served else None)
            for name, weight in self.resources.items()
            if is_scored(name, wanted)
        ]

    def score_nodes(self, state: CycleState, pod: Pod, nodes: NodeSlice) -> Sequence[int]:
        """The weighted mean of each resource's score; a resource that a node lacks doesn't count there."""
        scores, weights, all_count = [], [], self.strategy != BY_SHAPE
        for name, wanted, weight, devices in state[TO_SCORE]:
            find = amount_for_scores if name in AT_LEAST else amount_requested
            uses: Uses = zip(nodes.values(find, name), nodes.values(capacity, name), strict=True)
            if devices:
                uses = with_devices(uses, nodes, name, devices)
            of_resource = self._score(wanted, uses)
            all_count = all_count and LACKS not in of_resource
            scores.append(
                of_resource if weight == 1 else [max(score * weight, LACKS) for score in of_resource]
            )
            weights.append(weight)
        if not scores:
            return [0] * len(nodes)
        if all_count:
            total_weight = sum(weights)
            return [total // total_weight for total in map(sum, zip(*scores, strict=True))]
        return [self._mean(of_node, weights) for of_node in zip(*scores, strict=True)]

    def _mean(self, scores: Sequence[int], weights: Sequence[int]) -> int:
        """The mean of the weighted scores that count. With a shape, scores of 0 don't count either."""
        by_shape = self.strategy == BY_SHAPE
        counted = [i for i, score in enumerate(scores) if score > (0 if by_shape else LACKS)]
        total, weight = sum(scores[i] for i in counted), sum(weights[i] for i in counted)
        if not weight:
            return 0
        return int(total / weight + 0.5) if by_shape else total // weight

    @cached_property
    def _score(self) -> Callable[[int, Uses], list[int]]:
        """The strategy: the score of each node, by what a pod wants of a resource and what is used of it."""
        if self.strategy == BY_SHAPE:
            return partial(requested_to_capacity_ratio, self.shape)
        return most_allocated if self.strategy == "MostAllocated" else least_allocated


def _serves(change: AnyChange, wanted: Mapping[str, int]) -> bool:
    """Whether a DeviceClass serves a resource now (fit.go, isSchedulableAfterDeviceClassEvent)."""
    before = served_by(change.before)
    return any(name in wanted and name not in before for name in served_by(change.object))


def _without_devices(wanted: Mapping[str, int], served: Set[str], node: NodeInfo) -> Mapping[str, int]:
    """What a pod requests of the node itself: DynamicResources finds devices for the rest."""
    return {name: amount for name, amount in wanted.items() if name not in served or capacity(node, name)}


def _rejection(node: NodeInfo, wanted: Mapping[str, int]) -> Status | None:
    lacks_now = [amount_left(node, name) < needed for name, needed in wanted.items()]
    is_full = pods_left(node) <= 0
    if not is_full and True not in lacks_now:
        return None
    lacks_empty = [capacity(node, name) < needed for name, needed in wanted.items()]
    return _rejected([*wanted], is_full, lacks_now, lacks_empty)


def _rejected(
    names: Sequence[str], is_full: bool, lacks_now: Sequence[bool], lacks_empty: Sequence[bool]
) -> Status | None:
    """A node's status; None if it lacks nothing.

    is_full: whether it takes no more pods. lacks_now, lacks_empty: for each of these resources, whether the
    node has too little of it, with its pods and without them.
    """
    lacking = [name for name, lacks in zip(names, lacks_now, strict=True) if lacks]
    reasons = [TOO_MANY_PODS] if is_full else []
    reasons += [INSUFFICIENT.format(name) for name in lacking]
    if not reasons:
        return None
    if any(map(and_, lacks_now, lacks_empty)):
        return unresolvable(*reasons)
    return Status(Code.UNSCHEDULABLE, tuple(reasons), lacks=frozenset(lacking))


@lru_cache(maxsize=1024)
def positive_requests(pod: Pod) -> Mapping[str, int]:
    """What a pod requests of resources that count; those are first that reasons name first."""
    requests = pod_requests(pod)
    first = [name for name in NATIVE if name in requests]
    in_order = [*first, *(name for name in requests if name not in NATIVE)]
    return {name: requests[name] for name in in_order if requests[name] > 0 and nodes_are_compared_by(name)}


def _requests_less(now: Pod, before: Pod, resources: Iterable[str]) -> bool:
    """Whether a pod requests less of one of these resources than before."""
    new, old = pod_requests(now), pod_requests(before)
    return any(new.get(name, 0) < old.get(name, 0) for name in resources)
