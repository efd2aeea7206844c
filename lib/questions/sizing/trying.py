"""Tries whether all pods fit on some nodes, by placing them as the scheduler would."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import reduce
from itertools import islice
from random import Random

from msgspec.structs import replace

from lib.kube.objects import Node, NodeSelector, Pod
from lib.kube.storage import CSINode
from lib.kube.system import MACHINE
from lib.questions.deciding import Decider, node_of, queue_order
from lib.questions.errors import QuestionError
from lib.questions.manifests import Workload
from lib.questions.new_pods import NewPod, runs_on
from lib.questions.sizing.node_types import NodeType
from lib.questions.snapshot import Snapshot
from lib.questions.trial import decisions, new_pods
from lib.questions.what_if import moved
from lib.scheduling.decision import counted
from lib.scheduling.edits import with_required_nodes
from lib.scheduling.node_info import NodeInfo, amount_left, pods_left
from lib.scheduling.plugins.node_resources_fit import NodeResourcesFit
from lib.scheduling.resources import Resources, pod_requests, total
from lib.scheduling.status import Rejection
from lib.scheduling.workloads import controller_of

ORDERS = 3
"""All pods must fit in so many orders of arrival: controllers create them side by side."""

BY_NODE = (
    "NodeUnschedulable",
    "NodeName",
    "TaintToleration",
    "NodeAffinity",
    "NodePorts",
    "NodeResourcesFit",
    "VolumeRestrictions",
    "NodeVolumeLimits",
    "VolumeBinding",
    "VolumeZone",
    "NodeDeclaredFeatures",
)
"""Plugins that reject a node for what it is, and for what is on it: other nodes don't help."""

Counts = tuple[int, ...]
"""How many nodes of each type."""


@dataclass
class Tried:
    """What came of placing all pods. missing: pods without a node, each with the reason.

    nodes: the new nodes with all that is on them. counts: how many of each type.
    """

    counts: Counts = ()
    missing: dict[str, str] = field(default_factory=dict)
    nodes: list[NodeInfo] = field(default_factory=list)

    @property
    def fits(self) -> bool:
        """Whether all have a node."""
        return not self.missing


class Trying:
    """Tries numbers of nodes. workloads: those to be placed; None: the pods that wait in the snapshot.

    decider: makes a decider of a snapshot, with a random generator. tried: how many placements were made.
    """

    def __init__(
        self,
        snapshot: Snapshot,
        types: Sequence[NodeType],
        workloads: Sequence[Workload] | None,
        decider: Callable[..., Decider],
    ) -> None:
        self._snapshot, self.types, self._workloads, self._make = snapshot, types, workloads, decider
        self._daemons = [*_daemons(snapshot)]
        self._known: dict[Counts, bool] = {}
        self.tried = 0

    # --- what there is to place -------------------------------------------------------------------------

    def waiting(self) -> list[Pod]:
        """The pods to be placed, but for DaemonSets'."""
        decider, _ = self._decider((0,) * len(self.types), MACHINE.random(0))
        return [new.pod for new in self._new(decider) if not new.node_name]

    def asked(self, waiting: Sequence[Pod]) -> Resources:
        """What pods request more than is free on the nodes that there are already; pods are a resource.

        Nothing, if a configuration lets pods be on nodes without room for them.
        """
        decider, _ = self._decider((0,) * len(self.types), MACHINE.random(0))
        for pod in waiting:
            if not any(isinstance(plugin, NodeResourcesFit) for plugin in decider.profile_of(pod).plugins):
                return {}
        nodes = decider.cache.nodes.values()
        free = total({name: max(0, left) for name, left in _left(node).items()} for node in nodes)
        requests = {"pods": len(waiting), **total(map(pod_requests, waiting))}
        return {name: more for name, amount in requests.items() if (more := amount - free.get(name, 0)) > 0}

    def offers(self) -> list[Resources]:
        """The most that a node of each type has for pods: without what its DaemonSets' pods request."""
        decider, by_type, _ = self._of_each_kind()
        return [
            reduce(_larger, (_left(decider.cache.nodes[name]) for name in usable), {}) for usable in by_type
        ]

    def alone(self, waiting: Sequence[Pod]) -> tuple[dict[str, str], list[bool]]:
        """The pods that fit on no node, however many there are, each with the reason; and of each type,
        whether any pod could ever be on one of its nodes.
        """
        decider, by_type, unusable = self._of_each_kind()
        nowhere, could_fit = {}, set[str]()
        for pod in waiting:
            rejected = decider.rejections(pod)
            here = {name for name in decider.cache.nodes if not _is_final(rejected.get(name))}
            if not here:
                nowhere[str(pod)] = counted(len(rejected), rejected)
            elif here <= unusable.keys():
                nowhere |= dict(unusable.values())
            could_fit |= here
        return nowhere, [bool(could_fit.intersection(usable)) for usable in by_type]

    def _of_each_kind(self) -> tuple[Decider, list[list[str]], dict[str, tuple[str, str]]]:
        """The cluster with a node of each kind more, on which DaemonSets' pods are alone.

        By type, the names of nodes on which these have room; of the other nodes, which pod hasn't, and why.
        """
        counts = tuple(min(node_type.kinds, node_type.most) for node_type in self.types)
        decider, made = self._decider(counts, MACHINE.random(0))
        unusable = {}
        for new in self._new(decider):
            if new.node_name in made:
                decision = decider.place_on(new.pod, new.node_name, preempts=False)
                if not node_of(decision):
                    unusable[new.node_name] = str(new.pod), decision.message
        names = iter(made)
        by_type = [[name for name in islice(names, number) if name not in unusable] for number in counts]
        return decider, by_type, unusable

    # --- tries ------------------------------------------------------------------------------------------

    def fits(self, counts: Counts) -> bool:
        """Whether all pods fit, in each order."""
        if counts not in self._known:
            self._known[counts] = all(self.place(counts, order).fits for order in range(ORDERS))
        return self._known[counts]

    def place(self, counts: Counts, order: int = 0, *, all_of_them: bool = False) -> Tried:
        """Place all pods. all_of_them: go on after the first that has no node."""
        self.tried += 1
        random = MACHINE.random(order)
        decider, made = self._decider(counts, random)
        new = self._new(decider)
        if order:
            random.shuffle(new)
            new.sort(key=lambda new_pod: (not new_pod.node_name, -new_pod.pod.spec.priority))
        tried = Tried(counts)
        for decision in decisions(new, decider, preempts=False):
            if not node_of(decision):
                tried.missing[str(decision.pod)] = decision.message
                if not all_of_them:
                    return tried
        tried.nodes = [decider.cache.nodes[name] for name in made]
        return tried

    def _decider(self, counts: Counts, random: Random) -> tuple[Decider, list[str]]:
        """The cluster with so many nodes more, and their names."""
        with_them = Snapshot({kind: [*objects] for kind, objects in self._snapshot.objects.items()})
        with_them.forbidden = self._snapshot.forbidden
        made = []
        for node_type, number in zip(self.types, counts, strict=True):
            for new in node_type.make(number):
                made.append(new.node.metadata.name)
                with_them.of(Node).append(new.node)
                with_them.of(Pod).extend(new.pods or self._daemons_on(new.node))
                with_them.of(CSINode).extend([new.csi_node] if new.csi_node else ())
        return self._make(with_them, random=random), made

    def _daemons_on(self, node: Node) -> Iterator[Pod]:
        """The pods that the cluster's DaemonSets would have on a new node."""
        info = NodeInfo(node)
        for like in self._daemons:
            if runs_on(like, info):
                yield moved(like, node.metadata.name)

    def _new(self, decider: Decider) -> list[NewPod]:
        """The pods to place: DaemonSets' first, as these come with a node, then the most important ones."""
        if self._workloads is None:
            pods = [pod for pod in self._snapshot.of(Pod) if not pod.spec.node_name]
            waiting = [pod for pod in sorted(pods, key=queue_order) if not decider.gated(pod)]
            return [NewPod(Workload("Pod", "", "", {}, 1), pod) for pod in waiting]
        new = new_pods(self._workloads, self._snapshot, decider)
        for new_pod in new:
            if new_pod.refused:
                raise QuestionError(f"{new_pod.workload}: {new_pod.refused}")
        return sorted(new, key=lambda new_pod: (not new_pod.node_name, -new_pod.pod.spec.priority))


def _is_final(rejection: Rejection | None) -> bool:
    """Whether a node rejects a pod, and will however many other nodes and pods there are."""
    return rejection is not None and rejection.plugin in BY_NODE


def _larger(one: Resources, other: Resources) -> Resources:
    return {name: max(one.get(name, 0), other.get(name, 0)) for name in {**one, **other}}


def _left(node: NodeInfo) -> Resources:
    return {name: amount_left(node, name) for name in node.allocatable} | {"pods": pods_left(node)}


def _daemons(snapshot: Snapshot) -> Iterator[Pod]:
    """A pod of each DaemonSet of a cluster, without the node that it is for."""
    seen = set()
    for pod in snapshot.of(Pod):
        owner = controller_of(pod)
        if owner and owner.kind == "DaemonSet" and owner not in seen:
            seen.add(owner)
            yield _for_any_node(pod)


def _for_any_node(pod: Pod) -> Pod:
    """Without the node's name in the required affinity, which the DaemonSet controller has put there."""
    affinity = pod.spec.affinity.node_affinity
    required = affinity and affinity.required_during_scheduling_ignored_during_execution
    terms = [replace(term, match_fields=()) for term in (required.node_selector_terms if required else ())]
    kept = tuple(term for term in terms if term.match_expressions)
    return with_required_nodes(pod, NodeSelector(kept) if kept else None)
